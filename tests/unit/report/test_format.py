"""Number formats."""

import pytest

from inferometer.base.units import rough
from inferometer.report import format as form
from inferometer.stats.estimate import Estimate


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3208.512, "3208.51"),
        (50.0, "50"),
        (49.95370, "49.9537"),
        (0.9993241, "0.999324"),
        (30501.57, "30501.6"),
        (1234567.0, "1.23457e+06"),
        (0.0, "0"),
    ],
)
def test_decimal_has_six_significant_digits(value: float, text: str) -> None:
    assert form.decimal(value) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (999.9, "1.00 µs"),
        (1_000, "1.00 µs"),
        (456_400, "456 µs"),
        (999_499, "999 µs"),
        (999_500, "1.00 ms"),
        (1_234_000, "1.23 ms"),
        (9_996_000, "10.0 ms"),
        (12_000_000_000, "12.0 s"),
        (1_234_000_000_000, "1,234 s"),
    ],
)
def test_duration_has_three_digits_and_a_unit(ns: float, text: str) -> None:
    assert form.duration(ns) == text


@pytest.mark.parametrize(
    ("part", "text"),
    [(0, "0 %"), (0.0015, "0.15 %"), (0.0421, "4.2 %"), (0.87, "87 %"), (1, "100 %"), (12.5, "1,250 %")],
)
def test_share_is_in_percent(part: float, text: str) -> None:
    assert form.share(part) == text


def test_interval_is_half_the_width() -> None:
    assert form.interval(Estimate(100.0, 98.6, 101.4)) == "±1.4 %"
    assert form.interval(Estimate(100.0)) == ""


def test_microseconds_are_truncated() -> None:
    assert form.whole_us(1999) == 1


def test_concurrency_is_never_in_powers_of_ten() -> None:
    assert form.level_value("concurrency", 1_234_567.0) == "1,234,567"
    assert form.level_label("request_rate", 12.5) == "request rate 12.5"


def test_peer_messages_cannot_control_the_terminal() -> None:
    assert form.first_line(" \x1b[31mred\nmore") == r"\x1b[31mred"
    assert form.first_line("x" * 300, limit=10) == "xxxxxxxxx…"
    assert form.first_line("") == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.00213, "0.0021"), (0.0996, "0.10"), (0.25, "0.25"), (49.93, "49.9"), (12345.4, "12,345")],
)
def test_a_quantity_is_readable_at_every_size(value: float, text: str) -> None:
    assert form.quantity(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.4649, "0.46"), (7.94, "7.9"), (64.2, "64"), (99.5, "100"), (1024.0, "1,024")]
)
def test_a_rough_number_has_no_powers_of_ten(value: float, text: str) -> None:
    assert rough(value) == text


def test_thousands_are_separated_except_for_the_classic_tool() -> None:
    assert form.plural(12345, "request") == "12,345 requests"
    assert form.plural(12345, "request", separator="") == "12345 requests"
    assert form.level_value("request_rate", 12345.0) == "12,345"
    assert form.classic_level("request_rate", 12345.0) == "12345"
    assert form.rate(Estimate(12345.0, 12222.0, 12468.0), "requests/s") == "12,345 requests/s ±1.0 %"
