"""What a smart search has seen: trials by candidate, their cost, and what is believed of all others."""

from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np

from inferometer.tune.client_load import ClientLoad
from inferometer.tune.metrics import BY_TAG, THROUGHPUT
from inferometer.tune.scoring import best_first, pool
from inferometer.tune.search.candidates import Candidates
from inferometer.tune.search.forecast import Beliefs, Forecaster
from inferometer.tune.search.scope import Scope
from inferometer.tune.search.search import Effort, Proposal, Say, Step
from inferometer.tune.trial import Trial

HOLD = Effort(3.0, 0.02)


@dataclass(slots=True)
class Seen:
    """What was seen so far."""

    scope: Scope
    candidates: Candidates
    forecaster: Forecaster
    rows: list[int] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)  # configurations that gave no figures
    loaded: int = -1
    spent_s: float = 0.0
    has_raced: bool = False
    repeats: dict[int, int] = field(default_factory=dict)
    row_by_name: dict[tuple[str, tuple[ClientLoad, ...]], int] = field(default_factory=dict)
    costs: list[tuple[bool, float]] = field(default_factory=list)  # (was loaded anew, seconds)
    beliefs: Beliefs = ()


def measure(seen: Seen, row: int, effort: Effort) -> Generator[Step, Trial | None, None]:
    number, load = seen.candidates.rows[row]
    if number in seen.broken:
        return
    configuration = seen.candidates.configurations[number]
    is_again = row in seen.repeats
    proposal = Proposal(
        parts=tuple((variant, load) for variant in configuration.variants),
        repeat=seen.repeats[row] if is_again else 0,
        effort=effort,
        predicted=predicted(seen, row),
    )
    trial = yield proposal
    assert trial is not None
    seen.spent_s += trial.cost_s
    seen.costs.append((seen.loaded != number, trial.cost_s))
    seen.loaded = number
    seen.repeats[row] = seen.repeats.get(row, 0) + 1
    if not trial.is_measured:
        seen.broken.add(number)
        yield Say(f"{configuration.name} is left out: {trial.reason}", is_warning=True)
        return
    seen.rows.append(row)
    seen.trials.append(trial)
    seen.row_by_name.setdefault((trial.name, trial.loads), row)


def predicted(seen: Seen, row: int) -> tuple[tuple[str, float], ...]:
    load = seen.candidates.rows[row][1]
    found: dict[str, list[float]] = {}
    for own in seen.beliefs:
        for tag, belief in own.items():
            value = float(np.exp(belief.mean[row])) * (load.batch if tag == THROUGHPUT else 1)
            found.setdefault(tag, []).append(value)
    return tuple((tag, BY_TAG[tag].combine(values)) for tag, values in found.items())


def is_over(seen: Seen, *, left_for: float) -> bool:
    if seen.scope.budget_s is None:
        return False
    next_s = max((cost for _, cost in seen.costs[-5:]), default=3.0)
    return seen.spent_s + next_s + left_for > seen.scope.budget_s


def race_cost(seen: Seen) -> float:
    """What the race will take: the leader held twice, a rival or two."""
    if seen.scope.budget_s is None:
        return 0.0
    fresh = [cost for is_fresh, cost in seen.costs if is_fresh]
    return min(2 * HOLD.duration_s + 2 * max(fresh, default=3.0), seen.scope.budget_s / 3)


def standing_of(seen: Seen) -> list[Trial]:
    """Candidates from best to worst, repeats pooled."""
    return best_first(seen.scope.goals, pool(seen.trials))


def row_of(seen: Seen, trial: Trial) -> int | None:
    return seen.row_by_name.get((trial.name, trial.loads))


def kind_of(seen: Seen, trial: Trial) -> int:
    row = row_of(seen, trial)
    return -1 if row is None else int(seen.candidates.kinds[row])
