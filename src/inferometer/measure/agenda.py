"""Load that ends by itself: a schedule of so many requests, and which of the data each one sends."""

from dataclasses import dataclass

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.dataset.dataset import Dataset
from inferometer.dataset.replay import Trace
from inferometer.load.plan import Listed, Open, Schedule
from inferometer.load.shape import parse_shape
from inferometer.options.options import Options


@dataclass(frozen=True, slots=True)
class Agenda:
    """`before` is what is sent to warm up; of a fixed schedule these are its first requests."""

    schedule: Schedule
    count: int
    steps: tuple[int, ...] | None = None
    before: "Agenda | None" = None

    @property
    def length_ns(self) -> int:
        """From the start to the last request."""
        return self.schedule.due_ns(self.count - 1)

    @property
    def per_s(self) -> float:
        """The mean rate between the first and the last request; of a single one, or of all at once, 0."""
        span_ns = self.length_ns - self.schedule.due_ns(0)
        return (self.count - 1) * NS_PER_S / span_ns if span_ns else 0.0

    def plan(self, cap: int | None) -> Open:
        return Open(self.schedule, cap=cap, count=self.count, steps=self.steps)


def maybe_agenda(
    options: Options, dataset: Dataset, trace: Trace | None, numbers: tuple[int, ...] | None
) -> Agenda | None:
    """None when the load goes on until it has been measured."""
    if options.shape_load is not None:
        shape = parse_shape(options.shape_load)
        return _with_warm_up(Agenda(shape, shape.count), options)
    if trace is not None:
        times = tuple(entry.time_ns for entry in trace.entries)
        return _with_warm_up(Agenda(Listed(times), len(times), numbers), options)
    if dataset.times_ms is not None:
        return _fixed(dataset.times_ms, options.warmup_request_count)
    return None


def _with_warm_up(agenda: Agenda, options: Options) -> Agenda:
    """To warm up, the schedule begins once more."""
    count = min(options.warmup_request_count, agenda.count)
    if not count:
        return agenda
    before = Agenda(agenda.schedule, count, agenda.steps)
    return Agenda(agenda.schedule, agenda.count, agenda.steps, before)


def _fixed(times_ms: tuple[float, ...], warm_up: int) -> Agenda:
    if warm_up >= len(times_ms):
        raise UsageError(
            f"the fixed schedule has {len(times_ms)} steps, and {warm_up} of them are to warm up",
            remedy="give more steps, or a lower --warmup-request-count",
        )
    order = tuple(sorted(range(len(times_ms)), key=lambda step: times_ms[step]))
    times = tuple(round(times_ms[step] * NS_PER_MS) for step in order)
    if not warm_up:
        return Agenda(Listed(times), len(times), order)
    # The rest begins when the warm-up is over, as long after it as in the file.
    rest = tuple(time - times[warm_up - 1] for time in times[warm_up:])
    before = Agenda(Listed(times[:warm_up]), warm_up, order[:warm_up])
    return Agenda(Listed(rest), len(rest), order[warm_up:], before)
