"""When a check passes, fails, or is inconclusive."""

import json

import pytest

from inferometer.base.units import NS_PER_MS, NS_PER_US
from inferometer.cli.selftest import _document, run_parts
from inferometer.report.document import Tone
from inferometer.selftest import accuracy
from inferometer.selftest.accuracy import judge_faults, judge_stall
from inferometer.selftest.check import QUICK, SCHEMA, Check, CheckResult, SelfTest, to_json
from inferometer.selftest.limits import limited_by
from inferometer.selftest.null_server import Stall, dealt
from inferometer.stats.estimate import Distribution
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN

QUIET = accuracy.Lags(5 * NS_PER_US, 60 * NS_PER_US, NS_PER_MS)
BUSY = accuracy.Lags(20 * NS_PER_US, 900 * NS_PER_US, 4 * NS_PER_MS)
LATE = accuracy.Lags(400 * NS_PER_US, 900 * NS_PER_US, 4 * NS_PER_MS)


@pytest.mark.parametrize(
    ("achieved", "sends", "timer", "verdict"),
    [
        (1000, QUIET, QUIET, CheckResult.PASS),
        (1015, QUIET, QUIET, CheckResult.PASS),
        (975, QUIET, QUIET, CheckResult.FAIL),
        (1000, LATE, QUIET, CheckResult.FAIL),
        (1000, BUSY, QUIET, CheckResult.PASS),  # the tail alone is not decisive
        (1000, BUSY, BUSY, CheckResult.NOISY),
        (1000, LATE, BUSY, CheckResult.NOISY),
        (900, QUIET, BUSY, CheckResult.NOISY),
        (1000, QUIET, BUSY, CheckResult.PASS),
    ],
)
def test_a_schedule(
    achieved: float, sends: accuracy.Lags, timer: accuracy.Lags, verdict: CheckResult
) -> None:
    assert (
        accuracy.judge_schedule(asked_per_s=1000, achieved_per_s=achieved, sends=sends, timer=timer)
        is verdict
    )


@pytest.mark.parametrize(
    ("p_value", "timer", "verdict"),
    [(0.2, QUIET, CheckResult.PASS), (1e-6, QUIET, CheckResult.FAIL), (1e-6, BUSY, CheckResult.NOISY)],
)
def test_arrivals(p_value: float, timer: accuracy.Lags, verdict: CheckResult) -> None:
    assert accuracy.judge_arrivals(p_value, timer) is verdict


@pytest.mark.parametrize(
    ("client", "server", "limit"),
    [(0.99, 0.6, "client"), (0.6, 0.97, "null server"), (0.97, 0.95, "both"), (0.5, 0.4, "machine")],
)
def test_who_limits_a_ceiling(client: float, server: float, limit: str) -> None:
    assert limited_by(client, server) == limit


def latency(*found: tuple[float, int]) -> Distribution:
    return Distribution(800, 0, 0, 0, 0, tuple((p, ms * NS_PER_MS) for p, ms in found))


@pytest.mark.parametrize(
    ("found", "late_ms", "verdict"),
    [
        ((300, 400, 480), 0, CheckResult.PASS),
        ((329, 361, 500), 0, CheckResult.PASS),
        ((329, 361, 500), 99, CheckResult.PASS),
        ((340, 400, 480), 0, CheckResult.FAIL),
        ((300, 400, 420), 14, CheckResult.FAIL),
        ((1, 1, 480), 0, CheckResult.FAIL),
        ((1, 1, 480), 246, CheckResult.FAIL),  # a busy machine does not shorten a wait
        ((436, 566, 726), 246, CheckResult.NOISY),
    ],
)
def test_a_stall(found: tuple[int, int, int], late_ms: int, verdict: CheckResult) -> None:
    pattern = Stall(2000 * NS_PER_MS, 500 * NS_PER_MS)
    measured = latency(*zip((90, 95, 99), found, strict=True))
    assert judge_stall(pattern, measured, late_ms * NS_PER_MS) is verdict


RIGHT = dealt(1000)


@pytest.mark.parametrize(
    ("ended", "found", "verdict"),
    [
        (1000, RIGHT, CheckResult.PASS),
        (1000, RIGHT | {"timeout": 12}, CheckResult.PASS),
        (1000, RIGHT | {"timeout": 25}, CheckResult.FAIL),
        (1000, RIGHT | {"http 503": 0}, CheckResult.FAIL),
        (1000, {kind: count for kind, count in RIGHT.items() if kind != "reset"}, CheckResult.FAIL),
        (1000, RIGHT | {"connect": 1}, CheckResult.FAIL),
        (999, RIGHT, CheckResult.FAIL),
    ],
)
def test_faults(ended: int, found: dict[str, int], verdict: CheckResult) -> None:
    assert judge_faults(1000, ended, found) is verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (RIGHT, CheckResult.PASS),
        (RIGHT | {"timeout": 25}, CheckResult.NOISY),
        (RIGHT | {"timeout": 0}, CheckResult.FAIL),  # a busy machine makes no request faster
        (RIGHT | {"http 503": 0}, CheckResult.FAIL),
    ],
)
def test_requests_that_time_out_on_a_stalled_machine_prove_nothing(
    found: dict[str, int], verdict: CheckResult
) -> None:
    assert judge_faults(1000, 1000, found, late_ns=350 * NS_PER_MS) is verdict


def whole(*verdicts: CheckResult) -> SelfTest:
    checks = tuple(
        Check("part", verdict.name, verdict, "text", {"requests_per_s": 1.5}) for verdict in verdicts
    )
    return SelfTest(SCHEMA, "inferometer", "2020-01-01T00:00:00+00:00", 1.0, True, {"cores": 2}, checks)


PASS, WARN, NOISY, FAIL = (getattr(CheckResult, name) for name in ("PASS", "WARN", "NOISY", "FAIL"))


@pytest.mark.parametrize(
    ("verdicts", "ruling", "tone", "words"),
    [
        ((PASS, CheckResult.SHOWN), NOT_SHOWN, Tone.GOOD, "No check failed (1 s)."),
        ((PASS, WARN), NOT_SHOWN, Tone.WARNING, "No check failed; 1 limit of this machine may matter (1 s)."),
        ((PASS, NOISY), INCONCLUSIVE, Tone.WARNING, "Inconclusive: 1 check could not be judged, because"),
        ((PASS, NOISY, FAIL), SHOWN, Tone.BAD, "1 check failed; 1 check could not be judged"),
    ],
)
def test_a_check_that_could_not_be_judged_leaves_the_whole_open(verdicts, ruling, tone, words) -> None:
    found = whole(*verdicts)
    assert found.ruling == ruling
    assert json.loads(to_json(found))["passed"] is (ruling == NOT_SHOWN)
    made = _document(found)
    assert made.tone is tone
    assert made.verdict.startswith(words)


def test_the_file_is_complete() -> None:
    document = json.loads(to_json(whole(CheckResult.PASS, CheckResult.FAIL)))
    assert document["passed"] is False
    assert document["command"] == "selftest"
    assert document["schema"] == SCHEMA
    assert document["checks"][1] == {
        "part": "part",
        "name": "FAIL",
        "verdict": "fail",
        "text": "text",
        "figures": {"requests_per_s": 1.5},
    }
    assert document["checks"][0]["verdict"] == "pass"


def test_a_part_that_breaks_fails_and_the_others_still_run() -> None:
    from inferometer.base.errors import LocalError

    def broken(pace: object):
        yield Check("first", "a", CheckResult.PASS, "", {})
        raise LocalError("no memory")

    def sound(pace: object):
        yield Check("second", "b", CheckResult.PASS, "", {})

    parts = {"first": broken, "second": sound}
    found = [(check.part, check.name, check.verdict) for check in run_parts(parts, QUICK)]
    assert found == [
        ("first", "a", CheckResult.PASS),
        ("first", "aborted", CheckResult.FAIL),
        ("second", "b", CheckResult.PASS),
    ]
