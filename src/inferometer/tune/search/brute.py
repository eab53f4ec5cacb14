"""Every variant with every load, in the contract's order, stopped early only where throughput stopped growing."""

from collections.abc import Generator

from inferometer.tune.scoring import rank
from inferometer.tune.search.search import (
    ModelProblem,
    SearchEvent,
    SearchMessage,
    SearchProblem,
    SearchSteps,
    closing_in,
    default_variant,
    loads,
    throughput,
)
from inferometer.tune.space import ChoiceNumbers
from inferometer.tune.trial import Trial
from inferometer.tune.variant import ModelVariant, VariantNames


def brute(problem: SearchProblem, names: VariantNames) -> SearchSteps:
    """Of one model on its own."""
    (task,) = problem.tasks
    variants: dict[str, ModelVariant] = {}
    found: list[Trial] = []
    default = default_variant(task, names)
    variants[default.name] = default
    found += yield from loads(problem, task, default)
    found += yield from _variants(problem, task, names, variants)
    if task.loads is None and problem.settings.intervals is None and problem.settings.is_search_on:
        best = (
            [row.name for row in rank(problem.goals, found)][: problem.settings.top]
            if task.goal.constraints
            else []
        )
        for name in dict.fromkeys((*best, default.name)) if best else ():
            yield from closing_in(problem, (variants[name],), min(task.batches))
        yield SearchMessage("Done gathering concurrency sweep measurements for reports")
    return "every configuration was tried"


def _variants(
    problem: SearchProblem, task: ModelProblem, names: VariantNames, variants: dict[str, ModelVariant]
) -> Generator[SearchEvent, Trial | None, list[Trial]]:
    space = task.space
    if not problem.settings.is_search_on and not space.is_manual:
        return []
    may_stop = not space.is_manual or problem.settings.early_exit
    found: list[Trial] = []
    best: list[float] = []  # by batch size, for the same choice of everything else
    group: ChoiceNumbers | None = None
    is_closed = False
    for point in space.points():
        outer = point[:-1] if space.has_batch_sweep else point
        if outer != group:
            group, best, is_closed = outer, [], False
        if is_closed:
            continue
        overrides = space.overrides(point)
        variant = names.variant(task.model, space.base, overrides, cpu_only=space.cpu_only)
        variants[variant.name] = variant
        rows = yield from loads(problem, task, variant)
        found += rows
        most = max(map(throughput, rows), default=0.0)
        if may_stop and space.has_batch_sweep:
            if not rows:
                is_closed = True
            elif best and most <= max(best):
                is_closed = True
                yield SearchMessage("No longer increasing max_batch_size because throughput has plateaued")
        best.append(most)
    return found
