"""Amounts in informal notation."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.options.amounts import bandwidth, data_size, per_second
from inferometer.options.values import Values


@pytest.mark.parametrize(
    ("values", "word", "amount"),
    [
        (per_second, "2M", 2e6),
        (per_second, "2000000", 2e6),
        (per_second, "1.5k", 1500),
        (per_second, "3 g", 3e9),
        (data_size, "0", 0),
        (data_size, "64", 64),
        (data_size, "64kB", 64_000),
        (data_size, "64KiB", 65_536),
        (data_size, "1 MiB", 2**20),
        (bandwidth, "10Gbit", 10e9),
        (bandwidth, "400mbit", 400e6),
    ],
)
def test_amounts_are_read(values: Values, word: str, amount: float) -> None:
    assert values.read("--x", word) == amount
    values.check("x", amount)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (per_second, "0"),
        (per_second, "-1"),
        (per_second, "2X"),
        (per_second, ""),
        (per_second, "9" * 400),
        (data_size, "1Gbit"),
        (data_size, "kB"),
        (bandwidth, "10"),
        (bandwidth, "0Gbit"),
        (bandwidth, "10GB"),
    ],
)
def test_others_are_refused_with_an_example(values: Values, word: str) -> None:
    with pytest.raises(UsageError, match=r"--x needs .*; write it like"):
        values.read("--x", word)


@pytest.mark.parametrize(
    ("values", "value"),
    [(per_second, 0), (per_second, "2M"), (data_size, -1), (data_size, True), (bandwidth, float("inf"))],
)
def test_python_values_are_checked_too(values: Values, value: object) -> None:
    with pytest.raises(UsageError, match="x needs"):
        values.check("x", value)
