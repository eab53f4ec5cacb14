"""False alarms and detections of the trend and the gate: `python -m benchmarks.trend [HISTORIES] [SEED]`.

For histories without a change, of 5 to 200 runs with different kinds of noise: how many show one. For histories with
one planted change: how many show it between the right two runs, and how many show more. For new runs like the old
ones: how many the gate suspects and fails. For new runs that are 8 % worse: how many it fails alone, and with a second
run.
"""

import sys
from collections.abc import Callable, Mapping
from multiprocessing import Pool

import numpy as np
from numpy.typing import NDArray

from inferometer.compare.comparison import FAILED, INCONCLUSIVE
from inferometer.compare.regression import RunsToJudge, judged
from inferometer.stats.history import FigureHistory
from inferometer.stats.trend import FALSE_ALARMS, TrendPoint, changes

Logs = NDArray[np.float64]
Chance = np.random.Generator

SEED = 18
LENGTHS = (5, 6, 8, 12, 20, 21, 40, 80, 200)
PLANTED = 0.08
FIGURES = 3  # number of figures that a gate judges


def _drifting(chance: Chance, count: int) -> Logs:
    """The noise of a run doubles over the history, as if runs became shorter."""
    return chance.normal(size=count) * np.linspace(1, 2, count)


def _spikes(chance: Chance, count: int) -> Logs:
    """One run in ten is disturbed by something else."""
    return chance.normal(size=count) + (chance.random(count) < 0.1) * chance.exponential(8, size=count)


def _related(chance: Chance, count: int) -> Logs:
    """Neighbouring runs are correlated (0.3), which the stated error rate does not cover."""
    found = chance.normal(size=count)
    for place in range(1, count):
        found[place] = 0.3 * found[place - 1] + np.sqrt(1 - 0.09) * found[place]
    return found


NOISES: Mapping[str, Callable[[Chance, int], Logs]] = {
    "normal": lambda chance, count: chance.normal(size=count),
    "skewed": lambda chance, count: chance.lognormal(sigma=0.5, size=count),
    "t3": lambda chance, count: chance.standard_t(3, size=count),
    "spikes": _spikes,
    "drifting": _drifting,
    "related": _related,
}


def history(logs: Logs, chance: Chance | None = None) -> tuple[TrendPoint, ...]:
    """History of runs with these logarithms; their own intervals are far too narrow, as usual."""
    values = 1000 * np.exp(logs)
    narrow = 0.002 if chance is None else 0.002 * np.exp(chance.normal())
    return tuple(
        TrendPoint(
            f"{number:08x}", "", float(value), float(value * (1 - narrow)), float(value * (1 + narrow))
        )
        for number, value in enumerate(values)
    )


def false_alarms(noise: str, length: int, histories: int, seed: int) -> float:
    chance = np.random.default_rng((seed, length))
    shown = (
        bool(changes(history(0.015 * NOISES[noise](chance, length), chance), least=0))
        for _ in range(histories)
    )
    return sum(shown) / histories


def planted(noise: str, sd: float, length: int, place: int, histories: int, seed: int) -> tuple[float, ...]:
    """Shares of histories that show a change, show it at the right place, and show more than one."""
    chance = np.random.default_rng((seed, length, place))
    found = at = more = 0
    for _ in range(histories):
        logs = sd * NOISES[noise](chance, length)
        logs[place:] += np.log1p(-PLANTED)
        shown = changes(history(logs))
        found += bool(shown)
        at += any(change.index == place for change in shown)
        more += len(shown) > 1
    return found / histories, at / histories, more / histories


def gated(noise: str, sd: float, length: int, histories: int, seed: int, worse: float) -> tuple[float, ...]:
    """Shares of single new runs that are suspected and that fail, and of pairs of new runs that fail."""
    chance = np.random.default_rng((seed, length))
    suspected = alone = together = 0
    for _ in range(histories):
        rows = [
            -sd * NOISES[noise](chance, length + 2) for _ in range(FIGURES)
        ]  # long tails are on the bad side
        for row in rows:
            row[length:] += np.log1p(-worse)
        outcomes = [_outcome(rows, length, new) for new in (1, 2)]
        suspected += outcomes[0] == INCONCLUSIVE
        alone += outcomes[0] == FAILED
        together += outcomes[1] == FAILED
    return suspected / histories, alone / histories, together / histories


def _outcome(rows: list[Logs], length: int, new: int) -> str:
    series = [
        FigureHistory("throughput", "concurrency", float(load), history(row)) for load, row in enumerate(rows)
    ]
    runs = RunsToJudge(
        *("measure", "model", "host"),
        new=tuple(FigureHistory(s.figure, s.mode, s.value, s.points[length : length + new]) for s in series),
        past=tuple(FigureHistory(s.figure, s.mode, s.value, s.points[:length]) for s in series),
    )
    outcomes = {row.outcome for row in judged(runs).judgements}
    return FAILED if FAILED in outcomes else INCONCLUSIVE if INCONCLUSIVE in outcomes else ""


def main(histories: int, seed: int) -> None:
    with Pool() as pool:
        print(f"Histories without a change that show one; target: {FALSE_ALARMS:.1%}")
        print(f"{'runs':>6}" + "".join(f"{name:>11}" for name in NOISES))
        for length in LENGTHS:
            tasks = [(name, length, histories, seed) for name in NOISES]
            print(
                f"{length:6}" + "".join(f"{row:11.2%}" for row in pool.starmap(false_alarms, tasks)),
                flush=True,
            )
        few = max(1, histories // 10)
        print(f"\nOne change of {PLANTED:.0%}: shown, between the right runs, more than one shown")
        for noise in ("normal", "t3"):
            for sd in (0.01, 0.015, 0.02):
                places = ((20, 10), (20, 5), (20, 17), (12, 6), (60, 30), (60, 57))
                found = pool.starmap(planted, [(noise, sd, *place, few, seed) for place in places])
                for place, row in zip(places, found, strict=True):
                    shares = "".join(f"{part:8.1%}" for part in row)
                    print(f"{noise:10}sd {sd:.1%}  {place[1]:3} of {place[0]:3}{shares}", flush=True)
        for worse in (0.0, PLANTED):
            print(
                f"\nThe gate, {FIGURES} figures, new runs {worse:.0%} worse: suspected, failed, two of them failed"
            )
            for noise in ("normal", "t3") if worse else NOISES:
                lengths = (8, 12, 20)
                sds = (0.01, 0.015, 0.02) if worse else (0.015,)
                for sd in sds:
                    count = few if worse else histories // 2
                    gates = [(noise, sd, length, count, seed, worse) for length in lengths]
                    found = pool.starmap(gated, gates)
                    for length, row in zip(lengths, found, strict=True):
                        shares = "".join(f"{part:9.2%}" for part in row)
                        print(f"{noise:10}sd {sd:.1%}  {length:3} runs{shares}", flush=True)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*(given + [10_000, SEED][len(given) :]))
