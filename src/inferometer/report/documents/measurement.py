"""A measurement as a document, in the order of the reader's questions."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from inferometer.base.notes import CLIENT_LIMITS, Note
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.options.effective import Effective
from inferometer.report.document import (
    Depth,
    Document,
    Facts,
    Figure,
    Message,
    Messages,
    Section,
    Table,
    Tone,
    text_columns,
)
from inferometer.report.documents.answer import answer, middle_and_tail
from inferometer.report.documents.breakdown import slowest_step, time_section
from inferometer.report.documents.classes import (
    class_promises,
    classes_section,
    outage_sentence,
    scenario_answer,
)
from inferometer.report.documents.clients import clients_section
from inferometer.report.documents.energy import energy_section
from inferometer.report.documents.levels import (
    distribution_section,
    errors_section,
    few_words,
    level_tone,
    levels_section,
    promise_section,
    throughput_section,
)
from inferometer.report.documents.mlperf import mlperf_section, mlperf_sentence
from inferometer.report.documents.network import network_section
from inferometer.report.documents.notes import notes_section
from inferometer.report.documents.prompts import prompts_section
from inferometer.report.documents.search import search_section
from inferometer.report.documents.serving import server_section
from inferometer.report.documents.tasks import task_figures, task_lanes_section, tasks_section
from inferometer.report.documents.timeline import is_course, timeline_section
from inferometer.report.documents.token_requests import lanes_section, token_times_section
from inferometer.report.documents.tokens import token_figures, tokens_section
from inferometer.report.format import (
    GIB,
    NONE,
    RISING,
    SCHEDULED,
    duration,
    first_line,
    has_schedule,
    interval,
    level_label,
    level_value,
    plain_number,
    plural,
    quantity,
    share,
    when,
)
from inferometer.report.promises import promise_sentence
from inferometer.report.sentences import (
    expert_sentences,
    finding_sentence,
    found_load,
    is_never_met,
    limit_words,
    measurement_sentences,
    verdict_words,
)
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result, best
from inferometer.stats.wrong_answers import checked, maybe_onset, onset_words, pooled

_HOST = ("name", "processor", "cores", "memory_bytes", "system", "python")
_CUT_SHORT = ("interrupted", "server gone", "no answer")  # verdicts that end a search
_SERVER = ("url", "name", "version", "extensions")


def measurement_document(result: Result) -> Document:
    """Return the report; the same result gives the same document."""
    if is_course(result.effective):
        mode = SCHEDULED if has_schedule(result.effective) else RISING
        levels = (dataclasses.replace(level, mode=mode) for level in result.levels)
        result = dataclasses.replace(result, levels=tuple(levels))
    timeline = timeline_section(result)
    is_over_time = is_course(result.effective)
    sections = (
        mlperf_section(result),
        search_section(result),  # the answer, before what describes each load
        tasks_section(result),
        tokens_section(result),
        prompts_section(result),
        lanes_section(result),
        token_times_section(result),
        timeline if is_over_time or result.scenario is not None else throughput_section(result),
        levels_section(result),
        clients_section(result),
        task_lanes_section(result),
        classes_section(result),
        server_section(result),
        energy_section(result),
        promise_section(result),
        None if result.source or any(level.classes for level in result.levels) else time_section(result),
        network_section(result),
        distribution_section(result),
        None if is_over_time or result.scenario is not None else timeline,
        _more_section(result),
        errors_section(result),
        notes_section(result),
        settings_section(result),
        host_section(result),
    )
    return Document(
        kind=_kind(result),
        title=str(result.model.get("name", "model")),
        facts=facts(result),
        verdict=_verdict(result),
        tone=_tone(result),
        figures=(*task_figures(result), *token_figures(result), *_figures(result)),
        sections=tuple(section for section in sections if section is not None),
    )


def _kind(result: Result) -> str:
    if result.scenario is not None:
        return "Scenario"
    return "Search" if result.finding is not None else "Measurement"


def facts(result: Result) -> tuple[str, ...]:
    """The line below the title: the model, the time and the machine of the measurement."""
    effective, version = result.effective, result.model.get("version")
    words = (
        f"version {version}" if version else "",
        f"{effective.service_kind} {effective.protocol}".strip(),
        f"measured by {result.tool}" if result.source else effective.batch_words,
        _schedule(result) if has_schedule(effective) else _arrivals(effective),
        f"think time {effective.think_time}" if effective.think_time else "",
        str(result.server.get("url", "")),
        when(result.started_at),
    )
    return tuple(word for word in words if word)


def _arrivals(effective: Effective) -> str:
    """Name the distribution of random arrivals; empty for regular arrivals."""
    name = effective.distribution
    if name == "constant" or effective.request_rate_start is None:
        return ""
    shape = "" if name == "poisson" else f" with burstiness {plain_number(effective.burstiness)}"
    return f"{name.capitalize()} arrivals{shape}"


def _schedule(result: Result) -> str:
    effective = result.effective
    count = plural(effective.request_count, "request")
    time = duration((effective.schedule_s or 0.0) * NS_PER_S)
    speed = f" at speed {plain_number(effective.speed)}" if effective.speed != 1 else ""
    return f"{effective.schedule}{speed}: {count} in {time}"


def _verdict(result: Result) -> str:
    """Summarize the result: throughput, latency, the limiting factor, and everything wrong with it."""
    found, finding = best(result), result.finding
    words = [] if finding is None else [finding_sentence(finding)]
    if found is None:
        words += [mlperf_sentence(result), promise_sentence(result) if finding is None else ""]
        words += [_nothing_good(result)]
    else:
        words += _answers(result) if finding is None else []
        words += _limits(*found)
        if finding is None and result.failed_share:
            words += [f"{share(result.failed_share)} of all requests failed."]
        if (onset := maybe_onset(result.levels)) is not None:
            words += [f"W{onset_words(onset)[1:]}."]
    return " ".join(word for word in (*words, *_reservations(result)) if word)


def _answers(result: Result) -> list[str]:
    """The SLO first; with classes of traffic, also each class and its outages."""
    said = [mlperf_sentence(result), promise_sentence(result), class_promises(result)]
    said.append(answer(result) if result.scenario is None else scenario_answer(result))
    return [*said, outage_sentence(result)]


def _nothing_good(result: Result) -> str:
    """Say why there are no figures."""
    found = [level.measurement for level in result.levels if level.measurement is not None]
    failed = sum(row.failed_count for row in found)
    if not failed and result.is_out_of_time:
        return "No request was answered within the time limit, so there is nothing to report: raise the time limit."
    if not failed:
        return "No request was answered, so there is nothing to report."
    words = f"Every request failed ({failed:,} in all), so there is nothing to report."
    group = max((group for row in found for group in row.failures), key=lambda row: row.count, default=None)
    if group is None:
        return words
    said = ": ".join(word for word in (group.kind, first_line(group.example)) if word)
    return f"{words} Most often: {said.rstrip('.')}."


def _reservations(result: Result) -> Iterator[str]:
    """Name the problems of each level; for a search, which exceeds the capacity on purpose, only those that cut it
    short."""
    is_all = result.finding is None and best(result) is not None
    levels: dict[str, list[Level]] = {}
    for level in result.levels:
        for word in verdict_words(dataclasses.replace(level, promise=None)).split(", "):
            if word == "interrupted" and result.is_out_of_time:  # not by the user
                if is_all:
                    levels.setdefault("cut short by the time limit", []).append(level)
            elif word in _CUT_SHORT or (is_all and word not in ("ok", "errors")):
                levels.setdefault(word, []).append(level)
    everywhere = [word for word, found in levels.items() if len(found) == len(result.levels)]
    if everywhere:
        yield f"{'Verdict' if len(result.levels) == 1 else 'Every level'}: {', '.join(everywhere)}."
    for word, found in levels.items():
        if word not in everywhere:
            first, *others = found
            rest = [level_value(level.mode, level.value) for level in others]
            yield f"{word.capitalize()} at {few_words([level_label(first.mode, first.value), *rest])}."
    top = best(result)
    if is_all and top is not None and not levels and not is_course(result.effective):
        count = top[1].request_count
        if top[0].has_remark(Note.SUMMARY_ONLY):
            yield "Without individual requests, the uncertainty is unknown."
        elif top[1].infer_per_s.limits is None:
            words = f"{count:,} requests are" if count > 1 else "One request is"
            yield f"{words} too few to estimate the uncertainty."
    if _has_lost_worker(result):
        yield "A worker process died."


def _has_lost_worker(result: Result) -> bool:
    remarks = chain(result.remarks, *(level.remarks for level in result.levels))
    return any(remark.note is Note.WORKER_LOST for remark in remarks)


def _limits(level: Level, measurement: Measurement) -> tuple[str, ...]:
    """Say what limits the figures: this client, other programs, or a step of the server."""
    client, busy = _client_limit(level), _busy_host(level)
    if busy and level.has_remark(Note.CLIENT_STARVED):  # which names the other programs
        return (client,)
    return client, busy or slowest_step(measurement)


def _client_limit(level: Level) -> str:
    """Say that the figures are limited by the client, and why."""
    found = next((remark for remark in level.remarks if remark.note in CLIENT_LIMITS), None)
    if found is None:
        return ""
    words = "was short of cores" if found.note is Note.CLIENT_STARVED else "is the limit"
    return f"The client {words}: {found.text.removeprefix('client-limited: ')}."


def _busy_host(level: Level) -> str:
    """Say that other processes kept the cores busy, so that the server's times say little about its steps."""
    said = next((remark.text for remark in level.remarks if remark.note is Note.HOST_BUSY), "")
    return f"The machine was busy: {said}." if said else ""


def _tone(result: Result) -> Tone:
    """The worst verdict of the levels, or the outcome of a search; green only if nothing is wrong."""
    finding, tones = result.finding, [level_tone(verdict_words(level)) for level in result.levels]
    top = best(result)
    if top is None or (finding is not None and is_never_met(finding)) or _is_cut_short(result):
        return Tone.BAD
    is_sure = not any(_reservations(result)) and not _busy_host(top[0])
    if finding is not None:
        is_whole = is_sure and finding.value and finding.low and finding.high is not None
        return Tone.GOOD if is_whole else Tone.WARNING
    if Tone.BAD in tones or _has_failed(result) or result.breaks_promise:
        return Tone.BAD
    is_good = is_sure and not result.leaves_promise_open and all(tone is Tone.GOOD for tone in tones)
    return Tone.GOOD if is_good else Tone.WARNING


def _is_cut_short(result: Result) -> bool:
    return _has_lost_worker(result) or any(level.is_given_up for level in result.levels)


def _has_failed(result: Result) -> bool:
    """Whether more requests failed than allowed; a search continues until something fails."""
    return result.finding is None and result.fails_too_often(float(result.effective.max_error_rate or 0.0))


def _figures(result: Result) -> Iterator[Figure]:
    found, finding = best(result), result.finding
    if finding is not None and finding.value:
        unit = "requests/s" if finding.mode == "request_rate" else "in flight"
        yield Figure("Meets the SLO", f"{found_load(finding, finding.value)} {unit}", limit_words(finding))
    if found is None:
        return
    level, measurement = found
    where = f"at {level_label(level.mode, level.value)}"
    per_s, unit = measurement.infer_per_s, result.effective.rate_unit
    yield Figure("Throughput", f"{quantity(per_s.value)} {unit}", f"{interval(per_s)} {where}".strip())
    for name, ns in middle_and_tail(measurement.latency):
        estimate = dict(measurement.latency_intervals).get(name)
        spread = "" if estimate is None else interval(estimate)
        yield Figure(
            "Slowest" if name == "slowest" else f"{name} latency", duration(ns), f"{spread} {where}".strip()
        )
    rows = [row.measurement for row in result.levels if row.measurement is not None]
    failed = sum(row.failed_count for row in rows)
    total = failed + sum(row.request_count for row in rows)
    tone = Tone.BAD if _has_failed(result) else Tone.PLAIN
    yield Figure("Errors", share(result.failed_share), f"{failed:,} of {plural(total, 'request')}", tone)
    wrong = pooled([row for _, row in checked(result.levels)])
    if wrong is not None:
        tone = Tone.BAD if wrong.wrong else Tone.PLAIN
        yield Figure("Wrong answers", share(wrong.share.value), f"of {wrong.checked:,} checked", tone)
    client = measurement.client
    if measurement.is_foreign:
        return
    yield Figure(
        "Client CPU",
        share(client.cpu_share),
        f"of a core, {duration(client.cpu_us_per_request * NS_PER_US)} per request",
        Tone.WARNING if client.cpu_share > 0.9 else Tone.PLAIN,
    )


def _more_section(result: Result) -> Section | None:
    """Streams, tokens, sequences, server metrics and client cost of the best level."""
    rows = [(level, level.measurement) for level in result.levels if level.measurement is not None]
    if not rows:
        return None
    level, measurement = best(result) or rows[-1]
    ports = int(result.host.get("ports") or 0)
    blocks = (
        Messages(tuple(Message(text, tone=Tone.PLAIN) for text in measurement_sentences(measurement))),
        Messages(
            tuple(Message(text, tone=Tone.PLAIN) for text in expert_sentences(measurement, ports)),
            is_detail=True,
        ),
    )
    if not any(block.rows for block in blocks):
        return None
    return Section("more", f"More figures at {level_label(level.mode, level.value)}", "", blocks)


# --- settings, host and server


def settings_section(result: Result) -> Section | None:
    """Requested and effective settings side by side."""
    asked = dict(_flat(result.asked))
    effective = {} if result.source else dict(_flat(dataclasses.asdict(result.effective)))
    names = sorted({*asked, *effective})
    if not names:
        return None
    rows = tuple(
        (name, asked.get(name, ""), effective.get(name, ""))
        for name in names
        if {asked.get(name, NONE), effective.get(name, NONE)} != {NONE}
    )
    columns = tuple(text_columns("Setting", "Requested", "Effective"))
    table = Table(f"All {len(rows)} settings", columns, rows, Depth.DETAIL)
    return Section("settings", "Settings", "", (table,), is_detail=True)


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in document.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}".replace("_", " "), text_of(value)


def text_of(value: object) -> str:
    """A setting as text."""
    if value is None or value in ("", (), [], {}):
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"  # exact: plain_number would round large ids
    if isinstance(value, float):
        return plain_number(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(text_of(item) for item in value)
    return str(value)


def host_section(result: Result) -> Section | None:
    """The client's machine, the server, and the model."""
    found = {
        "Client host": tuple(_facts(result.host, _HOST)),
        "Server": tuple(_facts(result.server, _SERVER)),
        "Model": tuple(_model(result.model)),
    }
    tables = tuple(Facts(name, rows) for name, rows in found.items() if rows)
    return Section("host", "Host and server", "", tables, is_detail=True) if tables else None


def _facts(found: Mapping[str, Any], first: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """All facts, the important ones first, since the file does not preserve their order."""
    for name in (*(name for name in first if name in found), *sorted(set(found) - set(first))):
        if name == "memory_bytes" and isinstance(found[name], int):
            yield "Memory", f"{quantity(found[name] / GIB)} GiB"
        else:
            yield _title(name), text_of(found[name])


def _title(name: str) -> str:
    return "Address" if name == "url" else name.replace("_", " ").capitalize()


def _model(model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("name", "version", "max_batch_size"):
        if model.get(name) not in (None, ""):
            yield _title(name), text_of(model[name])
    kinds = {
        "is_ensemble": "ensemble",
        "is_decoupled": "decoupled",
        "any_sequence": "sequences",
        "any_cache": "cache",
    }
    lists = {
        "Inputs": map(_tensor, _objects(model.get("inputs"))),
        "Outputs": map(_tensor, _objects(model.get("outputs"))),
        "Kind": (words for key, words in kinds.items() if model.get(key)),
        "Composing models": (str(row.get("name", "")) for row in _objects(model.get("composing"))),
        "Instances": _instances(model),
    }
    for name, found in lists.items():
        if text := ", ".join(found):
            yield name, text


def _tensor(row: Mapping[str, Any]) -> str:
    shape = row.get("shape")
    sizes = shape if isinstance(shape, Sequence) else ()
    dims = "×".join("?" if size == -1 else str(size) for size in sizes)
    return f"{row.get('name', '')} {row.get('datatype', '')} {dims}".strip()


def _objects(value: object) -> tuple[Mapping[str, Any], ...]:
    """The objects in a list; a file may contain anything."""
    found = value if isinstance(value, Sequence) else ()
    return tuple(row for row in found if isinstance(row, Mapping))


def _instances(model: Mapping[str, Any]) -> Iterator[str]:
    for row in (model, *_objects(model.get("composing"))):
        config = row.get("config")
        groups = _objects(config.get("instance_group")) if isinstance(config, Mapping) else ()
        counts = [group.get("count") for group in groups]
        total = sum(count for count in counts if isinstance(count, int))
        if total:
            yield f"{text_of(row.get('name'))} {total}"
