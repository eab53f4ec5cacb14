"""The whole command line against a stand-in of every API: exact figures, keys, failures."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import answer_json
from tests.support.text_apis import ANTHROPIC, STAND_INS, TRITON, StandIn, TextServer, played

COUNT = 3


@pytest.fixture
def measured(run: Callable, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The figures of one level of a few requests, and the result as text."""

    def call(address: str, *words: str, code: int = 0) -> dict[str, Any]:
        path = tmp_path / "result.json"
        ended = run("inferometer", "measure", address, *words, "-n", str(COUNT), "--json", str(path))
        assert ended.code == code, ended.stdout + ended.stderr
        document = json.loads(path.read_text())
        return {
            **document["levels"][0]["measurement"],
            "text": path.read_text() + ended.stdout + ended.stderr,
        }

    return call


@pytest.mark.parametrize("row", STAND_INS, ids=[row.name for row in STAND_INS])
def test_every_api_is_measured_exactly(row: StandIn, measured: Callable) -> None:
    streaming = ("--streaming",) if row.stream else ()
    sound = ("--audio", "10ms") if row.name == "transcriptions" else ()
    with TextServer() as fake:
        words = ("tiny", "--service-kind", "openai", "--endpoint", row.name, *streaming, *sound)
        found = measured(fake.address, *words)
    assert {call.path for call in fake.calls} == {row.path}
    assert (found["request_count"], found["failed_count"]) == (COUNT, 0)
    tokens = found["tokens"]
    counted = row.counts.tokens or len(row.deltas)
    assert (tokens["output"], tokens["prompt"]) == (COUNT * counted, COUNT * row.counts.prompt_tokens)
    assert (tokens["reasoning"], tokens["cached"]) == (
        COUNT * row.counts.reasoning_tokens,
        COUNT * row.counts.cached_tokens,
    )
    if not row.stream:
        assert found["streaming"] is None
        return
    streams = found["streaming"]
    assert streams["responses"] == COUNT * len(row.deltas)
    assert (0 if streams["tool"] is None else streams["tool"]["count"]) == COUNT * bool(row.tool_at)


def test_an_address_with_a_path_is_enough_and_the_key_goes_into_the_apis_header(
    measured: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-ant-0123456789")
    with TextServer() as fake:
        found = measured(f"http://{fake.address}/v1/messages", "--streaming", "--api-key-env", "SECRET_KEY")
    assert found["streaming"]["tool"]["count"] == COUNT
    headers = {name.lower(): value for name, value in fake.calls[0].headers}
    assert headers["x-api-key"] == "sk-ant-0123456789"
    assert headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in headers
    assert "sk-ant-0123456789" not in found["text"]


def test_tritons_generate_is_measured_at_a_server_that_looks_like_triton(measured: Callable) -> None:
    triton = {"/v2": {"name": "triton", "version": "2.51.0", "extensions": ["statistics"]}}
    with TextServer(pages=triton) as fake:
        for words in (
            (f"{fake.address}/v2/models/tiny/generate_stream",),
            (
                fake.address,
                "tiny",
                "--service-kind",
                "openai",
                "--endpoint",
                "triton-generate",
                "--streaming",
            ),
        ):
            assert measured(*words)["tokens"]["output"] == COUNT * len(TRITON.deltas)
    assert {call.path for call in fake.calls} == {TRITON.path}


def test_failures_carry_the_message_of_the_api(measured: Callable) -> None:
    acts = [
        played(ANTHROPIC, events=(*ANTHROPIC.stream[:6], ANTHROPIC.error)),
        played(ANTHROPIC, events=ANTHROPIC.stream[:-1]),
        answer_json(ANTHROPIC.refusal, 429),
    ]
    with TextServer(lambda row, request: acts[len(fake.calls) - 1]) as fake:
        words = ("tiny", "--service-kind", "openai", "--endpoint", "anthropic", "--streaming")
        found = measured(fake.address, *words, code=1)
    assert found["failed_count"] == COUNT
    said = json.dumps(found["failures"])
    for message in ("out of memory", "ended before the event", "HTTP status 429: too much"):
        assert message in said


def test_a_template_measures_an_api_without_a_name(measured: Callable) -> None:
    with TextServer() as fake:
        found = measured(
            *(f"http://{fake.address}/api/generate", "--streaming"),
            *("--body-template", '{"model": "x", "prompt": "{{prompt}}", "stream": "{{stream}}"}'),
            *("--reply-path", "text=response", "--reply-path", "reasoning=thinking"),
            *("--reply-path", "tokens=eval_count", "--reply-path", "end=done"),
        )
    assert json.loads(fake.calls[0].body)["stream"] is True
    assert (found["tokens"]["output"], found["streaming"]["responses"]) == (COUNT * 9, COUNT * 5)
