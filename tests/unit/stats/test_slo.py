"""A promise as it is written, and when it is kept."""

from dataclasses import replace

import pytest

from inferometer.base.errors import UsageError
from inferometer.stats.slo import Term, parse_slo

MS = 1_000_000


def test_one_in_a_thousand_may_fail_where_nothing_is_said():
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
def test_whether_the_limit_itself_is_kept_is_in_the_sign(text, below, at, above):
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
def test_share_that_may_be_beyond_the_limit(term, share):
    assert term.share == (None if share is None else pytest.approx(share))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no figure with a limit; write it like 'p99<50ms"),
        ("p99", "'p99' in the promise 'p99' is no figure with a limit"),
        ("p99<1s;p50<1s", "is no figure with a limit"),
        ("p99<1s,", "is no figure with a limit"),
        ("p99==1s", "is no figure with a limit"),
        ("fast<1s", "a promise knows no figure 'fast'"),
        ("p100<1s", "a promise knows no figure 'p100'"),
        ("p98<1s", "p98 is not measured; take one of p1, p5,"),
        ("latency<50", "'latency<50' has no unit; write 50ms, 50us or 50s"),
        ("ttft p99<1.5", "'ttft p99<1.5' has no unit; write 1.5ms, 1.5us or 1.5s"),
        ("p99<50%", "'p99<50%' knows no unit '%'; write 50ms, 50us or 50s"),
        ("p99<50 sec", "knows no unit 'sec'"),
        ("errors<0.1", "'errors<0.1' has no unit; write 0.1%"),
        ("latency<1s, goodput>95", "'goodput>95' has no unit; write 95%"),
        ("throughput>100ms", "knows no unit 'ms'"),
        ("p99<soon", "'soon' is no limit"),
        ("p99<0ms", "a limit of latency is above 0"),
        ("p99<0", "a limit of latency is above 0"),
        ("p99<-5ms", "a limit of latency is above 0"),
        ("p99<nanms", "a limit of latency is above 0"),
        ("p99<inf", "a limit of latency is above 0"),
        (f"p99<{'9' * 400}s", "a limit of latency is above 0"),
        ("throughput>0", "a limit of throughput is above 0"),
        ("errors<0%", "a limit of errors is above 0 % and below 100 %"),
        ("errors<150%", "a limit of errors is above 0 % and below 100 %"),
        ("latency<1s, goodput>100%", "a limit of goodput is above 0 % and below 100 %"),
        ("p99<10ms, p99>20ms", "p99 is better when it is lower; write p99<20ms"),
        ("throughput<100", "throughput is better when it is higher; write throughput>100"),
        ("p99<10ms, p99<20ms", "limits p99 twice; leave out one of the limits"),
        ("mean<10ms, latency<20ms", "limits mean twice"),
        ("goodput>95%", "no limit of time that makes a request a good one; add one"),
    ],
)
def test_what_cannot_be_promised_is_refused_with_a_sentence(text, said):
    with pytest.raises(UsageError) as refused:
        parse_slo(text)
    assert said in str(refused.value)
