"""A stored run, with the data that lists, trends and reruns need."""

import dataclasses
import signal
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any

from inferometer.base.frozen import frozen
from inferometer.stats.estimate import Estimate

SCHEMA = 1
QUEUED, RUNNING, FINISHED, FAILED, KILLED = "queued", "running", "finished", "failed", "killed"
STATES = (QUEUED, RUNNING, FINISHED, FAILED, KILLED)
SLO_VIOLATED, ALL_FAILED = "SLO violated", "all requests failed"  # outcomes; the third is INCONCLUSIVE
_STOPPED = frozenset(128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))

NamedFigures = Mapping[str, Estimate]
"""By the short names of the catalogue in stats/figures.py, in its units: throughput, p99 (ms), ttft (ms), tokens."""


@frozen
class Point:
    """One level of a run: its load and its figures."""

    mode: str  # concurrency, request_rate ...
    value: float
    figures: NamedFigures = field(default_factory=dict)
    variant: str = ""  # in a comparison or the tuner: the variant of these figures


@frozen
class Run:
    """`figures` are those of the point that represents the whole run; `points` are all points."""

    id: str
    command: str  # measure, find ...
    words: tuple[str, ...] = ()  # the command line after `inferometer`, without secrets
    state: str = RUNNING  # one of STATES
    code: int | None = None  # the exit code
    started_at: str = ""  # ISO wall time with time zone
    ended_at: str | None = None
    host: str = ""
    host_class: str = ""  # equal for machines whose figures can be compared
    server: str = ""  # kind and version
    url: str = ""
    model: str = ""  # several are separated by commas
    tags: tuple[str, ...] = ()
    commit: str = ""  # of the working directory; ends with "+" if files were changed
    pid: int = 0
    process_started: float = 0.0  # unix seconds
    verdict: str = ""  # the first sentence of the report, or why it failed
    tone: str = ""  # of the verdict: good, warning, bad or plain; empty if unknown
    outcome: str = ""  # SLO_VIOLATED, ALL_FAILED, INCONCLUSIVE (also if that is allowed), or empty
    figures: NamedFigures = field(default_factory=dict)
    points: tuple[Point, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(filter(None, self.model.split(",")))

    @property
    def is_over(self) -> bool:
        return self.state not in (QUEUED, RUNNING)

    @property
    def is_stopped(self) -> bool:
        """Whether a signal stopped the run early; it may still have a result."""
        return self.code in _STOPPED

    @property
    def started_s(self) -> float:
        """Start of the run in Unix seconds; 0 if unknown."""
        return _seconds(self.started_at)

    @property
    def duration_s(self) -> float | None:
        """Seconds from start to end; None while the run is in progress."""
        return None if self.ended_at is None else max(0.0, _seconds(self.ended_at) - self.started_s)

    def tagged(self, added: Sequence[str] = (), removed: Sequence[str] = ()) -> "Run":
        kept = dict.fromkeys((*self.tags, *added))
        return replace(self, tags=tuple(tag for tag in kept if tag not in removed))


def _seconds(moment: str) -> float:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0


# --- the content of run.json


def to_plain(run: Run) -> dict[str, Any]:
    own = {row.name: getattr(run, row.name) for row in dataclasses.fields(run)}
    points = [
        {
            "mode": point.mode,
            "value": point.value,
            "variant": point.variant,
            "figures": _triples(point.figures),
        }
        for point in run.points
    ]
    return {"kind": "run", "schema": SCHEMA, **own, "figures": _triples(run.figures), "points": points}


def from_plain(document: Any) -> Run:
    """Parse a run; raise ValueError if it is not one. Missing fields get the values of a new run."""
    if not isinstance(document, dict) or document.get("kind") != "run":
        raise ValueError("it is not a run")
    if document.get("schema") != SCHEMA:
        raise ValueError(f"it has schema {document.get('schema')}, but this version reads {SCHEMA}")
    try:
        found = {name: read(document[name]) for name, read in _READERS.items() if name in document}
        return Run(**found)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"a field is missing or has the wrong type: {error}") from error


def _triples(figures: NamedFigures) -> dict[str, tuple[float, float | None, float | None]]:
    return {name: (found.value, found.low, found.high) for name, found in figures.items()}


def _figures(document: Any) -> NamedFigures:
    return {str(name): Estimate(*map(_maybe_number, triple)) for name, triple in document.items()}  # type: ignore[arg-type]


def _point(document: Any) -> Point:
    return Point(
        _text(document["mode"]),
        float(document["value"]),
        _figures(document.get("figures", {})),
        _text(document.get("variant", "")),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, value))


def _maybe_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _maybe_number(value: Any) -> float | None:
    return None if value is None else float(value)


def _maybe_whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _points(value: Any) -> tuple[Point, ...]:
    return tuple(map(_point, value))


_OTHERS = {
    "words": _texts,
    "tags": _texts,
    "code": _maybe_whole,
    "ended_at": _maybe_text,
    "pid": int,
    "process_started": float,
    "figures": _figures,
    "points": _points,
}
_READERS: Mapping[str, Any] = {row.name: _OTHERS.get(row.name, _text) for row in dataclasses.fields(Run)}
