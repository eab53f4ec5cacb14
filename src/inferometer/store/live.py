"""Events of a run for its live page: a line for each event, and a few samples per second while requests run."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from inferometer.base.frozen import frozen
from inferometer.base.slo import Slo
from inferometer.base.units import NS_PER_MS, NS_PER_S, Clock, monotonic_ns
from inferometer.records.records import Column
from inferometer.report.format import level_label
from inferometer.report.sentences import level_sentence
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT, named
from inferometer.stats.level_progress import LevelProgress
from inferometer.stats.measurement import Level
from inferometer.stats.watcher import Watcher

PERIOD_NS = 190 * NS_PER_MS  # shortest time between samples: progress arrives at least every 200 ms
RECENT_NS = NS_PER_S  # figures cover the requests that ended in the last second
MANY = 4096  # most requests used for percentiles
PERCENTILES = (50, 90, 95, 99)

Tell = Callable[[Mapping[str, Any]], None]


@frozen
class _Part:
    """Successful requests between two moments, and their cost."""

    start_ns: int
    end_ns: int
    count: int
    latency_ns: Column  # of the last requests
    tokens: int | None
    cpu_ns: int | None


class LiveFeed(Watcher):
    """Turns events into lines that are ready to be written."""

    def __init__(self, tell: Tell, clock: Clock = monotonic_ns) -> None:
        self._tell = tell
        self._clock = clock
        self._number = 0  # of the level, or of the trial
        self._level: tuple[str, float] | None = None
        self._variant = ""  # of the current turn
        self._told_ns = 0
        self._trial: dict[str, Any] = {}  # the current trial
        self._best = ""
        self._pending: LevelProgress | None = None  # the last progress that is not yet in a sample
        self._begin()

    def _begin(self) -> None:
        self._recent = deque[_Part]()
        self._ended = self._failed = 0
        self._is_warm_up = False

    def planned(self, levels: int | None, longest_s: float | None) -> None:
        self._tell({"kind": "planned", "levels": levels, "longest_s": longest_s})

    def level_started(self, mode: str, value: float) -> None:
        self._tell_pending()
        self._number += (mode, value) != self._level
        self._level = mode, value
        self._begin()
        self._tell(
            {
                "kind": "level",
                "number": self._number,
                "mode": mode,
                "value": value,
                "title": level_label(mode, value),
            }
        )

    def progressed(self, progress: LevelProgress) -> None:
        if progress.is_warm_up != self._is_warm_up:
            self._tell_pending()
            self._begin()
            self._is_warm_up = progress.is_warm_up
        self._add(progress)
        self._pending = progress
        now_ns = self._clock()
        if now_ns - self._told_ns >= PERIOD_NS:
            self._told_ns = now_ns
            self._tell_pending()

    def _tell_pending(self) -> None:
        """Write a pending sample, so that counts are complete when a level or its warm-up ends."""
        if self._pending is not None:
            progress, self._pending = self._pending, None
            self._tell(self._sample(progress))

    def turn_progressed(self, variant: str, progress: LevelProgress) -> None:
        if variant != self._variant:
            self._begin()
            self._variant = variant
        self.progressed(progress)

    def _add(self, progress: LevelProgress) -> None:
        count = len(progress.latency_ns)
        self._failed += progress.failed
        self._ended += progress.failed + count
        begun_ns = progress.seen_ns - round(progress.elapsed_s * NS_PER_S)
        start_ns = self._recent[-1].end_ns if self._recent else begun_ns
        if progress.seen_ns <= start_ns:
            return
        last = progress.latency_ns[-MANY:]
        self._recent.append(_Part(start_ns, progress.seen_ns, count, last, progress.tokens, progress.cpu_ns))
        while len(self._recent) > 1 and progress.seen_ns - self._recent[1].start_ns >= RECENT_NS:
            self._recent.popleft()

    def _sample(self, progress: LevelProgress) -> dict[str, Any]:
        parts = self._recent
        span_ns = max(1, parts[-1].end_ns - parts[0].start_ns) if parts else 1
        return {
            "kind": "sample",
            "number": self._number,
            "variant": self._variant,
            "phase": "warm-up" if progress.is_warm_up else "measuring",
            "elapsed_s": round(progress.elapsed_s, 3),
            "left_s": None if progress.left_s is None else round(progress.left_s, 3),
            "per_s": round(sum(part.count for part in parts) * NS_PER_S / span_ns, 3),
            **_percentiles([part.latency_ns for part in parts]),
            "ended": self._ended,
            "failed": self._failed,
            "outstanding": progress.outstanding,
            "client_cores": _ratio([part.cpu_ns for part in parts], span_ns),
            "server_waiting": progress.server_waiting,
            "gpu": progress.gpu,
            "tokens_per_s": _ratio([part.tokens for part in parts], span_ns / NS_PER_S),
        }

    def level_finished(self, level: Level) -> None:
        self._tell_pending()
        found = level.measurement
        figures = {
            line: _triple(None if found is None or not found.request_count else metric.estimate(found))
            for line, metric in _FIGURES.items()
        }
        self._tell(
            {
                "kind": "level_end",
                "number": self._number,
                "mode": level.mode,
                "value": level.value,
                "sentence": level_sentence(level),
                **figures,
                "failed": 0 if found is None else found.failed_count,
            }
        )

    def bracketed(self, low: float, high: float) -> None:
        self._tell({"kind": "bracket", "low": low, "high": None if math.isinf(high) else high})

    def round_finished(self, number: int, rounds: int, rates: tuple[tuple[str, float], ...]) -> None:
        self._tell({"kind": "round", "number": number, "rounds": rounds, "rates": dict(rates)})

    def proposed(self, proposal: Any, *, is_known: bool) -> None:
        from inferometer.report.documents.tuning import shape_words

        self._tell_pending()
        self._number += 1
        self._begin()
        self._trial = {"title": shape_words(proposal.variants), "is_known": is_known}

    def led(self, trial: Any, *, does_pass: bool) -> None:
        self._best = trial.key

    def tried(self, trial: Any) -> None:
        from inferometer.diagnose.diagnosis import ChangeTrial

        self._tell(self._change(trial) if isinstance(trial, ChangeTrial) else self._trial_line(trial))

    def _trial_line(self, trial: Any) -> dict[str, Any]:
        from inferometer.report.documents.study_facts import load_text

        return {
            "kind": "trial",
            "number": self._number,
            "name": trial.name,
            "title": f"{self._trial.get('title', '')}, {load_text(trial)}",
            "per_s": trial.combined(THROUGHPUT),
            "p99_ms": trial.combined(LATENCY_P99),
            "predicted_per_s": dict(trial.predicted).get(THROUGHPUT),
            "is_known": self._trial.get("is_known", False),
            "is_best": trial.key == self._best,
            "failed_because": trial.reason,
        }

    def _change(self, trial: Any) -> dict[str, Any]:
        """The line for a trial of a diagnosis."""
        self._number += 1
        return {
            "kind": "trial",
            "number": self._number,
            "name": trial.suggestion.change.model,
            "title": trial.suggestion.text,
            "per_s": trial.throughput or None,
            "p99_ms": None,
            "predicted_per_s": trial.suggestion.throughput,
            "is_known": False,
            "is_best": trial.is_kept,
            "failed_because": trial.failure,
        }

    def said(self, text: str, *, is_detail: bool = False, is_warning: bool = False) -> None:
        if not is_detail:
            self._tell({"kind": "said", "text": text, "is_warning": is_warning})


_FIGURES = {
    line: metric
    for line, name in (
        ("per_s", "throughput"),
        *((f"p{p}_ms", f"p{p}") for p in PERCENTILES),
    )
    if (metric := named(name)) is not None
}


def _percentiles(columns: Sequence[Column]) -> dict[str, float | None]:
    """Percentiles of the most recent requests, in one pass."""
    column = np.concatenate(columns)[-MANY:] if columns else np.empty(0, dtype=np.int64)
    count = len(column)
    if not count:
        return {f"p{p}_ms": None for p in PERCENTILES}
    places = [min(count - 1, p * count // 100) for p in PERCENTILES]
    ordered = np.partition(column, places)
    return {
        f"p{p}_ms": round(int(ordered[place]) / NS_PER_MS, 4)
        for p, place in zip(PERCENTILES, places, strict=True)
    }


def _ratio(parts: Sequence[int | None], whole: float) -> float | None:
    known = [part for part in parts if part is not None]
    return round(sum(known) / whole, 4) if known else None


def limit_lines(slo: Slo) -> tuple[dict[str, Any], ...]:
    """The limits of an SLO on throughput (per second) and latency (ms), which the live page draws."""
    units = {"throughput": 1, "latency": NS_PER_MS}
    return tuple(
        {"figure": term.name, "value": term.limit / units[term.figure], "text": term.text}
        for term in slo.terms
        if term.figure in units
    )


def _triple(found: Estimate | None) -> tuple[float, float | None, float | None] | None:
    return None if found is None else (found.value, found.low, found.high)
