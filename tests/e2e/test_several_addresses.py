"""One load over several servers: every policy, every protocol, figures per address and in all."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.grpc_servers import FakeGrpcTriton
from tests.support.openai import FakeOpenAi
from tests.support.servers import FakeModel, FakeTriton, ScriptedServer, answer

CLOSED = "127.0.0.1:9"
"""An address at which nothing listens."""


class Stateful(FakeModel):
    def config(self) -> dict[str, Any]:
        return {**super().config(), "sequence_batching": {}}


def level_of(path: Path) -> dict[str, Any]:
    (level,) = json.loads(path.read_text())["levels"]
    return level


@pytest.mark.parametrize("count", [2, 3])
def test_requests_take_turns_and_figures_add_up(count: int, run: Callable, tmp_path: Path) -> None:
    saved, table = tmp_path / "result.json", tmp_path / "levels.csv"
    with ExitStack() as stack:
        servers = [stack.enter_context(ScriptedServer(lambda _: answer(b"x"))) for _ in range(count)]
        words = ("--service-kind", "http", "-c", "4", "-n", "60", "--json", str(saved), "--csv", str(table))
        ended = run("inferometer", "measure", ",".join(server.address for server in servers), *words)
    assert ended.code == 0, ended.stderr
    for server in servers:
        assert len(server.requests) == 60 // count
        assert {request.header("host") for request in server.requests} == {server.address}
    level = level_of(saved)
    assert [row["name"] for row in level["classes"]] == [server.address for server in servers]
    assert {row["mode"] for row in level["classes"]} == {"address"}
    assert [row["measurement"]["request_count"] for row in level["classes"]] == [60 // count] * count
    assert level["measurement"]["request_count"] == 60
    assert [line.split(",")[1] for line in table.read_text().splitlines()[1:]] == [
        "all",
        *(server.address for server in servers),
    ]
    assert "Every address" in ended.stdout
    assert "Every class" not in ended.stdout


@pytest.mark.parametrize("words", [(), ("--streaming",), ("--workers", "2")], ids=["", "stream", "workers"])
def test_grpc(words: tuple[str, ...], run: Callable, tmp_path: Path) -> None:
    saved = tmp_path / "result.json"
    with FakeGrpcTriton() as one, FakeGrpcTriton() as other:
        addresses = f"{one.server.address},{other.server.address}"
        ended = run(
            *("inferometer", "measure", addresses, "fake", "--service-kind", "triton", "--grpc", *words),
            *("-c", "4", "-n", "40", "--json", str(saved)),
        )
    assert ended.code == 0, ended.stderr
    assert (len(one.inferences), len(other.inferences)) == (20, 20)
    rows = level_of(saved)["classes"]
    assert [row["measurement"]["request_count"] for row in rows] == [20, 20]
    assert all(row["measurement"]["server"] is not None for row in rows)


def test_sequences_stay_at_one_server(run: Callable) -> None:
    with FakeTriton(model=Stateful()) as one, FakeTriton(model=Stateful()) as other:
        addresses = f"{one.server.address},{other.server.address}"
        words = ("-m", "fake", "--service-kind", "triton", "-c", "4", "--sequence-length", "5")
        ended = run("inferometer", "measure", addresses, *words, "-n", "80")
        refused = run("inferometer", "measure", addresses, *words, "-n", "80", "--balance", "round-robin")
    assert ended.code == 0, ended.stderr
    ids = [
        {
            int(found)
            for request in fake.inferences
            for found in re.findall(rb'"sequence_id":(\d+)', request.body)
        }
        for fake in (one, other)
    ]
    assert ids[0]
    assert ids[1]
    assert not ids[0] & ids[1]
    assert refused.code == 2
    assert "use --balance session-affinity" in refused.stderr


@pytest.mark.parametrize("policy", ["session-affinity", "round-robin", "least-outstanding"])
def test_turns_of_a_session(policy: str, run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "sessions.json"
    rows = [
        {
            "session_id": [name],
            "delay": [1],
            "payload": [{"model": "tiny", "messages": [{"role": "user", "content": f"{name}{turn}"}]}],
        }
        for turn in range(3)
        for name in "abcd"
    ]
    path.write_text(json.dumps({"data": rows}))
    with FakeOpenAi() as one, FakeOpenAi() as other:
        ended = run(
            *("inferometer", "measure", f"{one.server.address},{other.server.address}", "tiny"),
            *("--service-kind", "openai", "--endpoint", "v1/chat/completions", "--data", str(path)),
            *("--session-concurrency", "2", "--balance", policy),
        )
    assert ended.code == 0, ended.stderr
    places = defaultdict(set)
    said = []
    for number, fake in enumerate((one, other)):
        for payload in fake.payloads:
            words = [message["content"] for message in payload["messages"]]
            places[words[0][0]].add(number)
            said.append(words)
    assert len(said) == 12
    for words in said:  # the conversation goes on at another server
        assert words[::2] == [f"{words[0][0]}{turn}" for turn in range(len(words[::2]))]
        assert set(words[1::2]) <= {"one two three"}
    if policy == "session-affinity":
        assert all(len(found) == 1 for found in places.values())
        assert set.union(*places.values()) == {0, 1}
    if policy == "round-robin":
        assert len(one.payloads) == len(other.payloads) == 6


@pytest.mark.parametrize("words", [("-c", "2"), ("-r", "20")], ids=["closed", "rate"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_dead_address_fails_alone(
    place: int, words: tuple[str, ...], run: Callable, tmp_path: Path
) -> None:
    saved = tmp_path / "result.json"
    with FakeTriton() as fake:
        addresses = [fake.server.address]
        addresses.insert(place, CLOSED)
        ended = run(
            *("inferometer", "measure", ",".join(addresses), "fake", "--service-kind", "triton", *words),
            *("-n", "20", "--json", str(saved)),
        )
    assert ended.code == 1
    assert f"{CLOSED}" in ended.stdout
    rows = level_of(saved)["classes"]
    counts = [(row["measurement"]["request_count"], row["measurement"]["failed_count"]) for row in rows]
    assert counts[place] == (0, 10)
    assert counts[1 - place] == (10, 0)
    assert f"{CLOSED} does not answer" in ended.stderr or place == 0


def test_a_sweep_over_two_servers(run: Callable, tmp_path: Path) -> None:
    saved = tmp_path / "result.json"
    with FakeTriton() as one, FakeTriton() as other:
        ended = run(
            *("inferometer", "measure", f"{one.server.address},{other.server.address}", "fake"),
            *("-c", "1,2", "-n", "30", "--balance", "least-outstanding", "--json", str(saved)),
        )
    assert ended.code == 0, ended.stderr
    for level in json.loads(saved.read_text())["levels"]:
        found = Counter({row["name"]: row["measurement"]["request_count"] for row in level["classes"]})
        assert found.total() == 30
        assert len(found) == 2


def test_a_class_of_a_scenario_spreads_its_requests(run: Callable, tmp_path: Path) -> None:
    scenario, saved, table = (tmp_path / name for name in ("shop.yaml", "result.json", "levels.csv"))
    with FakeTriton() as one, FakeTriton() as other:
        places = [one.server.address, other.server.address]
        scenario.write_text(f"""
classes:
  plain: {{model: fake, server: "{places[0]}", rate: 20}}
  users: {{model: fake, server: "{",".join(places)}", concurrency: 2, options: {{balance: session-affinity}}}}
  spread: {{model: fake, server: "{",".join(places)},{CLOSED}", rate: 60, slo: p99<9s}}
phases: [{{name: open, for: 500ms}}]
""")
        words = ("--balance", "round-robin", "--json", str(saved), "--csv", str(table))
        ended = run("inferometer", "measure", "--scenario", str(scenario), *words)
    assert ended.code == 1, ended.stderr
    plain, users, spread = level_of(saved)["classes"]
    assert plain["steps"] == []
    for row, names in ((users, places), (spread, [*places, CLOSED])):
        assert [(part["name"], part["mode"]) for part in row["steps"]] == [
            (name, "address") for name in names
        ]
        for field in ("request_count", "failed_count"):
            counts = [part["measurement"][field] for part in row["steps"]]
            assert sum(counts) == row["measurement"][field]
    assert all(part["measurement"]["request_count"] > 0 for part in users["steps"])
    good, fair, dead = (part["measurement"] for part in spread["steps"])
    assert (good["failed_count"], fair["failed_count"], dead["request_count"]) == (0, 0, 0)
    counts = [good["request_count"], fair["request_count"], dead["failed_count"]]
    assert max(counts) - min(counts) <= 1  # the phase may end within a turn
    said = " ".join(ended.stdout.split())
    assert f"spread, {CLOSED}: {counts[2]} requests failed" in said
    assert f"The server of spread, {CLOSED} was gone in phase open" in said
    assert [line.split(",")[1] for line in table.read_text().splitlines()[1:]] == [
        *("all", "plain", "users", *(f"users/{name}" for name in places)),
        *("spread", *(f"spread/{name}" for name in places), f"spread/{CLOSED}"),
    ]


def test_counters_of_an_address_that_two_classes_share_are_not_attributed(
    run: Callable, tmp_path: Path
) -> None:
    scenario, saved = tmp_path / "shop.yaml", tmp_path / "result.json"
    with FakeTriton() as one, FakeTriton() as other:
        places = [one.server.address, other.server.address]
        scenario.write_text(f"""
classes:
  plain: {{model: fake, server: "{places[0]}", concurrency: 1}}
  spread: {{model: fake, server: "{",".join(places)}", concurrency: 2}}
phases: [{{name: open, for: 500ms}}]
""")
        ended = run("inferometer", "measure", "--scenario", str(scenario), "--json", str(saved))
    assert ended.code == 0, ended.stderr
    plain, spread = level_of(saved)["classes"]
    found = [row["measurement"]["server"] is not None for row in (plain, spread, *spread["steps"])]
    assert found == [False, False, False, True]


@pytest.mark.parametrize(
    ("addresses", "words", "said"),
    [
        ("a:1,a:1", (), "is given twice"),
        ("a:1,", (), "empty address"),
        ("a:1,,b:1", (), "empty address"),
        ("http://a:1,https://b:1", (), "share one scheme"),
        ("a:1,b:0", (), "port"),
        ("a:1", ("--balance", "round-robin"), "several addresses"),
        ("a:1,b:1", ("--balance", "random"), "--balance"),
        ("a:1,b:1", ("-m", "x", "-m", "y"), "several models"),
        ("a:1,b:1", ("--service-kind", "triton", "-m", "x", "--shared-memory", "system"), "a single server"),
    ],
)
def test_invalid_combinations_are_rejected_before_anything_is_sent(
    addresses: str, words: tuple[str, ...], said: str, run: Callable
) -> None:
    ended = run("inferometer", "measure", "-u", addresses, *words)
    assert ended.code == 2
    assert said in ended.stderr


def test_servers_of_different_models_are_refused(run: Callable) -> None:
    larger = FakeModel(inputs=(("INPUT0", "INT32", (2,)),))
    with FakeTriton() as one, FakeTriton(model=larger) as other:
        ended = run("inferometer", "measure", f"{one.server.address},{other.server.address}", "fake")
    assert ended.code == 2
    assert "differ from those at" in ended.stderr


@pytest.mark.parametrize("command", ["diagnose", "compare", "tune"])
def test_other_commands_take_one_address(command: str, run: Callable) -> None:
    models = ("-m", "x", "-m", "y") if command == "compare" else ("-m", "x")
    ended = run("inferometer", command, "-u", "a:1,b:1", *models)
    assert ended.code in (2, 64)  # compare keeps 2 for a broken gate
    assert "one address" in ended.stderr
