"""Durations and shares as people write them."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.units import parse_duration_ns, parse_share


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("10", 10**10),
        ("10s", 10**10),
        ("1.5m", 90 * 10**9),
        ("250ms", 250 * 10**6),
        ("5us", 5000),
        ("1h", 3600 * 10**9),
    ],
)
def test_duration(text, ns):
    assert parse_duration_ns(text, "--duration") == ns


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 fortnight", "1e3s"])
def test_bad_duration_is_named(text):
    with pytest.raises(UsageError, match="--duration needs a duration"):
        parse_duration_ns(text, "--duration")


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), ("0.02", 0.02), ("100%", 1.0), ("0", 0.0)])
def test_share(text, share):
    assert parse_share(text, "--precision") == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "%", "101%", "-1%", "2", "x"])
def test_bad_share_is_named(text):
    with pytest.raises(UsageError, match="--precision needs a share"):
        parse_share(text, "--precision")
