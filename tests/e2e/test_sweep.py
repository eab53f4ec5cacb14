"""A sweep and a search against servers that make text, the whole command line and from Python."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer import api
from tests.support.openai import FakeOpenAi, counted
from tests.support.servers import ScriptedServer, answer, serviced

CHAT = ("--service-kind", "openai", "--streaming")
SHORT = "a level of 200 ms has requests only where other processes leave a core"


@pytest.mark.machine(reason=SHORT)
def test_a_sweep_chooses_its_levels_and_draws_what_a_user_gets(run: Callable, tmp_path: Path) -> None:
    saved, page = tmp_path / "result.json", tmp_path / "page.html"
    places = threading.Semaphore(4)
    spoken = counted(("one", "two", "three"))
    with FakeOpenAi(lambda number, request: serviced(spoken, places, 0.03)) as fake:
        words = ("inferometer", "measure", fake.server.address, "tiny", *CHAT, "--sweep", "-d", "200ms")
        ended = run(*words, "--json", str(saved), "--html", str(page))
    assert ended.code == 0, ended.stderr
    levels = json.loads(saved.read_text())["levels"]
    assert [level["value"] for level in levels][:2] == [1, 2]
    assert 3 <= len(levels) <= 12
    for level in levels:
        assert level["measurement"]["tokens"]["per_user"]["mean"]["value"] > 0
        assert level["measurement"]["lanes"]
    shown = page.read_text()
    for said in (
        "the server against one user",
        "whose first token came",
        "gaps between tokens",
        "streamed requests",
    ):
        assert said in shown
    assert "each user from" in " ".join(ended.stdout.split())


@pytest.mark.machine(reason=SHORT)
def test_any_server_is_swept(run: Callable, tmp_path: Path) -> None:
    saved = tmp_path / "result.json"
    with ScriptedServer(lambda request: answer(b"hello")) as server:
        words = (server.address, "--service-kind", "http", "--sweep", "-d", "200ms", "--json", str(saved))
        ended = run("inferometer", "measure", *words)
    assert ended.code == 0, ended.stderr
    assert [level["value"] for level in json.loads(saved.read_text())["levels"]][:2] == [1, 2]


@pytest.mark.machine(reason=SHORT)
def test_a_server_that_fails_everything_is_asked_with_one_request_at_a_time(
    run: Callable, tmp_path: Path
) -> None:
    saved = tmp_path / "result.json"
    with ScriptedServer(lambda request: answer(b"no", status=503)) as server:
        words = (server.address, "--service-kind", "http", "--sweep", "-d", "200ms", "--json", str(saved))
        ended = run("inferometer", "measure", *words)
    assert ended.code != 0
    assert [level["value"] for level in json.loads(saved.read_text())["levels"]] == [1]


@pytest.mark.parametrize("words", [("-c", "4"), ("-r", "5"), ("-n", "9"), ("-l", "10")])
def test_what_a_sweep_chooses_itself_is_refused(run: Callable, words: tuple[str, ...]) -> None:
    ended = run("inferometer", "measure", "localhost:1", "tiny", *CHAT, "--sweep", *words)
    assert ended.code == 2
    assert "--sweep" in ended.stderr


def test_from_python() -> None:
    with FakeOpenAi(is_queue=True) as fake:
        address = fake.server.address
        result = api.measure(
            "tiny", url=address, service_kind="openai", streaming=True, sweep=True, duration_s=0.2
        )
    assert [level.value for level in result.levels][:2] == [1, 2]


@pytest.mark.machine(reason="a search of three seconds decides only with enough requests, which need a core")
@pytest.mark.parametrize("by", ["rate", "concurrency"])
def test_find_accepts_an_slo_on_tokens(run: Callable, tmp_path: Path, by: str) -> None:
    saved = tmp_path / "result.json"
    with FakeOpenAi() as fake:
        words = ("inferometer", "find", fake.server.address, "tiny", *CHAT, "--by", by, "-d", "3s")
        ended = run(*words, "--slo", "ttft p90<2s, tpot p90<1s", "--json", str(saved))
    assert ended.code == 0, ended.stderr
    finding = json.loads(saved.read_text())["finding"]
    assert finding["value"] > 0
    assert finding["mode"] == ("request_rate" if by == "rate" else "concurrency")
