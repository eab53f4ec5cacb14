"""`measure --check` as its users see it: wrong answers are counted, named with their load, and violate SLOs."""

import csv
import io
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Ended
from tests.support.grpc_servers import FakeGrpcTriton
from tests.support.openai import FakeOpenAi
from tests.support.servers import (
    Act,
    FakeModel,
    FakeTriton,
    Request,
    ScriptedServer,
    answer,
    answer_json,
    reply,
)

Run = Callable[..., Ended]
MOST = 8  # requests in flight that the server answers correctly
SERVICE_S = 0.005


class Overwhelmed:
    """A text server that answers wrongly while more than `MOST` requests are in service."""

    def __init__(self) -> None:
        self.inside = 0
        self._lock = threading.Lock()

    def speak(self, number: int, request: Request) -> Act:
        with self._lock:
            self.inside += 1
            text = "Paris" if self.inside <= MOST else "Prias"
        message = {"role": "assistant", "content": text}
        usage = {"completion_tokens": 1, "prompt_tokens": 4}
        act = answer_json({"choices": [{"message": message}], "usage": usage})

        def served(wire: Any) -> None:
            time.sleep(SERVICE_S)  # the service time
            with self._lock:
                self.inside -= 1
            act(wire)

        return served


def test_a_server_that_is_wrong_under_load_is_named_with_the_level(run: Run, tmp_path: Path) -> None:
    files = {name: tmp_path / f"it.{name}" for name in ("json", "csv", "md", "html")}
    with FakeOpenAi(Overwhelmed().speak) as fake:
        ended = run(
            "inferometer",
            *("measure", fake.server.address, "tiny", "--service-kind", "openai", "-c", "4,24", "-n", "240"),
            *("--check", "exact:Paris", "--check-sample", "100%", "--slo", "errors<5%, wrong<5%"),
            *("--json", str(files["json"]), "--csv", str(files["csv"])),
            *("--markdown", str(files["md"]), "--html", str(files["html"])),
        )
    assert ended.code == 4, ended
    below, above = json.loads(files["json"].read_text())["levels"]
    assert below["measurement"]["checks"] | {"share": 0} == {
        "checked": 240, "wrong": 0, "share": 0, "example": "",
    }  # fmt: skip
    checks = above["measurement"]["checks"]
    assert checks["checked"] == 240
    assert checks["wrong"] > 0
    assert checks["share"]["low"] < checks["wrong"] / 240 < checks["share"]["high"]
    assert checks["example"] == "expected 'Paris', got 'Prias'"
    assert above["measurement"]["failed_count"] == 0
    assert [level["promise"]["verdict"] for level in (below, above)] == ["kept", "broken"]
    words = "rong answers begin at 24 in flight: "
    assert words in above["remarks"][0]["text"]
    for text in (ended.stdout, files["md"].read_text(), files["html"].read_text()):
        assert words in " ".join(text.split())
    rows = {row["Concurrency"]: row for row in csv.DictReader(io.StringIO(files["csv"].read_text()))}
    assert (rows["4"]["Checked"], rows["4"]["Wrong"]) == ("240", "0")
    assert int(rows["24"]["Wrong"]) == checks["wrong"]
    assert float(rows["24"]["Wrong % low"]) < float(rows["24"]["Wrong %"])


def test_a_sample_of_validation_data_is_compared_over_grpc(run: Run, tmp_path: Path) -> None:
    """None of the first requests belongs to it: the slots send the next ones without the engine."""
    data = tmp_path / "invalid.json"
    data.write_text(json.dumps({"data": [{"INPUT0": [1]}], "validation_data": [{"OUTPUT0": [6]}]}))
    with FakeGrpcTriton() as fake:
        words = ("--data", str(data), "--validate-sample", "20%", "-c", "2", "-d", "200ms")
        ended = run("inferometer", "measure", fake.server.address, "fake", "--grpc", *words)
    assert "(mismatch)" in ended.stdout, ended


VALID = {"data": [{"INPUT0": [1]}], "validation_data": [{"OUTPUT0": [5]}]}
OUTPUT = b'{"outputs":[{"name":"OUTPUT0","datatype":"INT32","shape":[1],"data":[5]}]}'


SERVERS: dict[str, Callable[[], Any]] = {
    "TRITON": lambda: FakeTriton(model=FakeModel(), usual=reply(OUTPUT)),
    "GRPC": FakeGrpcTriton,
    "OPENAI": FakeOpenAi,
    "PLAIN": lambda: ScriptedServer(lambda request: answer(b"hello")),
}


@pytest.mark.parametrize(
    ("server", "line", "is_right"),
    [
        ("TRITON", "fake --data valid.json --check exact --workers 2 -c 2", True),
        ("TRITON", "fake --check regex:OUTPUT0.*6 -r 50", False),
        ("GRPC", "fake --grpc --check regex:OUTPUT0 -c 4", True),
        ("OPENAI", "tiny --streaming --check exact:onetwothree", True),
        ("OPENAI", "tiny --prompts prompts.jsonl --check exact", False),
        ("OPENAI", "tiny --endpoint embeddings --check schema:schema.json", True),
        ("PLAIN", "--service-kind http --check-python check.py:is_right", True),
    ],
)
def test_answers_of_every_kind_of_server_are_checked(
    server: str, line: str, is_right: bool, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("valid.json").write_text(json.dumps(VALID))
    Path("prompts.jsonl").write_text('{"prompt": "count", "expected": "one two"}\n')
    Path("schema.json").write_text('{"type": "object", "required": ["data"]}')
    Path("check.py").write_text("def is_right(answer, request):\n    return answer == 'hello'\n")
    with SERVERS[server]() as fake:
        address = getattr(fake, "server", getattr(fake, "http", fake)).address
        words = ("measure", address, *line.split(), "-n", "60", "--check-sample", "50%", "--json", "it.json")
        ended = run("inferometer", *words)
    assert ended.code == 0, ended
    (level,) = json.loads(Path("it.json").read_text())["levels"]
    found = level["measurement"]
    assert found["request_count"] == 60
    assert 10 <= found["checks"]["checked"] <= 50
    assert found["checks"]["wrong"] == (0 if is_right else found["checks"]["checked"])


def test_answers_are_compared_with_those_of_a_reference_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = iter(["the cat sat on the mat"] * 4 + ["the cat sat on a mat"] * 4 + ["no idea at all"] * 4)
    speak = lambda number, request: answer_json(  # noqa: E731
        {"choices": [{"message": {"role": "assistant", "content": next(texts)}}]}
    )
    line = ("tiny", "--service-kind", "openai", "--prompt-tokens", "8", "--repeat-prompts", "-n", "4")
    check = ("--check", "reference:ref.json", "--check-similarity", "80%", "--check-sample", "100%")
    with FakeOpenAi(speak) as fake:
        assert run("inferometer", "measure", fake.server.address, *line, "--export", "ref.json").code == 0
        wrong = []
        for name in ("close.json", "far.json"):
            ended = run("inferometer", "measure", fake.server.address, *line, *check, "--json", name)
            assert ended.code == 0, ended
            (level,) = json.loads(Path(name).read_text())["levels"]
            wrong.append((level["measurement"]["checks"]["wrong"], level["measurement"]["checks"]["checked"]))
    assert wrong == [(0, 4), (4, 4)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slo", "wrong<1%"), "no answer is checked"),
        (("--check", "exact"), "the data has none"),
        (("--check", "like:x"), "is not a kind of check"),
        (("--check", "regex:("), "is not a regular expression"),
        (("--check", "choice:|"), "has no choices"),
        (("--check", "schema:none.json"), "is not an existing file"),
        (("--check", "schema:list.json"), "is not a JSON Schema"),
        (("--check", "reference:list.json"), "is not an export of requests"),
        (("--check-python", "check.py"), "does not name a function"),
        (("--check-python", "check.py:other"), "has no function 'other'"),
        (("--check-sample", "5%"), "there is no check"),
        (("--check", "regex:a", "--check-sample", "0%"), "needs a share above 0"),
    ],
)
def test_impossible_checks_are_rejected_before_the_load(
    words: tuple[str, ...], said: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.json").write_text('{"type": 3}')
    Path("check.py").write_text("def is_right(answer, request):\n    return True\n")
    with FakeOpenAi() as fake:
        ended = run("inferometer", "measure", fake.server.address, "tiny", "--service-kind", "openai", *words)
        assert not fake.calls
    assert ended.code == 2, ended
    assert said in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
