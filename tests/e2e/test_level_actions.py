"""Actions around levels, in a whole run."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.openai import FakeOpenAi
from tests.support.servers import ScriptedServer, answer


def test_actions_surround_each_level_and_a_failure_keeps_what_was_measured(
    run: Callable, tmp_path: Path
) -> None:
    saved, log = tmp_path / "result.json", tmp_path / "log"
    with ScriptedServer(lambda _: answer(b"x")) as server:
        words = (
            "measure",
            server.address,
            "--service-kind",
            "http",
            "-c",
            "1,2",
            "-n",
            "10",
            "--json",
            str(saved),
        )
        before, after = f"echo before >> {log}", f"echo after >> {log}"
        good = run("inferometer", *words, "--before-level", before, "--after-level", after)
        levels = json.loads(saved.read_text())["levels"]
        bad = run("inferometer", *words, "--after-level", "echo oh; exit 3")
    assert good.code == 0, good.stderr
    assert log.read_text().split() == ["before", "after"] * 2
    assert [[action["exit_code"] for action in level["after"]] for level in levels] == [[0], [0]]
    assert "after each level: echo after" in " ".join(good.stdout.split())
    assert bad.code == 2
    assert "of --after-level ended with exit code 3; its last line was: oh" in bad.stderr
    (kept,) = json.loads(saved.read_text())["levels"]
    assert kept["measurement"]["request_count"] == 10


def test_every_shared_prefix_is_sent_once_before_each_level(run: Callable, tmp_path: Path) -> None:
    saved = tmp_path / "result.json"
    with FakeOpenAi() as fake:
        words = ("measure", fake.server.address, "tiny", "--service-kind", "openai", "-c", "1,2", "-n", "12")
        prompts = ("--prompt-tokens", "10", "--prefix-tokens", "20", "--prefix-pool", "3")
        actions = ("--before-level", "prime-prefixes", "--json", str(saved))
        ended = run("inferometer", *words, *prompts, *actions)
        bodies = [json.loads(request.body) for request in fake.server.requests if request.method == "POST"]
    assert ended.code == 0, ended.stderr
    texts = [body["messages"][-1]["content"] for body in bodies]
    primers = [text for text, body in zip(texts, bodies, strict=True) if body.get("max_tokens") == 1]
    assert texts[:3] == primers[:3] == primers[3:]
    assert len({*primers}) == 3
    assert len(texts) == 6 + 24
    assert all(text.startswith(tuple(primers)) for text in texts)
    for level in json.loads(saved.read_text())["levels"]:
        (taken,) = level["before"]
        assert (taken["action"], taken["last_line"], taken["status"]) == ("prime-prefixes", "3 prefixes", 200)
        assert taken["call"] == "POST /v1/chat/completions"
        assert level["measurement"]["request_count"] == 12
