"""Scenario files: valid content and error messages."""

import json
import re
from pathlib import Path

import pytest

import inferometer
from inferometer.base.errors import UsageError
from inferometer.scenario.ready import listing, open_scenario, ready_names
from inferometer.scenario.spec import checked_scenario, parse_scenario, read_scenario, scenario_schema

ROOT = Path(__file__).parents[3]
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


@pytest.mark.parametrize(("written", "seconds"), [("1:30", 90), ("1:00:05", 3605), ("90", 90), ("1m30s", 90)])
def test_a_time_may_be_written_like_a_clock(written, seconds):
    assert parse_scenario(WHOLE.replace("for: 5s", f"for: {written}"), "file").phases[0].seconds == seconds


@pytest.mark.parametrize("changed", ["load: 1:2", "classes: {b: {concurrency: 1:4}}"])
def test_a_range_is_not_a_number_in_base_60(changed):
    with pytest.raises(UsageError, match=r"1:[24]|integer"):
        parse_scenario(WHOLE.replace("load: 0.5..2", changed), "file")


@pytest.mark.parametrize("name", ["warm-up", "warmup", "Warm-Up", "warm up", "warm_up", "WARMUP"])
def test_a_warm_up_is_not_counted_however_it_is_spelled(name):
    found = parse_scenario(WHOLE.replace("name: warm-up", f"name: {name}"), "file")
    assert [phase.is_counted for phase in found.phases] == [False, True, True]
    counted = parse_scenario(WHOLE.replace("name: warm-up", f"name: {name}, counted: true"), "file")
    assert counted.phases[0].is_counted


@pytest.mark.parametrize("page", ["docs/scenarios.md", "src/inferometer/cli/pages/scenarios.md"])
def test_the_pages_name_every_included_scenario(page):
    words = set(re.findall(r"[a-z-]+", (ROOT / page).read_text()))
    assert set(ready_names()) <= words


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
        ("rate: 30", "request_rate: 30", "classes.a.request_rate is not a known key; did you mean 'rate'?"),
        ("for: 5s", "duration: 5s", "phases.0.duration is not a known key; did you mean 'for'?"),
        ("classes:", "class:", "class is not a known key; did you mean 'classes'?"),
        ("for: 30,", "for: 30, rate: 2,", "phases.2.rate is not a known key; see"),
        ("concurrency: 2,", "fo: 2,", "classes.b.fo is not a known key; other options of measure go under"),
        (
            "{b: {concurrency: 4}}",
            "{b: {load: 2, timeout: 4}}",
            "phases.2.classes.b.timeout is not a known key; see",
        ),
        ("{model: m, rate: 30, slo: p99<50ms}", "3", "classes.a must have keys with values; see"),
        ("{b: {concurrency: 4}}", "[b]", "phases.2.classes must have keys with values; see"),
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


def test_a_class_that_is_given_twice_is_not_dropped():
    with pytest.raises(UsageError, match=r"file:5: .* 'a' is given twice"):
        parse_scenario(WHOLE.replace("  b:", "  a:"), "file")


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


EVERYTHING = """
server: localhost:8000
classes:
  a: {modle: m, rate: 30, concurrency: 2, slo: "p99<5", options: {hedder: x, batch: y}}
  b: {model: n, rate: -1, kind: tritn, server: "localhost:99999"}
  c: {model: o, shape: "0:1,", arrivals: poisson, concurrency: 1}
phases:
  - {name: peak, for: soon}
  - {name: peak, for: 5s, laod: 2, classes: {z: {load: 2}, b: {}}}
  - {for: 5s, classes: {c: {rate: 2}}}
"""


def test_mistakes_of_every_stage_are_shown_together():
    with pytest.raises(UsageError) as caught:
        parse_scenario(EVERYTHING, "file")
    said = str(caught.value)
    for part in (
        "classes.a.modle is not a known key (did you mean 'model'?)",
        "classes.a: has concurrency and rate",
        "classes.a.slo: 'p99<5' has no unit",
        "classes.a.options.hedder: unknown option (did you mean 'header'?)",
        "classes.a.options.batch: ",
        "classes.b.rate: Input should be greater than 0",
        "classes.b.kind: 'tritn' is not a kind of server",
        "classes.b.server: ",
        "classes.c.shape: ",
        "classes.c: arrivals require a rate",
        "phases.0.for: 'soon' is not a time",
        "phases.1.laod is not a known key (did you mean 'load'?)",
        "phases.1.classes.b: needs exactly one of load, rate and concurrency",
        "phases.2.name is missing",
        "two phases are named 'peak'",
        "phases.1.classes names 'z', which is not a class",
    ):
        assert part in said, part
    assert "file has 16 mistakes" in said, said


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("clases: {a: {modle: m, rate: x}}", 3),
        ("classes: {a: {rat: 30, arrivals: poisson, mdoel: x}}", 2),
        ("classes: {a: {replay: [1], speed: 2}}", 1),
        ("classes: {a: {visit: 3, steps: [m]}}", 1),
        ("classes: {a: {model: m, slo: task p95<30s, task: {steps: {b: {}}}}}", 1),
        ("classes: {a: 3, b: {modle: x}}\nphases: [{name: x, for: 1s, classes: {a: {load: 2}}}, 4]", 3),
        ("classes: {a: {}}\nphases: [[], 4, x]", 3),
        ("classes: {a: {}}\nphases: [{name: x, for: 1s, load: [{}, 1]}]", 1),
    ],
    ids=("misspelt section", "misspelt load", "replay", "visit", "task", "not mappings", "phases", "load"),
)
def test_what_a_mistake_hides_is_not_another_mistake(text, count):
    with pytest.raises(UsageError) as caught:
        parse_scenario(text, "file")
    counted = f"file has {count} mistakes: " if count > 1 else "file: "
    assert str(caught.value).startswith(counted), caught.value
