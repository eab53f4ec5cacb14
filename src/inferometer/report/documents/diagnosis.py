"""A diagnosis as a document: the bottleneck, the suggestions, and the results of trials."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from inferometer.base.answer_file import plain
from inferometer.base.errors import UsageError
from inferometer.base.units import rough
from inferometer.diagnose.diagnosis import (
    CLIENT,
    CPU,
    LIGHT,
    UNKNOWN,
    Change,
    ChangeTrial,
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
    Depth,
    Document,
    Figure,
    Message,
    Messages,
    Section,
    Segment,
    Table,
    Tone,
    message_section,
    text_columns,
)
from inferometer.report.documents.breakdown import STEP_COLUMN, time_section
from inferometer.report.documents.levels import (
    distribution_section,
    errors_section,
    levels_section,
    line_colour,
    load_points,
    rate_axis,
    time_axis,
)
from inferometer.report.documents.measurement import facts, host_section, settings_section
from inferometer.report.documents.network import network_section
from inferometer.report.documents.serving import advice_blocks, server_section, serving_blocks
from inferometer.report.documents.timeline import timeline_section
from inferometer.report.format import (
    GIB,
    NONE,
    change_text,
    difference,
    duration,
    plural,
    quantity,
    share,
    significant,
    when,
)
from inferometer.stats.machine_figures import GpuFigures
from inferometer.stats.result import Result, measured
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN
from inferometer.tune import model_config

BUSY, BUSIER = 0.7, 0.9  # utilisation of a step: worth a look, and the limit
_TONES = {LIGHT: Tone.GOOD, CLIENT: Tone.BAD, UNKNOWN: Tone.BAD}  # of verdicts; the others warn
_RULING_TONES = {SHOWN: Tone.GOOD, NOT_SHOWN: Tone.PLAIN, INCONCLUSIVE: Tone.WARNING}


def diagnosis_document(diagnosis: Diagnosis) -> Document:
    """Return the report; the same diagnosis gives the same document."""
    first = diagnosis.results[0] if diagnosis.results else None
    sections = (
        _limits_section(diagnosis),
        _suggestions_section(diagnosis),
        _trials_section(diagnosis),
        None if first is None else _maybe_network(first, diagnosis.concurrency),
        message_section("notes", "Notes", (Message(_capital(note) + ".") for note in diagnosis.notes)),
        _curve_section(diagnosis),
        *(() if first is None else _measured_sections(first, diagnosis.concurrency)),
    )
    return Document(
        kind="Diagnosis",
        title=diagnosis.model,
        facts=(when(diagnosis.started_at),) if first is None else facts(first),
        verdict=_verdict(diagnosis),
        tone=_tone(diagnosis),
        figures=tuple(_figures(diagnosis)),
        sections=tuple(section for section in sections if section is not None),
    )


def _maybe_network(result: Result, concurrency: int) -> Section | None:
    """The share of the network, unless the server runs on this machine."""
    is_local = any(level.network is not None and level.network.is_local for level in result.levels)
    return None if is_local else network_section(result, is_detail=False, value=concurrency)


def _measured_sections(result: Result, concurrency: int) -> Iterator[Section]:
    for section in (
        server_section(result),
        time_section(result, concurrency),
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
    """The tone of the kept changes, if any, otherwise that of the verdict."""
    if diagnosis.best is None:
        return _TONES.get(diagnosis.verdict.kind, Tone.WARNING)
    return _RULING_TONES[diagnosis.ruling]


def _verdict(diagnosis: Diagnosis) -> str:
    sentence = diagnosis.verdict.sentence.strip()
    best = diagnosis.best
    if best is None:
        return sentence
    before, after = quantity(diagnosis.throughput), quantity(best.throughput)
    change = f"{before} to {after} {diagnosis.rate_unit}"
    found = _gain_words(diagnosis, best)
    why = ", since this client was the limit" if diagnosis.is_client_limited else ""
    said = {
        SHOWN: f"the changes took it from {change}",
        NOT_SHOWN: f"the changes bring no relevant gain: {change}",
        INCONCLUSIVE: f"inconclusive whether the changes helped{why}: {change}",
    }
    return f"{sentence.rstrip('.')}; {said[diagnosis.ruling]}, {found}."


def _figures(diagnosis: Diagnosis) -> Iterator[Figure]:
    where, unit = f"at concurrency {diagnosis.concurrency}", diagnosis.rate_unit
    yield Figure("Throughput", f"{quantity(diagnosis.throughput)} {unit}", where)
    yield Figure("Mean latency", duration(diagnosis.latency_ns), where)
    bounds = [(step.bound, step.name) for step in diagnosis.steps if step.bound is not None]
    checks = () if diagnosis.serving is None else diagnosis.serving.checks
    bounds += [(row.bound, row.kind) for row in checks if row.bound is not None and row.state == "limits"]
    if (
        bounds and diagnosis.verdict.kind != CPU
    ):  # cores set the limit, and step times include waiting for them
        bound, name = min(bounds, key=lambda row: row[0])
        yield Figure("Bound", f"{quantity(bound)} {unit}", f"set by {name}")
    best = diagnosis.best
    if best is not None:
        text = f"{_gain_words(diagnosis, best)}, measured at concurrency {best.suggestion.concurrency}"
        yield Figure("After", f"{quantity(best.throughput)} {unit}", text, _RULING_TONES[diagnosis.ruling])
    elif (first := next(_alike(diagnosis), None)) is not None:
        text = f"{change_text(first.gain)}, predicted {where}"
        yield Figure("Within reach", f"{quantity(first.throughput)} {unit}", text)
    machine = diagnosis.machine
    if machine.cpu_share is not None:
        cores = "all cores together" if machine.cores is None else f"of {plural(machine.cores, 'core')}"
        yield Figure("Host CPU", share(machine.cpu_share), cores)
    if machine.gpu_share is not None:
        yield Figure("Busiest GPU", share(machine.gpu_share), where)


def _gain(diagnosis: Diagnosis, trial: ChangeTrial) -> float:
    """Throughput gain of a trial over the initial configuration."""
    return trial.throughput / diagnosis.throughput - 1 if diagnosis.throughput else 0.0


def _gain_words(diagnosis: Diagnosis, best: ChangeTrial) -> str:
    """The gain of all kept changes, with its interval if known."""
    gain = diagnosis.measured_gain
    return change_text(_gain(diagnosis, best)) if gain is None else difference(gain)


def _limits_section(diagnosis: Diagnosis) -> Section:
    where = (
        f"At concurrency {diagnosis.concurrency}: {quantity(diagnosis.throughput)} {diagnosis.rate_unit}, "
        f"mean latency {duration(diagnosis.latency_ns)}."
    )
    blocks: tuple[Block, ...] = (_plain_message(where),)
    if diagnosis.steps:
        steps = (_busy(diagnosis.steps), _shares(diagnosis), _steps(diagnosis.steps))
        blocks = (*blocks, *steps, _plain_message(_around(diagnosis)))
    if diagnosis.serving is not None:
        blocks = (*blocks, *serving_blocks(diagnosis.serving))
    return Section("limits", "What limits it", "", blocks)


def _plain_message(text: str) -> Messages:
    return Messages((Message(text, tone=Tone.PLAIN),))


def _around(diagnosis: Diagnosis) -> str:
    """Explanations below the table of steps."""
    words = [
        f"Share: part of the client's latency. Bound: highest {diagnosis.rate_unit} that the step allows.",
        f"Outside the steps: network and client {duration(diagnosis.client_ns)}, "
        f"server overhead {duration(diagnosis.overhead_ns)}.",
    ]
    machine = diagnosis.machine
    if machine.cpu_share is not None and machine.cores is not None:
        words.append(f"CPU {share(min(machine.cpu_share, 1.0))} of {machine.cores} cores.")
    words += map(_gpu_words, machine.gpus)
    if machine.gpu_share is not None and not machine.gpus:
        words.append(f"GPU {share(machine.gpu_share)}.")
    if machine.effective_cores is not None:
        words.append(f"Busy instances actually got {quantity(machine.effective_cores)} cores.")
    return " ".join(words)


def _gpu_words(gpu: GpuFigures) -> str:
    """Known figures of a GPU; an unknown utilisation is reported as unknown."""
    busy = (
        "utilisation not known" if gpu.utilization is None else f"busy {share(gpu.utilization)} of the time"
    )
    words = [busy]
    if gpu.memory_used_bytes is not None and gpu.memory_total_bytes is not None:
        words.append(
            f"{significant(gpu.memory_used_bytes / GIB, 3)} of {significant(gpu.memory_total_bytes / GIB, 3)} GiB used"
        )
    if gpu.power_w is not None:
        words.append(f"{gpu.power_w:.0f} W")
    if gpu.clock_mhz is not None:
        words.append(f"{gpu.clock_mhz:.0f} MHz")
    return f"GPU: {', '.join(words)}."


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
    note = "Throughput × service time ÷ instances: at 100 % all instances of the step are busy all the time."
    return Bars("How busy each step is", rows, note, full=1.0)


def _capped(step: StepFigures) -> float:
    """Utilisation up to 1: counters and throughput are not read at exactly the same time."""
    return min(1.0, step.utilisation)


def _busy_colour(step: StepFigures) -> str:
    if step.utilisation >= BUSIER:
        return "part-wait"
    return "part-queue" if step.utilisation >= BUSY else "part-infer"


def _shares(diagnosis: Diagnosis) -> Bars:
    rows = []
    for step in diagnosis.steps:
        parts = (("queue", step.queue_ns, "part-queue"), ("compute", step.compute_ns, "part-infer"))
        segments = tuple(Segment(name, ns, duration(ns), colour) for name, ns, colour in parts if ns > 0)
        text = f"{duration(step.queue_ns + step.compute_ns)} · {share(step.latency_share)}"
        rows.append(Bar(_name(step), segments, text))
    for name, ns, colour in (
        ("server overhead", diagnosis.overhead_ns, "part-overhead"),
        ("network and client", diagnosis.client_ns, "part-network"),
    ):
        part = ns / diagnosis.latency_ns if diagnosis.latency_ns else 0.0
        rows.append(Bar(name, (Segment(name, ns, duration(ns), colour),), f"{duration(ns)} · {share(part)}"))
    note = "Shares are of the latency that the client sees."
    return Bars("Where a request spends its time", tuple(rows), note)


def _steps(steps: tuple[StepFigures, ...]) -> Table:
    columns = (
        STEP_COLUMN,
        *map(Column, ("Calls", "Service", "Queue")),
        *(Column(name, rank=1) for name in ("Compute", "Share of work")),
        *map(Column, ("Share", "Batch", "Instances", "Busy", "Bound")),
    )
    rows = tuple(
        (
            _name(step),
            significant(step.calls, 3),
            *map(duration, (step.service_ns, step.queue_ns, step.compute_ns)),
            *map(share, (step.compute_share, step.latency_share)),
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
    return f"{rough(step.batch)} of {step.max_batch}" + ("" if step.is_batching else ", off")


def _suggestions_section(diagnosis: Diagnosis) -> Section | None:
    rows = diagnosis.untried
    advice = () if diagnosis.serving is None else tuple(advice_blocks(diagnosis.serving))
    tried = tuple(_tried(diagnosis))
    if not rows and tried:
        nothing = _plain_message("No other change of settings is predicted to help.")
        return Section("suggestions", "What would help", "", (nothing, *tried, *advice))
    if not rows and advice:
        return Section("suggestions", "What would help", "", advice)
    if not rows and diagnosis.steps:
        while_busy = " while the cores are exhausted" if diagnosis.verdict.kind == CPU else ""
        nothing = _plain_message(f"No change of settings is predicted to help{while_busy}.")
        return Section("suggestions", "What would help", "", (nothing,))
    if not rows:
        return None
    texts = tuple(
        Message(
            suggestion_words(row, diagnosis.concurrency, diagnosis.rate_unit),
            _capital(row.why) + ".",
            Tone.PLAIN,
        )
        for row in rows
    )
    lead = "Predicted by a queueing model fitted to the measured service times; best first."
    if diagnosis.serving is not None:
        lead = "Predicted from what a request costs the server, fitted to the measured loads."
    said = Messages(texts, is_ranked=True)
    shown = (_gains(diagnosis), said, *tried, *advice)
    blocks: tuple[Block, ...] = (*shown, _predictions(rows, diagnosis.rate_unit), *_settings(rows))
    return Section("suggestions", "What would help", lead, blocks)


def _tried(diagnosis: Diagnosis) -> Iterator[Messages]:
    """Changes already tried, each with its result."""
    if diagnosis.trials:
        yield _plain_message("Already tried:")
        said = (trial_words(row, diagnosis.rate_unit) for row in diagnosis.trials)
        yield Messages(tuple(Message(words, tone=Tone.PLAIN) for words in said))


def suggestion_words(row: Suggestion, diagnosed: int, rate_unit: str) -> str:
    """A suggestion with its expected effect, and its load if that is not the diagnosed one."""
    expected = f"{quantity(row.throughput)} {rate_unit} ({change_text(row.gain)}), {duration(row.latency_ns)}"
    where = "" if row.concurrency == diagnosed else f" at concurrency {row.concurrency}"
    return f"{_capital(row.text)}: {expected}{where}"


def _alike(diagnosis: Diagnosis) -> Iterator[Suggestion]:
    """Suggestions predicted at the diagnosed concurrency, which can be compared with the measurement there."""
    return (row for row in diagnosis.untried if row.concurrency == diagnosis.concurrency)


def _settings(rows: Sequence[Suggestion]) -> Iterator[Code]:
    for row in rows:
        if row.change.can_apply:
            yield Code(f"{_change(row.change)}: in config.pbtxt of {row.change.model}", _pbtxt(row.change))


def _pbtxt(change: Change) -> str:
    """The settings as protobuf text; as JSON if they have fields unknown to Triton."""
    removed = [f"# remove {name}" for name, value in change.settings.items() if value is None]
    settings = plain({name: value for name, value in change.settings.items() if value is not None})
    try:
        return "\n".join([*removed, model_config.to_text(settings)]).rstrip()
    except UsageError:
        return json.dumps(settings, indent=2, sort_keys=True)


def _capital(text: str) -> str:
    words = text.strip().rstrip(".")
    return words[:1].upper() + words[1:]


def _gains(diagnosis: Diagnosis) -> Bars:
    unit = diagnosis.rate_unit
    bars = [_rate_bar("current", "measured", diagnosis.throughput, unit, "part-network")]
    for number, row in enumerate(diagnosis.untried, 1):
        if row.concurrency != diagnosis.concurrency:
            continue
        label, gain = f"{number}. {row.change.kind}", f" · {change_text(row.gain)}"
        detail = f"{row.change.model}: {row.change.before} → {row.change.after}"
        bars.append(
            _rate_bar(label, "predicted", row.throughput, unit, "part-infer", gain=gain, detail=detail)
        )
    title = f"Current and predicted throughput at concurrency {diagnosis.concurrency} ({unit})"
    return Bars(title, tuple(bars))


def _rate_bar(
    label: str, name: str, value: float, unit: str, colour: str, *, gain: str = "", detail: str = ""
) -> Bar:
    text = quantity(value)
    return Bar(label, (Segment(name, value, text, colour),), f"{text} {unit}{gain}", detail)


def _predictions(rows: Sequence[Suggestion], unit: str) -> Table:
    numbers = ("At concurrency", unit.capitalize(), "Gain", "Mean latency")
    columns = (*text_columns("Change"), *map(Column, numbers))
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
    """Predicted and measured results of trials; None if there were no trials."""
    if diagnosis.is_restored is None and not diagnosis.trials:
        return None
    blocks: tuple[Block, ...] = (_trial_table(diagnosis),)
    if diagnosis.trials:
        blocks = (_before_after(diagnosis), *_runs(diagnosis), *blocks)
    lessons = tuple(
        Message(f"{_change(row.suggestion.change)}: {row.lesson}.", tone=Tone.PLAIN)
        for row in diagnosis.trials
        if row.lesson
    )
    if lessons:
        blocks = (
            *blocks,
            _plain_message("Wrong predictions, and what the model learned from them:"),
            Messages(lessons),
        )
    blocks = (*blocks, *_settings([row.suggestion for row in diagnosis.trials if row.is_kept]))
    return Section("trials", "What was tried", " ".join(_story(diagnosis)), blocks)


def _story(diagnosis: Diagnosis) -> Iterator[str]:
    best = diagnosis.best
    if best is not None:
        yield (
            f"Before {quantity(diagnosis.throughput)}, after {quantity(best.throughput)} {diagnosis.rate_unit} "
            f"at concurrency {best.suggestion.concurrency}, {_gain_words(diagnosis, best)}."
        )
    if diagnosis.after is not None:
        yield f"Now: {diagnosis.after.sentence.strip()}"
    if diagnosis.is_restored:
        yield "The server is back to its original configuration."
    elif diagnosis.is_stopped:
        yield "The server was stopped."
    elif best is not None:
        yield "The server keeps the new configuration until it is restarted."


def trial_words(trial: ChangeTrial, rate_unit: str) -> str:
    """Predicted and measured results of one trial."""
    what = _capital(trial.suggestion.text)
    if trial.failure:
        return f"{what}: not possible: {trial.failure}"
    return (
        f"{what}: predicted {quantity(trial.suggestion.throughput)}, measured {quantity(trial.throughput)} {rate_unit} "
        f"({change_text(trial.gain)}), {duration(trial.latency_ns)}; {'kept' if trial.is_kept else 'not kept'}"
        f"{f'. {_capital(trial.lesson)}' if trial.lesson else ''}"
    )


def _before_after(diagnosis: Diagnosis) -> Bars:
    unit = diagnosis.rate_unit
    bars = [_rate_bar("before", "before", diagnosis.throughput, unit, "part-network")]
    for row in diagnosis.trials:
        if row.failure or row.suggestion.concurrency != diagnosis.concurrency:
            continue
        change = row.suggestion.change
        detail = f"{change.kind} {change.before} → {change.after}"
        for name, value, colour in (
            ("predicted", row.suggestion.throughput, "part-input"),
            ("measured", row.throughput, "part-infer" if row.is_kept else "part-receive"),
        ):
            bars.append(_rate_bar(f"{change.model}, {name}", name, value, unit, colour, detail=detail))
    title = f"Before, predicted and measured, at concurrency {diagnosis.concurrency} ({unit})"
    return Bars(title, tuple(bars))


def _trial_table(diagnosis: Diagnosis) -> Table:
    unit = diagnosis.rate_unit
    columns = (
        *text_columns("Change"),
        *map(Column, ("At concurrency", f"Predicted {unit}", f"Measured {unit}")),
        Column("Measured ÷ predicted", rank=1),
        *map(Column, ("Gain", "Mean latency")),
        *text_columns("Outcome"),
    )
    before = quantity(diagnosis.throughput), duration(diagnosis.latency_ns)
    first = ("before", str(diagnosis.concurrency), "", before[0], "", "", before[1], "")
    rows = tuple(_trial_row(row) for row in diagnosis.trials)
    return Table("Predicted against measured", columns, (first, *rows), Depth.DRAWN)


def _trial_row(row: ChangeTrial) -> tuple[str, ...]:
    wanted = row.suggestion
    said = (_change(wanted.change), str(wanted.concurrency), quantity(wanted.throughput))
    if row.failure:
        return (*said, NONE, NONE, NONE, NONE, f"refused: {row.failure}")
    outcome = "kept" if row.is_kept else "reverted"
    found = (quantity(row.throughput), share(row.ratio), change_text(row.gain), duration(row.latency_ns))
    return (*said, *found, outcome)


def _change(change: Change) -> str:
    """`preprocessing: instances 1 → 2`."""
    return f"{change.model}: {change.kind} {change.before} → {change.after}"


def _runs(diagnosis: Diagnosis) -> Iterator[Chart]:
    """Yield the chart of latency over throughput for the sweep and each measured trial, if there are trials."""
    unit = diagnosis.rate_unit
    kept = {row.result: row.suggestion.change for row in diagnosis.trials if row.result is not None}
    lines = []
    for number, result in enumerate(diagnosis.results):
        change = kept.get(number)
        after = "after" if change is None else f"{change.model}: {change.kind} {change.after}"
        name = "before" if number == 0 else after
        points = load_points(measured(result), None, unit, of=name)
        if points:
            lines.append(ChartLine(name, (points,), line_colour(number)))
    if len(lines) > 1:
        note = "The numbers are the concurrency."
        title = "Latency against throughput, before and after"
        yield Chart(title, rate_axis(unit), time_axis("mean latency", lines), tuple(lines), note=note)


def _curve_section(diagnosis: Diagnosis) -> Section | None:
    if not diagnosis.curve:
        return None
    bounds = [step.bound for step in diagnosis.steps if step.bound is not None]
    unit = diagnosis.rate_unit
    rules = (ChartRule(min(bounds), f"bound {quantity(min(bounds))} {unit}"),) if bounds else ()
    top = max(row.throughput for row in diagnosis.curve)
    load = ChartAxis("concurrency", is_whole=True)
    throughput = Chart(
        title="Throughput: measurement and model",
        x=load,
        y=rate_axis(unit),
        series=_curves(diagnosis, "throughput", lambda value: f"{quantity(value)} {unit}"),
        rules=tuple(rule for rule in rules if rule.value < 3 * top),
        height=290,
    )
    lines = _curves(diagnosis, "latency_ns", duration)
    times = time_axis("mean latency", lines[:1])
    latency = Chart("Mean latency: measurement and model", load, times, lines, height=290)
    lead = "How well the model fits the measurements: predictions are only as good as this fit."
    blocks = (throughput, latency, _curve_table(diagnosis))
    return Section("curve", "The model behind the predictions", lead, blocks, is_detail=True)


def _curves(diagnosis: Diagnosis, field: str, text: Callable[[float], str]) -> tuple[ChartLine, ...]:
    def points(field: str, name: str) -> tuple[ChartPoint, ...]:
        rows = ((row.concurrency, getattr(row, field)) for row in diagnosis.curve)
        return tuple(
            ChartPoint(load, value, f"concurrency {load}: {name} {text(value)}")
            for load, value in rows
            if value is not None
        )

    predicted, found = points(field, "model"), points(f"measured_{field}", "measured")
    lines = (ChartLine("model", (predicted,), "blue", is_dashed=True),)
    # Each measured point is a separate run, so that no line joins them.
    return (*lines, ChartLine("measured", tuple((point,) for point in found), "orange")) if found else lines


def _curve_table(diagnosis: Diagnosis) -> Table:
    unit = diagnosis.rate_unit
    names = ("Concurrency", f"Model {unit}", f"Measured {unit}", "Model latency", "Measured latency")
    rows = tuple(
        (
            str(row.concurrency),
            quantity(row.throughput),
            NONE if row.measured_throughput is None else quantity(row.measured_throughput),
            duration(row.latency_ns),
            NONE if row.measured_latency_ns is None else duration(row.measured_latency_ns),
        )
        for row in diagnosis.curve
    )
    return Table("Model and measurement", tuple(map(Column, names)), rows, Depth.DETAIL)
