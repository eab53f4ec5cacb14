"""Saved results: comparable runs are compared, others refused with their differences."""

import pytest

from inferometer.base.answer_file import from_json, to_json
from inferometer.base.errors import UnlikeError, UsageError
from inferometer.base.notes import Note, Remark
from inferometer.compare.comparison import (
    FASTER,
    INCONCLUSIVE,
    INVALID,
    NO_DIFFERENCE,
    REGRESSION,
    SLOWER,
    UNDECIDED,
    Comparison,
)
from inferometer.compare.gates import Terms, parse_gates
from inferometer.compare.saved import compare_saved


def compare(base, other, fail_if="", **more):
    return compare_saved(
        [("base", base), ("new", other)], Terms(parse_gates(fail_if) if fail_if else ()), **more
    )


@pytest.mark.parametrize(
    ("rate", "verdict"), [(100.0, NO_DIFFERENCE), (102.0, NO_DIFFERENCE), (120.0, FASTER), (80.0, SLOWER)]
)
def test_the_intervals_in_the_files_decide(make_level, make_result, rate, verdict):
    found = compare(make_result(), make_result(make_level(rate=rate)))
    assert found.contrasts[0].verdict == verdict
    throughput = found.contrasts[0].levels[0].differences[0]
    assert throughput.percent.value == pytest.approx(rate - 100)
    assert [row.metric for row in found.contrasts[0].levels[0].differences] == [
        "throughput",
        "p50",
        "p95",
        "p99",
    ]


def test_figures_without_an_interval_show_nothing(make_level, make_result):
    found = compare(
        make_result(make_level(width=None)),
        make_result(make_level(rate=50.0, width=None)),
        "throughput < -3%",
    )
    assert found.contrasts[0].verdict == INCONCLUSIVE
    assert found.contrasts[0].levels[0].differences[0].reason
    assert found.outcome == UNDECIDED


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"effective": {"batch": 4}}, "load: batch size is 1 and 4"),
        ({"effective": {"protocol": "grpc"}}, "load: protocol is http and grpc"),
        ({"data": {"seed": 3}}, "payload: seed is 0 and 3"),
        (
            {"model": {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [5]}]}},
            "payload: input 'IN' has shape 4 and 5",
        ),
        (
            {"model": {"inputs": [{"name": "X", "datatype": "FP32", "shape": [4]}]}},
            "payload: inputs are IN and X",
        ),
        ({"host": {"cores": 64}}, "host: cores is 4 and 64"),
        ({"host": {"processor": "B"}}, "host: processor is A CPU and B"),
        ({"host": {"memory_bytes": 8 << 30}}, "host: memory is 16.0 GiB and 8.0 GiB"),
    ],
)
def test_different_setups_are_refused_by_name_and_noted_when_forced(make_result, change, words):
    other = make_result(**change)
    with pytest.raises(UnlikeError) as caught:
        compare(make_result(), other)
    assert words in str(caught.value)
    assert caught.value.exit_code == 3
    assert any(words in note for note in compare(make_result(), other, is_forced=True).notes)


@pytest.mark.parametrize(
    "change",
    [
        {"host": {"name": "there"}},
        {"model": {"name": "other", "inputs": [{"name": "IN", "datatype": "FP16", "shape": [4]}]}},
    ],
)
def test_variants_may_differ_in_name_and_precision(make_result, change):
    assert compare(make_result(), make_result(**change)).problems == ()


def test_only_common_levels_are_compared(make_level, make_result):
    base = make_result(*(make_level(value=value) for value in (1, 2, 4)))
    other = make_result(*(make_level(value=value) for value in (2, 4, 8)))
    assert [level.value for level in compare(base, other).contrasts[0].levels] == [2, 4]
    with pytest.raises(UnlikeError, match="no load level in common"):
        compare(make_result(make_level(value=1)), make_result(make_level(value=2)))


def test_failed_requests_make_it_invalid_unless_a_condition_judges_them(make_level, make_result):
    other = make_result(make_level(failed=10))
    found = compare(make_result(), other)
    assert found.outcome == INVALID
    assert "http 500: no" in found.problems[0]
    assert compare(make_result(), other, "errors > 5%").exit_code == 0
    assert compare(make_result(), other, "errors > 0.3%").exit_code == 1


def test_a_lost_client_makes_it_invalid(make_level, make_result):
    """Its share of the load is missing, and only from one variant."""
    lost = (Remark(Note.CLIENT_LOST, "client 2 was lost 1.5 s into the level"),)
    found = compare(make_result(), make_result(make_level(remarks=lost)), "p99 > +500%")
    assert found.outcome == INVALID
    assert "client 2 was lost" in found.problems[0]


def test_a_client_limited_run_proves_neither_a_regression_nor_that_there_is_none(make_level, make_result):
    limited = (Remark(Note.CLIENT_LIMITED, "client-limited: 99% of a core"),)
    alike = compare(make_result(), make_result(make_level(remarks=limited)), "throughput < -10%")
    assert alike.outcome == UNDECIDED
    slower = compare(make_result(), make_result(make_level(rate=50.0, remarks=limited)), "throughput < -10%")
    assert slower.outcome == UNDECIDED  # the client alone may have slowed it
    assert any("client-limited" in note for note in slower.notes)
    base = make_result(make_level(remarks=limited))
    assert compare(base, make_result(make_level(rate=50.0)), "throughput < -10%").outcome == REGRESSION


def test_one_result_is_not_a_comparison(make_result):
    with pytest.raises(UsageError):
        compare_saved([("base", make_result())], Terms())


def test_a_comparison_survives_a_file_round_trip(make_level, make_result):
    remarks = (Remark(Note.CLIENT_LIMITED, "x"),)
    found = compare(
        make_result(), make_result(make_level(rate=80.0, remarks=remarks)), "p99 > 5%, throughput < -3%"
    )
    text = to_json(found)
    again = from_json(text, "file", Comparison)
    assert to_json(again) == text
    assert again.contrasts == found.contrasts
    assert again.exit_code == found.exit_code


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a comparison"),
        ('{"schema": 1}', "is not a comparison"),
        ('{"kind": "comparison", "schema": 9}', "schema 9"),
        ('{"kind": "comparison", "schema": 1}', "is not a comparison"),
    ],
)
def test_other_files_are_refused(text, words):
    with pytest.raises(UsageError, match=words):
        from_json(text, "file", Comparison)
