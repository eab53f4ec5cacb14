"""A diagnosis as a document: what limits the model, what to do about it, and what came of trying."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from inferometer.base.answer_file import plain, to_json
from inferometer.diagnose.diagnosis import (
    CLIENT,
    LIGHT,
    UNKNOWN,
    Change,
    ChangeTrial,
    Diagnosis,
    StepFigures,
    Suggestion,
)
from inferometer.report.axes import plain_number, rate_axis, time_axis
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
    Depth,
    Document,
    Figure,
    Message,
    Messages,
    Section,
    Segment,
    Table,
    Tone,
)
from inferometer.report.documents.breakdown import time_section
from inferometer.report.documents.curves import (
    distribution_section,
    line_colour,
    load_points,
    throughput_chart,
)
from inferometer.report.documents.levels import errors_section, levels_section, measured
from inferometer.report.documents.measurement import facts
from inferometer.report.documents.settings import host_section, settings_section
from inferometer.report.documents.timeline import timeline_section
from inferometer.report.format import NONE, change_text, duration, plural, quantity, share, when
from inferometer.stats.result import Result

BUSY, BUSIER = 0.7, 0.9  # of a step's instances: worth a look, and the limit


def diagnosis_document(diagnosis: Diagnosis) -> Document:
    """The whole report; the same diagnosis gives the same document."""
    first = diagnosis.results[0] if diagnosis.results else None
    sections = (
        _limits_section(diagnosis),
        _suggestions_section(diagnosis),
        _trials_section(diagnosis),
        _notes_section(diagnosis),
        _curve_section(diagnosis),
        *(() if first is None else _measured_sections(first)),
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


def _measured_sections(result: Result) -> Iterator[Section]:
    for section in (
        time_section(result),
        distribution_section(result),
        timeline_section(result),
        errors_section(result),
        levels_section(result),
        settings_section(result),
        host_section(result),
    ):
        if section is not None:
            yield replace(section, is_detail=True)


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
    change = f"{before} to {after} infer/s ({change_text(_gain(diagnosis, best))})"
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
        text = f"{change_text(_gain(diagnosis, best))}, measured"
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


def _gain(diagnosis: Diagnosis, trial: ChangeTrial) -> float:
    """Of throughput over where it began."""
    return trial.throughput / diagnosis.throughput - 1 if diagnosis.throughput else 0.0


def _limits_section(diagnosis: Diagnosis) -> Section:
    where = (
        f"At concurrency {diagnosis.concurrency}: {quantity(diagnosis.throughput)} infer/s, "
        f"mean latency {duration(diagnosis.latency_ns)}."
    )
    blocks: tuple[Block, ...] = (Messages((Message(where, tone=Tone.PLAIN),)),)
    if diagnosis.steps:
        around = Messages((Message(_around(diagnosis), tone=Tone.PLAIN),))
        blocks = (*blocks, _busy(diagnosis.steps), _shares(diagnosis), _steps(diagnosis.steps), around)
    return Section("limits", "What limits it", "", blocks)


def _around(diagnosis: Diagnosis) -> str:
    """What the table of the steps leaves unsaid."""
    words = [
        "Share: of a request's time when hardly anything waits. Bound: infer/s the step allows.",
        f"Outside the steps: network and client {duration(diagnosis.client_ns)}, "
        f"server overhead {duration(diagnosis.overhead_ns)}.",
    ]
    machine = diagnosis.machine
    if machine.cpu_share is not None and machine.cores is not None:
        words.append(f"CPU {share(min(machine.cpu_share, 1.0))} of {machine.cores} cores.")
    if machine.gpu_share is not None:
        words.append(f"GPU {share(machine.gpu_share)}.")
    if machine.effective_cores is not None:
        words.append(f"Busy instances really got {quantity(machine.effective_cores)} cores.")
    return " ".join(words)


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
    columns = (
        Column("Step", is_number=False, is_name=True),
        *map(Column, ("Calls", "Service", "Queue")),
        *(Column(name, rank=1) for name in ("Compute", "Share of work")),
        *map(Column, ("Share", "Batch", "Instances", "Busy", "Bound")),
    )
    rows = tuple(
        (
            _name(step),
            f"{step.calls:.3g}",
            *map(duration, (step.service_ns, step.queue_ns, step.compute_ns)),
            *map(share, (step.compute_share, step.light_share)),
            _batch(step),
            f"{step.instances} {step.device}".strip(),
            share(_capped(step)),
            NONE if step.bound is None else f"{quantity(step.bound)}/s",
        )
        for step in steps
    )
    return Table("The steps in numbers", columns, rows)


def _batch(step: StepFigures) -> str:
    if step.max_batch < 2:
        return NONE
    return f"{step.batch:.2g} of {step.max_batch}" + ("" if step.is_batching else ", off")


def _suggestions_section(diagnosis: Diagnosis) -> Section | None:
    rows = diagnosis.suggestions
    if not rows and diagnosis.steps:
        nothing = Message("No change of the settings is predicted to bring more.", tone=Tone.PLAIN)
        return Section("suggestions", "What would help", "", (Messages((nothing,)),))
    if not rows:
        return None
    texts = tuple(Message(suggestion_words(row), _capital(row.why) + ".", Tone.PLAIN) for row in rows)
    lead = "Predicted by a queueing model fitted to the measured service times; the best first."
    blocks: tuple[Block, ...] = (
        _gains(diagnosis),
        Messages(texts, is_ranked=True),
        _predictions(rows),
        *_settings(rows),
    )
    return Section("suggestions", "What would help", lead, blocks)


def suggestion_words(row: Suggestion) -> str:
    """What to do and what it is expected to bring."""
    expected = f"{quantity(row.throughput)} infer/s ({change_text(row.gain)}), {duration(row.latency_ns)}"
    return f"{_capital(row.text)}: {expected}"


def _settings(rows: Sequence[Suggestion]) -> Iterator[Code]:
    for row in rows:
        if row.change.can_apply:
            text = json.dumps(plain(row.change.settings), indent=2, sort_keys=True)
            yield Code(f"{_change(row.change)}: in the configuration of {row.change.model}", text)


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
            _change(row.change),
            str(row.concurrency),
            quantity(row.throughput),
            change_text(row.gain),
            duration(row.latency_ns),
        )
        for row in rows
    )
    return Table("The predictions", columns, cells, Depth.DETAIL)


def _trials_section(diagnosis: Diagnosis) -> Section | None:
    """Predicted against measured; None when nothing was tried."""
    if diagnosis.is_restored is None and not diagnosis.trials:
        return None
    chart = _runs(diagnosis)
    drawings = (_before_after(diagnosis), *(() if chart is None else (chart,))) if diagnosis.trials else ()
    return Section(
        "trials", "What was tried", " ".join(_story(diagnosis)), (*drawings, _trial_table(diagnosis))
    )


def _story(diagnosis: Diagnosis) -> Iterator[str]:
    best = diagnosis.best
    if best is not None:
        yield (
            f"Before {quantity(diagnosis.throughput)}, after {quantity(best.throughput)} infer/s "
            f"({change_text(_gain(diagnosis, best))}) at concurrency {diagnosis.concurrency}."
        )
    if diagnosis.after is not None:
        yield f"Now: {diagnosis.after.sentence.strip()}"
    if diagnosis.is_restored:
        yield "The server has its original configuration again."
    elif best is not None:
        yield "The server keeps the new configuration until it is restarted."


def trial_words(trial: ChangeTrial) -> str:
    """Predicted against measured."""
    what = _capital(trial.suggestion.text)
    if trial.failure:
        return f"{what}: not possible: {trial.failure}"
    return (
        f"{what}: predicted {quantity(trial.suggestion.throughput)}, measured {quantity(trial.throughput)} infer/s "
        f"({change_text(trial.gain)}), {duration(trial.latency_ns)}; {'kept' if trial.is_kept else 'not kept'}"
    )


def _before_after(diagnosis: Diagnosis) -> Bars:
    tried = [row for row in diagnosis.trials if not row.failure]
    figures = [value for row in tried for value in (row.throughput, row.suggestion.throughput)]
    most = max(diagnosis.throughput, *figures) if figures else diagnosis.throughput
    before = quantity(diagnosis.throughput)
    bars = [
        Bar(
            "before",
            (Segment("before", diagnosis.throughput, before, "part-network"),),
            f"{before} infer/s",
        )
    ]
    for row in tried:
        change = row.suggestion.change
        detail = f"{change.kind} {change.before} → {change.after}"
        for name, value, colour in (
            ("predicted", row.suggestion.throughput, "part-input"),
            ("measured", row.throughput, "part-infer" if row.is_kept else "part-receive"),
        ):
            text = quantity(value)
            bars.append(
                Bar(
                    f"{change.model}, {name}",
                    (Segment(name, value, text, colour),),
                    f"{text} infer/s",
                    detail,
                )
            )
    return Bars("Before, predicted and measured (infer/s)", tuple(bars), most)


def _trial_table(diagnosis: Diagnosis) -> Table:
    columns = (
        Column("Change", is_number=False),
        *map(Column, ("Predicted infer/s", "Measured infer/s")),
        Column("Measured ÷ predicted", rank=1),
        *map(Column, ("Gain", "Mean latency")),
        Column("Outcome", is_number=False),
    )
    before = quantity(diagnosis.throughput), duration(diagnosis.latency_ns)
    first = ("as it was", "", before[0], "", "", before[1], "")
    rows = tuple(_trial_row(row) for row in diagnosis.trials)
    return Table("Predicted against measured", columns, (first, *rows), Depth.DRAWN)


def _trial_row(row: ChangeTrial) -> tuple[str, ...]:
    said = (_change(row.suggestion.change), quantity(row.suggestion.throughput))
    if row.failure:
        return (*said, NONE, NONE, NONE, NONE, f"refused: {row.failure}")
    outcome = "kept" if row.is_kept else "taken back"
    found = (quantity(row.throughput), share(row.ratio), change_text(row.gain), duration(row.latency_ns))
    return (*said, *found, outcome)


def _change(change: Change) -> str:
    """`preprocessing: instances 1 → 2`."""
    return f"{change.model}: {change.kind} {change.before} → {change.after}"


def _runs(diagnosis: Diagnosis) -> Chart | None:
    """Throughput against latency of the sweep and of each trial that was measured."""
    kept = {row.result: row.suggestion.change for row in diagnosis.trials if row.result is not None}
    lines = []
    for number, result in enumerate(diagnosis.results):
        change = kept.get(number)
        after = "after" if change is None else f"{change.model}: {change.kind} {change.after}"
        name = "before" if number == 0 else after
        points = load_points(measured(result), None, of=name)
        if points:
            lines.append(ChartLine(name, (points,), line_colour(number)))
    if len(lines) < 2:
        return None
    note = "The numbers are the concurrency; bars are 95 % intervals."
    return throughput_chart("Latency against throughput, before and after", "mean latency", lines, note)


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
        "curve",
        "The model behind the predictions",
        lead,
        (throughput, latency, _curve_table(diagnosis)),
        is_detail=True,
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
    return Table("Model and measurement", tuple(map(Column, names)), rows, Depth.DETAIL)


def _notes_section(diagnosis: Diagnosis) -> Section | None:
    if not diagnosis.notes:
        return None
    rows = tuple(Message(_capital(note) + ".") for note in diagnosis.notes)
    return Section("notes", "Notes", "", (Messages(rows),))
