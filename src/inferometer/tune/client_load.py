"""The load of one trial on one model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """Requests of `batch` rows, at a concurrency, a rate, or the times in a file; exactly one of these is set."""

    concurrency: int | None = None
    request_rate: float | None = None
    intervals: str | None = None
    batch: int = 1

    @property
    def value(self) -> float:
        """The number that a sweep raises; 0 for a file of times."""
        if self.concurrency is not None:
            return float(self.concurrency)
        return 0.0 if self.request_rate is None else self.request_rate

    def __str__(self) -> str:
        rows = "" if self.batch == 1 else f"client batch size={self.batch}, "
        if self.concurrency is not None:
            return f"{rows}concurrency={self.concurrency}"
        if self.request_rate is not None:
            return f"{rows}request-rate-range={self.request_rate:g}"
        return f"{rows}request-intervals={self.intervals}"
