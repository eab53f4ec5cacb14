"""A measurement as a document: what was asked of it, in the order in which people ask."""

from collections.abc import Iterator

from inferometer.base.answer_file import to_json
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.report.document import Document, Figure, Message, Messages, Section, Tone
from inferometer.report.documents.breakdown import slowest_step, time_section
from inferometer.report.documents.curves import distribution_section, throughput_section
from inferometer.report.documents.levels import best, errors_section, levels_section, notes_section
from inferometer.report.documents.settings import host_section, settings_section
from inferometer.report.documents.timeline import timeline_section
from inferometer.report.format import (
    duration,
    has_schedule,
    interval,
    level_label,
    plural,
    quantity,
    share,
    when,
)
from inferometer.report.sentences import finding_sentence, found_load, limit_words, measurement_sentences
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result


def measurement_document(result: Result) -> Document:
    """The whole report; the same result gives the same document."""
    sections = (
        throughput_section(result),
        levels_section(result),
        time_section(result),
        distribution_section(result),
        timeline_section(result),
        _more_section(result),
        errors_section(result),
        notes_section(result),
        settings_section(result),
        host_section(result),
    )
    return Document(
        kind="Search" if result.finding is not None else "Measurement",
        title=str(result.model.get("name", "model")),
        facts=facts(result),
        verdict=_verdict(result),
        tone=_tone(result),
        figures=tuple(_figures(result)),
        sections=tuple(section for section in sections if section is not None),
        source=to_json(result),
        source_name="result.json",
        tool=result.tool,
    )


def facts(result: Result) -> tuple[str, ...]:
    """The line below the title: what was measured, when, where."""
    effective, version = result.effective, result.model.get("version")
    words = (
        f"version {version}" if version else "",
        f"{effective.service_kind} {effective.protocol}".strip(),
        f"batch {effective.batch}",
        _schedule(result) if has_schedule(effective) else "",
        str(result.server.get("url", "")),
        when(result.started_at),
    )
    return tuple(word for word in words if word)


def _schedule(result: Result) -> str:
    effective = result.effective
    count, time = (
        plural(effective.request_count, "request"),
        duration((effective.schedule_s or 0.0) * NS_PER_S),
    )
    speed = f" at speed {effective.speed:g}" if effective.speed != 1 else ""
    return f"{effective.schedule}{speed}: {count} in {time}"


def _verdict(result: Result) -> str:
    """What came of it: how much, at what latency, limited by what."""
    found = best(result)
    if result.finding is not None:
        words = [finding_sentence(result.finding)]
    elif found is None:
        return "No request was answered, so there is nothing to report."
    else:
        words = [_headline(*found)]
    if found is not None:
        words.append(slowest_step(found[1]))
    if result.failed_share:
        words.append(f"{share(result.failed_share)} of all requests failed.")
    return " ".join(word for word in words if word)


def _headline(level: Level, measurement: Measurement) -> str:
    rate = f"{quantity(measurement.infer_per_s.value)} infer/s {interval(measurement.infer_per_s)}".rstrip()
    half, most = (duration(measurement.latency.percentile_ns(p)) for p in (50, 99))
    where = level_label(level.mode, level.value)
    return f"{rate} at {where}, half of the requests within {half} and 99 % within {most}."


def _tone(result: Result) -> Tone:
    if best(result) is None or (result.finding is not None and not result.finding.value):
        return Tone.BAD
    if result.finding is not None:  # a search goes beyond what the server can do
        return Tone.GOOD if result.finding.low and result.finding.high is not None else Tone.WARNING
    if _has_failed(result) or not all(level.is_as_asked for level in result.levels):
        return Tone.WARNING
    return Tone.GOOD


def _has_failed(result: Result) -> bool:
    return result.failed_share > float(result.effective.max_error_rate or 0.0)


def _figures(result: Result) -> Iterator[Figure]:
    found, finding = best(result), result.finding
    if finding is not None and finding.value:
        unit = "requests/s" if finding.mode == "request_rate" else "in flight"
        yield Figure("Keeps", f"{found_load(finding, finding.value)} {unit}", limit_words(finding))
    if found is None:
        return
    level, measurement = found
    where = f"at {level_label(level.mode, level.value)}"
    rate = measurement.infer_per_s
    yield Figure("Throughput", f"{quantity(rate.value)} infer/s", f"{interval(rate)} {where}".strip())
    for p in (50, 99):
        estimate = dict(measurement.latency_intervals).get(f"p{p}")
        spread = "" if estimate is None else interval(estimate)
        latency = duration(measurement.latency.percentile_ns(p))
        yield Figure(f"p{p} latency", latency, f"{spread} {where}".strip())
    rows = [row.measurement for row in result.levels if row.measurement is not None]
    failed = sum(row.failed_count for row in rows)
    total = failed + sum(row.request_count for row in rows)
    tone = Tone.BAD if _has_failed(result) else Tone.PLAIN
    yield Figure("Errors", share(result.failed_share), f"{failed} of {plural(total, 'request')}", tone)
    client = measurement.client
    yield Figure(
        "Client CPU",
        share(client.cpu_share),
        f"of a core, {duration(client.cpu_us_per_request * NS_PER_US)} a request",
        Tone.WARNING if client.cpu_share > 0.9 else Tone.PLAIN,
    )


def _more_section(result: Result) -> Section | None:
    """Streams, tokens, sequences, the server's metrics and the client's cost, of the level that stands for all."""
    rows = [(level, level.measurement) for level in result.levels if level.measurement is not None]
    level, measurement = best(result) or (rows[-1] if rows else (None, None))
    if level is None or measurement is None:
        return None
    ports = int(result.host.get("ports") or 0)
    said = tuple(Message(text, tone=Tone.PLAIN) for text in measurement_sentences(measurement, ports))
    return Section("more", f"More figures at {level_label(level.mode, level.value)}", "", (Messages(said),))
