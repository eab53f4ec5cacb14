"""Traffic in every form is read and cut into stretches, or rejected with a remedy."""

import json
from dataclasses import astuple

import pytest

from inferometer.base.errors import UsageError
from inferometer.capacity.traffic import RATE_S, Stretch, read_traffic

CURVE = "time,rate\n00:00,10\n06:00,40\n12:30,0\n"


@pytest.fixture
def file(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        *(("200/s", 200), ("200", 200), ("12000/m", 200), (" 7.2/h ", 0.002), ("86400/day", 1)),
        *(("100rps", 100), ("100 req/s", 100), ("1.5k", 1500), ("6000/min", 100)),
    ],
)
def test_a_rate_is_one_stretch(given, rate):
    found = read_traffic(given)
    (stretch,) = found.stretches
    assert found.form == "rate"
    assert astuple(stretch) == pytest.approx((0.0, RATE_S, rate))


def test_each_row_of_a_curve_lasts_until_the_next(file):
    found = read_traffic(file("day.csv", CURVE))
    hour = 3600.0
    assert found.stretches == (
        Stretch(0.0, 6 * hour, 10.0), Stretch(6 * hour, 6.5 * hour, 40.0), Stretch(12.5 * hour, 6.5 * hour, 0.0),
    )  # fmt: skip
    assert (found.name, found.form, found.peak, found.span_s) == ("day.csv", "daily curve", 1, 19 * hour)


@pytest.mark.parametrize(
    ("starts", "hours"),
    [
        (("00:00", "06:00", "18:00", "22:00"), 24),
        (("00:00", "11:00", "22:00"), 24),
        (("00:00", "20:00", "22:00"), 24),
        (("08:00", "18:00", "22:00"), 18),
        (("00:00", "12:00", "24:00"), 24),
        (("2026-11-17 06:00", "2026-11-17 14:00", "2026-11-18 06:00"), 24),
        (("2026-11-17 00:00", "2026-11-17 14:00", "2026-11-18 04:00"), 42),
    ],
)
def test_a_daily_curve_lasts_at_most_one_day(file, starts, hours):
    rows = "".join(f"{start},5\n" for start in starts)
    assert read_traffic(file("day.csv", f"time,rate\n{rows}")).span_s == hours * 3600


@pytest.mark.parametrize(
    ("times", "starts"),
    [(("0", "60"), (0, 60)), (("2026-01-02T08:00:00", "2026-01-02T08:30:00"), (8 * 3600, 8.5 * 3600))],
)
def test_a_curve_accepts_seconds_and_dates(file, times, starts):
    rows = "".join(f"{time},5\n" for time in times)
    found = read_traffic(file("curve.csv", f"Time, Rate\n{rows}"))
    assert tuple(row.start_s for row in found.stretches) == starts


def trace(*times_ms):
    return "\n".join(json.dumps({"timestamp": time}) for time in times_ms)


def test_a_short_trace_is_one_stretch(file):
    found = read_traffic(file("trace.jsonl", trace(0, 100, 200, 300)))
    (only,) = found.stretches
    assert (only.length_s, only.rate) == pytest.approx((0.4, 10))
    assert found.times_s.tolist() == [0.0, 0.1, 0.2, 0.3]


def test_stretches_hold_every_request_once(file):
    path = file("trace.jsonl", trace(*range(0, 100_000, 37)))
    for stretch_s in (None, 7.0, 1.0):
        found = read_traffic(path, stretch_s)
        assert found.requests == pytest.approx(len(found.times_s))
        assert found.stretches[-1].end_s == pytest.approx(found.span_s)
    assert len(found.stretches) == 100


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("curve.csv", "time,rate\n08:00,many\n", "the rate 'many' is not valid"),
        ("curve.csv", "time,rate\n08:00,-1\n", "the rate '-1' is not valid"),
        ("curve.csv", "time,rate\nnoon,1\n", "the time 'noon' is not valid"),
        ("curve.csv", "time,rate\n08:00\n", "has 1 cells"),
        ("curve.csv", "time,rate\n08:00,1\n07:00,1\n", "line 3 .* is not later than"),
        ("curve.csv", "time,rate\n08:00,0\n", "no traffic"),
        ("curve.csv", "time,rate\n", "no rows"),
        ("trace.jsonl", trace(5), "fewer than two distinct request times"),
        ("trace.jsonl", "hello\n", "is not JSON"),
    ],
)
def test_unreadable_traffic_is_rejected(file, name, text, complaint):
    with pytest.raises(UsageError, match=complaint) as refused:
        read_traffic(file(name, text))
    assert refused.value.remedy


@pytest.mark.parametrize("given", ["0/s", "no-such-file", "-5/s", "5/y"])
def test_zero_traffic_is_rejected(given):
    with pytest.raises(UsageError) as refused:
        read_traffic(given)
    assert refused.value.remedy
