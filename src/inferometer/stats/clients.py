"""What each client did at a level, where load comes from several machines."""

from inferometer.base.frozen import frozen


@frozen
class ClientClockFigures:
    """A client's clock against ours at the end of the level."""

    offset_ns: int  # how far it is ahead
    drift: float  # how much quicker it goes: 50e-6 is 50 ppm
    uncertainty_ns: int  # how far off times of the client may be: the most in the level
    round_trip_ns: int  # of the quickest question for its time
    jumps: int = 0  # times that it did not go on evenly


@frozen
class LostClient:
    """That a client was lost, and what became of its share of the load."""

    after_s: float  # from the level's start; below 0 it was lost before
    why: str
    outstanding: int  # requests that it had not finished by its last report: they are in no figure
    is_taken_over: bool  # the others have sent its share since then; otherwise it is missing


@frozen
class ClientFigures:
    """One client: requests that it sent and that ended in the measured time."""

    name: str
    place: str  # the machine
    workers: int
    request_count: int  # good ones
    failed_count: int
    infer_per_s: float
    mean_ns: int  # latencies, as in the level's measurement
    percentiles: tuple[tuple[float, int], ...]  # (p, ns)
    floor_ns: int  # the quickest answer, from the send on; 0 without any
    cpu_share: float  # of a core, by its busiest worker
    cpu_us_per_request: float  # of all its workers
    own_cpu_share: float  # of a core, by what answers for the workers
    lag_p50_ns: int  # by rate: how long after they were due requests were sent
    lag_p99_ns: int
    sent_bytes: int  # of requests that ended, without what the connection adds
    received_bytes: int
    clock: ClientClockFigures
    lost: LostClient | None = None
    class_name: str = ""  # of traffic, where a client sends that of each class by workers of its own

    def percentile_ns(self, p: float) -> int:
        return dict(self.percentiles).get(p, 0)

    @property
    def machine(self) -> str:
        """The client with its place, whichever class it sends."""
        return f"{self.name} ({self.place})" if self.place else self.name

    @property
    def title(self) -> str:
        return f"{self.machine} for class '{self.class_name}'" if self.class_name else self.machine
