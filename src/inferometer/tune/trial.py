"""One trial: variants under a load, with figures, or the reason why there are none."""

from collections.abc import Sequence
from dataclasses import field, replace
from enum import Enum

from inferometer.base.frozen import frozen
from inferometer.server.guarded import MEMORY_WORDS
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import BY_TAG, known_tag


@frozen
class ClientLoad:
    """Requests of `batch` rows, at a concurrency, a rate, or the times in a file; exactly one of these is set."""

    concurrency: int | None = None
    request_rate: float | None = None
    intervals: str | None = None
    batch: int = 1

    @property
    def value(self) -> float:
        """The value that a sweep varies; 0 for a file of times."""
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


class Status(Enum):
    """Outcome of a trial."""

    MEASURED = "measured"
    FAILED = "failed"  # tried, but without figures
    SKIPPED = "skipped"  # not tried, for the given reason


@frozen
class Figures:
    """Values by tag of the metric catalogue, in its units (ms, MB, percent), each with its interval if known."""

    values: tuple[tuple[str, Estimate], ...] = ()

    def get(self, tag: str) -> float | None:
        found = self.estimate(tag)
        return None if found is None else found.value

    def estimate(self, tag: str) -> Estimate | None:
        wanted = known_tag(tag)
        return next((value for name, value in self.values if name == wanted), None)


@frozen
class TrialPart:
    """One model of a trial."""

    model: str
    variant: str  # its name; the study has the variant itself
    load: ClientLoad
    figures: Figures = Figures()


Setting = tuple[str, tuple[ClientLoad, ...]]
"""A configuration by name, and the load of each of its models."""


@frozen
class Trial:
    """A trial; `parts` has one entry, or one per model if several are loaded together."""

    number: int
    parts: tuple[TrialPart, ...]
    status: Status = Status.MEASURED
    reason: str = ""
    repeat: int = 0  # number of earlier measurements of the same
    cost_s: float = 0.0  # since the previous trial: deciding, loading, measuring
    loading_s: float = 0.0  # part of cost_s, as are the next two
    warming_s: float = 0.0
    measuring_s: float = 0.0
    startup_s: float = 0.0  # from the start of its server until that was warm; 0 if it was running before
    note: str = ""  # why the figures may be wrong
    is_client_limited: bool = False  # the figures show this client rather than the server
    is_host_busy: bool = False  # other programs used the cores during the measurement
    is_cold: bool = False  # the server was still getting faster
    gpus: tuple[tuple[str, Figures], ...] = ()  # by UUID
    predicted: tuple[tuple[str, float], ...] = ()  # figures expected by the search, by tag
    key: str = ""  # of the content, the load and the repeat
    server: int | None = None  # which of several measured it, counted from 1
    waited_s: float = 0.0  # idle time of that server before the trial
    is_recalled: bool = field(default=False, compare=False)  # from the journal: an earlier run paid for it

    @property
    def spent_s(self) -> float:
        """The seconds that the trial cost the current run."""
        return 0.0 if self.is_recalled else self.cost_s + self.waited_s

    @property
    def is_measured(self) -> bool:
        return self.status is Status.MEASURED

    @property
    def lacks_memory(self) -> bool:
        """Whether the trial ran out of memory, which is not a fault of the model: other configurations may fit."""
        return not self.is_measured and any(words in self.reason.lower() for words in MEMORY_WORDS)

    @property
    def name(self) -> str:
        return ",".join(part.variant for part in self.parts)

    @property
    def models(self) -> str:
        return ",".join(part.model for part in self.parts)

    @property
    def load(self) -> ClientLoad:
        return self.parts[0].load

    @property
    def loads(self) -> tuple[ClientLoad, ...]:
        return tuple(part.load for part in self.parts)

    @property
    def setting(self) -> "Setting":
        """The configuration and the loads, equal for all repeats."""
        return self.name, self.loads

    def value(self, tag: str, part: int = 0) -> float | None:
        """Return a figure of one model; GPU figures are of the whole server, combined over its GPUs."""
        metric = BY_TAG.get(tag)
        if metric is not None and metric.of_gpu:
            found = [value for _, figures in self.gpus if (value := figures.get(tag)) is not None]
            return metric.combine(found) if found else None
        return self.parts[part].figures.get(tag)

    def combined(self, tag: str) -> float | None:
        """Return a figure of all models together."""
        found = [value for part in range(len(self.parts)) if (value := self.value(tag, part)) is not None]
        if not found:
            return None
        metric = BY_TAG[known_tag(tag)]
        return found[0] if metric.of_gpu else metric.combine(found)


def counted(trials: Sequence[Trial]) -> Sequence[Trial]:
    """Return the repeats that count: a trial is repeated because its first run looked good, so that run is biased and
    is dropped if there are two or more others."""
    repeats = [trial for trial in trials if trial.repeat]
    return repeats if len(repeats) > 1 else trials


def pooled(trials: Sequence[Trial]) -> Trial:
    """Pool the repeats of one trial: the mean of every figure, with an interval that covers all of theirs."""
    first, trials = trials[0], counted(trials)
    if len(trials) == 1:
        return first
    parts = tuple(
        replace(part, figures=_pooled_figures([trial.parts[number].figures for trial in trials]))
        for number, part in enumerate(first.parts)
    )
    by_gpu: dict[str, list[Figures]] = {}
    for trial in trials:
        for uuid, figures in trial.gpus:
            by_gpu.setdefault(uuid, []).append(figures)
    gpus = tuple((uuid, _pooled_figures(rows)) for uuid, rows in by_gpu.items())
    return replace(
        first,
        parts=parts,
        repeat=0,
        cost_s=sum(trial.cost_s for trial in trials),
        gpus=gpus,
        is_client_limited=any(trial.is_client_limited for trial in trials),
        is_host_busy=any(trial.is_host_busy for trial in trials),
    )


def _pooled_figures(rows: Sequence[Figures]) -> Figures:
    by_tag: dict[str, list[Estimate]] = {}
    for row in rows:
        for tag, found in row.values:
            by_tag.setdefault(tag, []).append(found)
    return Figures(tuple((tag, _pooled_estimate(found)) for tag, found in by_tag.items()))


def _pooled_estimate(rows: Sequence[Estimate]) -> Estimate:
    if len(rows) == 1:
        return rows[0]
    # Runs of one configuration differ by more than the windows of one run: their spread counts, not only their widths.
    low = min(row.value if row.low is None else row.low for row in rows)
    high = max(row.value if row.high is None else row.high for row in rows)
    return Estimate(sum(row.value for row in rows) / len(rows), low, high)
