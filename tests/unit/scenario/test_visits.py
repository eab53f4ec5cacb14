"""Flows and visits in a scenario: valid content and error messages."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.model.flow import Reference
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.scenario.spec import ClassSpec, checked_scenario, scenario_schema
from inferometer.scenario.visit_code import open_visit, with_written_code
from inferometer.scenario.visits import compiled_flow
from inferometer.visits import call

FIRST = {"call": "m", "name": "first", "inputs": {"X": [1, 2]}, "think": "200ms"}
SECOND = {"call": "m", "name": "second", "inputs": {"X": "$first.Y"}}


def checked(**spec):
    return checked_scenario({"classes": {"shop": {"rate": 1, **spec}}}, "it").classes["shop"]


def test_a_flow_is_read():
    found = checked(flow=[FIRST, SECOND, {"call": "n.v2", "body": {"a": "$second.Y.0", "b": "$visit"}}])
    assert found.models_by_step == {"first": "m", "second": "m", "n.v2": "n.v2"}
    assert [step.think for step in found.flow] == [0.2, 0, 0]
    assert found.flow[1].inputs == {"X": "$first.Y"}
    assert found.names_model


def test_a_visit_in_python_names_its_steps():
    assert checked(visit="shop.py:visit", steps=["m", "n"]).models_by_step == {"m": "m", "n": "n"}
    assert checked(visit="a/shop.py:Shop.visit", steps={"x": "m"}).models_by_step == {"x": "m"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"flow": [SECOND, FIRST]},
            "flow.0.inputs.X: $first.Y does not refer to a step before 'second': it is the first",
        ),
        (
            {"flow": [FIRST, {**SECOND, "inputs": {"X": [[1, "$second.Y"]]}}]},
            "flow.1.inputs.X.0.1: $second.Y does not refer to a step before 'second': the earlier steps are first",
        ),
        ({"flow": [FIRST, FIRST]}, "flow.1.name: 'first' is taken"),
        ({"flow": [{"call": "m", "name": "visit"}]}, "flow.0.name: 'visit' is taken"),
        (
            {"flow": [{"call": "m", "inputs": {"X": "$first"}}]},
            "flow.0.inputs: '$first' names a step without",
        ),
        ({"flow": [{"call": "m", "body": ["$ x"]}]}, "flow.0.body: '$ x' is not a reference"),
        ({"flow": [{"cal": "m"}]}, "flow.0.cal is not a known key"),
        ({"flow": [{"call": "m", "thinks": 1}]}, "flow.0.thinks is not a known key; did you mean 'think'?"),
        ({"flow": [{"call": "m", "think": "soon"}]}, "flow.0.think: 'soon' is not a time"),
        ({"flow": []}, "flow: List should have at least 1 item"),
        ({"flow": [FIRST], "model": "m"}, "shop: has model, which visits do not support"),
        ({"flow": [FIRST], "visit": "a.py:b", "steps": ["m"]}, "shop: has a flow and a visit"),
        ({"visit": "a.py:b"}, "shop: visit and steps must be given together"),
        ({"visit": "a.py", "steps": ["m"]}, "shop.visit: 'a.py' is not a function; write FILE.py:FUNCTION"),
    ],
)
def test_a_mistake_is_named_by_its_path(spec, said):
    with pytest.raises(UsageError) as caught:
        checked(**spec)
    assert f"classes.{'shop.' if not said.startswith('shop') else ''}{said}" in str(caught.value)
    assert caught.value.remedy


def test_the_schema_has_flows():
    schema = scenario_schema()
    assert set(schema["$defs"]["StepSpec"]["properties"]) == {"call", "name", "inputs", "body", "think"}
    assert {"flow", "visit", "steps"} <= set(schema["$defs"]["ClassSpec"]["properties"])


# --- against the models


MODEL = ModelSpec(
    "m",
    "",
    (TensorSpec("X", "INT32", (2,)), TensorSpec("T", "BYTES", (-1,)), TensorSpec("F", "FP32", (2, 2))),
    (TensorSpec("Y", "INT32", (2,)), TensorSpec("LONG", "INT32", (3,)), TensorSpec("ANY", "INT32", (-1,))),
)


def compiled(inputs, *, model=MODEL, body=None):
    flow = ClassSpec.model_validate(
        {"flow": [FIRST, {"call": "m", "name": "second", "inputs": inputs, "body": body}]}
    )
    return compiled_flow("classes.shop.flow", flow.flow, {"first": MODEL, "second": model})


def test_values_without_references_are_made_once():
    first, second = compiled({"X": "$first.Y", "T": ["a"], "F": [1, 2, 3, "$first.Y.1"]}).steps
    assert first.inputs["X"] == Tensor("X", "INT32", (2,), b"\1\0\0\0\2\0\0\0")
    assert first.think_s == 0.2
    assert second.inputs["X"] == Reference("first", ("Y",))
    assert second.inputs["T"].data == b"\1\0\0\0a"
    assert compiled({"X": "$first.ANY"}).steps[1].inputs["X"] == Reference("first", ("ANY",))


@pytest.mark.parametrize(
    ("inputs", "said", "remedy"),
    [
        ({"WRONG": 1}, "flow.1.inputs.WRONG: 'm' has no input of this name", "its inputs are X, T, F"),
        ({"X": "$first.RIGHT"}, "flow.1.inputs.X: 'm' has no output 'RIGHT'", "its outputs are Y, LONG, ANY"),
        ({"X": "$first.LON"}, "flow.1.inputs.X: 'm' has no output 'LON'", "did you mean 'LONG'?"),
        ({"X": "$first.LONG"}, "flow.1.inputs.X: $first.LONG has the shape [3], but 'X' takes [2]", "fits"),
        ({"F": "$first.Y"}, "flow.1.inputs.F: $first.Y is INT32, but 'F' takes FP32", "same datatype"),
        (
            {"T": ["$first.Y.0"]},
            "flow.1.inputs.T.0: $first.Y.0 is INT32, but 'T' takes BYTES",
            "same datatype",
        ),
        (
            {"X": [1, 2, 3]},
            "flow.1.inputs.X: 'X' requires the shape [2], but the value has the shape [3]",
            "values",
        ),
        ({"X": ["a", "b"]}, "flow.1.inputs.X: 'X' takes INT32: element 0 must be an integer", "values"),
    ],
)
def test_mismatched_values_are_reported_before_the_load(inputs, said, remedy):
    with pytest.raises(UsageError) as caught:
        compiled(inputs)
    assert f"classes.shop.{said}" in str(caught.value)
    assert remedy in caught.value.remedy


def test_json_servers_take_bodies_and_others_take_inputs():
    with pytest.raises(UsageError, match=r"flow\.1\.inputs: 'm' takes JSON"):
        compiled({"X": 1}, model=None)
    with pytest.raises(UsageError, match=r"flow\.1\.body\.stream: visits do not support streaming"):
        compiled({}, model=None, body={"stream": True})
    with pytest.raises(UsageError, match=r"flow\.1\.body: 'm' takes inputs"):
        compiled({}, body={"a": 1})
    assert compiled({}, model=None, body={"a": "$first.Y.0"}).steps[1].body == {
        "a": Reference("first", ("Y", "0"))
    }


# --- code


def visit(number):
    yield call("m")


def test_a_function_is_written_as_its_file_and_name():
    document = with_written_code({"classes": {"a": {"visit": visit}, "b": {"model": "m"}}, "server": "x"})
    assert document["classes"] == {"a": {"visit": f"{__file__}:visit"}, "b": {"model": "m"}}
    assert open_visit("here", f"{__file__}:visit", None).function == "visit"
    assert with_written_code({"classes": 5}) == {"classes": 5}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("no.py:visit", "but the file no.py does not exist"),
        (f"{__file__}:checked", "checked is not a generator function"),
        (f"{__file__}:nothing", "has no function 'nothing'"),
    ],
)
def test_invalid_visit_code_is_refused(written, said):
    with pytest.raises(UsageError, match=said) as caught:
        open_visit("classes.a.visit", written, None)
    assert caught.value.remedy


def test_a_visit_file_is_looked_up_next_to_the_scenario(tmp_path):
    (tmp_path / "own.py").write_text("def visit(number):\n    yield\n")
    assert open_visit("here", "own.py:visit", tmp_path).file == str(tmp_path / "own.py")


def test_runs_started_in_the_browser_execute_no_code(monkeypatch):
    monkeypatch.setenv("INFEROMETER_CONFINED", "/nowhere")
    with pytest.raises(UsageError, match="names Python code"):
        open_visit("classes.a.visit", f"{__file__}:visit", None)
