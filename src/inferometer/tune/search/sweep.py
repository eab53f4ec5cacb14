"""Loads for one variant: sweeps that stop on a plateau, and the search around a constraint."""

from collections.abc import Callable, Generator, Sequence

from inferometer.tune import model_config
from inferometer.tune.client_load import ClientLoad
from inferometer.tune.metrics import THROUGHPUT
from inferometer.tune.scoring import best_first, passes, score
from inferometer.tune.search.scope import Scope, Task
from inferometer.tune.search.search import Proposal, Say, Skip, Step, load_of
from inferometer.tune.trial import Trial
from inferometer.tune.variant import Variant

PLATEAU = 0.05
LOOK_BACK = 4
FLAT = 0.02

Sweep = Generator[Step, Trial | None, list[Trial]]
Make = Callable[[ClientLoad], Proposal]


def throughput(trial: Trial) -> float:
    found = trial.combined(THROUGHPUT)
    return 0.0 if found is None else found


def has_plateaued(values: Sequence[float]) -> bool:
    """The best of the last four is hardly better than the first of them."""
    recent = values[-LOOK_BACK:]
    if len(recent) < LOOK_BACK:
        return False
    return recent[0] <= 0 or (max(recent) - recent[0]) / recent[0] <= PLATEAU


def illegal(variant: Variant, load: ClientLoad) -> str:
    """Why this variant cannot take this load; empty when it can."""
    most = model_config.max_batch_size(variant.config)
    if load.batch > max(most, 1):
        return f"the client batch size {load.batch} is larger than max_batch_size {most}"
    preferred = variant.config.get("dynamic_batching", {}).get("preferred_batch_size", ())
    if any(int(size) > most for size in preferred):
        return f"a preferred batch size in {list(preferred)} is larger than max_batch_size {most}"
    return ""


def loads(scope: Scope, task: Task, variant: Variant) -> Sweep:
    """Every client batch size with every load, as long as throughput grows; what was measured."""
    found: list[Trial] = []
    best_by_batch: list[float] = []
    may_stop = task.loads is None or scope.early_exit
    for batch in sorted(task.batches):
        rows: list[Trial] = []
        for load in _loads_of(scope, task, batch):
            proposal = Proposal(((variant, load),))
            reason = illegal(variant, load)
            if reason:
                yield Say("Skipping illegal run configuration")
                yield Skip(proposal, reason)
                return found
            trial = yield proposal
            assert trial is not None
            if not trial.is_measured:
                return found
            rows.append(trial)
            found.append(trial)
            if may_stop and has_plateaued([throughput(row) for row in rows]):
                noun = "request rate" if scope.by_rate else "concurrency"
                yield Say(f"No longer increasing {noun} as throughput has plateaued")
                break
        best_by_batch.append(max(map(throughput, rows), default=0.0))
        if may_stop and has_plateaued(best_by_batch):
            yield Say("No longer increasing client batch size as throughput has plateaued")
            break
    return found


def _loads_of(scope: Scope, task: Task, batch: int) -> list[ClientLoad]:
    if scope.intervals is not None:
        return [ClientLoad(intervals=scope.intervals, batch=batch)]
    return [load_of(value, batch, by_rate=scope.by_rate) for value in scope.load_values(task)]


def closing_in(scope: Scope, variants: Sequence[Variant], batch: int = 1) -> Sweep:
    """The load sweep of chosen variants once more (what is known costs nothing), then bisection around a limit."""
    found: list[Trial] = []

    def make(value: float) -> Proposal:
        load = load_of(value, batch, by_rate=scope.by_rate)
        return Proposal(tuple((variant, load) for variant in variants))

    rows: list[Trial] = []
    for value in scope.load_values(scope.tasks[0]):
        trial = yield make(value)
        assert trial is not None
        if not trial.is_measured:
            break
        rows.append(trial)
        if len(rows) >= LOOK_BACK and _has_stopped_growing(scope, rows):
            break
    found += rows
    bracket = _bracket(scope, rows)
    if bracket is None:
        return found
    low, high = bracket
    for _ in range(scope.binary_steps):
        middle = float((low + high) // 2)
        if middle <= low or middle < 1:
            break
        trial = yield make(middle)
        assert trial is not None
        if not trial.is_measured:
            break
        found.append(trial)
        low, high = (middle, high) if passes(scope.goals, trial) else (low, middle)
    if low == 0:
        yield Say(f"{variants[0].name} cannot meet the constraints at any load")
    return found


def _has_stopped_growing(scope: Scope, rows: Sequence[Trial]) -> bool:
    """Over the last four, or with the last doubling: a server that is full gives no more for more."""
    return _objective_gain(scope, rows) < PLATEAU or score(scope.goals, rows[-1], rows[-2]) < FLAT


def _objective_gain(scope: Scope, rows: Sequence[Trial]) -> float:
    recent = list(rows[-LOOK_BACK:])
    best = best_first(scope.goals, recent)[0]
    # Two rows that disagree about the constraints are still compared by their objectives alone.
    best = max(recent, key=lambda row: score(scope.goals, row, recent[0])) if best is recent[0] else best
    return score(scope.goals, best, recent[0])


def _bracket(scope: Scope, rows: Sequence[Trial]) -> tuple[float, float] | None:
    """From the top down: the highest load that passes with a neighbour above that does not."""
    for lower, upper in zip(reversed(rows[:-1]), reversed(rows[1:]), strict=True):
        if passes(scope.goals, lower) and not passes(scope.goals, upper):
            return lower.load.value, upper.load.value
    if rows and not passes(scope.goals, rows[0]):
        return 0.0, rows[0].load.value
    return None
