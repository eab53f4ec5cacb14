"""Tolerance of floats around the expected value."""

from math import inf, nan

import numpy as np
import pytest

from inferometer.model.spec import Tensor
from inferometer.services.traffic import Checker, Validation


def tensor(*values: float) -> Tensor:
    return Tensor("OUT", "FP32", (len(values),), np.array(values, np.float32).tobytes())


@pytest.mark.parametrize(
    ("wanted", "got", "tolerance", "relative", "is_right"),
    [
        (1.0, 1.25, 0.25, 0.0, True),
        (1.0, 1.5, 0.25, 0.0, False),
        (8.0, 9.0, 0.0, 0.125, True),
        (8.0, 9.5, 0.0, 0.125, False),
        (-8.0, -9.0, 0.0, 0.125, True),  # relative to the absolute value
        (nan, nan, 0.0, 0.0, True),
        (nan, 1.0, 9.0, 9.0, False),
        (inf, inf, 0.0, 0.5, True),
        (inf, 3.0, 0.0, 0.5, False),  # half of infinity is not a tolerance
        (inf, -inf, 0.0, 0.5, False),
        (3.0, inf, 1.0, 0.5, False),
    ],
)
def test_a_float_is_right_within_the_tolerances(
    wanted: float, got: float, tolerance: float, relative: float, is_right: bool
) -> None:
    checker = Checker(Validation(((tensor(wanted),),), tolerance, relative))
    assert (checker.check(0, {"OUT": tensor(got).data}) == "") is is_right
