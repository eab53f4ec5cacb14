"""Scenario files: valid content and error messages."""

import json
from pathlib import Path

import pytest

import inferometer
from inferometer.base.errors import UsageError
from inferometer.scenario.ready import listing, open_scenario, ready_names
from inferometer.scenario.spec import checked_scenario, parse_scenario, read_scenario, scenario_schema

WHOLE = """
server: localhost:8000
classes:
  a: {model: m, rate: 30, slo: p99<50ms}
  b: {model: n, concurrency: 2, options: {header: ["x: y"]}}
phases:
  - {name: warm-up, for: 5s}
  - {name: ramp, for: 1m, load: 0.5..2}
  - {name: peak, for: 30, load: 2, classes: {b: {concurrency: 4}}}
"""


def test_a_scenario_is_read():
    found = parse_scenario(WHOLE, "file")
    assert [phase.seconds for phase in found.phases] == [5, 60, 30]
    assert [phase.is_counted for phase in found.phases] == [False, True, True]
    assert found.phases[1].load == (0.5, 2.0)
    assert found.classes["a"].load == "rate"
    assert found.seconds == 95


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("rate: 30", "rate: -1", "classes.a.rate: Input should be greater than 0"),
        (
            "rate: 30",
            "rate: 30, concurrency: 1",
            "classes.a: has concurrency and rate, but a class has only one load",
        ),
        ("rate: 30", "rat: 30", "classes.a.rat is not a known key; did you mean 'rate'?"),
        ("for: 5s", "for: soon", "phases.0.for: 'soon' is not a time"),
        ("for: 5s", "fro: 5s", "did you mean 'for'?"),
        (
            "rate: 30",
            "body: 30",
            "classes.a.body is not a known key; other options of measure go under `options`",
        ),
        ("load: 0.5..2", "load: much", "phases.1.load: 'much' is not a factor"),
        ("name: ramp", "name: peak", "two phases are named 'peak'"),
        ("{b: {concurrency: 4}}", "{c: {load: 2}}", "phases.2.classes names 'c', which is not a class"),
        (
            "{b: {concurrency: 4}}",
            "{b: {rate: 4}}",
            "phases.2.classes.b changes a load that the class does not have",
        ),
        (
            "{b: {concurrency: 4}}",
            "{b: {}}",
            "phases.2.classes.b: needs exactly one of load, rate and concurrency",
        ),
        ("server:", "servers:", "servers is not a known key; did you mean 'server'?"),
        ("rate: 30", "rate: 30, speed: 2", "classes.a: speed requires replay"),
        ("rate: 30", "rate: 30, burstiness: 2", "classes.a: burstiness requires gamma or weibull arrivals"),
    ],
)
def test_a_mistake_is_named_by_its_path(before, after, said):
    with pytest.raises(UsageError, match="file: ") as caught:
        parse_scenario(WHOLE.replace(before, after, 1), "file")
    assert said in str(caught.value), caught.value


@pytest.mark.parametrize("text", ["", "[]", "a", "classes: {}", "{classes: {a: {}}, phases: []}"])
def test_other_documents_are_refused(text):
    with pytest.raises(UsageError):
        parse_scenario(text, "file")


def test_invalid_yaml_is_reported_with_its_line(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("a: [\n")
    with pytest.raises(UsageError, match=r"s\.yaml:2: this is not YAML"):
        read_scenario(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_scenario(tmp_path / "none.yaml")


def test_a_file_names_its_scenario(tmp_path):
    path = tmp_path / "shop.yaml"
    path.write_text("classes: {a: {model: m, rate: 1}}\n")
    assert read_scenario(path).name == "shop"
    assert checked_scenario({"classes": {"a": {}}}, "it").phases[0].name == "steady"


def test_scenarios_are_included():
    own = [name for name in ready_names() if not name.startswith("mlperf-")]  # those: test_mlperf.py
    assert own == ["daily", "failover", "soak", "spike", "steady"]
    for name in ready_names():
        assert open_scenario(name).about
        assert name in listing()
    with pytest.raises(UsageError, match="did you mean 'spike'"):
        open_scenario("spikes")


def test_the_shipped_schema_is_up_to_date():
    shipped = Path(inferometer.__file__).parent / "schemas" / "scenario.json"
    assert json.loads(shipped.read_text()) == scenario_schema(), "run: python -m tools.build_schemas"


def test_all_mistakes_are_shown_and_a_misspelt_key_is_one():
    with pytest.raises(UsageError) as caught:
        checked_scenario({"clases": {"a": {"model": "m"}}}, "file")
    assert "did you mean 'classes'?" in str(caught.value)
    assert "missing" not in str(caught.value)
    document = {"classes": {"a": {"modle": "m"}}, "phases": [{"name": "x", "for": "soon"}]}
    with pytest.raises(UsageError) as caught:
        checked_scenario(document, "file")
    assert "2 mistakes" in str(caught.value)
    assert "did you mean 'model'?" in str(caught.value)
    assert "phases.0.for" in str(caught.value)
