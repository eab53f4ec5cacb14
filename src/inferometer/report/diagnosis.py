"""A diagnosis for people: the verdict, the steps, what would help, and what came of trying."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inferometer.diagnose.diagnosis import Diagnosis, StepFigures, Suggestion, Trial
from inferometer.report.console import WIDTH
from inferometer.report.escape import terminal
from inferometer.report.format import duration, quantity, share

SHOWN = 5  # suggestions


def render(diagnosis: Diagnosis, console: Console) -> None:
    """The whole report."""
    width = min(WIDTH, console.width)
    console.print(terminal(diagnosis.verdict.sentence, style="bold"), width=width)
    console.print(terminal(_where(diagnosis)), width=width)
    if diagnosis.steps:
        console.print(step_table(diagnosis.steps), width=width)
        console.print(terminal(_machine(diagnosis)), width=width)
    for line in _advice(diagnosis):
        console.print(line, width=width)
    for block in _story(diagnosis):
        console.print(block, width=width)
    for note in diagnosis.notes:
        console.print(terminal(f"! {note}", style="yellow"), width=width)


def _where(diagnosis: Diagnosis) -> str:
    return (
        f"{diagnosis.model} at concurrency {diagnosis.concurrency}: {quantity(diagnosis.throughput)} infer/s, "
        f"latency {duration(diagnosis.latency_ns)}"
    )


def step_table(steps: Sequence[StepFigures]) -> Table:
    """One row per step."""
    table = _table()
    table.add_column("Step", no_wrap=True, overflow="ellipsis", max_width=28)
    for name in ("Calls", "Service", "Queue", "Share", "Inst.", "Batch", "Busy", "Bound"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in steps:
        table.add_row(
            terminal("  " * row.depth + row.name),
            f"{row.calls:.3g}",
            duration(row.service_ns),
            duration(row.queue_ns),
            share(row.light_share),
            f"{row.instances} {row.device}",
            _batch(row),
            share(min(row.utilisation, 1.0)),
            "-" if row.bound is None else f"{quantity(row.bound)}/s",
        )
    return table


def _batch(row: StepFigures) -> str:
    if row.max_batch < 2:
        return "-"
    return f"{row.batch:.2g} of {row.max_batch}" + ("" if row.is_batching else ", off")


def _machine(diagnosis: Diagnosis) -> str:
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
    return " ".join(words)


def _advice(diagnosis: Diagnosis) -> Iterator[Text]:
    if not diagnosis.steps:
        return
    if not diagnosis.suggestions:
        yield terminal("No change of the settings is predicted to bring more.", style="bold")
        return
    yield terminal("What would help, by prediction", style="bold")
    for number, row in enumerate(diagnosis.suggestions[:SHOWN], start=1):
        yield terminal(f"{number}. {suggestion_words(row)}")
        yield terminal(f"   {row.why}", style="dim")


def suggestion_words(row: Suggestion) -> str:
    """What to do and what it is expected to bring."""
    expected = f"{quantity(row.throughput)} infer/s ({_signed(row.gain)}), {duration(row.latency_ns)}"
    return f"{_sentence(row.text)}: {expected}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _signed(gain: float) -> str:
    return f"{gain:+.0%}".replace("%", " %")


def trial_words(trial: Trial) -> str:
    """Predicted against measured."""
    if trial.failure:
        return f"{_sentence(trial.suggestion.text)}: not possible: {trial.failure}"
    kept = "kept" if trial.is_kept else "not kept"
    return (
        f"{_sentence(trial.suggestion.text)}: predicted {quantity(trial.suggestion.throughput)}, "
        f"measured {quantity(trial.throughput)} infer/s ({_signed(trial.gain)}), {duration(trial.latency_ns)}; {kept}"
    )


def _story(diagnosis: Diagnosis) -> Iterator[Text | Table]:
    if diagnosis.is_restored is None and not diagnosis.trials:
        return
    yield terminal("What came of trying", style="bold")
    yield _trial_table(diagnosis)
    if diagnosis.best is not None:
        gain = diagnosis.best.throughput / diagnosis.throughput - 1
        yield terminal(
            f"Before {quantity(diagnosis.throughput)}, after {quantity(diagnosis.best.throughput)} infer/s "
            f"({_signed(gain)}) at concurrency {diagnosis.concurrency}."
        )
    if diagnosis.after is not None:
        yield terminal(f"Now: {diagnosis.after.sentence}")
    if diagnosis.is_restored:
        yield terminal("The server has its original configuration again.")
    elif diagnosis.best is not None:
        yield terminal("The server keeps the new configuration until it is restarted.")


def _trial_table(diagnosis: Diagnosis) -> Table:
    table = _table()
    table.add_column("Change", ratio=1)
    for name in ("Predicted", "Measured", "Latency", "Gain", ""):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("as it was", "", _rate(diagnosis.throughput), duration(diagnosis.latency_ns), "", "")
    for trial in diagnosis.trials:
        table.add_row(
            terminal(trial.suggestion.text + (f" ({trial.failure})" if trial.failure else "")),
            _rate(trial.suggestion.throughput),
            "-" if trial.failure else _rate(trial.throughput),
            "-" if trial.failure else duration(trial.latency_ns),
            "-" if trial.failure else _signed(trial.gain),
            "kept" if trial.is_kept else "refused" if trial.failure else "put back",
        )
    return table


def _rate(value: float) -> str:
    return f"{quantity(value)}/s"


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
