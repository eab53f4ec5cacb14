"""Knobs of all models of a scope, and the proposal at one setting of them."""

from dataclasses import dataclass

from inferometer.base.errors import UsageError
from inferometer.tune import model_config
from inferometer.tune.client_load import ClientLoad
from inferometer.tune.model_config import Fields
from inferometer.tune.search.scope import Scope, Task
from inferometer.tune.search.search import Proposal, load_of
from inferometer.tune.space import BATCH, BATCHING, INSTANCES, Space, doubling
from inferometer.tune.variant import Names, Variant


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing to turn: the batch size or the instances of one model."""

    model: str
    field: str
    values: tuple[int, ...]


def knobs(scope: Scope) -> tuple[Knob, ...]:
    """An ensemble's own model has none; its members and all others have both where they batch."""
    found: list[Knob] = []
    for task in scope.tasks:
        for part in (*task.members, task):
            is_ensemble = "ensemble_scheduling" in part.space.base
            if not is_ensemble:
                found += _knobs_of(scope, part)
    return tuple(found)


def _knobs_of(scope: Scope, task: Task) -> list[Knob]:
    found = []
    if model_config.max_batch_size(task.space.base):
        found.append(Knob(task.model, BATCH, tuple(doubling(*scope.bounds.batch))))
    low, high = scope.bounds.instances
    counts: tuple[int, ...] = tuple(range(low, high + 1))
    listed = _listed_counts(task.space)
    if listed:
        counts = listed
    found.append(Knob(task.model, INSTANCES, counts))
    return found


def _listed_counts(space: Space) -> tuple[int, ...]:
    """Instance counts a user listed for a member: powers of two, or numbers that follow each other."""
    rows = [row for row in space.parameters if row.field == INSTANCES] if space.is_manual else []
    if not rows:
        return ()
    counts = sorted({int(choice[0].get("count", 1)) for choice in rows[0].choices if choice})
    if not counts:
        return ()
    if all(count & (count - 1) == 0 for count in counts):
        return tuple(doubling(counts[0], counts[-1]))
    if counts == list(range(counts[0], counts[-1] + 1)):
        return tuple(counts)
    raise UsageError(
        f"the instance counts {counts} of '{space.model}' are neither powers of two nor in a row",
        remedy="list for example 1, 2, 4, 8 or 1, 2, 3",
    )


def default_proposal(scope: Scope, names: Names) -> Proposal:
    """The models as they are, under the load that suits their own numbers."""
    parts = []
    for task in scope.tasks:
        members = tuple(
            names.variant(member.model, member.space.base, {}, cpu_only=member.space.cpu_only)
            for member in task.members
        )
        variant = names.variant(
            task.model, task.space.base, {}, cpu_only=task.space.cpu_only, composing=members
        )
        parts.append((variant, _load(scope, variant)))
    return Proposal(tuple(parts))


def proposal_at(scope: Scope, names: Names, knobs: tuple[Knob, ...], place: tuple[int, ...]) -> Proposal:
    chosen = {(knob.model, knob.field): knob.values[step] for knob, step in zip(knobs, place, strict=True)}
    parts = []
    for task in scope.tasks:
        members = tuple(
            names.variant(
                member.model,
                member.space.base,
                overrides(member, chosen),
                cpu_only=member.space.cpu_only,
            )
            for member in task.members
        )
        own = overrides(task, chosen)
        if "ensemble_scheduling" in task.space.base:
            own = {BATCH: min(model_config.max_batch_size(member.config) for member in members)}
        variant = names.variant(
            task.model, task.space.base, own, cpu_only=task.space.cpu_only, composing=members
        )
        parts.append((variant, _load(scope, variant)))
    return Proposal(tuple(parts))


def overrides(task: Task, chosen: dict[tuple[str, str], int]) -> Fields:
    """What the knobs of one model change, on top of the one combination a user may have given."""
    base = task.space.base
    found: dict[str, object] = {}
    count = chosen.get((task.model, INSTANCES))
    if count is not None:
        kind = "KIND_CPU" if task.space.cpu_only else "KIND_GPU"
        found[INSTANCES] = [{"count": count, "kind": _given_kind(task.space) or kind}]
    size = chosen.get((task.model, BATCH))
    if size is not None:
        if not model_config.is_sequence(base):
            found[BATCHING] = {}
        found[BATCH] = size
    if task.space.is_manual:
        for row in task.space.parameters:
            if row.field not in (INSTANCES, BATCH) and row.choices[0] is not None:
                found[row.field] = row.choices[0]
    return found


def _given_kind(space: Space) -> str | None:
    if not space.is_manual:
        return None
    for row in space.parameters:
        if row.field == INSTANCES and row.choices[0]:
            kind = row.choices[0][0].get("kind")
            return None if kind is None else str(kind)
    return None


def _load(scope: Scope, variant: Variant) -> ClientLoad:
    if scope.intervals is not None:
        return ClientLoad(intervals=scope.intervals)
    if scope.by_rate:
        return load_of(float(scope.bounds.request_rate[0]), 1, by_rate=True)
    return load_of(float(formula(scope, variant)), 1, by_rate=False)


def formula(scope: Scope, variant: Variant) -> int:
    """Twice what all instances can take at once, within the bounds: 2 x batch x instances. An ensemble has no instances
    of its own, and all its members work at the same time."""
    is_ensemble = "ensemble_scheduling" in variant.config and variant.composing
    room = sum(_room(part.config) for part in (variant.composing if is_ensemble else (variant,)))
    low, high = scope.bounds.concurrency
    return min(max(2 * room, low), high)


def _room(config: Fields) -> int:
    return max(1, model_config.max_batch_size(config)) * model_config.total_instances(config)
