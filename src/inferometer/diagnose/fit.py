"""From what was seen to a pipeline that can be asked what would happen otherwise. Pure.

    observations, the machine's cores -> fitted -> Pipeline      (set up as in the last observation)

Service times come from the lightest load, where nobody stretches them. Where batches of several sizes were seen, a
line through them tells what an execution costs whatever its size and what each inference adds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from inferometer.diagnose.observation import Observation, Step, inside_s
from inferometer.diagnose.queueing import Cores, Pipeline, Station, predict
from inferometer.stats.measurement import CoreUse, HostUse

UNKNOWN_ITEM_SHARE = 0.5  # of an execution, when batches of one size only were seen
_NO_CORE, _WHOLE_CORE = 0.1, 0.9  # shares of a core nearer to none and to all are taken for that
_VARIATION, _STEADY = 0.1, 0.02  # of service times: when it is not known, and at least
_LARGER = 1.5  # times as many inferences in an execution: enough to draw a line
_STRETCHED = 1.2  # an execution that takes so many times as long as alone had to share
_LEAST_SCALING = 0.05
_SEARCH_STEPS = 12
_INFORMATIVE = 0.05  # by how much the cores must matter for a measurement to tell about them
_PRIOR = 0.05  # weight of "as fast as before" where a row cannot tell speed from scaling
_GOLDEN = (math.sqrt(5) - 1) / 2
_LEAST_CORES = 0.1  # whoever waits gets some time in the end


@dataclass(frozen=True, slots=True)
class Measured:
    """A pipeline as it was set up, and what was measured of it."""

    pipeline: Pipeline
    concurrency: int
    throughput: float


@dataclass(frozen=True, slots=True)
class _Point:
    """A step's execution as it would be on an idle machine; `cpu` is the share of it on a core."""

    batch: float
    alone_s: float
    cpu: float


def fitted(rows: Sequence[Observation], cores: float | None) -> Pipeline:
    """The pipeline as the last row has it, with cores as slow as all rows together say.

    `cores` is how many the server's machine has; None when nobody knows.
    """
    left = Cores() if cores is None else _cores_left(rows, cores)
    plain = fit(rows, left)
    measured = [
        Measured(fit((*rows, row), left), row.concurrency, row.throughput)
        for row in rows
        if row.items == plain.items and row.steps
    ]
    return calibrate(measured, plain)


def _cores_left(rows: Sequence[Observation], cores: float) -> Cores:
    """What is there for us of the machine under pressure."""
    most = max(row.concurrency for row in rows)
    seen = sorted(_ours(row, row.host) for row in rows if row.host and 2 * row.concurrency >= most)
    left = seen[len(seen) // 2] if seen else cores
    return Cores(count=min(cores, max(_LEAST_CORES, left)))


def _ours(row: Observation, host: HostUse) -> float:
    """Cores we could have: those nobody holds, or as good a share of all of them as we got of those we wanted."""
    if host.server is None:
        return float(host.cores)
    used = host.server + row.client_cores
    wanted = used + sum(use.waiting for use in host.models.values())
    share = used * max(1.0, host.cores / wanted) if wanted else 0.0
    return max(host.cores - (host.busy - used), share)


def undisturbed(top: Observation, pipeline: Pipeline) -> Pipeline:
    """The pipeline with the whole machine for itself: whether a step or the machine is too slow is not up to others."""
    if top.host is None:
        return pipeline
    return replace(pipeline, cores=replace(pipeline.cores, count=float(top.host.cores)))


def fit(observations: Sequence[Observation], cores: Cores) -> Pipeline:
    """The pipeline of the last observation."""
    light = lightest(observations)
    last = observations[-1]
    outside_s = max(0.0, light.latency_s - inside_s(light.steps))
    return Pipeline(
        stations=tuple(_station(step, observations, cores) for step in last.steps),
        outside_s=outside_s,
        outside_cpu_s=min(outside_s, light.client_core_s + _server_core_s(light)),
        cores=cores,
        items=last.items,
        variation=_VARIATION if light.variation is None else min(max(light.variation, _STEADY), 1.0),
    )


def lightest(observations: Sequence[Observation]) -> Observation:
    return min(observations, key=_load)


def _load(row: Observation) -> tuple[int, int]:
    """Requests in flight, and how large they are."""
    return row.concurrency, row.items


def _station(step: Step, rows: Sequence[Observation], cores: Cores) -> Station:
    points = _points(step.name, rows, cores)
    fixed_s, item_s = _line(points)
    return Station(
        name=step.name,
        fixed_s=fixed_s,
        item_s=item_s,
        calls=step.calls,
        instances=step.setup.instances,
        cpu=points[0].cpu,
        max_batch=max(1, step.setup.max_batch),
        is_batching=step.setup.is_batching,
        preferred=step.setup.preferred,
        delay_s=step.setup.delay_s,
        members=tuple(_station(member, rows, cores) for member in step.members),
    )


def _seen(name: str, rows: Sequence[Observation]) -> list[tuple[Observation, Step, float]]:
    """A step in all rows, with its calls; the lightest load first."""
    return [
        (row, step, calls)
        for row in sorted(rows, key=_load)
        for step, calls, _ in row.walk()
        if step.name == name
    ]


def _points(name: str, rows: Sequence[Observation], cores: Cores) -> list[_Point]:
    """A step at the lightest load, and wherever batches were clearly larger, with as little load as there was."""
    seen = _seen(name, rows)
    light = seen[0][1]
    larger = [found for found in seen if found[1].batch > _LARGER * light.batch]
    # More executions at once than there are cores, and none took longer: they cannot have wanted one each.
    is_elsewhere = light.setup.device == "gpu" or any(
        row.throughput * calls * step.own_s / step.batch > cores.count
        and step.own_s < _STRETCHED * light.own_s
        for row, step, calls in seen
    )
    chosen = [seen[0], *(found for found in larger if found[0].concurrency == larger[0][0].concurrency)]
    return [_alone(step, _core_seconds(row).get(name), is_elsewhere, cores) for row, step, _ in chosen]


def _alone(step: Step, use: CoreUse | None, is_elsewhere: bool, cores: Cores) -> _Point:
    """How a step would be on an idle machine.

    Other programs slow it down even when it is the only one of ours. Where its time on a core was seen, what the
    others took from it is no mystery.
    """
    own_s, speed = step.own_s, cores.speed(1.0)
    if use is None:
        return _Point(step.batch, own_s, 0.0) if is_elsewhere else _Point(step.batch, own_s * speed, 1.0)
    waited_s = use.waiting if use.waiting else use.cores * (1 / speed - 1)
    alone_s = min(own_s, max(use.cores, own_s - waited_s))
    return _Point(step.batch, alone_s, _snapped(use.cores / alone_s if alone_s else 0.0))


def _line(points: list[_Point]) -> tuple[float, float]:
    """Fixed seconds and seconds per inference; neither is negative."""
    near, *others = points
    if not others:
        item_s = UNKNOWN_ITEM_SHARE * near.alone_s / near.batch
        return near.alone_s - near.batch * item_s, item_s
    far = max(others, key=lambda point: point.batch)
    rise_s = (far.alone_s - near.alone_s) / (far.batch - near.batch)
    item_s = min(max(0.0, rise_s), near.alone_s / near.batch)
    return near.alone_s - near.batch * item_s, item_s


def knows_batches(name: str, rows: Sequence[Observation]) -> bool:
    """Whether batches of more than one size were seen of a step."""
    batches = [step.batch for _, step, _ in _seen(name, rows)]
    return max(batches) > _LARGER * min(batches)


def _core_seconds(row: Observation) -> dict[str, CoreUse]:
    """On a core and waiting for one, of each step's execution: seen per process, else the server's rest by time."""
    host, rate = row.host, row.throughput / row.items
    if host is None or not rate:
        return {}
    executions = {step.name: calls * row.items / step.batch * rate for step, calls, _ in row.walk()}
    own_s = {step.name: step.own_s for step, _, _ in row.walk()}
    known = {
        name: CoreUse(min(use.cores / executions[name], own_s[name]), use.waiting / executions[name])
        for name, use in host.models.items()
        if executions.get(name)
    }
    rest = [step.name for step, _, _ in row.walk() if step.name not in known and step.setup.device == "cpu"]
    rest_cores = sum(executions[name] * own_s[name] for name in rest)
    if rest_cores and host.server is not None:
        left = max(0.0, host.server - sum(use.cores for use in host.models.values()))
        known |= {name: CoreUse(own_s[name] * min(1.0, left / rest_cores)) for name in rest}
    return known


def _snapped(share: float) -> float:
    return 0.0 if share < _NO_CORE else 1.0 if share > _WHOLE_CORE else share


def _server_core_s(light: Observation) -> float:
    """Core time of the server per request that no step explains."""
    rate = light.throughput / light.items
    if light.host is None or light.host.server is None or not rate:
        return 0.0
    core_s = _core_seconds(light)
    explained_s = sum(
        calls * light.items / step.batch * core_s.get(step.name, CoreUse()).cores
        for step, calls, _ in light.walk()
    )
    return max(0.0, light.host.server / rate - explained_s)


# --- the cores


def calibrate(rows: Sequence[Measured], pipeline: Pipeline) -> Pipeline:
    """The pipeline with the speed and scaling of the cores that explain the rows best.

    Rows in which hardly ever two jobs want a core at once tell nothing; then it stays as it is.
    """
    useful = [row for row in rows if row.throughput > 0]
    if not any(_tells_about_cores(row) for row in useful):
        return pipeline
    scaling = _minimum(lambda value: _misfit(useful, value)[0])
    speed = math.exp(-_misfit(useful, scaling)[1]) if len(useful) > 1 else 1.0
    factor = 1 / min(max(speed, 0.7), 1.4)
    stations = tuple(_slowed(station, factor) for station in pipeline.stations)
    return _scaled(replace(pipeline, stations=stations), scaling)


def _tells_about_cores(row: Measured) -> bool:
    free = predict(_scaled(row.pipeline, 1.0), row.concurrency).throughput
    tight = predict(_scaled(row.pipeline, 0.5), row.concurrency).throughput
    return tight < free * (1 - _INFORMATIVE)


def _misfit(rows: Sequence[Measured], scaling: float) -> tuple[float, float]:
    """How badly a scaling explains the rows once a common speed is taken out, and the logarithm of that speed."""
    errors = [
        math.log(predict(_scaled(row.pipeline, scaling), row.concurrency).throughput / row.throughput)
        for row in rows
    ]
    mean = sum(errors) / len(errors)
    if len(errors) == 1:
        return mean**2, mean
    spread = sum((error - mean) ** 2 for error in errors) / len(errors)
    return spread + _PRIOR * mean**2, mean


def _scaled(pipeline: Pipeline, scaling: float) -> Pipeline:
    return replace(pipeline, cores=replace(pipeline.cores, scaling=scaling))


def _slowed(station: Station, factor: float) -> Station:
    return replace(
        station,
        fixed_s=station.fixed_s * factor,
        item_s=station.item_s * factor,
        members=tuple(_slowed(member, factor) for member in station.members),
    )


def _minimum(function: Callable[[float], float]) -> float:
    """Golden section between the least scaling and 1."""
    low, high = _LEAST_SCALING, 1.0
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_SEARCH_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return min((at_left, left), (at_right, right), (function(1.0), 1.0))[1]
