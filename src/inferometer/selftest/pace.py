"""How long each part of the self-test takes."""

from dataclasses import dataclass

from inferometer.base.units import NS_PER_MS
from inferometer.selftest.behaviour import Stall


@dataclass(frozen=True, slots=True)
class Pace:
    ceiling_s: float  # for each protocol and payload
    schedule_s: float  # for each rate
    stall: Stall
    periods: int  # of it, that are measured
    fault_requests: int


FULL = Pace(
    ceiling_s=1.5,
    schedule_s=3.0,
    stall=Stall(2000 * NS_PER_MS, 500 * NS_PER_MS),
    periods=4,
    fault_requests=4000,
)
QUICK = Pace(
    ceiling_s=0.3,
    schedule_s=0.5,
    stall=Stall(2000 * NS_PER_MS, 500 * NS_PER_MS),
    periods=2,
    fault_requests=1000,
)
