"""The part of a budget that remains for the search."""

import pytest

from inferometer.cli.tune import _age_s
from inferometer.measure.checks import changed
from inferometer.options.options import Options
from inferometer.options.tuning import TuneOptions
from inferometer.tune.request import settings_of


@pytest.mark.parametrize(("started_s", "left_s"), [(0.0, 59.0), (0.5, 58.5), (5.0, 50.0), (90.0, 1.0)])
def test_startup_and_shutdown_are_part_of_the_budget(started_s, left_s):
    options = changed(Options(), model="m")
    assert settings_of(TuneOptions(budget_s=60.0), options, started_s=started_s).search.budget_s == left_s
    assert settings_of(TuneOptions(), options, started_s=started_s).search.budget_s is None


def test_a_process_knows_its_age():
    before = _age_s()
    assert 0 < before <= _age_s()
