"""What a built-in server does with the requests it gets: pure numbers, so that the truth can be computed."""

import json
from dataclasses import asdict, dataclass

from inferometer.base.units import NS_PER_S

# By the request's number modulo CYCLE, what goes wrong with it, in the words the failure groups have for it.
CYCLE = 100
FAULTS = {5: "http 503", 55: "http 503", 25: "reset", 45: "timeout", 85: "malformed"}


def fault(number: int) -> str | None:
    """What happens to request `number` of a failing server, if anything."""
    return FAULTS.get(number % CYCLE)


def dealt(requests: int) -> dict[str, int]:
    """How many requests of each fault there are among the first so many."""
    whole, rest = divmod(requests, CYCLE)
    counts = dict.fromkeys(FAULTS.values(), 0)
    for place, kind in FAULTS.items():
        counts[kind] += whole + (place < rest)
    return counts


@dataclass(frozen=True, slots=True)
class Stall:
    """A server that freezes at the beginning of every period of the clock."""

    period_ns: int
    frozen_ns: int

    def thawed_ns(self, time_ns: int) -> int:
        """When a request that comes at this time is looked at."""
        return time_ns + max(self.frozen_ns - time_ns % self.period_ns, 0)

    def percentile_ns(self, p: float) -> int:
        """Of the waits of requests that come evenly: a wait of more than w has the share (frozen - w) / period."""
        return max(round(self.frozen_ns - (1 - p / 100) * self.period_ns), 0)

    def __str__(self) -> str:
        return f"freezes {self.frozen_ns / NS_PER_S:g} s in every {self.period_ns / NS_PER_S:g} s"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Of one built-in server."""

    protocol: str = "http"  # or grpc
    stall: Stall | None = None
    is_failing: bool = False
    keeps_arrivals: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def from_json(text: str) -> Behaviour:
    document = json.loads(text)
    stall = document.pop("stall")
    return Behaviour(**document, stall=None if stall is None else Stall(**stall))
