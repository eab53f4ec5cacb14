"""Documents about runs: a list, or a single run."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from inferometer.base.units import NS_PER_MS
from inferometer.report.document import Column, Document, Facts, Section, Table, Tone, text_columns
from inferometer.report.format import NONE, duration, level_label, plural, quantity, time_span
from inferometer.stats.estimate import Estimate
from inferometer.store.run import FAILED, KILLED, Run

_TONES = {FAILED: Tone.BAD, KILLED: Tone.WARNING}


def list_document(runs: Sequence[Run], count: int, short: Callable[[Run], str]) -> Document:
    """A list of runs; `count` is the total, of which these are shown."""
    columns = (
        *text_columns("run", "started"),
        Column("command", is_number=False, rank=1),
        Column("model", is_number=False, is_name=True),
        Column("infer/s"),
        Column("p99"),
        Column("tags", is_number=False, rank=2),
        Column("state", is_number=False),
    )
    rows = tuple(
        (
            short(run),
            _moment(run.started_at),
            run.command,
            run.model,
            _rate(run.figures.get("throughput")),
            _time(run.figures.get("p99")),
            " ".join(run.tags),
            _state(run),
        )
        for run in runs
    )
    tones = tuple(_TONES.get(run.state, Tone.PLAIN) for run in runs)
    verdict = (
        f"{plural(count, 'run')}." if len(runs) == count else f"{len(runs):,} of {plural(count, 'run')}."
    )
    table = Table("Runs", columns, rows, tones=tones)
    return Document("runs", "runs", (), verdict, (Section("runs", "Runs", blocks=(table,)),) if runs else ())


def run_document(run: Run) -> Document:
    """Everything known about a run, except its report."""
    levels = Table(
        "Levels",
        (*text_columns("load"), Column("infer/s"), *(Column(name) for name in ("p50", "p90", "p95", "p99"))),
        tuple(
            (
                f"{point.variant} {level_label(point.mode, point.value)}".strip(),
                _rate(point.figures.get("throughput")),
                *(_time(point.figures.get(name)) for name in ("p50", "p90", "p95", "p99")),
            )
            for point in run.points
        ),
    )
    blocks = (Facts("About", tuple(_facts(run))), *((levels,) if run.points else ()))
    verdict = run.verdict or f"The run {_state(run)}."
    tone = _TONES.get(run.state, Tone.PLAIN)
    facts, section = (run.command, run.model), Section("run", "Run", blocks=blocks)
    return Document("run", f"run {run.id}", facts, verdict, (section,), tone)


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    seconds = run.duration_s
    rows = (
        ("command line", shlex.join(["inferometer", *run.words])),
        ("state", _state(run)),
        ("started", run.started_at),
        ("took", "" if seconds is None else time_span(seconds)),
        ("server", run.server),
        ("address", run.url),
        ("model", run.model),
        ("tags", " ".join(run.tags)),
        ("host", f"{run.host}: {run.host_class}"),
        ("git commit", run.commit),
    )
    return ((name, text) for name, text in rows if text)


def _state(run: Run) -> str:
    return f"{run.state}, exit code {run.code}" if run.code else run.state


def _moment(text: str) -> str:
    """A timestamp to the minute, in this machine's time zone."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return NONE


def _rate(found: Estimate | None) -> str:
    return NONE if found is None else quantity(found.value)


def _time(found: Estimate | None) -> str:
    return NONE if found is None else duration(found.value * NS_PER_MS)
