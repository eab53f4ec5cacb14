"""Number of clients that a load needs, from the cost of a request to one worker here.

    cores   = rate * CPU per request * CLUSTER_COST / (1 - headroom)
    network = rate * bytes on the wire / (1 - headroom), in the busier direction

A client has one worker per core. The limit is whichever of the two needs more clients; the number to
use is that of the upper end of the interval, so that it suffices.
"""

import math

from inferometer.base.frozen import frozen
from inferometer.stats.estimate import Estimate

CLUSTER_COST = 1.15  # maximum CPU per request of a cluster client, relative to a single worker
RECORD_CPU_US = 1.6  # of the command that merges the reports of all clients (benchmarks/merge.py)
SEGMENT = 1448  # bytes of data in a full Ethernet packet
PACKET_COST = 90  # overhead in bytes: Ethernet with preamble and gap, IP, TCP with timestamps
BITS = 8
US_PER_S = 1e6
_ROUNDING = 1e-9


@frozen
class Machines:
    """Resources of each client's machine."""

    cores: int
    network_bit_s: float
    headroom: float  # share that stays unused


@frozen
class WantedLoad:
    """The load and its kind of request."""

    rate: float  # per second, of all clients
    cost_us: Estimate
    sent_bytes: float
    received_bytes: float


@frozen
class Bounds:
    """A number of clients, with its values at the ends of the interval."""

    value: int
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


@frozen
class ClientsNeeded:
    """The answer. Cores and bits are totals of all clients, without headroom."""

    cores: Estimate
    sent_bit_s: float
    received_bit_s: float
    by_cpu: Bounds
    by_network: int
    controller_cores: float
    per_client: float  # maximum requests per second of one client, at the centre of the interval

    @property
    def clients(self) -> int:
        """The number of clients that is enough despite the uncertainty."""
        return max(self.by_cpu.high, self.by_network)

    @property
    def bounds(self) -> Bounds:
        found = self.by_cpu
        return Bounds(*(max(count, self.by_network) for count in (found.value, found.low, found.high)))

    @property
    def limit(self) -> str:
        """The resource that limits the number."""
        return "network" if self.by_network > self.by_cpu.high else "CPU"

    @property
    def is_mergeable(self) -> bool:
        """Whether one command, which has one core for it, can merge the records of this rate."""
        return self.controller_cores <= 1

    @property
    def commands(self) -> int:
        """Number of commands among which to divide the rate."""
        return max(1, math.ceil(self.controller_cores - _ROUNDING))


def wire_bytes(size: float) -> float:
    """Return the bytes that a message of this size takes on the network, with packet headers."""
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
    """Round up to at least one; tolerate rounding errors of whole numbers."""
    return max(1, math.ceil(count - _ROUNDING))
