"""Rates of the classes of a scenario, phase by phase; each option gets those of its models."""

import json
from dataclasses import replace

import pytest

from inferometer import api
from inferometer.base.errors import UsageError
from inferometer.capacity.class_traffic import STEPS, of_scenario
from inferometer.scenario.ready import FOLDER, ready_names
from tests.support.reports import sample_result

SHOP = """
classes:
  detector: {model: detector, rate: 30}
  classifier: {model: classifier, shape: hold 5 for 10s then ramp 5..25 over 10s}
phases:
  - {name: warm-up, for: 5s, load: 0.5}
  - {name: day, for: 10s}
  - {name: peak, for: 10s, load: 1..2, classes: {detector: {rate: 50}}}
"""


@pytest.fixture
def scenario(tmp_path):
    def write(text):
        path = tmp_path / "shop.yaml"
        path.write_text(text)
        return str(path)

    return write


def rates(traffic):
    return [(row.start_s, row.end_s, row.rate) for row in traffic.stretches]


def test_a_rate_follows_the_phases(scenario):
    found = of_scenario(scenario(SHOP), [{"detector"}])
    assert (found.name, found.form) == ("shop.yaml (detector)", "scenario")
    assert rates(found) == [(0, 5, 15), (5, 15, 30), (15, 25, 50)]


def test_a_shape_continues_across_phases(scenario):
    """A step of a ramp has its highest rate."""
    found = rates(of_scenario(scenario(SHOP), [{"classifier"}]))
    assert found[:3] == [(0, 5, 5), (5, 10, 5), (10, 11.25, pytest.approx(7.5))]
    assert [rate for *_, rate in found[-3:]] == [pytest.approx(22.5), pytest.approx(25), 0]


def test_classes_of_a_mixed_result_are_added(scenario):
    found = of_scenario(scenario(SHOP), [{"detector", "classifier"}])
    assert found.name == "shop.yaml"
    assert found.stretches[0].rate == 20
    assert max(row.rate for row in found.stretches) == pytest.approx(75)
    assert found.span_s == 25


def test_a_ramp_is_cut_into_steps(scenario):
    ramp = "classes: {a: {rate: 10}}\nphases: [{name: up, for: 80s, load: 0..4}]\n"
    found = of_scenario(scenario(ramp))
    assert [row.rate for row in found.stretches] == pytest.approx([5.0 * n for n in range(1, STEPS + 1)])


def test_a_class_with_a_trace_keeps_its_times(scenario, tmp_path):
    burst = [1.0] * 50 + [30.0]
    (tmp_path / "trace.jsonl").write_text("\n".join(json.dumps({"timestamp_s": time}) for time in burst))
    text = """
classes:
  bursts: {replay: trace.jsonl, speed: 2}
  steady: {rate: 100}
phases:
  - {name: one, for: 4s}
  - {name: two, for: 4s, load: 0}
"""
    found = of_scenario(scenario(text))
    times = found.times_s.tolist()
    assert times.count(0.0) == 50  # a trace begins with its first request; its last one is after the end
    assert 350 < len(times) - 50 < 450
    assert max(times) < 4
    assert [row.requests for row in found.stretches] == pytest.approx([len(times), 0])


@pytest.mark.parametrize(
    "name", [name for name in ready_names() if name == "mlperf-server" or not name.startswith("mlperf")]
)
def test_bundled_scenarios_are_traffic(name):
    found = of_scenario(str(FOLDER / f"{name}.yaml"), [{"any"}])
    assert found.requests > 0
    assert found.stretches[0].start_s == 0


@pytest.mark.parametrize(
    ("text", "models", "complaint"),
    [
        (SHOP, [{"other"}], "the results measured other, but the classes .* use classifier, detector"),
        (SHOP, [{"detector"}, {"classifier"}], "different models"),
        ("classes: {a: {concurrency: 4}}", (), "the class 'a' has concurrency"),
        ("classes: {a: {}}", (), "the class 'a' has no load"),
        ("classes: {a: {rate: 1}}\nphases: [{name: b, for: 1s, load: 0}]", (), "has no traffic"),
        ("classes: {a: {shape: burst 9000 for 0.1ms every 0.2ms over 2s}}", (), "more than 10,000 stretches"),
        ("classes: {a: {replay: none.jsonl}}", (), "none.jsonl"),
        ("classes: []", (), "classes"),
    ],
)
def test_a_scenario_without_rates_is_rejected(scenario, text, models, complaint):
    with pytest.raises(UsageError, match=complaint) as refused:
        of_scenario(scenario(text), models)
    assert refused.value.remedy


def test_plan_for_a_scenario(scenario):
    base = sample_result()
    result = replace(base, model={**base.model, "name": "detector"})
    plan = api.capacity(result, traffic=scenario(SHOP), slo="p99<1s", spare=0)
    assert (plan.traffic, plan.form) == ("shop.yaml (detector)", "scenario")
    assert plan.chosen.over_time == (1, 1, 2)


def test_tasks_have_no_request_rate(scenario):
    text = "server: here:1\nclasses: {a: {model: m, rate: 5, task: {steps: {x: {prompt: hi}}}}}\n"
    with pytest.raises(UsageError, match="'a' has tasks, whose calls depend on each other"):
        of_scenario(scenario(text))
