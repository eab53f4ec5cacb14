"""Options of the classes of a scenario."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.slo import parse_slo
from inferometer.measure.checks import make
from inferometer.measure.mix import WeightedModel
from inferometer.options.options import AUTO
from inferometer.options.values import Range
from inferometer.scenario.classes import planned_classes
from inferometer.scenario.spec import checked_scenario


def planned(classes, *models, folder=None, **given):
    scenario = checked_scenario({"classes": classes}, "it")
    base = make({"service_kind": AUTO, "url": "here:1", **given}, defaults={"request_timeout_s": 5.0})
    return planned_classes(scenario, base, [WeightedModel(*model) for model in models], folder=folder)


def test_classes_inherit_options_unless_they_override_them():
    one, two = planned(
        {
            "a": {"model": "m", "rate": 3, "options": {"header": ["x: y"], "string-length": 7}},
            "b": {"model": "n", "server": "there:2", "concurrency": 4, "slo": "p99<1s"},
        },
        batch=2,
    )
    assert (one.options.url, two.options.url) == ("here:1", "there:2")
    assert (one.options.batch, two.options.batch) == (2, 2)
    assert one.options.request_rate == Range(3.0)
    assert two.options.concurrency == Range(4)
    assert two.options.slo == parse_slo("p99<1s")
    assert [name for name, _ in one.options.headers] == ["x"]
    assert one.options.data.string_length == 7
    assert one.options.request_timeout_s == 5.0


def test_all_classes_are_sent_from_the_cluster_of_the_command():
    one, two = planned({"a": {"model": "m"}, "b": {"model": "n"}}, ray="local", clients=3)
    assert [(row.options.ray, row.options.clients) for row in (one, two)] == [("local", 3)] * 2


def test_a_class_without_a_model_is_repeated_for_each_given_model():
    rows = planned({"traffic": {"rate": 20}}, ("m", 3.0), ("n", 1.0), request_rate=Range(100))
    assert [(row.name, row.options.model, row.spec.rate) for row in rows] == [("m", "m", 75), ("n", "n", 25)]
    (row,) = planned({"traffic": {"rate": 20, "arrivals": "poisson"}}, ("m",), concurrency=Range(4))
    assert (row.name, row.spec.concurrency, row.spec.rate) == ("traffic", 4, None)


def test_the_balance_of_the_command_line_is_for_classes_with_several_addresses():
    rows = planned(
        {
            "one": {"model": "m"},
            "two": {"model": "m", "server": "a:1,b:1"},
            "own": {"model": "m", "server": "a:1,b:1", "options": {"balance": "round-robin"}},
        },
        balance="least-outstanding",
    )
    assert [row.options.balance for row in rows] == [None, "least-outstanding", "round-robin"]


def test_credentials_are_sent_to_several_addresses_only_if_all_are_trusted():
    headers = (("Authorization", "Bearer x"),)
    rows = planned(
        {
            "inside": {"model": "m", "server": "a:1,b:1"},
            "outside": {"model": "m", "server": "a:1,c:1"},
        },
        url="a:1,b:1",
        headers=headers,
    )
    assert [row.options.headers for row in rows] == [headers, ()]


@pytest.mark.parametrize(
    ("classes", "given", "said"),
    [
        (
            {"a": {"server": "a:1,b:1", "flow": [{"call": "m"}]}},
            {},
            "classes.a: visits use one address, but 2 are given",
        ),
        (
            {
                "a": {
                    "model": "m",
                    "options": {"balance": "round-robin"},
                    "task": {"steps": {"s": {"prompt": "x"}}},
                }
            },
            {},
            "classes.a: tasks use one address, but --balance is for several",
        ),
        (
            {"a": {"model": "m", "options": {"hedder": "x"}}},
            {},
            "classes.a.options.hedder: unknown option",
        ),
        (
            {"a": {"model": "m", "options": {"rate": 3}}},
            {},
            "classes.a.options.rate: cannot be set for a class",
        ),
        (
            {"a": {"model": "m", "options": {"ray": "local"}}},
            {},
            "classes.a.options.ray: cannot be set for a class",
        ),
        ({"a": {"model": "m", "options": {"batch": "x"}}}, {}, "classes.a.options.batch: "),
        ({"a": {"model": "m", "kind": "tritn"}}, {}, "classes.a.kind: 'tritn' is not a kind of server"),
        ({"a": {"model": "m", "replay": "no.jsonl"}}, {}, "classes.a.replay: file 'no.jsonl' does not exist"),
        ({"a": {"model": "m", "slo": "p99<5"}}, {}, "classes.a.slo: 'p99<5' has no unit"),
        (
            {"a": {"model": "m", "rate": 1}},
            {"request_rate": Range(5)},
            "sets the load of classes that name no model",
        ),
        ({"a": {"rate": 1}}, {"request_rate": Range.of([1, 2])}, "gives several levels"),
        (
            {"a": {"model": "m", "rate": 1}},
            {"request_count": 5},
            "--requests is not supported with --scenario",
        ),
    ],
)
def test_invalid_classes_are_reported_with_their_path(classes, given, said):
    with pytest.raises(UsageError) as caught:
        planned(classes, **given)
    assert said in str(caught.value)
    assert caught.value.remedy


def test_mistakes_of_several_classes_are_reported_together():
    with pytest.raises(UsageError) as caught:
        planned({"a": {"model": "m", "replay": "no.jsonl"}, "b": {"model": "m", "data": "no.json"}})
    said = str(caught.value)
    assert said.startswith("2 mistakes: classes.a.replay: file 'no.jsonl' does not exist (")
    assert "; classes.b.data: file 'no.json' does not exist (" in said


def test_files_are_looked_up_next_to_the_scenario(tmp_path):
    (tmp_path / "trace.jsonl").write_text('{"timestamp": 0}\n')
    (row,) = planned({"a": {"model": "m", "replay": "trace.jsonl", "speed": 2}}, folder=tmp_path)
    assert row.options.replay == str(tmp_path / "trace.jsonl")
    assert row.options.speed == 2
