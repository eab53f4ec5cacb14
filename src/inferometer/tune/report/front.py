"""The Pareto front: what cannot be beaten in throughput without giving up latency. Pure."""

from collections.abc import Sequence

from inferometer.stats.figures import LATENCY_P99, THROUGHPUT
from inferometer.tune.scoring import pool
from inferometer.tune.study import Study
from inferometer.tune.trial import Trial


def pareto(study: Study, tag: str = LATENCY_P99) -> tuple[Trial, ...]:
    """From the lowest latency up; each gives more throughput than all before it."""
    rows = [
        (latency, -rate, trial)
        for trial in pool(study.trials)
        if (latency := trial.combined(tag)) is not None and (rate := trial.combined(THROUGHPUT)) is not None
    ]
    return tuple(_unbeaten(sorted(rows, key=lambda row: (row[0], row[1]))))


def _unbeaten(rows: Sequence[tuple[float, float, Trial]]) -> list[Trial]:
    found: list[Trial] = []
    best = float("-inf")
    for _, negative, trial in rows:
        if -negative > best:
            best = -negative
            found.append(trial)
    return found
