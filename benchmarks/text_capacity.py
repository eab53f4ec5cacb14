"""`python -m benchmarks.text_capacity`: plans for text servers with known steps, and what that many replicas do.

Each server of `benchmarks.text_twin` is measured at four loads and planned for from the saved result. The planned
number of replicas, one fewer and two fewer are then run by an independent simulation, with requests in turn.
"""

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.text_twin import SECONDS, SERVERS, Server
from inferometer.base.slo import parse_slo
from inferometer.capacity.request import request_of
from inferometer.capacity.run import plan_capacity
from inferometer.capacity.saved import named_options
from inferometer.options.planning import CapacityOptions
from tests.support.text_runs import fleet_first_p99_ns, random_arrivals, text_result

TRAFFIC_S = 300.0
SETTLE_S = 30.0
SEEDS = (11, 12)


class Plan(NamedTuple):
    """A server, its traffic in multiples of its capacity, and the limit of the TTFT's p99."""

    server: Server
    load: float
    limit_ms: float


class Planned(NamedTuple):
    """The planned number of replicas, and the true figures of as many and of fewer."""

    plan: Plan
    replicas: int
    p99_ms: dict[int, float]  # by the number fewer than planned; the worse of two runs

    @property
    def is_right(self) -> bool:
        """Whether the planned number meets the SLO and two fewer do not."""
        return self.p99_ms[0] < self.plan.limit_ms <= self.p99_ms.get(2, float("inf"))

    @property
    def is_too_many(self) -> bool:
        return self.p99_ms.get(1, float("inf")) < self.plan.limit_ms


PLANS = (
    Plan(SERVERS[0], 4.0, 250.0),
    Plan(SERVERS[0], 2.5, 1000.0),
    Plan(SERVERS[1], 4.0, 300.0),
    Plan(SERVERS[2], 3.0, 500.0),
    Plan(SERVERS[3], 5.0, 400.0),
    Plan(SERVERS[3], 3.5, 1500.0),
)


def planned(plan: Plan) -> Planned:
    rate = plan.load * plan.server.capacity
    result = text_result(plan.server.known, plan.server.users, SECONDS)
    asked = CapacityOptions(
        traffic=f"{rate:.4g}/s", slo=parse_slo(f"ttft p99<{plan.limit_ms:.0f}ms"), spare=0
    )
    found = plan_capacity(request_of(asked, named_options([result], ()))).chosen
    assert found is not None
    count = found.replicas
    p99_ms = {
        fewer: max(
            fleet_first_p99_ns(
                plan.server.known, count - fewer, random_arrivals(rate, TRAFFIC_S, seed), settle_s=SETTLE_S
            )
            / 1e6
            for seed in SEEDS
        )
        for fewer in range(min(3, count))
    }
    return Planned(plan, count, p99_ms)


def rows() -> Iterator[str]:
    yield "| server | requests/s | SLO | planned | TTFT p99 | one fewer | two fewer |\n|---|---|---|---|---|---|---|\n"
    for plan in PLANS:
        row = planned(plan)
        cells = [f"{row.p99_ms[fewer]:,.0f} ms" if fewer in row.p99_ms else "-" for fewer in range(3)]
        rate, limit = f"{plan.load * plan.server.capacity:.4g}", f"ttft p99<{plan.limit_ms:.0f}ms"
        yield f"| {' | '.join((plan.server.name, rate, limit, str(row.replicas), *cells))} |\n"


if __name__ == "__main__":
    for line in rows():
        print(line, end="", flush=True)
