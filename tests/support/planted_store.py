"""Stores of made-up runs: histories with a known change, or without one."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from inferometer.stats.estimate import Estimate
from inferometer.store.run import FINISHED, Point, Run
from inferometer.store.run_folder import RunFolder
from inferometer.store.store import Store

BEGIN = datetime(2026, 10, 1, 3, tzinfo=UTC)


def noisy(
    count: int, *, seed: int, base: float = 1000.0, sd: float = 0.015, step: float = 0.0, at: int = 0
) -> list[float]:
    """A figure of `count` runs with the spread `sd` between runs; from run `at` on it is higher by `step`."""
    logs = np.log(base) + sd * np.random.default_rng(seed).normal(size=count)
    if step:
        logs[at:] += np.log1p(step)
    return [float(value) for value in np.exp(logs)]


def planted_history(
    folder: Path, figures: Mapping[str, Sequence[float]], *, first: int = 0, **known: Any
) -> list[Run]:
    """Write one finished run per day; their own intervals are narrower than the spread between them, as usual."""
    store = Store(folder)
    runs = []
    for number in range(len(next(iter(figures.values())))):
        day = first + number
        name = f"{(day + 1) * 2654435761 % 2**32:08x}"
        values = {figure: row[number] for figure, row in figures.items()}
        own = {figure: Estimate(value, 0.997 * value, 1.003 * value) for figure, value in values.items()}
        usual: dict[str, Any] = {
            "command": "measure",
            "words": ("measure", "localhost:8000", "simple", "--concurrency", "4"),
            "state": FINISHED,
            "code": 0,
            "started_at": (BEGIN + timedelta(days=day)).isoformat(),
            "ended_at": (BEGIN + timedelta(days=day, seconds=30)).isoformat(),
            "host": "host",
            "host_class": "x86_64, 4 x a processor",
            "server": "triton 2.51.0",
            "model": "simple",
            "figures": own,
            "points": (Point("concurrency", 4.0, own),),
        }
        run = Run(name, **(usual | known))
        place = RunFolder(store.folder / "runs" / name)
        place.path.mkdir(parents=True)
        place.write(run)
        runs.append(run)
    return runs


def planted_figures(count: int, *, seed: int, step: float = 0.0, at: int = 0) -> dict[str, list[float]]:
    """Throughput and matching latencies, each with independent noise."""
    slower = 1 / (1 + step) - 1
    return {
        "throughput": noisy(count, seed=seed, step=step, at=at),
        "p50": noisy(count, seed=seed + 10_000, base=4.0, sd=0.01, step=slower, at=at),
        "p90": noisy(count, seed=seed + 20_000, base=5.0, sd=0.02, step=slower, at=at),
        "p99": noisy(count, seed=seed + 30_000, base=9.0, sd=0.05, step=slower, at=at),
    }
