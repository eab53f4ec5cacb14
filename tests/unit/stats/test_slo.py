"""A promise as it is written, and when it is kept."""

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
    ],
)
def test_terms(text, term, label):
    assert parse_slo(text).terms[0] == term
    assert term.label == label


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


@pytest.mark.parametrize("text", ["", "p99", "p98<1s", "fast<1s", "p99>1s", "p99<1s;p50<1s"])
def test_what_is_not_understood_is_refused(text):
    with pytest.raises(UsageError):
        parse_slo(text)
