"""The load that saturates the server, if a load above it meets the SLO."""

import pytest

from inferometer.find.fit import Capacity
from inferometer.find.run import raised


@pytest.mark.parametrize(
    ("capacity", "load", "is_seen"),
    [
        (Capacity(80.0, 0.16, ends=160), 94.5, True),  # explained by the few requests it was measured with
        (Capacity(80.0, 0.05, ends=4000), 94.5, False),  # the server can do more when it is warm, for example
        (Capacity(80.0, 0.16, is_seen=False), 94.5, False),
    ],
)
def test_saturation_was_seen_unless_the_load_is_far_above_it(capacity, load, is_seen):
    found = raised(capacity, load)
    assert found.is_seen == is_seen
    assert found.value > load
