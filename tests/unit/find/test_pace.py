"""The limit of the time per token, from planted times."""

import numpy as np
import pytest

from inferometer.find.pace import Paced, pace_limit

SHARE = 0.05
LOADS = (4.0, 5.0, 6.0, 7.0)


def planted(loads, *, spread=0.03, blocks=4, answers=12, slow=0.0, seed=1, is_open=True):
    """Runs whose times per token reach the limit at a load of 8, but for the spread of answers.

    The inverse of the times falls by a tenth of the limit for each request per second; `slow` of the answers paused.
    """
    source = np.random.default_rng(seed)
    rows = []
    for load in loads:
        inverse = 1.8 - load / 10
        drawn = 1 / (inverse + source.normal(0, spread, size=(blocks, answers)))
        paused = source.random(drawn.shape) < slow
        rows.append(Paced(load, tuple(np.where(paused, 2.0, drawn)), is_open))
    return rows


def test_the_limit_is_where_the_quantile_crosses_it():
    found = pace_limit(SHARE, planted(LOADS))
    assert found is not None
    limit = 8 - 10 * 1.645 * 0.03  # 5 % of a normal distribution are 1.645 standard deviations slower
    assert found.quantile(0.025) < limit < found.quantile(0.975)
    assert found.quantile(0.975) < 1.15 * found.quantile(0.025)


@pytest.mark.parametrize("seed", range(8))
def test_few_blocks_leave_the_spread_uncertain(seed):
    few = pace_limit(SHARE, planted(LOADS, blocks=2, spread=0.1, seed=seed))
    many = pace_limit(SHARE, planted(LOADS, blocks=20, spread=0.1, seed=seed))
    assert few is not None
    assert many is not None
    widths = [found.quantile(0.975) / found.quantile(0.025) for found in (few, many)]
    assert widths[0] > 1.1 * widths[1]


@pytest.mark.parametrize(
    "runs",
    [
        planted((5.0,)),
        planted((5.0, 5.1, 5.2)),  # too close to each other for a slope
        planted((4.0, 7.0), blocks=2),
        planted(LOADS, answers=2),
        planted(LOADS, slow=0.04),  # most of the allowed share is not due to the load
    ],
    ids=["one load", "close", "few blocks", "few answers", "pauses"],
)
def test_without_a_line_or_with_pauses_shares_are_used_instead(runs):
    assert pace_limit(SHARE, runs) is None


def test_a_load_off_the_line_widens_the_interval():
    straight = planted(LOADS)
    bent = [*straight[:3], Paced(7.0, tuple(0.8 * block for block in straight[3].blocks), True)]
    widths = [
        found.quantile(0.975) / found.quantile(0.025)
        for found in (pace_limit(SHARE, straight), pace_limit(SHARE, bent))
        if found is not None
    ]
    assert widths[1] > 2 * widths[0]


def test_in_a_closed_loop_the_times_themselves_grow_linearly():
    source = np.random.default_rng(3)
    rows = [
        Paced(users, tuple(0.5 + users / 40 + source.normal(0, 0.01, size=(4, 12))), False)
        for users in (4.0, 8.0, 12.0)
    ]
    found = pace_limit(SHARE, rows)
    assert found is not None
    limit = 20 - 40 * 1.645 * 0.01
    assert found.quantile(0.025) < limit < found.quantile(0.975)
