"""`inferometer diagnose` with missing information: it reports what is still known."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer.base.answer_file import read
from inferometer.diagnose.diagnosis import UNKNOWN, Diagnosis
from tests.support.servers import FakeTriton, reply

SHORT = ("--concurrency-range", "1:2", "--duration", "300ms")


def test_a_plain_kserve_server_gets_the_clients_view(run: Callable, tmp_path: Path) -> None:
    with FakeTriton(extensions=()) as fake:
        ended = run(
            *("inferometer", "diagnose", "-m", "fake", "-u", fake.server.address, *SHORT),
            *("--json", str(tmp_path / "it.json")),
        )
    assert ended.code == 0, ended.stderr
    assert ended.stdout.startswith(
        "The server provides no statistics, so only the client's view is available"
    )
    saved = read(tmp_path / "it.json", Diagnosis)
    assert saved.verdict.kind == UNKNOWN
    assert saved.throughput > 0
    assert [level.value for level in saved.results[0].levels] == [1, 2]


def test_a_server_without_successful_answers_cannot_be_diagnosed(run: Callable) -> None:
    with FakeTriton(usual=reply(b"{}", status=500)) as fake:
        ended = run("inferometer", "diagnose", "-m", "fake", "-u", fake.server.address, *SHORT)
    assert ended.code == 3
    assert "nothing to diagnose" in ended.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--keep",), "--keep requires --apply"),
        (("--write-config", "x"), "--write-config requires --apply"),
        (("--cores", "0"), "--cores needs a number above 0, but got '0'"),
        (("--request-rate-range", "10"), "it loads by concurrency"),
        (("--apply", "--budget", "soon"), "--budget"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_invalid_options_are_rejected(words: tuple[str, ...], complaint: str, run: Callable) -> None:
    ended = run("inferometer", "diagnose", "-m", "fake", "-u", "127.0.0.1:9", *words)
    assert ended.code == 2
    assert complaint in ended.stderr


def test_the_file_is_plain_json(run: Callable, tmp_path: Path) -> None:
    with FakeTriton() as fake:
        ended = run(
            *("inferometer", "diagnose", "-m", "fake", "-u", fake.server.address, *SHORT),
            *("--json", str(tmp_path / "it.json")),
        )
    assert ended.code == 0, ended.stderr
    document = json.loads((tmp_path / "it.json").read_text())
    assert [step["name"] for step in document["steps"]] == ["fake"]
    assert document["verdict"]["sentence"] in " ".join(ended.stdout.split())
