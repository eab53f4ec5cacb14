"""Visits: every value that a step takes from an answer is the one that this visit got, whoever else is there."""

import json
import random
import secrets
import struct
from collections import defaultdict

import pytest

from inferometer import api
from inferometer.base.errors import UsageError
from inferometer.load.plan import Closed, Joint
from inferometer.measure.checks import make
from inferometer.measure.groups import start_groups
from inferometer.options.options import AUTO
from inferometer.records.records import join
from inferometer.records.visits import visits_in
from inferometer.scenario.run import ScenarioRequest, prepare_scenario
from inferometer.scenario.spec import checked_scenario
from inferometer.visits import call, pause
from tests.support.servers import (
    FakeModel,
    FakeTriton,
    ScriptedServer,
    Wire,
    answer,
    answer_json,
    both,
    never,
)

SHOP = FakeModel(
    inputs=(("STAGE", "INT32", (1,)), ("TOKEN", "INT64", (1,)), ("VISIT", "INT64", (1,))),
    outputs=(("TOKEN", "INT64", (1,)), ("VISIT", "INT64", (1,))),
)
FLOW = [
    {"name": "enter", "call": "fake", "inputs": {"STAGE": 0, "TOKEN": 0, "VISIT": "$visit"}},
    {
        "name": "look",
        "call": "fake",
        "inputs": {"STAGE": 1, "TOKEN": "$enter.TOKEN", "VISIT": "$enter.VISIT"},
        "think": "5ms",
    },
    {
        "name": "buy",
        "call": "fake",
        "inputs": {"STAGE": 2, "TOKEN": "$look.TOKEN", "VISIT": "$enter.VISIT.0"},
    },
]


class Shop:
    """Gives every visit another token at every stage, and wants to see it at the next."""

    def __init__(self, refused=lambda visit, stage: False):
        self.stages = defaultdict(list)  # by visit
        self.wrong = []
        self._tokens = {}  # of each visit, what it has to show
        self._refused = refused

    def __call__(self, number, request):
        values = inputs(request)
        visit, stage, token = values["VISIT"], values["STAGE"], values["TOKEN"]
        self.stages[visit].append(stage)
        if token != self._tokens.get(visit, 0):
            self.wrong.append((visit, stage, token))
        if self._refused(visit, stage):
            return answer_json({"error": "sold out"}, 400)
        self._tokens[visit] = secrets.randbits(62)
        return answer(*outputs({"TOKEN": self._tokens[visit], "VISIT": visit}))


def inputs(request):
    """The one element of each input."""
    length = int(request.header("inference-header-content-length"))
    found, position = {}, length
    for row in json.loads(request.body[:length])["inputs"]:
        size = row["parameters"]["binary_data_size"]
        assert row["shape"] == [1, 1]
        (found[row["name"]],) = struct.unpack(
            "<i" if size == 4 else "<q", request.body[position : position + size]
        )
        position += size
    return found


def outputs(values):
    rows = [
        {"name": name, "datatype": "INT64", "shape": [1, 1], "parameters": {"binary_data_size": 8}}
        for name in values
    ]
    head = json.dumps({"model_name": "fake", "outputs": rows}).encode()
    body = head + struct.pack(f"<{len(values)}q", *values.values())
    return body, 200, {"Inference-Header-Content-Length": str(len(head))}


def visit(number):
    """As the flow, in Python."""
    first = yield call("enter", {"STAGE": 0, "TOKEN": 0, "VISIT": [number]})
    assert first["VISIT"].tolist() == [number]
    yield pause(0.002)
    second = yield call("look", {"STAGE": [1], "TOKEN": first["TOKEN"], "VISIT": number})
    yield call("buy", {"STAGE": [2], "TOKEN": second.tensor("TOKEN"), "VISIT": first["VISIT"]})


async def async_visit(number):
    first = yield call("enter", {"STAGE": 0, "TOKEN": 0, "VISIT": number})
    if number % 2:
        raise ValueError("nothing to see here")
    yield call("look", {"STAGE": [1], "TOKEN": first["TOKEN"], "VISIT": number})


def visited(fake, plan, timeout_s=30.0):
    """All records of so many visits by two workers, and the account of them."""
    scenario = {
        "server": fake.server.address,
        "classes": {"shop": {"flow": FLOW, "concurrency": 40, "workers": 2}},
    }
    options = make({"service_kind": AUTO}, defaults={"request_timeout_s": timeout_s})
    setup = prepare_scenario(ScenarioRequest(checked_scenario(scenario, "it"), options))
    parts = []
    with start_groups(setup.setups) as load:
        load.apply(Joint((plan,)))
        is_finished = False
        while not is_finished:
            collected = load.collect(1 << 62)
            parts.append(collected.records)
            is_finished = collected.is_finished
        assert load.stop() == 0
        return join(parts), load.totals()


def test_a_thousand_visits_of_three_steps_send_what_they_got():
    shop = Shop()
    with FakeTriton(shop, model=SHOP) as fake:
        records, totals = visited(fake, Closed(40, 1000))
    assert shop.wrong == []
    assert sorted(shop.stages) == list(range(1000))
    assert set(map(tuple, shop.stages.values())) == {(0, 1, 2)}
    assert (totals.sent, totals.good, totals.failed) == (3000, 3000, 0)
    assert totals.steps.tolist() == [1000, 1000, 1000]
    assert len(visits_in(records)[0].good) == 1000


def test_no_visit_gets_what_was_meant_for_another_when_connections_break():
    shop, dice = Shop(), random.Random(5)

    def rough(number, request):
        act, luck = shop(number, request), dice.random()
        if luck < 0.1:
            return dice.choice((Wire.reset, answer(b"nonsense"), answer_json({"error": "busy"}, 503), never))
        return both(act, Wire.close) if luck < 0.2 else act

    with FakeTriton(rough, model=SHOP) as fake:
        records, totals = visited(fake, Closed(20, 200), timeout_s=0.3)
    visits, _ = visits_in(records)
    assert shop.wrong == []
    assert (len(visits), len(shop.stages)) == (200, 200)
    assert len(visits.failed) == len(records.failed) == totals.failed > 0
    assert len(visits.good) == sum(stages == [0, 1, 2] for stages in shop.stages.values()) - sum(
        records.failed.step == 2
    )


@pytest.mark.machine(reason="a phase of a second starts its visits on time only with a free core")
def test_a_step_that_fails_ends_its_visit_and_no_other():
    shop = Shop(refused=lambda visit, stage: stage == 1 and visit % 4 == 0)
    with FakeTriton(shop, model=SHOP) as fake, FakeTriton(Shop(), model=SHOP) as other:
        loop = {"flow": FLOW[:2], "concurrency": 2, "server": other.server.address}
        result = api.scenario(
            {
                "server": fake.server.address,
                "classes": {"shop": {"flow": FLOW, "rate": 80}, "loop": loop},
                "phases": [{"name": "open", "for": "0.5s"}, {"name": "late", "for": "1s"}],
            },
        )
    assert shop.wrong == []
    assert set(map(tuple, shop.stages.values())) <= {(0, 1, 2), (0, 1), (0,)}
    shop_row, loop_row = result.levels[1].classes
    enter, look, buy = shop_row.steps
    assert [step.name for step in shop_row.steps] == ["enter", "look", "buy"]
    assert shop_row.rates.due_per_s == pytest.approx(80, rel=0.05)
    found = shop_row.measurement
    assert found.failed_count == look.measurement.failed_count > 0
    assert found.failures[0].kind == "http 400"
    assert "sold out" in found.failures[0].example
    assert found.request_count == buy.measurement.request_count
    assert shop_row.think_ns == 5_000_000
    assert not shop_row.steps[0].measurement.failed_count
    whole = result.levels[1].measurement
    steps = [step.measurement for row in (shop_row, loop_row) for step in row.steps]
    assert whole.request_count == sum(step.request_count for step in steps)
    assert whole.failed_count == sum(step.failed_count for step in steps)
    assert whole.sequences is None
    assert shop_row.share + loop_row.share == pytest.approx(1)
    assert enter.share + look.share + buy.share == pytest.approx(shop_row.share)


def test_a_visit_in_python_is_run_by_the_workers():
    shop = Shop()
    with FakeTriton(shop, model=SHOP) as fake:
        steps = dict.fromkeys(("enter", "look", "buy"), "fake")
        result = api.scenario(
            {
                "server": fake.server.address,
                "classes": {
                    "plain": {"visit": visit, "steps": steps, "concurrency": 3, "workers": 2},
                    "async": {"visit": async_visit, "steps": steps, "rate": 40},
                },
                "phases": [{"name": "open", "for": "1s"}],
            },
            max_error_rate=1.0,
        )
    plain, async_row = result.levels[0].classes
    assert plain.measurement.request_count > 10
    assert not plain.measurement.failed_count
    assert plain.think_ns == 2_000_000
    found = async_row.measurement
    assert found.failed_count == pytest.approx(found.request_count, abs=2)
    assert [group.kind for group in found.failures] == ["visit"]
    assert "ValueError: nothing to see here" in found.failures[0].example
    assert f"{__file__}:" in found.failures[0].example
    assert not async_row.steps[0].measurement.failed_count


def test_a_function_that_workers_cannot_find_is_refused():
    def local(number):
        yield call("enter")

    for function, said in ((lambda number: None, "a lambda"), (local, "local")):
        with pytest.raises(UsageError, match=said) as caught:
            api.scenario({"server": "x", "classes": {"a": {"visit": function, "steps": ["m"], "rate": 1}}})
        assert "top level of a file" in caught.value.remedy


def test_servers_of_json_get_what_they_said():
    """Over HTTP a cart is asked for and its item is bought; an OpenAI-style answer is the next question."""
    said = []

    def script(request):
        body = json.loads(request.body) if request.body else None
        said.append((request.method, request.path, body))
        if request.path == "/shop/cart":
            return answer_json({"items": [{"id": len(said)}]})
        return answer_json({"choices": [{"message": {"content": f"answer {len(said)}"}}]})

    ask = {"messages": [{"role": "user", "content": "why?"}]}
    again = {"messages": [{"role": "user", "content": "$ask.choices.0.message.content"}], "max_tokens": 5}
    with ScriptedServer(script) as server:
        result = api.scenario(
            {
                "classes": {
                    "shop": {
                        "kind": "http", "server": f"http://{server.address}/shop", "rate": 20,
                        "flow": [
                            {"name": "cart", "call": "/cart"},
                            {"call": "buy", "body": {"item": "$cart.items.0.id", "price": "$$5", "n": ["$visit"]}},
                        ],
                    },
                    "chat": {
                        "kind": "openai", "server": server.address, "concurrency": 1,
                        "flow": [
                            {"name": "ask", "call": "m", "body": ask, "think": "10ms"},
                            {"name": "again", "call": "m", "body": again},
                        ],
                    },
                },
                "phases": [{"name": "open", "for": "0.5s"}],
            }
        )  # fmt: skip
    for row in result.levels[0].classes:
        assert row.measurement.request_count > 5
        assert not row.measurement.failed_count
    carts = {number for number, (_, path, _) in enumerate(said, start=1) if path == "/shop/cart"}
    bought = [body for method, path, body in said if (method, path) == ("POST", "/shop/buy")]
    assert {body["item"] for body in bought} <= carts
    assert len({body["n"][0] for body in bought}) == len(bought)
    assert {body["price"] for body in bought} == {"$5"}
    second = [body for _, path, body in said if path == "/v1/chat/completions" and "max_tokens" in body]
    assert {body["model"] for body in second} == {"m"}
    assert all(body["messages"][0]["content"].startswith("answer ") for body in second)
