"""The same recorded agents through aiperf and through us: the calls agree one by one."""

import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.parts import ROOT
from benchmarks.streams import tokenizer
from tests.peers.conftest import DEADLINE_S, environment
from tests.support.call_log import CallLog, Heard, Speech
from tests.support.task_log import run_tasks

TREES = 3


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def tree(name: str) -> list[dict[str, Any]]:
    """A planner, two researchers that it waits for, a third for a later turn, and two ways to go on."""
    return [
        {
            "session_id": name,
            "turns": [
                {
                    "messages": [
                        {"role": "system", "content": f"Be brief about {name}"},
                        user(f"plan {name}"),
                    ],
                    "max_tokens": 20,
                    "spawns": [f"{name}-a", {"children": [f"{name}-b"], "join_at": 2}],
                },
                {"messages": [user("read the first")], "delay": 30, "max_tokens": 21},
                {
                    "messages": [user("read both")],
                    "max_tokens": 22,
                    "forks": [f"{name}-end", f"{name}-other"],
                },
            ],
        },
        {
            "session_id": f"{name}-a",
            "turns": [
                {"messages": [user(f"search {name}")], "max_tokens": 23},
                {"messages": [user("search again")], "max_tokens": 24, "delay": 50},
            ],
        },
        {"session_id": f"{name}-b", "turns": [{"messages": [user(f"look up {name}")], "max_tokens": 25}]},
        {"session_id": f"{name}-end", "turns": [{"messages": [user("sum up")], "max_tokens": 26}]},
        {"session_id": f"{name}-other", "turns": [{"messages": [user("what else?")], "max_tokens": 27}]},
    ]


def speak(number: int, body: dict[str, Any]) -> Speech:
    """An answer that depends only on the question."""
    (*_, last) = body["messages"]
    return Speech((f"On {last['content']}:", " yes", f" {len(body['messages'])}"), 0.02)


def logged(call: Heard) -> tuple[str, int]:
    limit = call.body.get("max_completion_tokens", call.body.get("max_tokens"))
    return json.dumps([[message["role"], message["content"]] for message in call.messages]), limit


def check_order(log: list[Heard]) -> None:
    """A call arrives after every answer that it carries, and after those that it joins."""
    ends = {(call.messages[0]["content"], call.said): call.ended_ns for call in log}
    asked = {(call.messages[0]["content"], call.messages[-1]["content"]): call for call in log}
    for (first, last), call in asked.items():
        for message in call.messages:
            if message["role"] == "assistant":
                assert call.arrived_ns >= ends[first, message["content"]]
        name = first.rpartition(" ")[2]
        joined = {"read the first": (f"search {name}", "search again"), "read both": (f"look up {name}",) * 2}
        if last in joined:
            assert call.arrived_ns >= asked[joined[last]].ended_ns


def test_calls_of_agents_agree_with_aiperf(tmp_path: Path) -> None:
    trace = tmp_path / "agents.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for name in range(TREES) for row in tree(f"t{name}")))
    with CallLog(speak) as server:
        done = subprocess.run(
            [
                *(environment("aiperf").with_name("aiperf"), "profile", "-m", "tiny", "-u", server.address),
                *("--endpoint-type", "chat", "--streaming", "--tokenizer", tokenizer().relative_to(ROOT)),
                *("--input-file", trace, "--custom-dataset-type", "dag_jsonl", "--concurrency", str(TREES)),
                *("--ui", "none", "--artifact-dir", tmp_path / "aiperf"),
            ],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=4 * DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    logs = [server.heard]
    with CallLog(speak) as server:
        run_tasks(server.address, {"replay": str(trace)}, in_flight=TREES, count=TREES)
    logs.append(server.heard)
    theirs, ours = (sorted(map(logged, log)) for log in logs)
    assert ours == theirs
    assert len(ours) == len(set(ours)) == 8 * TREES
    for log in logs:
        check_order(log)
