"""How many clients a load needs, from what a request costs one worker here.

    cores   = rate * CPU of a request * CLUSTER_COST / (1 - headroom)
    network = rate * bytes on the wire / (1 - headroom), in the busier direction

A client has a worker for each of its cores. What decides is whichever of the two asks for more clients; the number to
use is that of the upper end of the interval, so that it is enough.
"""

import math
from dataclasses import dataclass

from inferometer.stats.measurement import Estimate

CLUSTER_COST = 1.15  # CPU of a request sent by a client of a cluster, against the same worker alone, at most
RECORD_CPU_US = 1.6  # of the command that merges what all clients report (benchmarks/merge.py)
SEGMENT = 1448  # bytes of data in a full packet of Ethernet
PACKET_COST = 90  # bytes beside them: Ethernet with preamble and gap, IP, TCP with timestamps
BITS = 8
US_PER_S = 1e6
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Machines:
    """What each client's machine has."""

    cores: int
    network_bit_s: float
    headroom: float  # the share that stays unused


@dataclass(frozen=True, slots=True)
class WantedLoad:
    """The load, and what one request of it is."""

    rate: float  # per second, of all clients
    cost_us: Estimate
    sent_bytes: float
    received_bytes: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """A number of clients, and what it is at the ends of the interval."""

    value: int
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


@dataclass(frozen=True, slots=True)
class ClientsNeeded:
    """The answer. Cores and bits are of all clients, without headroom."""

    cores: Estimate
    sent_bit_s: float
    received_bit_s: float
    by_cpu: Bounds
    by_network: int
    controller_cores: float
    per_client: float  # requests per second of one client at most, in the middle of the interval

    @property
    def clients(self) -> int:
        """Enough of them, as far as is known."""
        return max(self.by_cpu.high, self.by_network)

    @property
    def bounds(self) -> Bounds:
        found = self.by_cpu
        return Bounds(*(max(count, self.by_network) for count in (found.value, found.low, found.high)))

    @property
    def limit(self) -> str:
        """What decides the number."""
        return "network" if self.by_network > self.by_cpu.high else "CPU"

    @property
    def is_mergeable(self) -> bool:
        """Whether one command can merge the records of such a rate: it has one core for it."""
        return self.controller_cores <= 1

    @property
    def commands(self) -> int:
        """Among how many commands the rate has to be divided."""
        return max(1, math.ceil(self.controller_cores - _ROUNDING))


def wire_bytes(size: float) -> float:
    """What a message of this size takes on the network, with the heads of its packets."""
    return size + math.ceil(size / SEGMENT) * PACKET_COST


def clients_needed(load: WantedLoad, machines: Machines) -> ClientsNeeded:
    usable = 1 - machines.headroom
    sent = load.rate * wire_bytes(load.sent_bytes) * BITS
    received = load.rate * wire_bytes(load.received_bytes) * BITS
    cost = load.cost_us
    ends = cost.limits or (cost.value, cost.value)
    value, low, high = (load.rate * us * CLUSTER_COST / US_PER_S for us in (cost.value, *ends))
    counts = (_ceiling(cores / usable / machines.cores) for cores in (value, low, high))
    by_network = _ceiling(max(sent, received) / (machines.network_bit_s * usable))
    wire = max(sent, received) / load.rate
    return ClientsNeeded(
        Estimate(value, low, high),
        sent,
        received,
        Bounds(*counts),
        by_network,
        load.rate * RECORD_CPU_US / US_PER_S,
        usable * min(machines.cores * US_PER_S / (cost.value * CLUSTER_COST), machines.network_bit_s / wire),
    )


def _ceiling(count: float) -> int:
    """At least one; a number that is whole but for rounding is that number."""
    return max(1, math.ceil(count - _ROUNDING))
