"""Which looks at the server's metrics count for a level."""

from dataclasses import dataclass, field, replace

import pytest

from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS
from inferometer.load.plan import Closed
from inferometer.measure.instrument import LoadPoint
from inferometer.measure.level import measure_level
from inferometer.observe.metrics import Sample
from tests.support.simulation import Reply


@dataclass
class Looks:
    """A poller without a thread: what each window finds, and what it was told."""

    windows: list
    latest: Sample | None = None
    told: list = field(default_factory=list)

    def __enter__(self):
        self.told.append("start")

    def __exit__(self, *error):
        self.told.append("stop")

    def take(self):
        return tuple(
            Sample(at_ns=0, cpu_share=share) for share in (self.windows.pop(0) if self.windows else ())
        )

    def remarks(self):
        return (Remark(Note.METRICS_SLOW, "slow"),)


@pytest.fixture
def level(rig, level_settings, constant):
    def measure(looks, **how):
        found = rig(constant(5))
        return measure_level(
            replace(found.instrument, metrics=looks),
            level_settings(**how),
            LoadPoint("concurrency", 1, Closed(1)),
        )

    return measure


def test_the_looks_of_the_merged_windows_count(rig, level_settings) -> None:
    looks = Looks([(9.0,), (0.1, 0.2), (), (0.6,)])
    # The first window is slower, so that a fourth is needed and the first is not among the last three.
    instrument = rig(lambda number, sent_ns: Reply((10 if number < 100 else 5) * NS_PER_MS)).instrument
    measured = measure_level(
        replace(instrument, metrics=looks), level_settings(), LoadPoint("concurrency", 1, Closed(1))
    )
    assert len(measured.windows) == 4
    metrics = measured.measurement.metrics
    assert metrics.polls == 3
    assert round(metrics.cpu_share, 9) == 0.3
    assert looks.told == ["start", "stop"]


def test_without_a_look_in_the_windows_the_last_before_counts(level) -> None:
    metrics = level(Looks([], latest=Sample(at_ns=0, cpu_share=0.7))).measurement.metrics
    assert (metrics.polls, metrics.cpu_share) == (1, 0.7)


def test_without_any_poll_there_are_no_figures(level) -> None:
    assert level(Looks([])).measurement.metrics.polls == 0


def test_a_metrics_remark_leaves_the_level_valid(level) -> None:
    found = level(Looks([]))
    assert [remark.note for remark in found.remarks] == [Note.METRICS_SLOW]
    assert found.is_stable
    assert found.is_reported


def test_without_a_poller_nothing_is_collected(level) -> None:
    assert level(None).measurement.metrics is None


def test_the_poller_ends_with_a_level_that_breaks(rig, level_settings, constant) -> None:
    looks, found = Looks([]), rig(constant(5))

    def interrupt(number, window):
        raise KeyboardInterrupt

    found.log.window_finished = interrupt
    with pytest.raises(KeyboardInterrupt):
        measure_level(
            replace(found.instrument, metrics=looks), level_settings(), LoadPoint("concurrency", 1, Closed(1))
        )
    assert looks.told == ["start", "stop"]
