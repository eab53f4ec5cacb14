"""A whole sweep on a simulated clock: the levels it measures, by what the server really does."""

from dataclasses import replace

import pytest

from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed
from inferometer.measure.instrument import LoadPoint
from inferometer.measure.level import measure_level
from inferometer.measure.points import LastOutcome, points
from inferometer.measure.saturation import knee
from inferometer.options.options import Options
from inferometer.stats.estimate import Distribution
from inferometer.stats.stopping import Precision
from inferometer.stats.text_figures import TokenFigures
from tests.support.simulation import Reply


def swept(instrument, settings):
    outcome, levels = LastOutcome(), []
    for point in points(Options("fake", sweep=True), 1, outcome):
        levels.append(measure_level(instrument, settings, point))
        outcome.add(levels[-1])
    return levels, knee(outcome.tried)


@pytest.fixture
def short(level_settings):
    return level_settings(window_ns=NS_PER_S, rule=Precision(0.02, 3 * NS_PER_S))


@pytest.mark.parametrize("servers", [1, 8])
def test_the_knee_is_where_all_places_are_taken(rig, short, constant, servers):
    levels, found = swept(rig(constant(100), servers=servers).instrument, short)
    assert found == servers
    assert max(level.value for level in levels) == 4 * servers
    best = max(level.measurement.infer_per_s.value for level in levels)
    assert best == pytest.approx(10 * servers, rel=0.1)


def test_a_server_that_fails_everything_is_tried_with_one_request(rig, short):
    made = rig(lambda number, sent_ns: Reply(10 * NS_PER_MS, status=status.HTTP + 503))
    levels, found = swept(made.instrument, short)
    assert ([level.value for level in levels], found) == ([1], None)


def test_tokens_decide_where_there_are_some(rig, short, constant):
    level = measure_level(rig(constant(100)).instrument, short, LoadPoint("concurrency", 1, Closed(1)))
    none = Distribution(0, 0, 0, 0, 0, ())
    tokens = TokenFigures(30, 123.0, none, none, 0, 0.0, none, 0)
    outcome = LastOutcome()
    for found in (level.measurement, replace(level.measurement, tokens=tokens)):
        outcome.add(replace(level, measurement=found))
    assert [row.per_s for row in outcome.tried] == [pytest.approx(10), 123.0]
