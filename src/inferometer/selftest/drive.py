"""Puts load on a built-in server the way every measurement does: Workers and `measure_level`, nothing shorter."""

from dataclasses import dataclass

from inferometer.base.clock import monotonic_ns
from inferometer.base.errors import LocalError
from inferometer.base.units import NS_PER_S
from inferometer.load.load import Load, Recorded
from inferometer.load.plan import Closed, Plan
from inferometer.load.workers import Workers
from inferometer.measure.level import Bench, Point, Recipe, measure_level
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.model.tensor import Tensor
from inferometer.records.records import Records, join
from inferometer.selftest.child import NullServer
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.traffic import Traffic
from inferometer.stats.measurement import Level, Measurement, WindowFigures
from inferometer.stats.stopping import Precision

PATIENCE_NS = 5 * NS_PER_S  # beyond the time a level should take
MODEL = ModelSpec(
    name="null",
    version="",
    inputs=(TensorSpec("INPUT", "UINT8", (-1,)),),
    outputs=(TensorSpec("OUTPUT", "INT8", (1,)),),
)


def workers(server: NullServer, protocol: str, size: int, *, timeout_ns: int = 0) -> Workers:
    """One worker that sends requests with a tensor of so many bytes; start it with `with`."""
    return Workers(_traffic(server.port, protocol, size), timeout_ns=timeout_ns)


def _traffic(port: int, protocol: str, size: int) -> Traffic:
    connection = Connection(Endpoint("127.0.0.1", port))
    steps = ((Tensor("INPUT", "UINT8", (size,), bytes(size)),),)
    if protocol == "grpc":
        from inferometer.services.triton_grpc import TritonGrpc

        return TritonGrpc(connection).traffic(MODEL, steps)
    from inferometer.services.triton_http import TritonHttp

    return TritonHttp(connection).traffic(MODEL, steps)


@dataclass(slots=True)
class _Watcher:
    """Ends a level that takes far too long."""

    deadline_ns: int

    def level_started(self, mode: str, value: float) -> None: ...

    def window_finished(self, number: int, window: WindowFigures) -> None: ...

    def level_finished(self, level: Level) -> None: ...

    def is_interrupted(self) -> bool:
        return monotonic_ns() > self.deadline_ns


@dataclass(frozen=True, slots=True)
class Run:
    """What one level found, and its requests."""

    measurement: Measurement
    records: Records


def run_for(load: Load, plan: Closed, duration_s: float) -> Run:
    """One window of this length."""
    duration_ns = round(duration_s * NS_PER_S)
    recipe = Recipe(
        model=MODEL, batch=1, percentile=None, rule=Precision(0.0, duration_ns), window_ns=duration_ns
    )
    return _run(load, plan, recipe, duration_ns)


def run_whole(load: Load, plan: Plan, duration_s: float) -> Run:
    """Every request of the plan, which should take about so long."""
    assert plan.count is not None
    duration_ns = round(duration_s * NS_PER_S)
    recipe = Recipe(
        model=MODEL,
        batch=1,
        percentile=None,
        rule=Precision(0.0, duration_ns),
        window_count=plan.count,
        is_whole=True,
    )
    return _run(load, plan, recipe, duration_ns)


def _run(load: Load, plan: Plan, recipe: Recipe, duration_ns: int) -> Run:
    recorded = Recorded(load)
    bench = Bench(recorded, monotonic_ns, lambda: None, _Watcher(monotonic_ns() + duration_ns + PATIENCE_NS))
    level = measure_level(bench, recipe, Point("selftest", 0.0, plan))
    if level.measurement is None:
        raise LocalError("no request of the self-test was answered")
    return Run(level.measurement, join(recorded.parts))
