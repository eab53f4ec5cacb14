import json
from dataclasses import replace

import pytest

from inferometer.base.answer_file import from_json, read, to_json, write
from inferometer.base.errors import UsageError
from inferometer.base.notes import Note, Remark
from inferometer.diagnose.diagnosis import (
    COMMAND,
    COMPUTE,
    INSTANCES,
    TRANSPORT,
    Change,
    ChangeTrial,
    CurvePoint,
    Diagnosis,
    Machine,
    StepFigures,
    Suggestion,
    Verdict,
)
from inferometer.options.effective import Effective
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result

RESULT = Result(
    tool="inferometer 0",
    command="diagnose",
    started_at="then",
    asked={},
    effective=Effective(),
    host={},
    server={},
    model={"name": "pipeline"},
    levels=(Level("concurrency", 1.0, None, (), False, False, (Remark(Note.NO_REPLY, "nothing"),)),),
)
SUGGESTION = Suggestion(
    change=Change(INSTANCES, "first", "1", "2", {"instance_group": [{"kind": "KIND_CPU", "count": 2}]}),
    text="run 2 instances of first instead of 1",
    concurrency=4,
    throughput=35.0,
    latency_ns=114e6,
    gain=1.0,
    why="all its instances are busy",
)
DIAGNOSIS = Diagnosis(
    tool="inferometer 0",
    command=COMMAND,
    started_at="then",
    model="pipeline",
    verdict=Verdict(COMPUTE, "first limits it", "first"),
    concurrency=4,
    throughput=17.6,
    latency_ns=227e6,
    steps=(
        StepFigures("first", 0, 1.0, 56.7e6, 2e8, 57e6, 0.9, 0.95, 0.97, 1, "cpu", 1.0, 0, False, 0.99, 17.6),
    ),
    client_ns=1e6,
    overhead_ns=1e5,
    machine=Machine(2, None, 0.5, None),
    suggestions=(SUGGESTION,),
    curve=(CurvePoint(1, 16.6, 60e6, None, None),),
    results=(RESULT,),
    trials=(
        ChangeTrial(SUGGESTION, 33.0, 120e6, 0.875, True, 0),
        ChangeTrial(SUGGESTION, 0.0, 0.0, 0.0, False, None, "no"),
    ),
    after=Verdict(COMPUTE, "second limits it", "second"),
    is_restored=True,
    notes=("the host was not seen",),
)


def test_a_diagnosis_survives_a_round_trip(tmp_path):
    write(DIAGNOSIS, tmp_path / "it.json")
    again = read(tmp_path / "it.json", Diagnosis)
    assert again == DIAGNOSIS
    assert to_json(again) == to_json(DIAGNOSIS)


def test_the_best_trial_is_the_last_one_kept():
    assert DIAGNOSIS.best == DIAGNOSIS.trials[0]
    assert replace(DIAGNOSIS, trials=()).best is None


def test_a_trial_compares_measured_with_predicted():
    assert DIAGNOSIS.trials[0].ratio == pytest.approx(33 / 35)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a diagnosis"),
        ('{"schema": 1, "command": "measure", "levels": []}', "is not a diagnosis"),
        (json.dumps({"schema": 9, "command": "diagnose", "verdict": {}}), "diagnosis schema 9"),
        (json.dumps({"schema": 1, "command": "diagnose", "verdict": {}}), "is not a diagnosis: "),
    ],
)
def test_other_files_are_rejected(text, complaint):
    with pytest.raises(UsageError, match=complaint):
        from_json(text, "it.json", Diagnosis)


def test_tried_suggestions_are_not_untried():
    def of(kind, after):
        return replace(SUGGESTION, change=Change(kind, "first", "1", after))

    rows = (of(INSTANCES, "2"), of(INSTANCES, "4"), of(TRANSPORT, "binary"))
    told = replace(DIAGNOSIS, suggestions=rows, trials=())
    assert told.untried == rows
    disproved = ChangeTrial(rows[0], 17.6, 2e8, 0.0, False, None)
    assert replace(told, trials=(disproved,)).untried == rows[2:]
    kept = ChangeTrial(rows[1], 34.0, 2e8, 1.0, True, None)
    assert replace(told, trials=(kept,)).untried == rows[2:]


def test_suggestions_that_promise_less_than_was_reached_are_not_listed():
    other = replace(SUGGESTION, change=Change(TRANSPORT, "first", "JSON", "binary"))
    told = replace(DIAGNOSIS, suggestions=(other,))
    kept = replace(DIAGNOSIS.trials[0], throughput=60.0)
    assert replace(told, trials=(kept,)).untried == ()
    at_more = replace(other, concurrency=8)  # not comparable
    assert replace(told, suggestions=(at_more,), trials=(kept,)).untried == (at_more,)
