"""The number of levels of a run, as far as it is known in advance."""

import pytest

from inferometer.measure.points import level_count
from inferometer.options.options import Options
from inferometer.options.values import Range


@pytest.mark.parametrize(
    ("options", "last", "count"),
    [
        ({}, 1, 1),
        ({"concurrency": Range(1, 8)}, 8, 8),
        ({"concurrency": Range(1, 8, 3)}, 8, 3),
        ({"concurrency": Range(4)}, 4, 1),
        ({"concurrency": Range(1, 0)}, None, None),  # until one does not pass
        ({"request_rate": Range(0.1, 0.5, 0.1)}, 0.5, 5),
        ({"concurrency": Range(1, 64), "binary_search": True}, 64, None),
        ({"sweep": True}, 1, None),
        ({"shape_load": "hold 10 for 3s"}, 1, 1),
    ],
)
def test_levels_are_counted_before_the_first(options, last, count):
    assert level_count(Options(**options), last) == count
