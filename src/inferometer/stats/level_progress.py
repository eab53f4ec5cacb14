"""Progress of a level, and the requests that ended since the last report."""

from inferometer.base.frozen import frozen
from inferometer.records.records import EMPTY, Column, Records


@frozen
class LevelProgress:
    """Progress report, sent several times per second while requests are sent."""

    seen_ns: int
    elapsed_s: float  # since the level began
    latency_ns: Column  # of successful requests since the last report
    failed: int = 0  # since the last report
    outstanding: int = 0
    left_s: float | None = None  # estimated time until the level ends; None if unknown
    is_most: bool = False  # the level may end sooner
    is_warm_up: bool = False
    tokens: int | None = None  # of successful answers since the last report; None if not counted
    cpu_ns: int | None = None  # used by the workers since the last report
    server_waiting: float | None = None  # requests in the server's queue, if known
    gpu: float | None = None  # 0 to 1, of the busiest one, if known
    records: Records = EMPTY  # all requests that ended since the last report; empty during warm-up
