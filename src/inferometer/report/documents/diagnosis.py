"""The report of a diagnosis: what limits the model, what to do about it, and what came of trying."""

import json
from collections.abc import Callable, Iterator, Sequence

from inferometer.base.answer_file import plain, to_json
from inferometer.diagnose.diagnosis import (
    CLIENT,
    LIGHT,
    UNKNOWN,
    Diagnosis,
    StepFigures,
    Suggestion,
)
from inferometer.report.document import (
    Bar,
    Bars,
    Block,
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    ChartRule,
    Code,
    Column,
    Document,
    Facts,
    Figure,
    Message,
    Messages,
    Section,
    Segment,
    Table,
    Tone,
)
from inferometer.report.documents.distribution import distribution_section
from inferometer.report.documents.measurement import errors_section, facts, table_section, when
from inferometer.report.documents.settings import host_section, settings_section
from inferometer.report.documents.time_bars import time_section
from inferometer.report.documents.timeline import timeline_section
from inferometer.report.documents.trials import change_words, gain, trials_section
from inferometer.report.format import change_text, duration, plural, quantity, share
from inferometer.report.units import plain_number, rate_axis, time_axis
from inferometer.stats.result import Result

BUSY, BUSIER = 0.7, 0.9  # of a step's instances: worth a look, and the limit


def diagnosis_document(diagnosis: Diagnosis) -> Document:
    """The whole report; the same diagnosis gives the same document."""
    first = diagnosis.results[0] if diagnosis.results else None
    sections = (
        _limits_section(diagnosis),
        _suggestions_section(diagnosis),
        trials_section(diagnosis),
        _curve_section(diagnosis),
        *(() if first is None else _measured_sections(first)),
        _notes_section(diagnosis),
        *(() if first is None else (settings_section(first), host_section(first))),
    )
    return Document(
        kind="Diagnosis",
        title=diagnosis.model,
        facts=(when(diagnosis.started_at),) if first is None else facts(first),
        verdict=_verdict(diagnosis),
        tone=Tone.GOOD if diagnosis.best is not None else _tone(diagnosis),
        figures=tuple(_figures(diagnosis)),
        sections=tuple(section for section in sections if section is not None),
        source=to_json(diagnosis),
        source_name="diagnosis.json",
        tool=diagnosis.tool,
    )


def _measured_sections(result: Result) -> tuple[Section | None, ...]:
    return (
        time_section(result),
        distribution_section(result),
        timeline_section(result),
        errors_section(result),
        table_section(result),
    )


def _tone(diagnosis: Diagnosis) -> Tone:
    if diagnosis.verdict.kind == LIGHT:
        return Tone.GOOD
    return Tone.BAD if diagnosis.verdict.kind in (CLIENT, UNKNOWN) else Tone.WARNING


def _verdict(diagnosis: Diagnosis) -> str:
    sentence = diagnosis.verdict.sentence.strip()
    best = diagnosis.best
    if best is None:
        return sentence
    before, after = quantity(diagnosis.throughput), quantity(best.throughput)
    change = f"{before} to {after} infer/s ({change_text(gain(diagnosis, best))})"
    return f"{sentence.rstrip('.')}; what was changed brought it from {change}."


def _figures(diagnosis: Diagnosis) -> Iterator[Figure]:
    where = f"at concurrency {diagnosis.concurrency}"
    yield Figure("Throughput", f"{quantity(diagnosis.throughput)} infer/s", where)
    yield Figure("Mean latency", duration(diagnosis.latency_ns), where)
    bounded = [step for step in diagnosis.steps if step.bound is not None]
    if bounded:
        step = min(bounded, key=lambda row: row.bound or 0.0)
        yield Figure("Bound", f"{quantity(step.bound or 0.0)} infer/s", f"set by {step.name}")
    best = diagnosis.best
    if best is not None:
        text = f"{change_text(gain(diagnosis, best))}, measured"
        yield Figure("After", f"{quantity(best.throughput)} infer/s", text, Tone.GOOD)
    elif diagnosis.suggestions:
        first = diagnosis.suggestions[0]
        text = f"{change_text(first.gain)}, predicted"
        yield Figure("Within reach", f"{quantity(first.throughput)} infer/s", text, Tone.GOOD)
    if diagnosis.machine.cpu_share is not None:
        yield Figure("Host CPU", share(diagnosis.machine.cpu_share), _cores(diagnosis))
    if diagnosis.machine.gpu_share is not None:
        yield Figure("Busiest GPU", share(diagnosis.machine.gpu_share), where)


def _cores(diagnosis: Diagnosis) -> str:
    cores = diagnosis.machine.cores
    return "all cores together" if cores is None else f"of {plural(cores, 'core')}"


def _limits_section(diagnosis: Diagnosis) -> Section | None:
    if not diagnosis.steps:
        return None
    lead = f"Each step at concurrency {diagnosis.concurrency}, as the server counts it."
    blocks: tuple[Block, ...] = (_busy(diagnosis.steps), _shares(diagnosis), _steps(diagnosis.steps))
    if diagnosis.machine.effective_cores is not None:
        cores = quantity(diagnosis.machine.effective_cores)
        blocks = (*blocks, Facts("Machine", (("Cores that busy instances really got", cores),)))
    return Section("limits", "What limits it", lead, blocks)


def _name(step: StepFigures) -> str:
    return f"{'↳ ' * step.depth}{step.name}"


def _busy(steps: tuple[StepFigures, ...]) -> Bars:
    rows = tuple(
        Bar(
            _name(step),
            (Segment("busy", _capped(step), share(_capped(step)), _busy_colour(step)),),
            share(_capped(step)),
            plural(step.instances, "instance"),
        )
        for step in steps
    )
    note = "Throughput × service time ÷ instances: at 100 % all instances of the step work all the time."
    return Bars("How busy each step is", rows, 1.0, note)


def _capped(step: StepFigures) -> float:
    """Counters and throughput are not read at the very same moment: a little over 1 is 1."""
    return min(1.0, step.utilisation)


def _busy_colour(step: StepFigures) -> str:
    if step.utilisation >= BUSIER:
        return "part-wait"
    return "part-queue" if step.utilisation >= BUSY else "part-infer"


def _shares(diagnosis: Diagnosis) -> Bars:
    rows = [
        Bar(
            _name(step),
            tuple(
                Segment(name, ns, duration(ns), colour)
                for name, ns, colour in (
                    ("queue", step.queue_ns, "part-queue"),
                    ("compute", step.compute_ns, "part-infer"),
                )
                if ns > 0
            ),
            f"{duration(step.queue_ns + step.compute_ns)} · {share(step.latency_share)}",
        )
        for step in diagnosis.steps
    ]
    for name, ns, colour in (
        ("server overhead", diagnosis.overhead_ns, "part-overhead"),
        ("network and client", diagnosis.client_ns, "part-network"),
    ):
        part = ns / diagnosis.latency_ns if diagnosis.latency_ns else 0.0
        rows.append(Bar(name, (Segment(name, ns, duration(ns), colour),), f"{duration(ns)} · {share(part)}"))
    most = max(sum(segment.value for segment in row.segments) for row in rows)
    return Bars(
        "Where a request spends its time", tuple(rows), most, "The share is of the latency the client sees."
    )


def _steps(steps: tuple[StepFigures, ...]) -> Table:
    names = (
        "Calls",
        "Service",
        "Queue",
        "Compute",
        "Share of work",
        "Share of a light request",
        "Batch",
        "Instances",
        "Busy",
        "Bound (infer/s)",
    )
    rows = tuple(
        (
            _name(step),
            f"{step.calls:.3g}",
            duration(step.service_ns),
            duration(step.queue_ns),
            duration(step.compute_ns),
            share(step.compute_share),
            share(step.light_share),
            f"{step.batch:.3g} of {step.max_batch}" if step.max_batch else "-",
            f"{step.instances} {step.device}".strip(),
            share(_capped(step)),
            "-" if step.bound is None else quantity(step.bound),
        )
        for step in steps
    )
    return Table("The steps in numbers", (Column("Step", is_number=False), *map(Column, names)), rows)


def _suggestions_section(diagnosis: Diagnosis) -> Section | None:
    rows = diagnosis.suggestions
    if not rows:
        return None
    texts = tuple(Message(_capital(row.text) + ".", _capital(row.why) + ".", Tone.PLAIN) for row in rows)
    lead = "Predicted by a queueing model fitted to the measured service times; the best first."
    blocks: tuple[Block, ...] = (
        _gains(diagnosis),
        Messages(texts, is_ranked=True),
        _predictions(rows),
        *_settings(rows),
    )
    return Section("suggestions", "What would help", lead, blocks)


def _settings(rows: Sequence[Suggestion]) -> Iterator[Code]:
    for row in rows:
        if row.change.can_apply:
            text = json.dumps(plain(row.change.settings), indent=2, sort_keys=True)
            yield Code(f"{change_words(row.change)}: in the configuration of {row.change.model}", text)


def _capital(text: str) -> str:
    words = text.strip().rstrip(".")
    return words[:1].upper() + words[1:]


def _gains(diagnosis: Diagnosis) -> Bars:
    most = max(diagnosis.throughput, *(row.throughput for row in diagnosis.suggestions))
    now = quantity(diagnosis.throughput)
    bars = [
        Bar("as it is", (Segment("measured", diagnosis.throughput, now, "part-network"),), f"{now} infer/s")
    ]
    for number, row in enumerate(diagnosis.suggestions, 1):
        text = quantity(row.throughput)
        segment = Segment("predicted", row.throughput, text, "part-infer")
        detail = f"{row.change.model}: {row.change.before} → {row.change.after}"
        bars.append(
            Bar(
                f"{number}. {row.change.kind}",
                (segment,),
                f"{text} infer/s · {change_text(row.gain)}",
                detail,
            )
        )
    return Bars("Throughput now, and as predicted (infer/s)", tuple(bars), most)


def _predictions(rows: Sequence[Suggestion]) -> Table:
    numbers = ("At concurrency", "Infer/s", "Gain", "Mean latency")
    columns = (Column("Change", is_number=False), *map(Column, numbers))
    cells = tuple(
        (
            change_words(row.change),
            str(row.concurrency),
            quantity(row.throughput),
            change_text(row.gain),
            duration(row.latency_ns),
        )
        for row in rows
    )
    return Table("The predictions", columns, cells)


def _curve_section(diagnosis: Diagnosis) -> Section | None:
    if not diagnosis.curve:
        return None
    bounds = [step.bound for step in diagnosis.steps if step.bound is not None]
    rules = (ChartRule(min(bounds), f"bound {quantity(min(bounds))} infer/s"),) if bounds else ()
    top = max(row.throughput for row in diagnosis.curve)
    throughput = Chart(
        title="Throughput, measured and as the model has it",
        x=ChartAxis("concurrency", plain_number, is_whole=True),
        y=rate_axis(),
        series=_curves(diagnosis, "throughput", lambda value: f"{quantity(value)} infer/s"),
        rules=tuple(rule for rule in rules if rule.value < 3 * top),
        height=290,
    )
    times = [row.latency_ns for row in diagnosis.curve]
    latency = Chart(
        title="Mean latency, measured and as the model has it",
        x=ChartAxis("concurrency", plain_number, is_whole=True),
        y=time_axis("mean latency", times),
        series=_curves(diagnosis, "latency_ns", duration),
        height=290,
    )
    lead = "How well the queueing model describes what was measured: the predictions are as good as this fit."
    return Section(
        "curve", "The model behind the predictions", lead, (throughput, latency, _curve_table(diagnosis))
    )


def _curves(diagnosis: Diagnosis, field: str, text: Callable[[float], str]) -> tuple[ChartLine, ...]:
    predicted, found = [], []
    for row in diagnosis.curve:
        value, seen = getattr(row, field), getattr(row, f"measured_{field}")
        predicted.append(
            ChartPoint(row.concurrency, value, f"concurrency {row.concurrency}: model {text(value)}")
        )
        if seen is not None:
            found.append(
                (ChartPoint(row.concurrency, seen, f"concurrency {row.concurrency}: measured {text(seen)}"),)
            )
    return (
        ChartLine("as the model has it", (tuple(predicted),), "blue", is_dashed=True),
        *((ChartLine("measured", tuple(found), "orange"),) if found else ()),
    )


def _curve_table(diagnosis: Diagnosis) -> Table:
    names = ("Concurrency", "Model infer/s", "Measured infer/s", "Model latency", "Measured latency")
    rows = tuple(
        (
            str(row.concurrency),
            quantity(row.throughput),
            "-" if row.measured_throughput is None else quantity(row.measured_throughput),
            duration(row.latency_ns),
            "-" if row.measured_latency_ns is None else duration(row.measured_latency_ns),
        )
        for row in diagnosis.curve
    )
    return Table("Model and measurement", tuple(map(Column, names)), rows, is_folded=True)


def _notes_section(diagnosis: Diagnosis) -> Section | None:
    if not diagnosis.notes:
        return None
    rows = tuple(Message(_capital(note) + ".") for note in diagnosis.notes)
    return Section("notes", "Notes", "", (Messages(rows),))
