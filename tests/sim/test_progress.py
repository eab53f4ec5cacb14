"""What is shown while a level is measured, against a server whose every answer is known."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Open
from inferometer.measure.instrument import LoadPoint
from inferometer.measure.level import measure_level, warm_up
from inferometer.report.live_figures import LiveFigures
from inferometer.stats.level_progress import LevelProgress
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.simulation import Reply


@dataclass
class Shown(Watcher):
    """Live figures at every moment at which they may be drawn."""

    told: list[LevelProgress] = field(default_factory=list)
    figures: LiveFigures = field(default_factory=LiveFigures)
    rates: list[float] = field(default_factory=list)
    percentiles: list[tuple] = field(default_factory=list)

    def progressed(self, progress):
        self.told.append(progress)
        self.figures.add(progress)
        self.rates.append(self.figures.per_s)
        self.percentiles.append((self.figures.latency_ns(50), self.figures.latency_ns(99)))


def measured(rig, script, settings, point, **more):
    shown = Shown()
    made = rig(script, **more)
    level = measure_level(replace(made.instrument, watcher=shown), settings, point)
    return shown, level.measurement


def test_figures_of_a_steady_closed_loop_are_exact(rig, level_settings, constant):
    shown, found = measured(
        rig, constant(2), level_settings(), LoadPoint("concurrency", 4, Closed(4)), servers=None
    )
    assert shown.rates[-1] == found.infer_per_s.value == 2000
    assert shown.percentiles[-1] == (2 * NS_PER_MS, 2 * NS_PER_MS)
    assert shown.figures.outstanding == 4
    assert sum(len(row.latency_ns) for row in shown.told) == found.request_count
    gaps_s = np.diff([row.elapsed_s for row in shown.told])
    assert gaps_s.max() <= 0.4  # often enough for two drawings a second


def test_percentiles_are_those_of_the_requests_that_ended_last(rig, level_settings):
    def script(number, sent_ns):
        return Reply((1 + number % 100) * NS_PER_MS)

    shown, _ = measured(rig, script, level_settings(), LoadPoint("concurrency", 1, Closed(1)))
    told = np.concatenate([row.latency_ns for row in shown.told])
    p50, p99 = shown.percentiles[-1]
    recent = np.sort(told[-30:])  # 20 a second, so thirty of them take longer than one
    assert len(told) > 30
    assert recent[0] <= p50 <= recent[-1]
    assert p99 in recent
    assert shown.rates[-1] == pytest.approx(1000 / 50.5, rel=0.4)


def test_by_rate_latency_counts_from_the_due_time(rig, level_settings, constant):
    point = LoadPoint("request_rate", 50.0, Open(Constant(50.0), cap=1), 50.0)
    shown, _ = measured(rig, constant(40), level_settings(max_trials=3), point)
    assert shown.rates[-1] == pytest.approx(25)
    assert shown.percentiles[-1][0] > NS_PER_S  # the wait before the send has grown


def test_failures_are_counted_and_are_in_no_latency(rig, level_settings):
    def script(number, sent_ns):
        return Reply(10 * NS_PER_MS, status.HTTP + 503 if number % 4 == 0 else status.OK)

    shown, found = measured(rig, script, level_settings(), LoadPoint("concurrency", 2, Closed(2)))
    assert (shown.figures.failed, shown.figures.ended) == (
        found.failed_count,
        found.failed_count + found.request_count,
    )
    assert shown.rates[-1] == pytest.approx(150)


@pytest.mark.parametrize(
    ("settings", "plan", "asked", "left_s", "is_most"),
    [
        ({"rule": Precision(0.02, 8 * NS_PER_S)}, Closed(1), None, 8.0, True),
        ({"rule": Precision(0.0, 8 * NS_PER_S)}, Closed(1), None, 8.0, False),
        ({"max_trials": 5}, Closed(1), None, 5.0, True),
        ({"window_count": 50}, Closed(1), None, None, False),
        ({"is_whole": True, "window_count": 50}, Closed(1, 50), None, 5.0, False),
        ({"is_whole": True}, Open(Constant(10.0), count=30), 10.0, 3.0, False),
    ],
)
def test_the_time_left_follows_from_what_ends_a_level(
    rig, level_settings, constant, settings, plan, asked, left_s, is_most
):
    mode = "concurrency" if isinstance(plan, Closed) else "request_rate"
    shown, _ = measured(rig, constant(100), level_settings(**settings), LoadPoint(mode, 1, plan, asked))
    first = next(row for row in shown.told if row.elapsed_s >= 0.5)
    assert first.is_most == is_most
    length_s = None if first.left_s is None else first.left_s + first.elapsed_s
    assert length_s == (None if left_s is None else pytest.approx(left_s))


def test_the_warm_up_is_reported_too(rig, constant):
    shown = Shown()
    assert warm_up(replace(rig(constant(100)).instrument, watcher=shown), Closed(1, 5))
    assert all(row.is_warm_up for row in shown.told)
    assert sum(len(row.latency_ns) for row in shown.told) == 5
