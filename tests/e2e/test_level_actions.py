"""Actions around levels, in a whole run."""

import json
from collections.abc import Callable
from pathlib import Path

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
