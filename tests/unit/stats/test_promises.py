"""Judgement of a level against an SLO, on requests with a known answer."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from inferometer.base import status
from inferometer.base.slo import parse_slo
from inferometer.records.records import COLUMNS, from_rows
from inferometer.stats.binomial import share_estimate
from inferometer.stats.estimate import Estimate
from inferometer.stats.promises import INSIDE, NOTHING, TOO_FEW, judge
from inferometer.stats.slo_outcome import TermOutcome
from inferometer.stats.windows import Window, WindowRules

MS = 1_000_000


def window(latencies_ms: Sequence[float], promise: str, failed: int = 0) -> Window:
    """Requests one after the other, the failed ones last."""
    rows, now = [], 0
    for number, latency in enumerate([*latencies_ms, *[1.0] * failed]):
        end = now + round(latency * MS)
        code = status.OK if number < len(latencies_ms) else status.HTTP + 500
        row = dict.fromkeys(COLUMNS, 0) | {
            "due_ns": now, "sent_ns": now, "wrote_ns": now, "first_ns": end, "end_ns": end,
            "status": code, "responses": 1,
        }  # fmt: skip
        rows.append([row[name] for name in COLUMNS])
        now = end
    rules = WindowRules(promise=parse_slo(promise))
    found = rules.new_window(0)
    if rows:
        rules.add(found, from_rows(np.array(rows, dtype=np.int64)))
    return replace(found, end_ns=max(now, 1))


def outcome(latencies_ms: Sequence[float], text: str, failed: int = 0, per_s: Estimate | None = None):
    known = {} if per_s is None else {"throughput": per_s}
    return judge(parse_slo(text), window(latencies_ms, text, failed), known)


def first(*given, **more) -> TermOutcome:
    return outcome(*given, **more).terms[0]


NOISE = np.random.default_rng(7)
STEADY = (40 + NOISE.normal(0, 1, 2000)).tolist()  # p90 41.28 ms


@pytest.mark.parametrize(
    ("latencies", "promise", "verdict", "reason"),
    [
        (STEADY, "p99<50ms", "kept", ""),
        (STEADY, "p90<41.28ms", "undecided", INSIDE),
        (STEADY, "p99<35ms", "broken", ""),
        (STEADY, "latency<40.5ms", "kept", ""),
        (STEADY, "mean<40ms", "undecided", INSIDE),
        (STEADY, "mean<39.5ms", "broken", ""),
        (
            [40.0] * 100,
            "p99<50ms",
            "undecided",
            f"{TOO_FEW}: 0 of 100 requests beyond the limit",
        ),  # one in a hundred could have been missed
        ([40.0] * 100, "p99<200ms", "kept", ""),  # however heavy the tail, 5 times as slow is rarer
        ([*[1.0] * 99, 190.0], "p99<200ms", "undecided", TOO_FEW),
        ([9.0] * 6, "p99<5s", "kept", ""),
        ([9.0] * 5, "p99<5s", "undecided", TOO_FEW),
        ([40.0] * 400, "p99<50ms", "kept", ""),
        ([40.0] * 100, "p90<50ms", "kept", ""),
        (
            [60.0] * 3,
            "p99<50ms",
            "broken",
            "3 of 3 requests beyond the limit",
        ),  # however few: three of three exceed one in a hundred
        ([60.0] * 3, "latency<50ms", "undecided", TOO_FEW),
        ([60.0] * 6, "latency<50ms", "broken", ""),
        ([40.0] * 12, "latency<50ms", "kept", ""),
        ([40.0] * 12, "latency<40ms", "broken", ""),  # the limit itself is not below it
        ([40.0] * 12, "latency<=40ms", "kept", ""),
        ([], "p99<50ms", "undecided", NOTHING),
        (STEADY, "ttft<1s", "undecided", NOTHING),
    ],
)
def test_a_figure_is_kept_broken_or_undecided(latencies, promise, verdict, reason):
    found = first(latencies, promise)
    assert found.verdict == verdict
    assert reason in found.reason


@pytest.mark.parametrize(
    ("failed", "promise", "verdict"),
    [
        (0, "errors<0.1%", "undecided"),  # 0 of 100, the interval is 0 to 3.6 %
        (0, "errors<4%", "kept"),
        (0, "errors<=0%", "kept"),
        (1, "errors<=0%", "broken"),
        (1, "errors<1%", "undecided"),  # 1 of 101, the interval is 0.03 to 5.4 %
        (1, "errors<6%", "kept"),
        (20, "errors<10%", "broken"),
    ],
)
def test_errors_are_judged_by_their_share(failed, promise, verdict):
    assert first([1.0] * 100, promise, failed=failed).verdict == verdict


def test_too_few_requests_without_failures_are_named():
    assert first([1.0] * 8, "errors<0.1%").reason.endswith("none of 8 requests failed, too few to show it")


def test_without_failures_errors_that_are_not_limited_explicitly_are_within_their_limit():
    implied = outcome([1.0] * 100, "p50<50ms").terms[-1]
    assert (implied.name, implied.verdict) == ("errors", "kept")


def test_one_in_a_thousand_may_fail_unless_the_slo_says_otherwise():
    found = outcome([1.0] * 400, "p99<50ms", failed=20)
    assert [(term.text, term.verdict) for term in found.terms] == [
        ("p99<50ms", "kept"),
        ("errors<0.1%", "broken"),
    ]
    assert found.verdict == "broken"
    assert not found.limits_errors
    assert outcome([1.0] * 400, "p99<50ms, errors<10%", failed=20).verdict == "kept"


@pytest.mark.parametrize(
    ("per_s", "verdict"),
    [
        (Estimate(110, 105, 115), "kept"),
        (Estimate(101, 99, 103), "undecided"),
        (Estimate(90, 88, 92), "broken"),
        (Estimate(90), "broken"),  # as in each section of the time
        (Estimate(110), "kept"),
    ],
)
def test_throughput_is_judged_by_its_interval_or_by_sections_of_the_time(per_s, verdict):
    assert first([10.0] * 20, "throughput>100", per_s=per_s).verdict == verdict


def test_changing_throughput_without_an_interval_is_undecided():
    ramp = [15.0] * 20 + [5.0] * 60
    found = first(ramp, "throughput>100", per_s=Estimate(130))
    assert (found.verdict, found.reason) == (
        "undecided",
        f"{TOO_FEW}: 8 of 16 sections of the time beyond the limit",
    )
    assert first([10.0] * 4, "throughput>100", per_s=Estimate(500)).verdict == "undecided"


@pytest.mark.parametrize(("slow", "verdict"), [(0, "kept"), (5, "undecided"), (100, "broken")])
def test_goodput_is_the_share_of_requests_that_meet_every_time_limit(slow, verdict):
    found = outcome([10.0] * (500 - slow) + [60.0] * slow, "latency<50ms, goodput>99%").terms[1]
    assert found.found is not None
    assert found.found.value == 1 - slow / 500
    assert found.verdict == verdict


@pytest.mark.parametrize(("slow", "verdict"), [(0, "kept"), (1, "broken")])
def test_an_slo_may_require_all_requests_to_be_good(slow, verdict):
    found = outcome([10.0] * 50 + [60.0] * slow, "latency<50ms, goodput>=100%")
    assert found.terms[1].verdict == verdict


def test_a_level_that_violates_one_term_violates_the_slo():
    found = outcome(STEADY, "p99<50ms, mean<30ms, p90<41.28ms")
    assert [term.verdict for term in found.terms] == ["kept", "broken", "undecided", "kept"]
    assert found.verdict == "broken"
    assert [term.name for term in found.of("broken")] == ["mean"]
    assert outcome(STEADY, "p99<50ms, p90<41.28ms").verdict == "undecided"


def test_clustered_slow_requests_count_as_fewer():
    """Four of a hundred are too many for a p99 if each is slow by itself, but a single stall if all are."""
    apart, together = [10.0] * 100, [10.0] * 100
    for number in (10, 35, 60, 85):
        apart[number] = 60.0
    together[50:54] = [60.0] * 4
    assert first(apart, "p99<50ms").verdict == "broken"
    assert first(together, "p99<50ms").verdict == "undecided"


def test_a_figure_beyond_its_limit_is_never_kept_and_one_within_never_broken():
    for seed in range(200):
        random = np.random.default_rng(seed)
        count = int(random.integers(1, 60))
        latencies = random.exponential(40, count) + 1
        for text in ("p50<40ms", "p90<90ms", "mean<40ms", "p99<200ms"):
            found = first(latencies.tolist(), text)
            assert found.found is not None
            if found.verdict != "undecided":
                assert (found.found.value < found.limit) is (found.verdict == "kept")


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [(0, 10, 0.0, 0.3085), (1, 101, 0.00025, 0.0539), (5, 10, 0.1871, 0.8129), (10, 10, 0.6915, 1.0)],
)
def test_the_interval_of_a_share_is_the_exact_one(count, total, low, high):
    found = share_estimate(count, total)
    assert found.value == count / total
    assert found.limits == pytest.approx((low, high), abs=1e-4)


def text_window(first_ms: Sequence[float], blank: int = 0, unanswered: int = 0) -> Window:
    """Streams of two tokens, then answers without a token, then some that end while still reasoning."""
    rows, times = [], []
    for number in range(len(first_ms) + blank + unanswered):
        sent, is_blank = number * 1000 * MS, 0 <= number - len(first_ms) < blank
        first = sent + round((first_ms[number] if number < len(first_ms) else 5) * MS)
        stamps = 0 if is_blank else 2
        row = dict.fromkeys(COLUMNS, 0) | {
            "due_ns": sent, "sent_ns": sent, "wrote_ns": sent, "first_ns": first, "end_ns": first + MS,
            "responses": stamps, "stamps": stamps, "answer_at": 2 * (number >= len(first_ms) + blank),
        }  # fmt: skip
        rows.append([row[name] for name in COLUMNS])
        times += [first, first + MS][:stamps]
    rules = WindowRules(has_tokens=True)
    found = rules.new_window(0)
    rules.add(found, from_rows(np.array(rows, dtype=np.int64), np.array(times, dtype=np.int64)))
    return replace(found, end_ns=len(rows) * 1000 * MS)


@pytest.mark.parametrize(
    ("promise", "given", "verdict"),
    [
        ("ttft p99<50ms", {}, "kept"),
        ("ttft p99<50ms", {"blank": 2}, "kept"),
        ("ttft p99<50ms", {"blank": 100}, "broken"),
        ("ttft p50<50ms", {"blank": 100}, "kept"),
        ("ttft p50<50ms", {"blank": 3000}, "broken"),
        ("ttft<50ms", {"blank": 100}, "broken"),
        ("ttft<50ms", {"unanswered": 100}, "kept"),
        ("ttfo<50ms", {"unanswered": 100}, "broken"),
        ("ttfo p99<50ms", {"blank": 100}, "broken"),
        ("tpot<50ms", {"blank": 100}, "kept"),
    ],
)
def test_answers_without_a_token_violate_any_ttft_limit(
    promise: str, given: dict[str, int], verdict: str
) -> None:
    (term, _) = judge(parse_slo(promise), text_window(STEADY, **given), {}).terms
    assert term.verdict == verdict


def test_missing_tokens_are_named_as_the_reason_for_a_violation() -> None:
    term = judge(parse_slo("ttft<1s"), text_window([], blank=3), {}).terms[0]
    assert (term.verdict, term.reason) == ("broken", "3 of 3 answers were empty")


def test_percentiles_count_empty_answers_as_the_slowest() -> None:
    """Of 90 fast, 8 slow and 2 empty answers, p95 is slow: without the empty ones too, but p91 is not."""
    found = text_window([10.0] * 900 + [40.0] * 80, blank=20)
    for promise, value in (("ttft p90<1s", 10), ("ttft p95<1s", 40)):
        estimate = judge(parse_slo(promise), found, {}).terms[0].found
        assert estimate is not None
        assert estimate.value == value * MS
    found = text_window([10.0] * 905 + [40.0] * 45, blank=50)
    estimate = judge(parse_slo("ttft p95<1s"), found, {}).terms[0].found
    assert estimate is not None
    assert estimate.value == 40 * MS
