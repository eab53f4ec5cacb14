"""The race of a smart search: who is measured again, until it is clear who is ahead."""

from inferometer.tune.metrics import THROUGHPUT
from inferometer.tune.scoring import passes, score
from inferometer.tune.search.forecast import chance
from inferometer.tune.search.seen import Seen, kind_of, row_of
from inferometer.tune.trial import Trial

ENOUGH = 0.02  # leaders closer than this need not be told apart
REPEATS = 3
CLOSE = 0.08  # to a limit, as a share of it
WORTH = 0.004  # relative gain below which another run is not worth it


def who_runs(seen: Seen, standing: list[Trial]) -> int | None:
    """The leader until it was held, then whoever could still be ahead of it."""
    leader = standing[0]
    if _held(seen, leader) < _needed(seen, leader):
        return row_of(seen, leader)
    return max(_rivals(seen, standing), default=(0.0, None), key=lambda pair: pair[0])[1]


def _needed(seen: Seen, trial: Trial) -> int:
    """Runs until a candidate is believed: more for one that lies close to a limit, where luck decides."""
    for number, goal in enumerate(seen.scope.goals):
        for constraint in goal.constraints:
            value = trial.value(constraint.tag, number)
            limit = constraint.high if constraint.high is not None else constraint.low
            if value is not None and limit and abs(value - limit) / limit < CLOSE:
                return 2 * REPEATS if abs(value - limit) / limit < CLOSE / 2 else REPEATS + 1
    return 2


def _rivals(seen: Seen, standing: list[Trial]) -> list[tuple[float, int]]:
    """Those that could still be ahead of the leader, each with how much another run of it is worth."""
    leader = standing[0]
    goals = seen.scope.goals
    feasible = chance(goals, seen.beliefs, seen.candidates.batches)
    found = []
    for trial in standing[1:]:
        row = row_of(seen, trial)
        if row is None or _held(seen, trial) >= _needed(seen, trial):
            continue
        ahead = score(goals, trial, leader)
        if not passes(goals, trial):
            worth = ahead * float(
                feasible[row]
            )  # what is believed of its neighbours speaks for it, or against it
            if worth > 2 * WORTH:
                found.append((worth, row))
        elif kind_of(seen, trial) != kind_of(seen, leader) and ahead > -_room(trial, leader):
            found.append((ahead + _room(trial, leader), row))
    return found


def _room(trial: Trial, leader: Trial) -> float:
    """How far behind the leader one can be and still be ahead in truth; of two loads of one configuration it matters
    less which it is."""
    return ENOUGH if trial.name == leader.name else _reach(trial, leader)


def _reach(trial: Trial, leader: Trial) -> float:
    widths = [
        row.relative_half_width
        for one in (trial, leader)
        for part in one.parts
        if (row := part.figures.estimate(THROUGHPUT)) is not None
    ]
    return max(ENOUGH, sum(width or 0.05 for width in widths))


def _held(seen: Seen, trial: Trial) -> int:
    row = row_of(seen, trial)
    return 0 if row is None else seen.repeats.get(row, 0)
