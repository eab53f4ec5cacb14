"""Figures of a client without anything remarkable."""

from inferometer.base.units import NS_PER_MS
from inferometer.stats.clients import ClientClockFigures, ClientFigures

CLOCK = ClientClockFigures(
    offset_ns=5 * NS_PER_MS, drift=1e-6, uncertainty_ns=NS_PER_MS // 10, round_trip_ns=NS_PER_MS // 5
)
PLAIN = ClientFigures(
    name="client 1",
    place="10.0.0.1",
    workers=2,
    request_count=1000,
    failed_count=0,
    infer_per_s=100.0,
    mean_ns=6 * NS_PER_MS,
    percentiles=((50.0, 5 * NS_PER_MS), (99.0, 20 * NS_PER_MS)),
    floor_ns=2 * NS_PER_MS,
    cpu_share=0.3,
    cpu_us_per_request=30.0,
    own_cpu_share=0.02,
    lag_p50_ns=20_000,
    lag_p99_ns=90_000,
    sent_bytes=10**6,
    received_bytes=2 * 10**6,
    clock=CLOCK,
)
