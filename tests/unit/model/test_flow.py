"""Flows: references in values, and the requests of a visit."""

import pickle
import re

import numpy as np
import pytest

from inferometer.base.errors import UsageError
from inferometer.model.flow import FlowStep, FlowVisit, Reference, references, with_references
from inferometer.model.spec import Tensor
from inferometer.model.visit import Call, Pause, VisitAnswer, call, pause


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("$first.OUTPUT0", Reference("first", ("OUTPUT0",))),
        ("$first.OUTPUT0.3", Reference("first", ("OUTPUT0", "3"))),
        ("$ask.choices.0.message", Reference("ask", ("choices", "0", "message"))),
        ("$visit", Reference("visit")),
        ("$$5", "$5"),
        ("5$", "5$"),
        ([1, ["$visit"], {"a": "$b.c"}], [1, [Reference("visit")], {"a": Reference("b", ("c",))}]),
        (None, None),
        (True, True),
    ],
)
def test_a_string_with_a_dollar_is_a_reference(written, meant):
    assert with_references(written) == meant


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("$", "is not a reference"),
        ("$first", "names a step without an output; write $first.OUTPUT"),
        ("$first.", "is not a reference"),
        ("$first output", "is not a reference"),
        ("$visit.x", "is a number and has no parts"),
        (["$ x"], "is not a reference"),
    ],
)
def test_malformed_references_are_rejected(written, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        with_references(written)


def test_references_are_found_with_their_paths():
    value = with_references({"a": ["$x.y", 1], "b": "$visit"})
    assert [(where, str(found)) for where, found in references(value, "in")] == [
        ("in.a.0", "$x.y"),
        ("in.b", "$visit"),
    ]


def answer(**values):
    return VisitAnswer(
        {
            name: Tensor(name, "INT32", (len(row),), np.array(row, dtype="<i4").tobytes())
            for name, row in values.items()
        }
    )


FLOW = FlowVisit(
    (
        FlowStep("first", {"IN": [1, Reference("visit")]}, think_s=0.2),
        FlowStep("second", {"IN": Reference("first", ("OUT",)), "ONE": [Reference("first", ("OUT", "1"))]}),
        FlowStep("third", {}, {"text": Reference("second", ("said", "0"))}),
    )
)


def test_a_flow_sends_values_of_earlier_answers():
    visit = pickle.loads(pickle.dumps(FLOW))(7)
    assert next(visit) == Call("first", {"IN": [1, 7]})
    came = answer(OUT=[4, 5])
    assert visit.send(came) == Pause(0.2)
    second = next(visit)
    assert second == Call("second", {"IN": came.tensor("OUT"), "ONE": [5]})
    assert visit.send({"said": ["hello"]}) == Call("third", {}, {"text": "hello"})
    with pytest.raises(StopIteration):
        visit.send(None)


@pytest.mark.parametrize("came", [{"said": []}, {}, None, 5, {"said": "x"}])
def test_a_missing_part_of_an_answer_is_named(came):
    visit = FLOW(0)
    next(visit)
    visit.send(answer(OUT=[4, 5]))
    next(visit)
    if came == {"said": "x"}:
        came = {"said": 5}
    with pytest.raises(LookupError, match=r"the answer has no '\$second\.said\.0'"):
        visit.send(came)


def test_a_missing_output_is_named_with_the_existing_ones():
    visit = FLOW(0)
    next(visit)
    visit.send(answer(OTHER=[1]))
    with pytest.raises(LookupError, match="the answer has no output 'OUT', only 'OTHER'"):
        next(visit)


def test_an_answer_maps_names_to_arrays():
    found = answer(A=[1, 2], B=[3])
    assert list(found) == ["A", "B"]
    assert found["A"].tolist() == [1, 2]
    words = VisitAnswer({"S": Tensor("S", "BYTES", (1, 1), b"\x02\0\0\0hi")})
    assert words["S"].tolist() == [[b"hi"]]


def test_calls_and_pauses_of_a_visit_in_python():
    assert call("a") == Call("a", {}, None)
    assert call("a", {"x": 1}).inputs == {"x": 1}
    assert call("a", body=[1]).body == [1]
    assert pause(0.5) == Pause(0.5)
    with pytest.raises(UsageError, match="a pause of -1 s"):
        pause(-1)
