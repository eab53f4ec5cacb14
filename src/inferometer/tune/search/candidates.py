"""All candidates of a smart search: configurations times loads, as coordinates and as inputs of the forecast."""

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.options.names import option_name
from inferometer.tune import model_config
from inferometer.tune.knobs import axes, coordinates, knobs_of
from inferometer.tune.search.search import SearchProblem, changed_variant, default_variant
from inferometer.tune.search.throughput_model import Array, OperatingPoints
from inferometer.tune.space import BATCH, BATCHING, DELAY, INSTANCES
from inferometer.tune.trial import ClientLoad
from inferometer.tune.variant import ModelVariant, VariantNames

PER_DOUBLING = 8  # loads between n and 2n
PER_RATE_DOUBLING = 16  # throughput equals the rate, so a step is the resolution of the result
PER_DOUBLING_LAUNCHED = 2  # a launched server has to warm up for each load
MOST_CONFIGURATIONS = 2000
WIDTH = 4  # coordinates of a variant: instances, batch, delay, the rest
INSTANCES_PLACE, BATCH_PLACE = 0, 1
MOST_TOGETHER = 1024.0  # requests that a server of unknown structure executes together
PER_INSTANCE_DOUBLING = 2.0  # more than for a batch: cores may run out


@frozen
class Configuration:
    """One choice for every parameter of every model; `variants` has one entry per model loaded together."""

    variants: tuple[ModelVariant, ...]
    place: tuple[float, ...]  # coordinates


@frozen
class Candidates:
    """Rows of (configuration, client batch, load)."""

    configurations: tuple[Configuration, ...]
    rows: tuple[tuple[int, ClientLoad], ...]
    which: NDArray[np.int64]  # configuration of each row
    batches: Array  # client batch sizes
    room: Array  # requests that all instances of all models can take at once
    places: Array
    points: OperatingPoints

    kinds: NDArray[np.int64]  # equal for rows that cannot differ
    firsts: NDArray[np.int64]  # one row of each kind
    starts: NDArray[
        np.int64
    ]  # of each configuration: equal if they differ only in values of a running server
    is_launched: bool = False  # configurations are values in the command line of a server
    axes: tuple[tuple[int, ...], ...] = ()  # of a launched server: columns of `places` for each knob

    @property
    def middle(self) -> int:
        """The configuration whose values are in the middle of their ranges."""
        places = np.array([row.place for row in self.configurations])
        centre = (places.min(axis=0) + places.max(axis=0)) / 2
        return int(np.linalg.norm(places - centre, axis=1).argmin())

    @property
    def knobs(self) -> tuple[Mapping[str, Any], ...]:
        """The values of each configuration of a launched server."""
        return tuple(knobs_of(row.variants[0].config) or {} for row in self.configurations)

    def parts(self, row: int) -> tuple[tuple[ModelVariant, ClientLoad], ...]:
        """Return the parts of the row's proposal."""
        number, load = self.rows[row]
        return tuple((variant, load) for variant in self.configurations[number].variants)


def make(problem: SearchProblem, names: VariantNames, *, per_doubling: int | None = None) -> Candidates:
    """Combine every configuration (a seeded sample of a huge space) with every load; the default is the first."""
    configurations = list(_fitting(problem, list(_configurations(problem, names))))
    if len(configurations) > MOST_CONFIGURATIONS:
        drawn = random.Random(problem.seed).sample(configurations[1:], MOST_CONFIGURATIONS - 1)
        configurations = [configurations[0], *drawn]
    is_launched = problem.tasks[0].space.is_launched
    per_doubling = per_doubling or _per_doubling(problem)
    loads = [
        problem.load(value, batch)
        for batch in sorted(problem.tasks[0].batches)
        for value in _load_values(problem, per_doubling)
    ]
    rows = tuple(
        (number, load)
        for number, configuration in enumerate(configurations)
        for load in loads
        if load.batch <= max(1, model_config.max_batch_size(configuration.variants[0].config))
    )
    which = np.array([number for number, _ in rows])
    batches = np.array([load.batch for _, load in rows], float)
    load_values = np.array([load.value for _, load in rows])
    points = _points(configurations, which, batches, load_values, by_rate=problem.settings.by_rate)
    places = _places(configurations, which, batches, points)
    _, firsts, kinds = np.unique(places.round(6), axis=0, return_index=True, return_inverse=True)
    room = np.array([_room(configuration) for configuration in configurations])[which] / batches
    return Candidates(
        tuple(configurations),
        rows,
        which,
        batches,
        room,
        places,
        points,
        kinds.reshape(-1),
        firsts,
        _starts(configurations, problem.tasks[0].space.live),
        is_launched,
        axes(problem.tasks[0].space.choices) if is_launched else (),
    )


def _per_doubling(problem: SearchProblem) -> int:
    if problem.settings.by_rate:
        return PER_RATE_DOUBLING
    return PER_DOUBLING_LAUNCHED if problem.tasks[0].space.is_launched else PER_DOUBLING


def _starts(configurations: Sequence[Configuration], live: frozenset[str]) -> NDArray[np.int64]:
    """Number the starts of a server: configurations that differ only in values of a running server share one."""
    if not live:
        return np.arange(len(configurations))
    numbers: dict[tuple[Any, ...], int] = {}
    found = []
    for row in configurations:
        values = knobs_of(row.variants[0].config) or {}
        fixed = tuple(value for name, value in values.items() if name not in live)
        found.append(numbers.setdefault(fixed, len(numbers)))
    return np.array(found)


def _room(configuration: Configuration) -> float:
    configs = [part.config for variant in configuration.variants for part in variant.working]
    if any(knobs_of(config) is not None for config in configs):
        return np.inf  # unknown
    return float(sum(model_config.total_instances(config) * max(1, _batch(config)) for config in configs))


def _fitting(problem: SearchProblem, configurations: Sequence[Configuration]) -> Iterator[Configuration]:
    """Yield the configurations that accept the smallest client batch; the default must."""
    batch = min(problem.tasks[0].batches)
    for number, configuration in enumerate(configurations):
        variant = configuration.variants[0]
        most = max(1, model_config.max_batch_size(variant.config))
        if batch <= most:
            yield configuration
        elif not number:
            raise UsageError(
                f"{option_name('-b')} {batch} exceeds the max_batch_size of '{variant.model}', {most}",
                remedy=f"give {option_name('-b')} {most} or less, or raise max_batch_size in its "
                "config.pbtxt",
            )


def _load_values(problem: SearchProblem, per_doubling: int) -> list[float]:
    if problem.tasks[0].loads is not None or not problem.settings.is_search_on:
        return list(problem.load_values(problem.tasks[0]))
    low, high = problem.settings.load_bounds
    values = (float(round(max(low, 1) * 2 ** (step / per_doubling))) for step in itertools.count())
    return list(dict.fromkeys((*itertools.takewhile(lambda value: value <= high, values), float(high))))


def _configurations(problem: SearchProblem, names: VariantNames) -> Iterator[Configuration]:
    default = tuple(default_variant(task, names) for task in problem.tasks)
    yield Configuration(default, _coordinates(problem, default))
    tasks = [part for task in problem.tasks for part in (*task.members, task)]
    seen = {tuple(variant.key for variant in default)}
    for choice in itertools.product(*(list(task.space.points()) for task in tasks)):
        overrides = {
            task.model: task.space.overrides(point) for task, point in zip(tasks, choice, strict=True)
        }
        variants = tuple(changed_variant(task, names, overrides) for task in problem.tasks)
        key = tuple(variant.key for variant in variants)
        if key not in seen:
            seen.add(key)
            yield Configuration(variants, _coordinates(problem, variants))


# --- coordinates: doublings for numbers, 0 or 1 for everything else


def _coordinates(problem: SearchProblem, variants: tuple[ModelVariant, ...]) -> tuple[float, ...]:
    knobs = knobs_of(variants[0].config)
    if knobs is not None:
        return coordinates(knobs, problem.tasks[0].space.choices)
    found: list[float] = []
    for config in [part.config for variant in variants for part in variant.with_members]:
        found += [
            PER_INSTANCE_DOUBLING * float(np.log2(model_config.total_instances(config))),
            float(np.log2(max(1, _batch(config)))),
            float(np.log2(1 + model_config.queue_delay_us(config) / 100)),
            _mark(config),
        ]
    return tuple(found)


def _batch(config: Mapping[str, Any]) -> int:
    """Return the requests per execution: without dynamic batching, only the client's own batch."""
    return model_config.max_batch_size(config) if model_config.has_dynamic_batching(config) else 1


def _mark(config: Mapping[str, Any]) -> float:
    """Map the rest of each configuration to a number, which is equal for equal rests."""
    rest = {name: value for name, value in config.items() if name not in (BATCH, INSTANCES, "name")}
    if BATCHING in rest:
        rest[BATCHING] = {name: value for name, value in rest[BATCHING].items() if name != DELAY}
    text = model_config.key(rest)
    return random.Random(text).uniform(-1.5, 1.5)


def _places(
    configurations: list[Configuration], which: NDArray[np.int64], batches: Array, points: OperatingPoints
) -> Array:
    places = np.array([configuration.place for configuration in configurations])[which]
    is_launched = knobs_of(configurations[0].variants[0].config) is not None
    if not points.by_rate and not is_launched:
        # A batch is no larger than the requests in flight per instance: beyond that all batch sizes are equivalent.
        in_flight = np.log2(points.load * batches)
        for start in range(0, places.shape[1], WIDTH):
            instances, batch = start + INSTANCES_PLACE, start + BATCH_PLACE
            found = np.maximum(0.0, in_flight - places[:, instances] / PER_INSTANCE_DOUBLING)
            places[:, batch] = np.minimum(places[:, batch], found)
    return np.column_stack((places, np.log2(np.maximum(points.load, 1.0)), np.log2(batches)))


def _mean(values: Iterable[float]) -> float:
    """Return the geometric mean; exact if all values are equal."""
    found = list(values)
    return found[0] if len(set(found)) == 1 else float(np.exp(np.mean(np.log(found))))


def _points(
    configurations: list[Configuration],
    which: NDArray[np.int64],
    client: Array,
    load: Array,
    *,
    by_rate: bool,
) -> OperatingPoints:
    # An ensemble is as fast as its slowest member, which is not known yet: it counts as one model with the geometric
    # mean of its members' settings.
    tuned = [configuration.variants[0] for configuration in configurations]
    if knobs_of(tuned[0].config) is not None:
        # What the values do is unknown: a server that executes all requests in flight together, whose cost has a fixed
        # part and one per request, has the shape of most load curves. The rest is learned from the measurements.
        ones = np.ones(len(which))
        return OperatingPoints(ones, MOST_TOGETHER * ones, 0 * ones, load=load, by_rate=by_rate)
    members = [[part.config for part in variant.working or (variant,)] for variant in tuned]
    counts = np.array([_mean(model_config.total_instances(config) for config in row) for row in members])
    batches = np.array([_mean(max(1, _batch(config)) for config in row) for row in members])
    delays = np.array([sum(model_config.queue_delay_us(config) for config in row) / 1e6 for row in members])
    return OperatingPoints(
        instances=counts[which],
        batch=np.maximum(1.0, batches[which] / client),
        delay_s=delays[which],
        load=load,
        by_rate=by_rate,
    )
