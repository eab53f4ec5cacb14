"""Hand-made results."""

import pytest

from inferometer.options.effective import Effective
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.measurement import ClientCost, FailureGroup, Level, Measurement
from inferometer.stats.result import Result

EFFECTIVE = {
    "mode": "concurrency",
    "protocol": "http",
    "service_kind": "triton",
    "batch": 1,
    "percentile": None,
}
HOST = {"processor": "A CPU", "cores": 4, "memory_bytes": 16 << 30, "name": "here"}
MODEL = {"name": "m", "version": "", "inputs": [{"name": "IN", "datatype": "FP32", "shape": [4]}]}


@pytest.fixture(scope="session")
def make_level():
    def make(rate=100.0, p99=2e6, width=0.02, value=1, failed=0, remarks=()):
        points = {"mean": 1e6, "p50": 1e6, "p90": 1.5e6, "p95": 1.8e6, "p99": p99}
        latency = Distribution(
            1000, 10**6, 10, 1, 9, tuple((float(n[1:]), int(v)) for n, v in points.items() if n != "mean")
        )
        found = Measurement(
            batch=1,
            duration_ns=10**10,
            request_count=1000,
            failed_count=failed,
            delayed_count=0,
            infer_per_s=estimate(rate, width),
            send_per_s=rate,
            latency=latency,
            latency_intervals=tuple((name, estimate(v, width)) for name, v in points.items()),
            service=latency,
            send_ns=1,
            receive_ns=1,
            received_bytes=1,
            client=ClientCost(1, 0.1, 1.0, 0, 0),
            server=None,
            failures=(FailureGroup("http 500", failed, "no", 0.0, 1.0),) if failed else (),
        )
        return Level(
            "concurrency", float(value), found, (), is_stable=True, is_over_limit=False, remarks=remarks
        )

    return make


def estimate(value, width):
    return Estimate(value) if width is None else Estimate(value, value * (1 - width), value * (1 + width))


@pytest.fixture(scope="session")
def make_result(make_level):
    def make(*levels, effective=None, host=None, model=None, data=None):
        return Result(
            tool="inferometer",
            command="measure",
            started_at="2024-01-01T00:00:00+00:00",
            asked={"data": {"seed": 0, "shapes": {}, **(data or {})}},
            effective=Effective(**{**EFFECTIVE, **(effective or {})}),
            host={**HOST, **(host or {})},
            server={"url": "u"},
            model={**MODEL, **(model or {})},
            levels=levels or (make_level(),),
        )

    return make
