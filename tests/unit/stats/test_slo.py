"""Parsing of SLOs, and when a figure meets them."""

from dataclasses import replace

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.slo import Term, parse_slo

MS = 1_000_000


def test_one_in_a_thousand_may_fail_by_default():
    assert parse_slo("p99<50ms").terms == (Term("p99", 50 * MS), Term("errors", 0.001, "errors"))
    assert parse_slo("p99<50ms, errors<2%").terms == (Term("p99", 50 * MS), Term("errors", 0.02, "errors"))


@pytest.mark.parametrize(
    ("text", "term", "label"),
    [
        ("mean<10ms", Term("mean", 10 * MS), "mean"),
        ("avg<=10ms", Term("mean", 10 * MS), "mean"),
        ("latency<1s", Term("mean", 1000 * MS), "mean"),
        ("p95 < 2s", Term("p95", 2000 * MS), "p95"),
        ("ttft<200ms", Term("mean", 200 * MS, "ttft"), "ttft"),
        ("ttft p99<1s", Term("p99", 1000 * MS, "ttft"), "ttft p99"),
        ("tpot_p50<20ms", Term("p50", 20 * MS, "tpot"), "tpot p50"),
        ("itl p99<30ms", Term("p99", 30 * MS, "tpot"), "tpot p99"),
        ("tbt<30ms", Term("mean", 30 * MS, "tpot"), "tpot"),
        ("gap p99<30ms", Term("p99", 30 * MS, "gap"), "gap p99"),
        ("gap<30ms", Term("mean", 30 * MS, "gap"), "gap"),
        ("E2E p99<2s", Term("p99", 2000 * MS), "p99"),
        ("latency p99 < 2 s", Term("p99", 2000 * MS), "p99"),
        ("P99 <= 50 us", Term("p99", 50_000), "p99"),
        ("throughput>100", Term("throughput", 100, "throughput"), "throughput"),
        ("throughput >= 100 infer/s", Term("throughput", 100, "throughput"), "throughput"),
        ("errors<=0%", Term("errors", 0, "errors"), "errors"),
        ("goodput>95%, ttft<1s", Term("goodput", 0.95, "goodput"), "goodput"),
    ],
)
def test_terms(text, term, label):
    found = parse_slo(text).terms[0]
    assert replace(found, limit=term.limit) == term
    assert found.limit == pytest.approx(term.limit)
    assert found.label == label
    assert found.text == text.split(",")[0]


@pytest.mark.parametrize(
    ("text", "below", "at", "above"),
    [
        ("p99<10ms", True, False, False),
        ("p99<=10ms", True, True, False),
        ("throughput>10000000", False, False, True),
        ("throughput>=10000000", False, True, True),
    ],
)
def test_the_sign_decides_whether_the_limit_itself_is_allowed(text, below, at, above):
    term = parse_slo(text).terms[0]
    assert [term.is_within(value) for value in (9.9 * MS, 10 * MS, 10.1 * MS)] == [below, at, above]


@pytest.mark.parametrize(
    ("term", "share"),
    [
        (Term("p99", 1), 0.01),
        (Term("p50", 1), 0.5),
        (Term("mean", 1), None),
        (Term("errors", 0.02, "errors"), 0.02),
    ],
)
def test_share_of_requests_that_may_exceed_the_limit(term, share):
    assert term.share == (None if share is None else pytest.approx(share))


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("p99 ≤ 500ms", "p99<=500ms"),
        ("throughput ≥ 10", "throughput>=10"),
        ("p999<1s", "p99.9<1s"),
        ("p9999<1s", "p99.99<1s"),
        ("median<10ms", "p50<10ms"),
        ("99%<200ms", "p99<200ms"),
        ("99% of requests under 200 ms", "p99<200ms"),
        ("95th percentile latency < 50ms", "p95<50ms"),
        ("p99_latency<50ms", "p99<50ms"),
        ("p99 ttft<1s", "ttft p99<1s"),
        ("average latency<5ms", "mean<5ms"),
        ("response time p90 < 1s", "p90<1s"),
        ("p99<500ms and errors<1%", "p99<500ms, errors<1%"),
        ("p50<10ms; p99<50ms", "p50<10ms, p99<50ms"),
        ("p50<10ms && p99<50ms", "p50<10ms, p99<50ms"),
        ("throughput>100 p99<5s", "throughput>100, p99<5s"),
        ("p99<50 milliseconds", "p99<50ms"),
        ("p99<2sec", "p99<2s"),
        ("p99<1min", "p99<60s"),
        ("p99 within 300ms", "p99<300ms"),
        ("error<1%", "errors<1%"),
        ("rps>10", "throughput>10"),
        ("50ms>p99", "p99<50ms"),
        ("100 <= throughput", "throughput>=100"),
    ],
)
def test_spellings_of_other_tools(text, ours):
    found, expected = parse_slo(text), parse_slo(ours)
    assert [(term.label, term.sign, term.limit) for term in found.terms] == [
        (term.label, term.sign, term.limit) for term in expected.terms
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a figure with a limit; write it like 'p99<50ms"),
        ("p99", "'p99' in the SLO 'p99' is not a figure with a limit"),
        ("p99<1s,", "is not a figure with a limit"),
        ("p99==1s", "is not a figure with a limit"),
        (
            "throughput",
            "throughput>100, goodput>95%', in quotes, because a shell takes < and > as redirections",
        ),
        ("fast<1s", "unknown SLO figure 'fast'"),
        ("p100<1s", "the maximum cannot be limited; limit a high percentile: 'p99.9<1s'"),
        ("max < 1s", "limit a high percentile: 'p99.9 < 1s'"),
        ("p98<1s", "p98 is not measured; use one of p1, p5,"),
        ("latency<50", "'latency<50' has no unit; write 50ms, 50us or 50s"),
        ("ttft p99<1.5", "'ttft p99<1.5' has no unit; write 1.5ms, 1.5us or 1.5s"),
        ("p99<50%", "'p99<50%' has the unknown unit '%'; write 50ms, 50us or 50s"),
        ("p99<50 parsec", "has the unknown unit 'parsec'"),
        ("errors<0.1", "'errors<0.1' has no unit; write 0.1%, or 10% if 0.1 is a share"),
        ("p99<0,5s", "a number in the SLO 'p99<0,5s' contains a comma; write 'p99<0.5s'"),
        ("p99<1,500ms", "write 'p99<1.500ms' or 'p99<1500ms'"),
        ("200ms", "write 'p99<200ms'"),
        ("<50ms", "write 'p99<50ms'"),
        ("50", "write 'p99<50ms'"),
        ("at most 50ms", "write 'p99<50ms'"),
        ("p99 50ms", "write 'p99<50ms'"),
        ("ttft in 50ms", "write 'ttft<50ms'"),
        ("50ms p95", "write 'p95<50ms'"),
        ("errors=0", "write 'errors<=0%'"),
        ("errors<0", "write 'errors<=0%' to allow none"),
        ("goodput=95", "write 'goodput>95%'"),
        ("p99 > 500", "lower is better; write 'p99<500ms'"),
        ("success rate > 99.9%", "write 'errors<0.1%'"),
        ("availability>=99.5%", "write 'errors<0.5%'"),
        ("p99<" + "1" * 1000, "the SLO has 1004 characters; write at most 1000"),
        ("latency<1s, goodput>95", "'goodput>95' has no unit; write 95%"),
        ("throughput>100ms", "has the unknown unit 'ms'"),
        ("p99<soon", "'soon' is not a limit"),
        ("p99<0ms", "a limit on latency must be above 0"),
        ("p99<0", "a limit on latency must be above 0"),
        ("p99<-5ms", "a limit on latency must be above 0"),
        ("p99<nanms", "a limit on latency must be above 0"),
        ("p99<inf", "a limit on latency must be above 0"),
        (f"p99<{'9' * 400}s", "a limit on latency must be above 0"),
        ("throughput>0", "a limit on throughput must be above 0"),
        ("errors<0%", "a limit on errors must be above 0 % and below 100 %"),
        ("errors<150%", "a limit on errors must be above 0 % and below 100 %"),
        ("latency<1s, goodput>100%", "a limit on goodput must be above 0 % and below 100 %"),
        ("p99<10ms, p99>20ms", "for p99, lower is better; write 'p99<20ms'"),
        ("throughput<100", "for throughput, higher is better; write 'throughput>100'"),
        ("p99<10ms, p99<20ms", "limits p99 twice; remove one of the limits"),
        ("mean<10ms, latency<20ms", "limits mean twice"),
        ("goodput>95%", "no time limit that defines a good request; add one"),
    ],
)
def test_invalid_slos_are_rejected_with_a_message(text, said):
    with pytest.raises(UsageError) as refused:
        parse_slo(text)
    assert said in str(refused.value)
