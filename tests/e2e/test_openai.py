"""OpenAI-style servers, the whole command line: every figure exact, every failure counted."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.openai import (
    DONE,
    END,
    LAST_CHUNK,
    ROLE,
    FakeOpenAi,
    begun,
    chunk,
    counted,
    delta,
    event,
    stream,
    stream_until_close,
    usage,
)
from tests.support.servers import Wire, answer, answer_and_close, answer_json, both, held, raw

CHAT = ("--service-kind", "openai", "-m", "tiny")
CLASSIC = (*CHAT, "--endpoint", "v1/chat/completions", "--async")


@pytest.fixture
def measured(run: Callable, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The figures of one level of `count` requests, one after the other."""

    def call(fake: FakeOpenAi, count: int, *words: str, code: int = 0) -> dict[str, Any]:
        path = tmp_path / "result.json"
        ended = run(
            *("inferometer", "measure", *CHAT, "-u", fake.server.address),
            *("--request-count", str(count), "--json", str(path), *words),
        )
        assert ended.code == code, ended.stderr
        (level,) = json.loads(path.read_text())["levels"]
        found: dict[str, Any] = level["measurement"]
        return found

    return call


def test_prompts_are_made_and_tokens_counted(measured: Callable) -> None:
    with FakeOpenAi() as fake:
        found = measured(fake, 10, "--streaming", "--prompt-tokens", "6", "--output-tokens", "3")
    assert found["request_count"] == 10
    assert len(fake.calls) == 10
    assert {call.path for call in fake.calls} == {"/v1/chat/completions"}
    payload = fake.payloads[0]
    assert len(payload["messages"][0]["content"].split()) == 6
    del payload["messages"]
    assert payload == {
        "model": "tiny",
        "max_tokens": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    tokens, streaming = found["tokens"], found["streaming"]
    assert (tokens["output"], tokens["prompt"], tokens["from_events"]) == (30, 40, 0)
    assert (streaming["responses"], streaming["per_request"]["min_ns"]) == (30, 3)
    assert streaming["first"]["count"] == 10
    assert streaming["gaps"]["count"] == 20
    assert tokens["between"]["count"] == 10


SPLIT = delta("a word in two packets")
STREAMS = [
    ("several tokens in an event", [ROLE, delta("one two"), delta(" three"), usage(3, 4), DONE], (2, 3, 0)),
    ("no usage", [ROLE, delta("one"), delta("two"), END, DONE], (2, 2, 1)),
    ("an event in two packets", [SPLIT[:20], SPLIT[20:], usage(5, 4), DONE], (1, 5, 0)),
    ("comments", [b": ping\n\n", delta("one"), b": ping\n\n", usage(1, 4), DONE], (1, 1, 0)),
    ("no [DONE]", [delta("one"), END, usage(1, 4)], (1, 1, 0)),
    ("all in one packet", [ROLE + delta("one") + delta("two") + END + usage(2, 4) + DONE], (2, 2, 0)),
    ("only a role", [ROLE, END, usage(1, 4), DONE], (0, 1, 0)),
]


@pytest.mark.parametrize(("pieces", "figures"), [row[1:] for row in STREAMS], ids=[row[0] for row in STREAMS])
def test_streams_give_exact_figures(
    pieces: list[bytes], figures: tuple[int, ...], measured: Callable
) -> None:
    with FakeOpenAi(lambda number, request: stream(*pieces)) as fake:
        found = measured(fake, 4, "--streaming")
    responses, tokens, from_events = figures
    assert (found["request_count"], found["failed_count"]) == (4, 0)
    assert (0 if found["streaming"] is None else found["streaming"]["responses"]) == 4 * responses
    assert (found["tokens"]["output"], found["tokens"]["from_events"]) == (4 * tokens, 4 * from_events)


OUT_OF_MEMORY = event({"error": {"message": "out of memory"}})
FAILURES = [
    ("an error inside", stream(ROLE, delta("a"), OUT_OF_MEMORY, DONE), "error in the reply"),
    ("a cut stream", stream(ROLE, delta("a"), is_whole=False), "reset"),
    ("a cut stream without a length", stream_until_close(ROLE, delta("a")), "reset"),
    ("an event of nonsense", stream(ROLE, b"data: {oops\n\n", DONE), "malformed"),
    ("a refusal", answer_json({"error": {"message": "slow down"}}, 429), "http 429"),
    ("an error with a good status", answer_json({"error": {"message": "no"}}), "error in the reply"),
    ("a web page", answer(b"<html>", headers={"Content-Type": "text/html"}), "malformed"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "kind"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_every_failure_is_counted_and_the_rest_goes_on(act: Any, kind: str, measured: Callable) -> None:
    with FakeOpenAi(lambda number, request: act if number % 2 else None) as fake:
        found = measured(fake, 10, "--streaming", code=1)
    assert (found["request_count"], found["failed_count"]) == (5, 5)
    assert [(group["kind"], group["count"]) for group in found["failures"]] == [(kind, 5)]
    assert found["tokens"]["output"] == 15


def test_a_server_that_closes_without_a_word_is_asked_again_and_nothing_failed(measured: Callable) -> None:
    """As llama.cpp does: after a hundred requests, and after every streamed answer."""
    with FakeOpenAi(lambda number, request: both(counted(("a",)), Wire.close)) as fake:
        found = measured(fake, 20, "--streaming")
    assert (found["request_count"], found["failed_count"]) == (20, 0)
    chats = [request for request in fake.server.requests if request.method == "POST"]
    assert len({request.connection for request in chats}) == 20
    body = json.dumps({"choices": [], "usage": {"completion_tokens": 2}}).encode()

    def speak(number: int, request: Any) -> Any:
        return answer_and_close(body, announced=False) if number % 10 == 9 else answer(body)

    with FakeOpenAi(speak) as fake:
        found = measured(fake, 30)
    assert (found["request_count"], found["failed_count"], found["tokens"]["output"]) == (30, 0, 60)


def test_embeddings_have_only_prompts(measured: Callable) -> None:
    with FakeOpenAi() as fake:
        found = measured(fake, 5, "--endpoint", "v1/embeddings")
    assert (found["tokens"]["output"], found["tokens"]["prompt"]) == (0, 20)
    assert fake.payloads[0].keys() == {"model", "input"}


def test_goodput_counts_requests_that_keep_the_promise(measured: Callable) -> None:
    with FakeOpenAi(lambda number, request: answer_json({}, 500) if number < 2 else None) as fake:
        found = measured(fake, 10, "--streaming", "--slo", "latency<1h, ttft<1h", code=1)
        goodput = found["goodput"]
        assert (goodput["count"], goodput["share"]) == (8, 0.8)
        found = measured(fake, 10, "--streaming", "--slo", "ttft<0.0001ms", code=4)
        assert found["goodput"]["count"] == 0


# --- the classic dialect


def inputs(path: Path, *payloads: dict[str, Any]) -> str:
    path.write_text(json.dumps({"data": [{"payload": [payload]} for payload in payloads]}))
    return str(path)


def test_the_classic_report_is_the_clients_only(run: Callable, tmp_path: Path) -> None:
    data = inputs(tmp_path / "inputs.json", {"model": "tiny", "stream": True}, {"model": "tiny", "n": 2})
    with FakeOpenAi() as fake:
        ended = run(
            *("perf_analyzer", *CLASSIC, "-u", f"http://{fake.server.address}", "-i", "http"),
            *(
                "--input-data",
                data,
                "--concurrency-range",
                "2",
                "-p",
                "200",
                "--stability-percentage",
                "999999",
            ),
            *("-f", str(tmp_path / "report.csv"), "--verbose-csv"),
        )
    assert ended.code == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[:8] == [
        " Successfully read data for 1 stream/streams with 2 step/steps.",
        "*** Measurement Settings ***",
        "  Service Kind: OPENAI",
        '  Using "time_windows" mode for stabilization',
        "  Stabilizing using average throughput",
        "  Measurement window: 200 msec",
        "  Using asynchronous calls for inference",
        "",
    ]
    assert lines[8:10] == ["Request concurrency: 2", "  Client: "]
    assert not any("Server" in line for line in lines)
    summary = lines.index("Inferences/Second vs. Client Average Batch Latency")
    assert lines[summary - 1] != ""
    assert {call.body for call in fake.calls} == {
        b'{"model":"tiny","stream":true}',
        b'{"model":"tiny","n":2}',
    }
    header, row = (tmp_path / "report.csv").read_text().splitlines()
    assert header.startswith("Concurrency,Inferences/Second,Client Send,Client Recv,p50 latency")
    cells = dict(zip(header.split(","), row.split(","), strict=True))
    assert (cells["Output Tokens/Request"], cells["Input Tokens/Request"]) == ("3", "4")


def test_latency_ends_with_the_last_event_before_done(run: Callable, tmp_path: Path) -> None:
    """Of the first request `[DONE]` comes only when the third one has come: long after its last event was read."""
    is_told, third_came = threading.Event(), threading.Event()

    def speak(number: int, request: Any) -> Any:
        if number == 0:
            told = both(begun(delta("one")), lambda wire: is_told.set())
            return both(told, held(third_came, raw(chunk(DONE) + LAST_CHUNK)))
        if number == 2:
            third_came.set()
        return held(is_told, stream(delta("one"), DONE))

    data, export = (
        inputs(tmp_path / "inputs.json", {"model": "tiny", "stream": True}),
        tmp_path / "export.json",
    )
    with FakeOpenAi(speak) as fake:
        ended = run(
            *("perf_analyzer", *CLASSIC, "-u", fake.server.address, "--input-data", data),
            *("--request-count", "3", "--concurrency-range", "2"),
            *("--profile-export-file", str(export), "--json", str(tmp_path / "result.json")),
        )
    assert ended.code == 0, ended.stderr
    requests = json.loads(export.read_text())["experiments"][0]["requests"]
    took = [request["response_timestamps"][0] - request["timestamp"] for request in requests]
    latency = json.loads((tmp_path / "result.json").read_text())["levels"][0]["measurement"]["latency"]
    assert (latency["min_ns"], latency["max_ns"]) == (min(took), max(took))


# --- sessions


def test_turns_of_a_session_come_in_order_with_all_that_was_said(run: Callable, tmp_path: Path) -> None:
    turns = {"a": 3, "b": 2, "c": 1}
    rows = [
        {
            "session_id": [name],
            "delay": [1],
            "payload": [{"model": "tiny", "messages": [{"role": "user", "content": f"{name}{turn}"}]}],
        }
        for turn in range(3)
        for name, count in turns.items()
        if turn < count
    ]
    path = tmp_path / "sessions.json"
    path.write_text(json.dumps({"data": rows}))
    with FakeOpenAi() as fake:
        ended = run(
            *("perf_analyzer", *CLASSIC, "-u", fake.server.address),
            *("--input-data", str(path), "--session-concurrency", "2"),
            *("--profile-export-file", str(tmp_path / "export.json")),
        )
    assert ended.code == 0, ended.stderr
    (experiment,) = json.loads((tmp_path / "export.json").read_text())["experiments"]
    assert experiment["experiment"] == {"mode": "request_rate", "value": 0.0}
    assert experiment["window_boundaries"] == [0, 2**64 - 1]
    assert len(experiment["requests"]) == 6
    assert "    Request count: 6\n" in ended.stdout
    said = [[message["content"] for message in payload["messages"]] for payload in fake.payloads]
    for name, count in turns.items():
        own = [messages for messages in said if messages[0].startswith(name)]
        expected = [f"{name}{turn}" for turn in range(count)]
        assert [messages[::2] for messages in own] == [expected[: turn + 1] for turn in range(count)]
        assert all(set(messages[1::2]) <= {"one two three"} for messages in own)


# --- the wrong kind


def test_a_server_of_another_kind_is_named_before_any_load(run: Callable) -> None:
    from tests.support.servers import FakeTriton

    with FakeTriton() as fake:
        ended = run("inferometer", "measure", *CHAT, "-u", fake.server.address, "--duration", "200ms")
    assert ended.code == 2
    address = fake.server.address
    assert f"{address} looks like Triton over HTTP, and an OpenAI-style server is asked for" in ended.stderr
    assert f"type inferometer measure {address} tiny\n" in ended.stderr
    assert {request.method for request in fake.server.requests} == {"GET"}


# --- the export


@pytest.mark.parametrize("streamed", [True, False])
def test_the_export_has_every_event_with_its_time(streamed: bool, run: Callable, tmp_path: Path) -> None:
    payload = {"model": "tiny", "stream": streamed}
    data, path = inputs(tmp_path / "inputs.json", payload), tmp_path / "export.json"
    with FakeOpenAi() as fake:
        ended = run(
            *("perf_analyzer", *CLASSIC, "-u", fake.server.address, "-i", "http", "--concurrency-range", "1"),
            *("--input-data", data, "--request-count", "4", "--profile-export-file", str(path)),
        )
    assert ended.code == 0, ended.stderr
    export = json.loads(path.read_text())
    assert (export["service_kind"], export["endpoint"]) == ("openai", "v1/chat/completions")
    requests = export["experiments"][0]["requests"]
    assert len(requests) == 4
    for request in requests:
        assert json.loads(request["request_inputs"]["payload"]) == payload
        responses = [output["response"] for output in request["response_outputs"]]
        times = request["response_timestamps"]
        assert len(responses) == len(times)
        assert times == sorted(times)
        if streamed:
            documents = [json.loads(text.removeprefix("data: ")) for text in responses[:-1]]
            said = [row["choices"][0]["delta"]["content"] for row in documents[1:4]]
            assert said == ["one", "two", "three"]
            assert responses[-1] == ""  # [DONE]
            assert len(responses) == 7
        else:
            (document,) = map(json.loads, responses)
            assert document["choices"][0]["message"]["content"] == "one two three"


def test_the_export_of_plain_http_has_the_bodies(run: Callable, tmp_path: Path) -> None:
    from tests.support.servers import ScriptedServer

    path = tmp_path / "export.json"
    with ScriptedServer(lambda request: answer(b"hello")) as server:
        ended = run(
            *(
                "inferometer",
                "measure",
                "--service-kind",
                "http",
                "-u",
                server.address,
                "--body",
                "a",
                "--body",
                "b",
            ),
            *("--request-count", "4", "--profile-export-file", str(path)),
        )
    assert ended.code == 0, ended.stderr
    requests = json.loads(path.read_text())["experiments"][0]["requests"]
    assert [request["response_outputs"] for request in requests] == [[{"response": "hello"}]] * 4


def test_payloads_go_at_their_times(run: Callable, tmp_path: Path) -> None:
    rows = [{"payload": [{"n": number}], "timestamp": [number]} for number in range(5)]
    path = tmp_path / "inputs.json"
    path.write_text(json.dumps({"data": rows}))
    with FakeOpenAi() as fake:
        words = ("-u", fake.server.address, "--input-data", str(path), "--fixed-schedule")
        ended = run("perf_analyzer", *CLASSIC, *words)
    assert ended.code == 0, ended.stderr
    assert sorted(payload["n"] for payload in fake.payloads) == [0, 1, 2, 3, 4]
    path.write_text(json.dumps({"data": [{"payload": [{}]}]}))
    ended = run("perf_analyzer", *CLASSIC, *words)
    assert ended.code == 99
    assert "missing tensor timestamp" in ended.stderr


def test_a_cancelled_request_closes_its_connection_and_is_counted_apart(measured: Callable) -> None:
    """Two words, then silence: the server sees the client leave, and the next request comes on a new connection."""
    left: list[int] = []

    def speak(number: int, request: Any) -> Any:
        def wait(wire: Wire) -> None:
            assert wire.receive_until(b"nothing more comes") is None
            left.append(number)
            wire.close()

        return None if number == 1 else both(begun(ROLE, delta("one"), delta("two")), wait)

    with FakeOpenAi(speak) as fake:
        found = measured(fake, 4, "--streaming", "--cancel-after", "200ms")
    assert left == [0, 2, 3]
    assert (found["request_count"], found["failed_count"], found["failures"]) == (1, 0, [])
    cancelled = found["cancelled"]
    assert (cancelled["count"], cancelled["tokens"], cancelled["without_token"]) == (3, 6, 0)
    assert cancelled["ran"]["min_ns"] >= 200_000_000
    assert (found["tokens"]["output"], found["streaming"]["responses"]) == (3, 3)


def test_where_every_request_is_cancelled_the_report_says_so(run: Callable) -> None:
    def wait(wire: Wire) -> None:
        wire.receive_until(b"nothing more comes")
        wire.close()

    with FakeOpenAi(lambda number, request: wait) as fake:
        ended = run(
            *("inferometer", "measure", *CHAT, "-u", fake.server.address),
            *("--request-count", "3", "--cancel-after", "100ms"),
        )
    assert "3 requests cancelled, and none was answered before" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_answers_of_another_length_than_asked_for_are_named(measured: Callable) -> None:
    def speak(number: int, request: Any) -> Any:
        return counted(("word",) * (2 + number))

    with FakeOpenAi(speak) as fake:
        found = measured(fake, 3, "--streaming", "--output-tokens", "3")
    assert found["tokens"]["asked"] == {
        "asked": 3,
        "early": 1,
        "over": 1,
        "missing_tokens": 1,
        "extra_tokens": 1,
    }
