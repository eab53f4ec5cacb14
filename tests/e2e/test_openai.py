"""OpenAI-style servers, the whole command line: every figure exact, every failure counted."""

import json
import queue
import threading
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from inferometer.wire.sse import EVENT_LIMIT
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
    response,
    response_event,
    stream,
    stream_until_close,
    usage,
)
from tests.support.servers import Wire, answer, answer_and_close, answer_json, both, held, raw

CHAT = ("--service-kind", "openai", "-m", "tiny")
REFUSED = "error in the reply"
CLASSIC = (*CHAT, "--endpoint", "v1/chat/completions", "--async")


@pytest.fixture
def measured(run: Callable, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The figures of one level of `count` requests, one after the other."""

    def call(fake: FakeOpenAi, count: int, *words: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
        path = tmp_path / "result.json"
        ended = run(
            *("inferometer", "measure", *CHAT, "-u", fake.server.address),
            *("--request-count", str(count), "--json", str(path), *words),
        )
        assert ended.code in codes, ended.stderr
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
WORDS = (ROLE, b": keep-alive\n\n", delta("one"), delta("two"), END, usage(2, 4), DONE)
SHORT = b"".join((delta("one"), delta("zwei: \u00fc"), usage(2, 4), DONE))
CHARACTERS = 'data: {"choices":[{"delta":{"content":"\u00fc"}}]}\n\n'.encode()
SPLIT_CHARACTER, OTHER_HALF = (CHARACTERS[: (at := CHARACTERS.index(b"\xbc"))], CHARACTERS[at:])


def crlf(piece: bytes, end: bytes) -> bytes:
    return piece.replace(b"\n", end)


def cut_in_ends(piece: bytes) -> list[bytes]:
    """With CRLF, cut between the CR and the LF of each line."""
    return [part for part in crlf(piece, b"\r\0\n").split(b"\0") if part]


STREAMS = [
    ("several tokens in an event", [ROLE, delta("one two"), delta(" three"), usage(3, 4), DONE], (2, 3, 0)),
    ("no usage", [ROLE, delta("one"), delta("two"), END, DONE], (2, 2, 1)),
    ("an event in two packets", [SPLIT[:20], SPLIT[20:], usage(5, 4), DONE], (1, 5, 0)),
    ("comments", [b": ping\n\n", delta("one"), b": ping\n\n", usage(1, 4), DONE], (1, 1, 0)),
    ("no [DONE]", [delta("one"), END, usage(1, 4)], (1, 1, 0)),
    ("all in one packet", [ROLE + delta("one") + delta("two") + END + usage(2, 4) + DONE], (2, 2, 0)),
    ("only a role", [ROLE, END, usage(1, 4), DONE], (0, 1, 0)),
    ("usage twice", [delta("one"), usage(1, 4), usage(7, 4), DONE], (1, 7, 0)),
    ("an event of 1 MB", [ROLE, delta("x" * 1_000_000), usage(2, 4), DONE], (1, 2, 0)),
    ("one byte at a time", [bytes([byte]) for byte in SHORT], (2, 2, 0)),
    ("CRLF", [crlf(piece, b"\r\n") for piece in WORDS], (2, 2, 0)),
    ("CR", [crlf(piece, b"\r") for piece in WORDS], (2, 2, 0)),
    ("CRLF, cut within", [piece for word in WORDS for piece in cut_in_ends(word)], (2, 2, 0)),
    ("a character in two packets", [SPLIT_CHARACTER, OTHER_HALF, usage(1, 4), DONE], (1, 1, 0)),
    ("[DONE] without its empty line", [delta("one"), usage(1, 4), b"data: [DONE]\n"], (1, 1, 0)),
    ("the last event without its empty line", [delta("one"), usage(3, 4)[:-2]], (1, 3, 0)),
    ("events of another type", [b"event: ping\ndata: {}\n\n", *WORDS], (2, 2, 0)),
    ("a byte order mark", [b"\xef\xbb\xbf", *WORDS], (2, 2, 0)),
    ("the responses API", [response(("one", "two"))], (2, 2, 0)),
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


def endless(wire: Wire) -> None:
    """An event that does not end; whoever reads it has to give up."""
    wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ")
    with suppress(OSError):
        for _ in range(EVENT_LIMIT // 65536 + 64):
            wire.send(b"x" * 65536)
    wire.close()


OUT_OF_MEMORY = event({"error": {"message": "out of memory"}})
FAILURES = [
    ("an error inside", stream(ROLE, delta("a"), OUT_OF_MEMORY, DONE), REFUSED, "out of memory"),
    ("an error event", stream(ROLE, b'event: error\ndata: {"message": "gone"}\n\n'), REFUSED, "gone"),
    ("an error of responses", stream(response_event("error", code="x", message="gone")), REFUSED, "gone"),
    ("a failed response", stream(response_event("response.failed")), REFUSED, "the response failed"),
    ("a cut stream", stream(ROLE, delta("a"), is_whole=False), "reset", "closed the connection in a chunked body"),
    ("a cut stream without a length", stream_until_close(ROLE, delta("a")), "reset", "of the stream, after 1 resp"),
    ("a cut event without a length", stream_until_close(ROLE, delta("a")[:-9]), "reset", "middle of an event, after 0"),
    ("half an event", stream(ROLE, delta("a"), delta("b")[:-9]), "malformed", "middle of an event, after 1 responses"),
    ("half an event in a cut stream", stream(delta("a")[:9], is_whole=False), "reset", "closed the connection"),
    ("an event of nonsense", stream(ROLE, b"data: {oops\n\n", DONE), "malformed", "is not JSON: b'{oops'"),
    ("half a character", stream(b'data: {"a": "\xc3"}\n\n'), "malformed", "is not JSON"),
    ("an event without end", endless, "malformed", f"longer than {EVENT_LIMIT} bytes"),
    ("a refusal", answer_json({"error": {"message": "slow down"}}, 429), "http 429", "slow down"),
    ("an error with a good status", answer_json({"error": {"message": "no"}}), REFUSED, "no"),
    ("a web page", answer(b"<html>", headers={"Content-Type": "text/html"}), "malformed", "is not JSON: b'<html>'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("act", "kind", "says"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES]
)
def test_every_failure_is_counted_and_the_rest_goes_on(
    act: Any, kind: str, says: str, measured: Callable
) -> None:
    with FakeOpenAi(lambda number, request: act if number % 2 else None) as fake:
        found = measured(fake, 10, "--streaming", codes=(1,))
    assert (found["request_count"], found["failed_count"]) == (5, 5)
    assert [(group["kind"], group["count"]) for group in found["failures"]] == [(kind, 5)]
    assert says in found["failures"][0]["example"]
    assert found["tokens"]["output"] == 15


@pytest.mark.machine(reason="a reply that other processes delay beyond the time-out of 0.2 s counts as lost")
def test_a_stream_that_stops_without_a_word_ends_with_the_time_given(measured: Callable) -> None:
    never = threading.Event()
    with FakeOpenAi(lambda number, request: held(never, begun(delta("a"))) if number == 1 else None) as fake:
        found = measured(fake, 4, "--streaming", "--timeout", "200ms", codes=(1,))
        never.set()
    assert (found["request_count"], found["failed_count"]) == (3, 1)
    assert [(group["kind"], group["count"]) for group in found["failures"]] == [("timeout", 1)]


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


def test_answers_are_streamed_unless_whole_ones_are_requested(measured: Callable) -> None:
    with FakeOpenAi() as fake:
        streamed, whole = measured(fake, 5), measured(fake, 5, "--no-streaming")
    assert [payload.get("stream") for payload in fake.payloads] == 5 * [True] + 5 * [None]
    assert (streamed["streaming"]["first"]["count"], whole["streaming"]) == (5, None)
    assert streamed["tokens"]["output"] == whole["tokens"]["output"] == 15


@pytest.mark.parametrize("refusal", [400, 422, 200])
def test_a_server_that_refuses_to_stream_is_measured_with_whole_answers(
    refusal: int, run: Callable, tmp_path: Path
) -> None:
    def speak(number: int, request: Any) -> Any:
        is_streamed = json.loads(request.body).get("stream")
        return answer_json({"error": {"message": "cannot stream"}}, refusal) if is_streamed else None

    path = tmp_path / "result.json"
    with FakeOpenAi(speak) as fake:
        words = (*("inferometer", "measure", *CHAT, "-u", fake.server.address), "-n", "10")
        ended = run(*words, "--json", str(path))
        asked = run(*words, "--streaming")
    found = json.loads(path.read_text())
    assert (ended.code, asked.code) == (0, 1)
    assert found["levels"][0]["measurement"]["request_count"] == 10
    (said,) = (row["text"] for row in found["remarks"] if row["note"] == "NOT_STREAMED")
    assert said.startswith("the server refused to stream")
    assert "cannot stream" in said


def test_failures_of_whole_answers_too_are_not_a_refusal_to_stream(run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with FakeOpenAi(lambda number, request: answer_json({"error": {"message": "broken"}}, 400)) as fake:
        ended = run(
            "inferometer", "measure", *CHAT, "-u", fake.server.address, "-n", "4", "--json", str(path)
        )
    found = json.loads(path.read_text())
    assert ended.code == 1
    assert not any(row["note"] == "NOT_STREAMED" for row in found["remarks"])


ENDPOINTS = [
    ("chat", ("--no-streaming",), "/v1/chat/completions", {"model", "messages"}, (15, 20)),
    ("completions", ("--no-streaming",), "/v1/completions", {"model", "prompt"}, (15, 20)),
    ("completions", (), "/v1/completions", {"model", "prompt", "stream", "stream_options"}, (15, 20)),
    ("responses", ("--no-streaming",), "/v1/responses", {"model", "input"}, (15, 20)),
    ("responses", (), "/v1/responses", {"model", "input", "stream"}, (15, 20)),
    ("embeddings", (), "/v1/embeddings", {"model", "input"}, (0, 20)),
    ("v1/embeddings", (), "/v1/embeddings", {"model", "input"}, (0, 20)),
    ("rerank", (), "/v1/rerank", {"model", "query", "documents"}, (0, 20)),
    ("/rerank", (), "/rerank", {"model", "query", "documents"}, (0, 20)),
]


@pytest.mark.parametrize(("endpoint", "words", "path", "keys", "tokens"), ENDPOINTS)
def test_every_endpoint_is_asked_as_it_wants(
    endpoint: str,
    words: tuple[str, ...],
    path: str,
    keys: set[str],
    tokens: tuple[int, int],
    measured: Callable,
) -> None:
    with FakeOpenAi() as fake:
        found = measured(fake, 5, "--endpoint", endpoint, *words)
    assert {call.path for call in fake.calls} == {path}
    assert fake.payloads[0].keys() == keys
    assert (found["tokens"]["output"], found["tokens"]["prompt"]) == tokens
    assert (found["request_count"], found["failed_count"]) == (5, 0)


def test_queries_and_documents_of_a_file_are_ranked(measured: Callable, tmp_path: Path) -> None:
    rows = [{"query": "What?", "documents": ["a", "b"]}, {"query": "Who?", "documents": ["c"]}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with FakeOpenAi() as fake:
        measured(fake, 2, "--endpoint", "rerank", "--prompts", str(tmp_path / "rows.jsonl"))
    assert fake.payloads == [{"model": "tiny", **row} for row in rows]


def test_fields_of_the_command_line_are_in_every_body_and_what_is_given_stays(
    run: Callable, tmp_path: Path
) -> None:
    """Tools, formats and whatever else a payload has pass through; an address alone is enough to be recognised."""
    payload = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True}},
        "temperature": 1,
    }
    data = inputs(tmp_path / "inputs.json", payload)
    with FakeOpenAi() as fake:
        words = ("--body", "temperature=0", "--body", "response_format.json_schema.name=other")
        ended = run("inferometer", "measure", fake.server.address, "tiny", "-n", "2", "--data", data, *words)
        assert ended.code == 0, ended.stderr
        shown = run("inferometer", "measure", fake.server.address, "tiny", "--body", "temperature", "-n", "2")
    wanted = {**payload, "temperature": 0}
    wanted["response_format"] = {"type": "json_schema", "json_schema": {"name": "other", "strict": True}}
    assert fake.payloads[:2] == [wanted, wanted]
    assert shown.code != 0  # no field: a whole body, and with it a model makes no sense
    assert "tiny" in shown.stderr


def test_images_and_sounds_are_sent(measured: Callable, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"a photo")
    (tmp_path / "prompts").write_text(f"describe @{tmp_path / 'photo.png'}\n")
    with FakeOpenAi() as fake:
        measured(
            fake,
            2,
            "--prompts",
            str(tmp_path / "prompts"),
            "--image",
            "16x16",
            "--image",
            "8X4",
            "--audio",
            "10ms",
        )
    (content,) = (message["content"] for message in fake.payloads[0]["messages"])
    assert [part["type"] for part in content] == ["text", *["image_url"] * 3, "input_audio"]
    assert content[1]["image_url"]["url"] == f"data:image/png;base64,{b64encode(b'a photo').decode()}"


# --- keys

KEY = "sk-pl4nted"


@pytest.mark.parametrize("way", ["environment", "file"])
@pytest.mark.parametrize("is_failing", [False, True])
def test_a_key_is_sent_and_appears_in_no_output(
    way: str, is_failing: bool, run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", KEY)
    (tmp_path / "key").write_text(f"{KEY}\n")
    out = tmp_path / "out"
    out.mkdir()
    given = (
        ("--api-key-env", "PLANTED") if way == "environment" else ("--api-key-file", str(tmp_path / "key"))
    )
    files = [("--json", "r.json"), ("--html", "r.html"), ("--markdown", "r.md"), ("--junit", "r.xml")]
    files += [("-f", "r.csv"), ("--export", "e.json")]
    said = ""
    echo = {"error": {"message": f"the key {KEY} is wrong"}}
    echoes = (answer_json(echo, 401), answer_json(echo), stream(event(echo)))

    def speak(number: int, request: Any) -> Any:
        return echoes[number // 2 % 3] if is_failing and number % 2 == 0 else None

    with FakeOpenAi(speak) as fake:
        words = ("inferometer", "measure", fake.server.address, "tiny", "--streaming", *given)
        outputs = [word for option, name in files for word in (option, str(out / name))]
        for more in (
            ("-n", "12", "-vv", *outputs),
            ("--show-config",),
            ("--dry-run",),
            ("--show-reply",),
            ("--session-concurrency", "1"),
        ):
            ended = run(*words, *more)
            said += ended.stdout + ended.stderr
        assert {request.header("Authorization") for request in fake.server.requests} == {f"Bearer {KEY}"}
    written = [path.read_text() for path in out.iterdir()]
    assert len(written) == len(files)
    assert KEY not in said + "".join(written)
    assert "Bearer" not in "".join(written)


KEY_FILES = [
    ("", "does not contain a key"),
    (f"{KEY}\n{KEY}2\n", "does not contain a key"),
    (f"{KEY}\u00fc", "does not contain a key"),
]


@pytest.mark.parametrize(("text", "says"), KEY_FILES)
def test_a_file_that_holds_no_single_key_is_refused_without_its_text(
    text: str, says: str, run: Callable, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(text)
    ended = run("inferometer", "measure", "localhost:1", "tiny", "--api-key-file", str(tmp_path / "key"))
    assert ended.code == 2
    assert says in ended.stderr
    assert "on a single line" in ended.stderr
    assert KEY not in ended.stderr + ended.stdout


@pytest.mark.machine(reason="a violated SLO is undecided if other processes hold up the client")
def test_goodput_counts_requests_that_meet_the_slo(measured: Callable) -> None:
    with FakeOpenAi(lambda number, request: answer_json({}, 500) if number < 2 else None) as fake:
        found = measured(fake, 10, "--streaming", "--slo", "latency<1h, ttft<1h", codes=(1,))
        goodput = found["goodput"]
        assert (goodput["count"], goodput["share"]) == (8, 0.8)
        # Undecided (5) if this machine is so busy that the client is at its limit.
        found = measured(fake, 10, "--streaming", "--slo", "ttft<0.0001ms", codes=(4, 5))
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


@pytest.mark.parametrize("late", [DONE, END + usage(1, 4) + DONE], ids=["[DONE]", "end, usage, [DONE]"])
def test_latency_ends_with_the_last_response_that_carries_data(
    late: bytes, run: Callable, tmp_path: Path
) -> None:
    """Of the first request the rest comes only when the third one has come: long after its answer was read."""
    is_told, third_came = threading.Event(), threading.Event()

    def speak(number: int, request: Any) -> Any:
        if number == 0:
            told = both(begun(delta("one")), lambda wire: is_told.set())
            return both(told, held(third_came, raw(chunk(late) + LAST_CHUNK)))
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
    assert (
        f"{address} looks like Triton over HTTP, but the options request an OpenAI-style server"
        in ended.stderr
    )
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
    left: queue.Queue[int] = queue.Queue()

    def speak(number: int, request: Any) -> Any:
        def wait(wire: Wire) -> None:
            assert wire.receive_until(b"nothing more comes") is None
            left.put(number)
            wire.close()

        return None if number == 1 else both(begun(ROLE, delta("one"), delta("two")), wait)

    with FakeOpenAi(speak) as fake:
        found = measured(fake, 4, "--streaming", "--cancel-after", "200ms")
        assert [left.get(timeout=30) for _ in range(3)] == [0, 2, 3]
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
    assert "3 requests cancelled, none answered" in ended.stderr
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
