"""How far a level has come, and what has ended since this was last told."""

from inferometer.base.frozen import frozen
from inferometer.records.records import Column


@frozen
class LevelProgress:
    """Told several times a second while requests are sent."""

    seen_ns: int
    elapsed_s: float  # since the level began
    latency_ns: Column  # of the requests that ended well since the last time
    failed: int = 0  # since the last time
    outstanding: int = 0
    left_s: float | None = None  # until the level ends, about; None where nobody can tell
    is_most: bool = False  # it may well end sooner
    is_warm_up: bool = False
    tokens: int | None = (
        None  # of the answers that ended well since the last time; None where none are counted
    )
    cpu_ns: int | None = None  # that the workers used since the last time
    server_waiting: float | None = None  # requests in the server's queue, where that is known
    gpu: float | None = None  # 0 to 1, of the busiest one, where that is known
