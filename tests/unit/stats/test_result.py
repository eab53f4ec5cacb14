"""A result survives a round trip, and is JSON that anyone can use."""

import json

import pytest

from inferometer.base.answer_file import from_json, read, to_json, write
from inferometer.base.errors import UsageError
from inferometer.base.notes import Note, Remark
from inferometer.observe.statistics import Counters, ModelStatistics
from inferometer.options.effective import Effective
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.measurement import (
    ClientCost,
    Doubt,
    FailureGroup,
    Level,
    Measurement,
    StartFigures,
    WindowFigures,
)
from inferometer.stats.result import Account, Finding, Result

SPREAD = Distribution(2, 5, 1, 4, 6, ((50.0, 5), (99.0, 6)), ((7, 2),))
FOUND = Measurement(
    batch=1,
    duration_ns=10,
    request_count=2,
    failed_count=1,
    delayed_count=0,
    infer_per_s=Estimate(3.5, 3.0, 4.0),
    send_per_s=3.0,
    latency=SPREAD,
    latency_intervals=(("mean", Estimate(5.0)),),
    service=SPREAD,
    send_ns=1,
    receive_ns=2,
    received_bytes=3,
    client=ClientCost(1, 0.5, 10.0, 0, 0, connects=4, files=13, file_limit=64, lag_p99_ns=12),
    server=ModelStatistics(
        "m", "1", Counters(success_count=2), members=(ModelStatistics("n", "2", Counters()),)
    ),
    failures=(FailureGroup("http 503", 1, "busy", 0.1, 0.1),),
)
RESULT = Result(
    tool="inferometer",
    command="measure",
    started_at="2026-01-01T00:00:00+00:00",
    asked={"model": "m"},
    effective=Effective(batch=1),
    host={"cores": 2},
    server={},
    model={"name": "m"},
    levels=(
        Level("concurrency", 4.0, FOUND, (WindowFigures(0.0, 10, 2, 1, 3.5, 5, 5, 1),), True, False,
              (Remark(Note.FAILURES, "one failed"),), StartFigures(5, 1, 2.0, SPREAD),
              Doubt("drift", "up by 40%", "throughput", "▁▃█")),
        Level("concurrency", 8.0, None, (), False, False),
    ),
)  # fmt: skip


def test_written_and_read_back_is_the_same(tmp_path):
    path = tmp_path / "r.json"
    write(RESULT, path)
    assert read(path, Result) == RESULT
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_same_result_gives_the_same_bytes():
    assert to_json(from_json(to_json(RESULT), "x", Result)) == to_json(RESULT)


def test_notes_are_written_by_name():
    document = json.loads(to_json(RESULT))
    assert document["levels"][0]["remarks"][0]["note"] == "FAILURES"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a result"),
        ('{"schema": 99}', "has result schema 99, but this version reads 1"),
        ('{"schema": 1}', "is not a result: tool"),
    ],
)
def test_other_files_are_refused_with_a_reason(text, words):
    with pytest.raises(UsageError, match=r"'f\.json'") as caught:
        from_json(text, "f.json", Result)
    assert words in str(caught.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"nope\.json"):
        read(tmp_path / "nope.json", Result)


def test_older_files_without_a_figure_are_still_read():
    document = json.loads(to_json(RESULT))
    for level in document["levels"]:
        del level["start"], level["doubt"]
    del document["levels"][0]["measurement"]["client"]["lag_p99_ns"]
    found = from_json(json.dumps(document), "x", Result)
    assert found.levels[0].doubt is None
    assert found.levels[0].measurement.client.lag_p99_ns == 0


@pytest.mark.parametrize(
    ("group", "key", "value"),
    [
        ("host", "ports", "many"),
        ("model", "inputs", [{"name": "INPUT0", "shape": 4}]),
        ("model", "config", {"ensemble_scheduling": {"step": [3]}}),
    ],
)
def test_values_used_by_reports_are_rejected_by_name_if_they_have_the_wrong_type(group, key, value):
    document = json.loads(to_json(RESULT))
    document[group][key] = value
    with pytest.raises(UsageError, match=rf"{group}\.{key}"):
        from_json(json.dumps(document), "it.json", Result)


@pytest.mark.parametrize(("loads", "nearest"), [((10, 30, 20), 20), ((40, 30), 30), ((), None)])
def test_figures_of_a_search_are_those_of_the_measured_load_below_the_estimate(
    loads: tuple[float, ...], nearest: float | None
) -> None:
    found = Finding("p99<5ms", "request_rate", 25.0, 20.0, 30.0, "p99", 20.0)
    assert found.nearest(loads) == nearest


def test_an_earlier_attempt_adds_to_the_account():
    first = Account(
        sent=31, good=1, failed=2, empty=3, left_out_good=4, left_out_failed=5, cut_off=6, unsent=7, resent=8,
        withdrawn=10,
    )  # fmt: skip
    second = Account(
        sent=3_100, good=100, failed=200, empty=300, left_out_good=400, left_out_failed=500, cut_off=600, unsent=700,
        resent=800, withdrawn=1_000,
    )  # fmt: skip
    found = second.after(first)
    assert found == Account(
        sent=3_131, good=100, failed=200, empty=300, left_out_good=408, left_out_failed=507, cut_off=606, unsent=707,
        resent=808, withdrawn=1_010,
    )  # fmt: skip
    assert first.is_complete
    assert found.is_complete
