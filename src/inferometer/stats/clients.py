"""Figures of each client at a level with load from several machines."""

from inferometer.base.frozen import frozen


@frozen
class ClientClockFigures:
    """A client's clock relative to ours at the end of the level."""

    offset_ns: int  # how far it is ahead
    drift: float  # relative frequency error: 50e-6 is 50 ppm
    uncertainty_ns: int  # largest error of the client's times during the level
    round_trip_ns: int  # of the fastest clock query
    jumps: int = 0  # number of discontinuities


@frozen
class LostClient:
    """The loss of a client, and the effect on its share of the load."""

    after_s: float  # since the level's start; negative if it was lost before
    why: str
    outstanding: int  # requests unfinished at its last report, excluded from all figures
    is_taken_over: bool  # whether the other clients have sent its share since then
    silent_s: float = 0.0  # time in the level since its last report; requests in it are in no figures


@frozen
class ClientFigures:
    """One client: the requests it sent that ended in the measured time."""

    name: str
    place: str  # the machine
    workers: int
    request_count: int  # successful ones
    failed_count: int
    infer_per_s: float
    mean_ns: int  # latency, as in the level's measurement
    percentiles: tuple[tuple[float, int], ...]  # (p, ns)
    floor_ns: int  # fastest answer, measured from the send; 0 without any
    cpu_share: float  # of a core, by its busiest worker
    cpu_us_per_request: float  # of all its workers
    own_cpu_share: float  # of a core, by the process that coordinates the workers
    lag_p50_ns: int  # by rate: delay between due time and send
    lag_p99_ns: int
    sent_bytes: int  # of requests that ended, without connection overhead
    received_bytes: int
    clock: ClientClockFigures
    lost: LostClient | None = None
    class_name: str = ""  # traffic class, if a client has separate workers for each class

    def percentile_ns(self, p: float) -> int:
        return dict(self.percentiles).get(p, 0)

    @property
    def machine(self) -> str:
        """The name of the client with its machine, without its class."""
        return f"{self.name} ({self.place})" if self.place else self.name

    @property
    def title(self) -> str:
        return f"{self.machine} for class '{self.class_name}'" if self.class_name else self.machine
