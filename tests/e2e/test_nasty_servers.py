"""A server whose words are markup, escape sequences and formulas: they stay words wherever they are shown."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.nasty import NASTY
from tests.support.servers import FakeModel, FakeTriton, answer_json

WORDS = "\x1b[31m[click](http://evil.example) <img src=x onerror=alert(1)> [red]x[/red] | =1+1\x07"
COUNT = ("--request-count", "4")


def has_no_commands(text: str) -> bool:
    return not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)


@pytest.mark.parametrize(
    "command", [("inferometer", "measure"), ("perf_analyzer",)], ids=["measure", "script"]
)
def test_errors_of_a_server_are_words(command: tuple[str, ...], run: Callable, tmp_path: Path) -> None:
    page = tmp_path / "it.html"
    saved = tmp_path / "it.json"
    with FakeTriton(lambda number, request: answer_json({"error": WORDS}, 500)) as fake:
        ended = run(
            *(*command, "-m", "fake", "-u", fake.server.address, *COUNT, "--max-error-rate", "1"),
            *("--html", str(page), "--json", str(saved)),
        )
    assert has_no_commands(ended.stdout + ended.stderr)
    assert "onerror" in ended.stdout + ended.stderr
    assert "<img" not in page.read_text().partition('id="source"')[0]
    viewed = run("inferometer", "view", str(saved), "--markdown", "-")
    assert r"\[click\](http\://evil.example) \<img src=x onerror=alert(1)\>" in viewed.stdout


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_a_refusal_before_the_load_is_one_sentence_of_words(text: str, run: Callable) -> None:
    refusal = answer_json({"error": text}, 400)
    with FakeTriton(control=lambda request: refusal) as fake:
        ended = run("inferometer", "measure", "-m", "fake", "-u", fake.server.address, *COUNT)
    assert ended.code == 3
    assert has_no_commands(ended.stdout + ended.stderr)


def test_names_of_tensors_are_words(run: Callable, tmp_path: Path) -> None:
    model = FakeModel(inputs=((WORDS, "INT32", (1,)),), outputs=((WORDS, "INT32", (1,)),))
    with FakeTriton(model=model) as fake:
        ended = run(
            *("inferometer", "measure", "-m", "fake", "-u", fake.server.address, *COUNT),
            *("--html", str(tmp_path / "it.html")),
        )
    assert ended.code == 0, ended.stderr
    assert has_no_commands(ended.stdout + ended.stderr)
    assert "<img" not in (tmp_path / "it.html").read_text().partition('id="source"')[0]
