"""Which trials of `diagnose --apply` start within a budget."""

import pytest

from inferometer.diagnose.run import another_fits


@pytest.mark.parametrize(
    ("now_s", "longest_s", "end_s", "begins"),
    [
        (0, 0, 10, True),
        (12, 0, 10, True),  # the first is made however short the budget is
        (4, 5, 10, True),
        (5, 5, 10, False),  # it would end with the budget, and its report after it
        (6, 5, 10, False),
        (1, 30, 10, False),  # one that took longer than the whole budget is not repeated
    ],
)
def test_a_trial_starts_only_if_the_longest_so_far_would_fit(
    now_s: int, longest_s: int, end_s: int, *, begins: bool
) -> None:
    assert another_fits(now_s * 10**9, longest_s * 10**9, end_s * 10**9) is begins
