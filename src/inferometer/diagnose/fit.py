"""Fit a pipeline to observations, to predict what would happen under other conditions. Pure.

    observations, the machine's cores -> fitted -> Pipeline      (configured as in the last observation)

Service times come from the lightest load, where nothing prolongs them. If batches of several sizes were observed, a
line through them separates the fixed cost of an execution from the cost per inference.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.diagnose.observation import Observation, Step, inside_s
from inferometer.diagnose.queueing import Cores, Devices, Pipeline, Station, predict
from inferometer.stats.machine_figures import CoreUse, HostUse

GPU_DEVICE = "gpu"
UNKNOWN_ITEM_SHARE = 0.5  # of an execution, if only batches of one size were observed
_NO_CORE, _WHOLE_CORE = 0.1, 0.9  # shares of a core below and above these count as none and all of it
_VARIATION, _STEADY = 0.1, 0.02  # of service times: default and minimum
_LARGER = 1.5  # ratio of batch sizes that is enough to fit a line
_STRETCHED = 1.2  # ratio of execution times from which an execution had to share
_LEAST_SCALING = 0.05
_SEARCH_STEPS = 12
_INFORMATIVE = 0.05  # relative effect of the cores from which a measurement is informative about them
_PRIOR = 0.05  # weight of an unchanged speed, if a row cannot separate speed from scaling
_TELLING = 3  # minimum executions per batch size; the first ones may be slow
_DISTINCT = 0.02  # how different requests and inferences of batches must be to separate their costs
_TURN = 0.2  # default cost of switching a GPU to another execution
_DEAREST_TURN = 20.0
_LEAST_GPU_S = 1e-9  # shortest time on a GPU that counts
_ALL_BESIDE = -0.98  # nearly all executions run in parallel
_DEAR_TURN = 0.5  # a high cost, to test for a difference
_GOLDEN = (math.sqrt(5) - 1) / 2
_SEVERAL = 1.2  # cores kept busy by a step from which it has several threads
_NEARLY_WHOLE = 0.1  # relative distance to a whole number of threads that is rounded
_LEAST_CORES = 0.1  # smallest share of the machine that is left for us


@frozen
class Measured:
    """A pipeline as configured, with its measured throughput."""

    pipeline: Pipeline
    concurrency: int
    throughput: float


@frozen
class _Point:
    """Executions of a step at one batch size on an idle machine; `cpu` is the share of the time on a core."""

    batch: float
    alone_s: float
    cpu: float
    requests: float = 1.0
    count: int = 1  # executions
    copy_s: float = 0.0


def fitted(rows: Sequence[Observation], cores: float | None) -> Pipeline:
    """Return the pipeline of the last row, with cores calibrated to all rows.

    `cores` is the number of cores of the server's machine; None if unknown.
    """
    left = Cores() if cores is None else _cores_left(rows, cores)
    plain = fit(rows, left)
    measured = [
        Measured(fit((*rows, row), left), row.concurrency, row.throughput)
        for row in rows
        if row.items == plain.items and row.steps
    ]
    # If the GPU utilisation is known, executions cannot overlap within it.
    return calibrate(measured, plain, -1.0 if rows[-1].gpu_share is None else 0.0)


def _cores_left(rows: Sequence[Observation], cores: float) -> Cores:
    """Return the cores available to us under load."""
    most = max(row.concurrency for row in rows)
    seen = sorted(_ours(row, row.host) for row in rows if row.host and 2 * row.concurrency >= most)
    left = seen[len(seen) // 2] if seen else cores
    return Cores(count=min(cores, max(_LEAST_CORES, left)))


def _ours(row: Observation, host: HostUse) -> float:
    """Return the number of cores available to the server: the idle cores, or its share of all cores by demand."""
    cores = cores_of(host)
    if host.server is None:
        return cores
    # A server pinned to its own cores shares them with no known process.
    used = host.server + (row.client_cores if host.server_cores is None else 0.0)
    wanted = used + sum(use.waiting for use in host.models.values())
    share = used * max(1.0, cores / wanted) if wanted else 0.0
    if host.server_cores is not None:
        return share if wanted else cores
    return max(cores - (host.busy - used), share)


def cores_of(host: HostUse) -> float:
    """Return the number of cores that the server may use."""
    return float(host.cores if host.server_cores is None else host.server_cores)


def undisturbed(top: Observation, pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with the whole machine, to judge steps and machine independently of other programs."""
    if top.host is None:
        return pipeline
    return replace(pipeline, cores=replace(pipeline.cores, count=cores_of(top.host)))


def fit(observations: Sequence[Observation], cores: Cores) -> Pipeline:
    """Fit the pipeline of the last observation."""
    light = lightest(observations)
    last = observations[-1]
    outside_s = _outside_s(light)
    is_on_gpu = any(step.setup.device == GPU_DEVICE for step, _, _ in last.walk())
    if is_on_gpu and last.host is not None and not last.host.is_full:
        # Requests also wait for threads of the server and of the client.
        outside_s = max(outside_s, _outside_s(last))
    return Pipeline(
        stations=tuple(_station(step, observations, cores) for step in last.steps),
        outside_s=outside_s,
        outside_cpu_s=min(outside_s, _client_core_s(light) + _server_core_s(light)),
        cores=cores,
        items=last.items,
        devices=Devices(max((step.setup.gpus for step, _, _ in last.walk()), default=1), _TURN),
        variation=_VARIATION if light.variation is None else min(max(light.variation, _STEADY), 1.0),
    )


def _outside_s(row: Observation) -> float:
    """Return the part of the latency outside all steps."""
    return max(0.0, row.latency_s - inside_s(row.steps))


def _client_core_s(row: Observation) -> float:
    """Return our own core time per request, if it is taken from the server's cores."""
    is_apart = row.host is not None and row.host.server_cores is not None
    return 0.0 if is_apart else row.client_core_s


def lightest(observations: Sequence[Observation]) -> Observation:
    return min(observations, key=_load)


def _load(row: Observation) -> tuple[int, int]:
    """Return the requests in flight and their size, as a sort key."""
    return row.concurrency, row.items


def _station(step: Step, rows: Sequence[Observation], cores: Cores) -> Station:
    points = _points(step.name, rows, cores)
    fixed_s, item_s, request_s = _line(points)
    gpu_fixed_s, gpu_item_s, cpu = 0.0, 0.0, points[0].cpu
    if step.setup.device == GPU_DEVICE:
        gpu_fixed_s, gpu_item_s = _gpu_line(step.name, rows, fixed_s, item_s)
        near = points[0]
        rest_s = near.alone_s - gpu_fixed_s - near.batch * gpu_item_s
        cpu = _snapped(min(1.0, near.cpu * near.alone_s / rest_s)) if rest_s > 0 else 0.0
    return Station(
        name=step.name,
        fixed_s=fixed_s,
        item_s=item_s,
        calls=step.calls,
        instances=step.setup.instances,
        cpu=cpu,
        max_batch=max(1, step.setup.max_batch),
        is_batching=step.setup.is_batching,
        preferred=step.setup.preferred,
        delay_s=step.setup.delay_s,
        members=tuple(_station(member, rows, cores) for member in step.members),
        request_s=request_s,
        gpu_fixed_s=gpu_fixed_s,
        gpu_item_s=gpu_item_s,
        threads=_threads(step.name, rows) if cpu == 1 else 1.0,
    )


def _threads(name: str, rows: Sequence[Observation]) -> float:
    """Return the cores that an execution keeps busy without contention: its core time over its duration."""
    row, step, _ = _seen(name, rows)[0]
    use = _core_seconds(row).get(name)
    found = use.cores / step.own_s if use is not None and step.own_s else 1.0
    whole = max(1, round(found))
    return float(whole) if found < _SEVERAL or abs(found / whole - 1) < _NEARLY_WHOLE else found


def _seen(name: str, rows: Sequence[Observation]) -> list[tuple[Observation, Step, float]]:
    """Return each row that has the step, with the step and its calls per request; the lightest load first."""
    return [
        (row, step, calls)
        for row in sorted(rows, key=_load)
        for step, calls, _ in row.walk()
        if step.name == name
    ]


def _is_alone(row: Observation, step: Step) -> bool:
    """Return whether executions ran alone: one request, or one instance on the device."""
    there = [other for other, _, _ in row.walk() if other.setup.device == step.setup.device]
    return row.concurrency == 1 or (step.setup.instances == 1 and len(there) == 1)


def _points(name: str, rows: Sequence[Observation], cores: Cores) -> list[_Point]:
    """Return a step at the lightest load, and at loads with clearly larger batches that nothing prolonged.

    On the cores, the effect of other programs is known; so if necessary, batches under the lightest such load are used.
    """
    seen = _seen(name, rows)
    light = seen[0][1]
    larger = [found for found in seen if _largest(found[1]) > _LARGER * light.batch]
    # More concurrent executions than cores without any slowdown: they cannot have needed a core each.
    is_elsewhere = light.setup.device == GPU_DEVICE or any(
        row.throughput * calls * step.own_s / step.batch > cores.count
        and step.own_s < _STRETCHED * light.own_s
        for row, step, calls in seen
    )
    chosen = [found for found in larger if _is_alone(found[0], found[1])]
    if not chosen and light.setup.device != GPU_DEVICE:
        chosen = [found for found in larger if found[0].concurrency == larger[0][0].concurrency]
    points = []
    for row, step, _ in (seen[0], *(found for found in chosen if found is not seen[0])):
        whole = _alone(step, _core_seconds(row).get(name), is_elsewhere, cores)
        whole = replace(whole, requests=whole.batch / row.items)
        points += [whole] if row is seen[0][0] else _by_size(whole, step, row.items)
    if light.setup.device == GPU_DEVICE:
        # A smaller batch never takes longer: if it seems to, the GPU was slow with its first requests.
        near, *others = points
        least_s = min(point.alone_s for point in points if point.batch >= near.batch)
        return [replace(near, alone_s=least_s), *others]
    return points


def _largest(step: Step) -> float:
    """Return the largest batch size with enough executions."""
    return max((row.size for row in step.sizes if row.count >= _TELLING), default=step.batch)


def _by_size(whole: _Point, step: Step, items: int) -> list[_Point]:
    """Return a point for each frequent batch size, scaled to the overall execution time."""
    scale = whole.alone_s / step.service_s / NS_PER_S if step.service_s else 0.0
    return [
        _Point(row.size, row.total_ns * scale, whole.cpu, row.size / items, row.count, whole.copy_s)
        for row in step.sizes
        if row.count >= _TELLING
    ] or [whole]


def _alone(step: Step, use: CoreUse | None, is_elsewhere: bool, cores: Cores) -> _Point:
    """Return a step as it would run on an idle machine.

    Other programs slow it down even if no other step of the server runs. If its core time was observed, the time lost
    to other programs is known.
    """
    own_s, speed = step.own_s, cores.speed(1.0)
    if use is None:
        alone_s, cpu = (own_s, 0.0) if is_elsewhere else (own_s * speed, 1.0)
        return _Point(step.batch, alone_s, cpu, copy_s=step.copy_s)
    waited_s = use.waiting if use.waiting else use.cores * (1 / speed - 1)
    alone_s = min(own_s, max(use.cores, own_s - waited_s))
    return _Point(step.batch, alone_s, _snapped(use.cores / alone_s if alone_s else 0.0), copy_s=step.copy_s)


def _line(points: list[_Point]) -> tuple[float, float, float]:
    """Return the fixed seconds, and those per inference and per additional request; none is negative.

    The line goes through the first point, which is the lightest load. Client-side batches have one request each, so
    they do not show the cost of additional requests; server-side batches do not separate it from the cost of an
    inference.
    """
    near, *others = points
    rows = [
        (point.count / point.alone_s**2, point.batch - near.batch, point.requests - near.requests, point)
        for point in others
        if point.alone_s > 0
    ]
    if not any(abs(items) > 0 for _, items, _, _ in rows):
        item_s = UNKNOWN_ITEM_SHARE * near.alone_s / near.batch
        return near.alone_s - near.batch * item_s, item_s, 0.0
    most_s = near.alone_s / near.batch
    xx = sum(weight * x * x for weight, x, _, _ in rows)
    xy = sum(weight * x * y for weight, x, y, _ in rows)
    yy = sum(weight * y * y for weight, _, y, _ in rows)
    xz = sum(weight * x * (point.alone_s - near.alone_s) for weight, x, _, point in rows)
    yz = sum(weight * y * (point.alone_s - near.alone_s) for weight, _, y, point in rows)
    determinant = xx * yy - xy * xy
    if determinant > _DISTINCT * xx * yy:
        item_s, request_s = (xz * yy - yz * xy) / determinant, (yz * xx - xz * xy) / determinant
        item_s = min(max(item_s, 0.0), most_s)
        request_s = (yz - item_s * xy) / yy
        if request_s < 0:
            item_s, request_s = min(max(xz / xx, 0.0), most_s), 0.0
    else:
        item_s = min(max(xz / xx, 0.0), most_s)
        request_s = 0.0 if yy > 0 else min(near.copy_s, near.alone_s)
    return near.alone_s - near.batch * item_s, item_s, request_s


def knows_batches(name: str, rows: Sequence[Observation]) -> bool:
    """Return whether batches of several sizes were observed for a step, so that their cost is not a guess."""
    near, *others = _points(name, rows, Cores())
    return any(point.batch > _LARGER * near.batch for point in others)


# --- the GPUs


def _gpu_line(name: str, rows: Sequence[Observation], fixed_s: float, item_s: float) -> tuple[float, float]:
    """Return the fixed and per-inference seconds of an execution on a GPU, from the GPU utilisation.

    With concurrent executions this includes the cost of switching, so rows without them are preferred. Steps on the
    same GPUs share the utilisation in proportion to their work. If the utilisation is unknown, a step is assumed to
    keep a GPU busy while it runs.
    """
    alone = [row for row, step, _ in _seen(name, rows) if row.gpu_share is not None and _is_alone(row, step)]
    points = [found for row in alone or rows if (found := _maybe_gpu_point(name, row)) is not None]
    if not points:
        return fixed_s, item_s
    total = sum(weight for _, _, weight in points)
    mean_batch = sum(weight * batch for batch, _, weight in points) / total
    mean_s = sum(weight * gpu_s for _, gpu_s, weight in points) / total
    spread = sum(weight * (batch - mean_batch) ** 2 for batch, _, weight in points)
    rise_s = sum(weight * (batch - mean_batch) * gpu_s for batch, gpu_s, weight in points)
    # One size only: it grows with the batch as the whole execution does.
    share = item_s / (fixed_s + mean_batch * item_s) if item_s else 0.0
    gpu_item_s = rise_s / spread if spread > 0 else share * mean_s
    gpu_item_s = min(max(gpu_item_s, 0.0), mean_s / mean_batch, item_s if item_s else math.inf)
    gpu_fixed_s = min(max(0.0, mean_s - mean_batch * gpu_item_s), fixed_s)
    return gpu_fixed_s, gpu_item_s


def _maybe_gpu_point(name: str, row: Observation) -> tuple[float, float, float] | None:
    """Return batch size, seconds on a GPU per execution, and weight; None if unknown."""
    there = {step.name: (step, calls) for step, calls, _ in row.walk() if step.setup.device == GPU_DEVICE}
    share = row.gpu_share
    if name not in there or share is None or not row.throughput:
        return None
    held = {
        other: row.throughput * calls / step.batch * max(0.0, step.own_s - step.copy_s)
        for other, (step, calls) in there.items()
    }
    step, calls = there[name]
    rate = row.throughput * calls / step.batch
    if not rate or not sum(held.values()):
        return None
    gpu_s = share * step.setup.gpus * held[name] / sum(held.values()) / rate
    return (step.batch, gpu_s, 1 / gpu_s**2) if gpu_s > _LEAST_GPU_S else None


def _core_seconds(row: Observation) -> dict[str, CoreUse]:
    """Return the core time and waiting time of each step's executions: measured per process, otherwise a share of the
    server's rest.

    With several threads, the core time exceeds the duration.
    """
    host, rate = row.host, row.throughput / row.items
    if host is None or not rate:
        return {}
    executions = {step.name: calls * row.items / step.batch * rate for step, calls, _ in row.walk()}
    own_s = {step.name: step.own_s for step, _, _ in row.walk()}
    known = {
        name: CoreUse(use.cores / executions[name], use.waiting / executions[name])
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
    """Return the server's core time per request that no step accounts for."""
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


def calibrate(rows: Sequence[Measured], pipeline: Pipeline, least_turn: float = -1.0) -> Pipeline:
    """Return the pipeline with the GPU scaling and the core speed and scaling that explain the rows best.

    Rows in which jobs hardly ever compete for a core or a GPU are not informative; if there are only such rows, the
    pipeline is returned unchanged.
    """
    useful = [row for row in rows if row.throughput > 0]
    if any(
        _separates(row, (_turning(row.pipeline, 0.0), _turning(row.pipeline, _DEAR_TURN))) for row in useful
    ):
        span = math.log(2 + least_turn), math.log(2 + _DEAREST_TURN)
        place = _minimum(lambda value: _misfit(useful, partial(_turning, turn=math.exp(value) - 2))[0], span)
        turn = math.exp(place) - 2
        pipeline = _turning(pipeline, turn)
        useful = [replace(row, pipeline=_turning(row.pipeline, turn)) for row in useful]
    if not any(_separates(row, (_scaled(row.pipeline, 1.0), _scaled(row.pipeline, 0.5))) for row in useful):
        return pipeline
    scaling = _minimum(
        lambda value: _misfit(useful, partial(_scaled, scaling=value))[0], (_LEAST_SCALING, 1.0)
    )
    speed = math.exp(-_misfit(useful, partial(_scaled, scaling=scaling))[1]) if len(useful) > 1 else 1.0
    factor = 1 / min(max(speed, 0.7), 1.4)
    stations = tuple(_slowed(station, factor) for station in pipeline.stations)
    return _scaled(replace(pipeline, stations=stations), scaling)


def _separates(row: Measured, otherwise: tuple[Pipeline, Pipeline]) -> bool:
    """Return whether the throughput of a row depends on which of two pipelines applies."""
    free, tight = (predict(pipeline, row.concurrency).throughput for pipeline in otherwise)
    return tight < free * (1 - _INFORMATIVE)


def _misfit(rows: Sequence[Measured], changed: Callable[[Pipeline], Pipeline]) -> tuple[float, float]:
    """Return how poorly changed pipelines explain the rows apart from a common speed, and the logarithm of that
    speed."""
    errors = [
        math.log(predict(changed(row.pipeline), row.concurrency).throughput / row.throughput) for row in rows
    ]
    mean = sum(errors) / len(errors)
    if len(errors) == 1:
        return mean**2, mean
    spread = sum((error - mean) ** 2 for error in errors) / len(errors)
    return spread + _PRIOR * mean**2, mean


def _scaled(pipeline: Pipeline, scaling: float) -> Pipeline:
    return replace(pipeline, cores=replace(pipeline.cores, scaling=scaling))


def _turning(pipeline: Pipeline, turn: float) -> Pipeline:
    return replace(pipeline, devices=replace(pipeline.devices, turn=max(turn, _ALL_BESIDE)))


def _slowed(station: Station, factor: float) -> Station:
    return replace(
        station,
        fixed_s=station.fixed_s * factor,
        item_s=station.item_s * factor,
        request_s=station.request_s * factor,
        members=tuple(_slowed(member, factor) for member in station.members),
    )


def _minimum(function: Callable[[float], float], span: tuple[float, float]) -> float:
    """Minimize by golden-section search."""
    low, high = span
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
    return min((at_left, left), (at_right, right), (function(span[1]), span[1]))[1]
