"""Every bar of `make bench` still runs: ours only, with the shortest load; what it measured means nothing here."""

import pytest

from benchmarks.bar import SMOKE, Bar
from benchmarks.rounds import measure_bar
from benchmarks.table import BARS


@pytest.mark.parametrize("bar", BARS, ids=lambda bar: bar.name)
def test_bar_can_be_measured(bar: Bar) -> None:
    outcome = measure_bar(bar, SMOKE, print)
    assert outcome.ours, outcome.note
