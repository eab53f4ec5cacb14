"""Shares of a cluster for model servers."""

import pytest

from inferometer.cluster.ray_shares import sets_of_cores, share_for


@pytest.mark.parametrize(
    ("count", "totals", "share"),
    [
        (2, [{"CPU": 8}], {"CPU": 4}),
        (3, [{"CPU": 8}, {"CPU": 4}], {"CPU": 4}),
        (4, [{"CPU": 8}, {"CPU": 4}], {"CPU": 2}),
        (2, [{"CPU": 8, "GPU": 2}], {"CPU": 4, "GPU": 1}),
        (2, [{"CPU": 64}, {"CPU": 8, "GPU": 2}], {"CPU": 4, "GPU": 1}),
        (3, [{"CPU": 64}, {"CPU": 8, "GPU": 2}], {}),  # never two on one GPU
        (3, [{"CPU": 2}], {}),
        (1, [], {}),
    ],
)
def test_shares_are_equal_and_as_large_as_possible(count, totals, share):
    assert share_for(count, totals) == share


def test_cores_of_a_machine_are_divided_among_its_servers():
    cores = sets_of_cores(["a", "b", "a"], [(0, 1, 2, 3), (0, 1), (0, 1, 2, 3)])
    assert cores == [(0, 1), (0, 1), (2, 3)]
    assert sets_of_cores(["a", "b"], [(0, 1, 2, 3), (0, 1)]) == [(0, 1), (0, 1)]  # all have equally many
    assert sets_of_cores(["a", "a", "a"], [(5, 7)] * 3) == [(5,), (7,), (5, 7)]
