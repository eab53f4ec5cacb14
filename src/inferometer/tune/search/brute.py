"""Exhaustive search: every variant with every load, in the contract's order, ended early when throughput stops growing.

`listed` covers several models without a search: their defaults, then only the variants that the user listed.
"""

from collections.abc import Sequence
from itertools import groupby, product

from inferometer.stats.figures import THROUGHPUT
from inferometer.tune.search.search import (
    LOOK_BACK,
    PLATEAU,
    ModelProblem,
    Proposal,
    SearchMessage,
    SearchProblem,
    SearchSteps,
    SkippedProposal,
    ask,
    changed_variant,
    default_variant,
    ends_here,
    illegal,
    sweep_best,
)
from inferometer.tune.trial import ClientLoad, Trial
from inferometer.tune.variant import ModelVariant, VariantNames


def brute(problem: SearchProblem, names: VariantNames) -> SearchSteps[str]:
    """Search one model on its own."""
    (task,) = problem.tasks
    found = yield from _loads(problem, task, default_variant(task, names))
    found += yield from _variants(problem, task, names)
    if task.loads is None and problem.settings.intervals is None and problem.settings.is_search_on:
        if task.goal.constraints and found:
            yield from sweep_best(problem, found, names, min(task.batches))
        yield SearchMessage("Done gathering concurrency sweep measurements for reports")
    return "every configuration was tried"


def _variants(problem: SearchProblem, task: ModelProblem, names: VariantNames) -> SearchSteps[list[Trial]]:
    space = task.space
    if not problem.settings.is_search_on and not space.is_manual:
        return []
    may_stop = space.has_batch_sweep and (not space.is_manual or problem.settings.early_exit)
    found: list[Trial] = []
    for _, group in groupby(space.points(), lambda point: point[:-1] if space.has_batch_sweep else point):
        best = -1.0  # throughput over the batch sizes so far, with all other choices equal
        for point in group:
            overrides = space.overrides(point)
            variant = names.variant(task.model, space.base, overrides, cpu_only=space.cpu_only)
            rows = yield from _loads(problem, task, variant)
            found += rows
            most = max(map(_throughput, rows), default=0.0)
            if may_stop and not rows:
                break
            if may_stop and most <= best:
                yield SearchMessage("No longer increasing max_batch_size because throughput has plateaued")
                break
            best = most
    return found


def _loads(problem: SearchProblem, task: ModelProblem, variant: ModelVariant) -> SearchSteps[list[Trial]]:
    """Measure every client batch size with every load as long as throughput grows; return the trials."""
    found: list[Trial] = []
    best_by_batch: list[float] = []
    may_stop = task.loads is None or problem.settings.early_exit
    for batch in sorted(task.batches):
        rows: list[Trial] = []
        for load in _loads_of(problem, task, batch):
            proposal = Proposal(((variant, load),))
            reason = illegal(variant, load)
            if reason:
                yield SearchMessage("Skipping illegal run configuration")
                yield SkippedProposal(proposal, reason)
                return found
            trial = yield from ask(proposal)
            if not trial.is_measured:
                return found
            rows.append(trial)
            found.append(trial)
            if ends_here(problem, trial):
                break
            if may_stop and _has_plateaued([_throughput(row) for row in rows]):
                noun = "request rate" if problem.settings.by_rate else "concurrency"
                yield SearchMessage(f"No longer increasing {noun} as throughput has plateaued")
                break
        best_by_batch.append(max(map(_throughput, rows), default=0.0))
        if may_stop and _has_plateaued(best_by_batch):
            yield SearchMessage("No longer increasing client batch size as throughput has plateaued")
            break
    return found


def _loads_of(problem: SearchProblem, task: ModelProblem, batch: int) -> list[ClientLoad]:
    if problem.settings.intervals is not None:
        return [ClientLoad(intervals=problem.settings.intervals, batch=batch)]
    return [problem.load(value, batch) for value in problem.load_values(task)]


def listed(problem: SearchProblem, names: VariantNames) -> SearchSteps[str]:
    """Measure models that are loaded together or call each other: the default configurations, then the cross product of
    every model's listed variants and loads."""
    seen: set[str] = set()
    for row in (
        tuple(default_variant(task, names) for task in problem.tasks),
        *product(*(_listed_variants(task, names) for task in problem.tasks)),
    ):
        yield from _listed_loads(problem, row, seen)
    return "every listed configuration was tried"


def _listed_variants(task: ModelProblem, names: VariantNames) -> list[ModelVariant]:
    parts = [part for part in (*task.members, task) if part.space.is_manual]
    if not parts:
        return [default_variant(task, names)]
    return [
        changed_variant(
            task,
            names,
            {part.model: part.space.overrides(point) for part, point in zip(parts, points, strict=True)},
        )
        for points in product(*(list(part.space.points()) for part in parts))
    ]


def _listed_loads(
    problem: SearchProblem, variants: tuple[ModelVariant, ...], seen: set[str]
) -> SearchSteps[None]:
    """Measure every combination of the models' loads; after a failure, drop the remaining combinations."""
    loads = [
        [load for batch in sorted(task.batches) for load in _loads_of(problem, task, batch)]
        for task in problem.tasks
    ]
    for chosen in product(*loads):
        proposal = Proposal(tuple(zip(variants, chosen, strict=True)))
        if proposal.key in seen:
            continue
        seen.add(proposal.key)
        reason = next(filter(None, (illegal(*part) for part in proposal.parts)), "")
        if reason:
            yield SearchMessage("Skipping illegal run configuration")
            yield SkippedProposal(proposal, reason)
            continue
        trial = yield from ask(proposal)
        if not trial.is_measured:
            return


def _throughput(trial: Trial) -> float:
    found = trial.combined(THROUGHPUT)
    return 0.0 if found is None else found


def _has_plateaued(values: Sequence[float]) -> bool:
    """Return whether the best of the last four values is barely better than the first of them."""
    recent = values[-LOOK_BACK:]
    if len(recent) < LOOK_BACK:
        return False
    return recent[0] <= 0 or (max(recent) - recent[0]) / recent[0] <= PLATEAU
