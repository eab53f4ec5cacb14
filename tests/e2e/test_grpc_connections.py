"""What a gRPC server may do with its connections without anything being wrong: go away, come back, be narrow."""

import json
import pickle
import re
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inferometer import api
from inferometer.options.options import Options, Tls
from inferometer.services.endpoint import Connection, parse_endpoint
from inferometer.services.kind import KINDS
from tests.support.commands import Ended
from tests.support.grpc_servers import (
    ENHANCE_YOUR_CALM,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    NO_ERROR,
    REFUSED_STREAM,
    Act,
    Call,
    FakeGrpcTriton,
    GrpcServer,
    Infer,
    Wire,
    answer_http,
    asked,
    each,
    error_response,
    goaway,
    hang_up,
    never,
    ping,
    reset,
    reset_stream,
    response,
    say,
    usual,
)
from tests.support.servers import FakeModel

BOTH = pytest.mark.parametrize("words", [(), ("--streaming",)], ids=["unary", "streaming"])
Certificate = Callable[[str], tuple[str, ssl.SSLContext]]


@pytest.fixture
def measure(run: Callable) -> Callable:
    """The script against a fake server, a count of requests at a concurrency."""

    def call(fake: FakeGrpcTriton, count: int, concurrency: int, *words: str) -> Ended:
        return run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--request-count", str(count)),
            *("--concurrency-range", str(concurrency), *words),
        )

    return call


def assert_all_good(ended: Ended, count: int) -> None:
    assert ended.code == 0, ended.stderr
    assert f"    Request count: {count}\n" in ended.stdout
    assert "Failed" not in ended.stdout


def connections(fake: FakeGrpcTriton) -> set[int]:
    return {call.connection for call in fake.inferences}


# --- GOAWAY and restarts


@BOTH
@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_server_that_goes_away_answers_what_it_has(
    words: tuple[str, ...], concurrency: int, measure: Callable
) -> None:
    with FakeGrpcTriton(lambda number, call: each(goaway(), usual(call)) if number == 30 else None) as fake:
        ended = measure(fake, 100, concurrency, *words)
        assert len(fake.inferences) == 100
        assert len(connections(fake)) == 2
        left = fake.server.wires[min(connections(fake))]
        assert fake.server.wait_for(lambda: left.is_closed)  # by us, once it had nothing more to say
    assert_all_good(ended, 100)


@BOTH
@pytest.mark.parametrize(
    ("code", "then"), [(NO_ERROR, never), (ENHANCE_YOUR_CALM, hang_up)], ids=["and stays", "and hangs up"]
)
def test_calls_that_a_server_did_not_begin_are_made_elsewhere(
    words: tuple[str, ...], code: int, then: Act, measure: Callable
) -> None:
    """A GOAWAY below streams that are open: the server has done nothing for them."""
    with FakeGrpcTriton(lambda number, call: each(goaway(0, code), then) if number == 30 else None) as fake:
        ended = measure(fake, 100, 4, *words)
        assert 100 < len(fake.inferences) <= 104
        assert len(connections(fake)) == 2
    assert_all_good(ended, 100)


@BOTH
def test_calls_that_a_second_goaway_refuses_are_made_again(words: tuple[str, ...], measure: Callable) -> None:
    """As servers shut down in good order: they announce it, and later say up to which call they serve."""
    left: list[Wire] = []

    def leave(wire: Wire, call: Call) -> None:
        left.append(wire)
        wire.goaway()

    def infer(number: int, call: Call) -> Act | None:
        if number == 30:
            return leave
        if left and call.connection != left[0].number:  # the client has understood the first one
            left[0].goaway(0)
        return None

    with FakeGrpcTriton(infer) as fake:
        ended = measure(fake, 100, 4, *words)
        assert len(connections(fake)) == 2
    assert_all_good(ended, 100)


def test_statistics_go_on_after_their_connection_was_left(run: Callable) -> None:
    """A GOAWAY on every connection, also on the one that is kept for the server's counters."""

    def infer(number: int, call: Call) -> Act | None:
        if number == 5:
            for wire in list(fake.server.wires):
                wire.goaway()
        return None

    with FakeGrpcTriton(infer) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address),
            *("-p", "100", "-s", "999999", "-r", "5"),
        )
    assert ended.code == 0, ended.stderr
    assert re.search(r"^    Inference count: [1-9]", ended.stdout, re.M)


def test_a_server_that_goes_away_again_and_again_costs_no_request(measure: Callable) -> None:
    with FakeGrpcTriton(
        lambda number, call: each(goaway(), usual(call)) if number % 20 == 19 else None
    ) as fake:
        ended = measure(fake, 200, 2)
        assert len(connections(fake)) >= 9
    assert_all_good(ended, 200)


@BOTH
def test_a_refused_stream_is_tried_again(words: tuple[str, ...], measure: Callable) -> None:
    with FakeGrpcTriton(lambda number, call: reset_stream(REFUSED_STREAM) if number == 9 else None) as fake:
        ended = measure(fake, 20, 1, *words)
        assert len(fake.inferences) == 21
        assert fake.inferences[9].stream != fake.inferences[10].stream
    assert_all_good(ended, 20)


@BOTH
def test_a_server_that_is_started_again_is_measured_on(
    words: tuple[str, ...], measure: Callable, tmp_path: Path
) -> None:
    def restart(wire: Wire, call: Call) -> None:
        fake.server.stop()
        fake.server.start()

    with FakeGrpcTriton(lambda number, call: restart if number == 30 else None) as fake:
        ended = measure(fake, 100, 1, "--json", str(tmp_path / "r.json"), *words)
        assert len(connections(fake)) == 2
    assert ended.code == 99
    assert "    Request count: 99\n" in ended.stdout
    assert "    Failed request count: 1 (1.00 %)\n" in ended.stdout
    (level,) = api.load(str(tmp_path / "r.json")).levels
    assert [(group.kind, group.count) for group in level.measurement.failures] == [("reset", 1)]


@BOTH
def test_a_lost_connection_fails_the_calls_on_it_and_no_others(
    words: tuple[str, ...], measure: Callable
) -> None:
    with FakeGrpcTriton(lambda number, call: reset if number == 40 else None) as fake:
        ended = measure(fake, 100, 8, *words)
    assert ended.code == 99
    failed = 100 - int(ended.stdout.split("    Request count: ")[1].split("\n")[0])
    assert 1 <= failed <= 4
    assert f"    Failure: reset, {failed} request" in ended.stdout


# --- how many connections


@pytest.mark.parametrize(
    ("concurrency", "words", "expected"),
    [
        (1, (), 1),
        (5, (), 2),
        (16, ("--streaming",), 4),
        (8, ("--connections", "1"), 1),
        (8, ("--connections", "3", "--streaming"), 3),
        (2, ("--connections", "5"), 2),
    ],
)
def test_requests_share_connections(
    concurrency: int, words: tuple[str, ...], expected: int, measure: Callable
) -> None:
    with FakeGrpcTriton() as fake:
        ended = measure(fake, 64, concurrency, *words)
        assert len(connections(fake)) == expected
    assert_all_good(ended, 64)


def test_connections_are_counted_over_all_workers(measure: Callable) -> None:
    with FakeGrpcTriton() as fake:
        measure(fake, 200, 8, "--workers", "2", "--connections", "4")
        assert len(connections(fake)) == 4


def test_every_slot_has_one_stream(measure: Callable) -> None:
    with FakeGrpcTriton() as fake:
        ended = measure(fake, 200, 10, "--streaming")
        assert len({(call.connection, call.stream) for call in fake.inferences}) == 10
        for wire in (fake.server.wires[number] for number in connections(fake)):
            assert fake.server.wait_for(partial(getattr, wire, "is_closed"))
            assert wire.resets == []  # streams are ended, not torn
    assert_all_good(ended, 200)


@BOTH
def test_a_server_that_takes_one_stream_at_a_time_serves_all(
    words: tuple[str, ...], measure: Callable
) -> None:
    with FakeGrpcTriton(settings={MAX_CONCURRENT_STREAMS: 1}) as fake:
        ended = measure(fake, 100, 8, *words)
    assert_all_good(ended, 100)


def test_calls_that_wait_for_a_stream_are_made_in_turn(measure: Callable, tmp_path: Path) -> None:
    export = tmp_path / "export.json"
    with FakeGrpcTriton(settings={MAX_CONCURRENT_STREAMS: 1}) as fake:
        measure(fake, 100, 4, "--connections", "1", "--profile-export-file", str(export))
    (level,) = json.loads(export.read_text())["experiments"]
    requests = sorted(level["requests"], key=lambda request: request["timestamp"])
    # The first four went out before the server had said that it takes one at a time.
    ends = [request["response_timestamps"][0] for request in requests[4:]]
    assert ends == sorted(ends)


@BOTH
def test_streams_refused_before_the_limit_was_known_are_tried_again(
    words: tuple[str, ...], measure: Callable
) -> None:
    """A server may refuse what it did not want before its SETTINGS arrived."""
    began: Counter[int] = Counter()

    def infer(number: int, call: Call) -> Act | None:
        began[call.connection] += 1
        return reset_stream(REFUSED_STREAM) if 1 < began[call.connection] <= 4 else None

    with FakeGrpcTriton(infer, settings={MAX_CONCURRENT_STREAMS: 1}) as fake:
        ended = measure(fake, 50, 4, *words)
    assert_all_good(ended, 50)


def test_slots_whose_streams_find_no_room_get_connections_of_their_own(measure: Callable) -> None:
    """A stream stays open, so to wait for room would be to wait for the end: the server here answers no slot
    before it has heard from all four."""
    first: dict[int, int] = {}  # stream of each connection that is let in
    held: list[tuple[Wire, Call]] = []

    def hold(wire: Wire, call: Call) -> None:
        held.append((wire, call))
        if len(held) == 4:
            together = held[:]
            held.clear()
            for other, earlier in together:
                usual(earlier)(other, earlier)

    def infer(number: int, call: Call) -> Act:
        is_let_in = first.setdefault(call.connection, call.stream) == call.stream
        return hold if is_let_in else reset_stream(REFUSED_STREAM)

    with FakeGrpcTriton(infer, settings={MAX_CONCURRENT_STREAMS: 1}) as fake:
        ended = measure(fake, 40, 4, "--streaming", "--request-timeout", "10")
    assert_all_good(ended, 40)


# --- windows, PING, compression, TLS

LARGE = 8 * 1024 * 1024


def large_model(elements: int) -> FakeModel:
    return FakeModel(inputs=(("INPUT0", "INT32", (elements,)),), outputs=(("OUTPUT0", "INT32", (elements,)),))


@BOTH
def test_large_bodies_go_through_narrow_windows_without_starving_each_other(
    words: tuple[str, ...], measure: Callable
) -> None:
    with FakeGrpcTriton(model=large_model(LARGE // 4)) as fake:
        ended = measure(fake, 4, 4, "--connections", "1", *words)
        assert [len(asked(call).raw_input_contents[0]) for call in fake.inferences] == [LARGE] * 4
        assert len({call.stream for call in fake.inferences}) == 4
    assert_all_good(ended, 4)


@pytest.mark.parametrize("settings", [{INITIAL_WINDOW_SIZE: 1}, {MAX_FRAME_SIZE: 2**24 - 1}], ids=str)
def test_odd_settings_are_lived_with(settings: dict[int, int], measure: Callable) -> None:
    with FakeGrpcTriton(settings=settings) as fake:
        assert_all_good(measure(fake, 20, 2), 20)


def test_a_window_that_never_opens_is_a_time_out(measure: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "inferometer.measure.address.CONTROL_TIMEOUT_S", 0.5
    )  # the counters cannot be read either
    with FakeGrpcTriton(settings={INITIAL_WINDOW_SIZE: 0}) as fake:
        ended = measure(fake, 3, 1, "--request-timeout", "0.3")
        assert len(fake.inferences) <= 1  # the first may go before the setting is known
    assert ended.code == 99
    assert "    Failure: timeout, " in ended.stdout


def test_large_replies_go_through(measure: Callable) -> None:
    reply = bytes(LARGE)

    def infer(number: int, call: Call) -> Act | None:
        return lambda wire, call: wire.answer(call, reply, trailers=(("grpc-status", "0"),))

    with FakeGrpcTriton(infer) as fake:
        ended = measure(fake, 4, 2)
    assert_all_good(ended, 4)


@BOTH
def test_every_ping_is_answered(words: tuple[str, ...], measure: Callable) -> None:
    with FakeGrpcTriton(lambda number, call: each(ping, usual(call), ping)) as fake:
        ended = measure(fake, 20, 1, *words)
        (wire,) = (fake.server.wires[number] for number in connections(fake))
        assert fake.server.wait_for(lambda: wire.is_closed)
        assert wire.pongs >= 39  # the last may cross with our leaving
    assert_all_good(ended, 20)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
@BOTH
def test_requests_are_compressed_as_asked(algorithm: str, words: tuple[str, ...], measure: Callable) -> None:
    with FakeGrpcTriton(model=large_model(5000)) as fake:
        ended = measure(fake, 6, 2, "--grpc-compression-algorithm", algorithm, "--input-data", "zero", *words)
        for call in fake.inferences:
            assert call.is_compressed
            assert call.header("grpc-encoding") == algorithm
            assert asked(call).raw_input_contents == [bytes(20_000)]
    assert_all_good(ended, 6)


@BOTH
def test_large_bodies_over_tls(words: tuple[str, ...], measure: Callable, certificate: Certificate) -> None:
    authority, context = certificate("server")
    with FakeGrpcTriton(model=large_model(LARGE // 16), tls=context) as fake:
        ended = measure(
            fake, 8, 4, "--ssl-grpc-use-ssl", "--ssl-grpc-root-certifications-file", authority, *words
        )
        assert {call.header(":scheme") for call in fake.inferences} == {"https"}
    assert_all_good(ended, 8)


# --- metadata


def test_metadata_is_on_every_call_and_its_values_nowhere_else(measure: Callable, tmp_path: Path) -> None:
    with FakeGrpcTriton() as fake:
        ended = measure(
            *(fake, 10, 1, "-v", "-v", "-H", "authorization:Bearer s3cret", "-H", "x-two:with:colon"),
            *("-H", "x-raw-bin:\x01", "--json", str(tmp_path / "r.json")),
        )
        calls = fake.server.calls
    assert_all_good(ended, 10)
    assert {call.header("authorization") for call in calls} == {"Bearer s3cret"}
    assert {call.header("x-two") for call in calls} == {"with:colon"}
    assert {call.header("x-raw-bin") for call in calls} == {"AQ"}
    assert {call.method for call in calls} == {
        *("ServerMetadata", "ModelMetadata", "ModelConfig", "ModelStatistics", "ModelInfer")
    }
    written = ended.stdout + ended.stderr + (tmp_path / "r.json").read_text()
    assert "s3cret" not in written
    assert "with:colon" not in written


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("X-Upper", "the metadata name 'X-Upper' has upper-case letters; write it in lower case"),
        ("te", "set by gRPC itself"),
        ("x-blank", "printable ASCII"),
    ],
)
def test_metadata_that_cannot_be_sent_is_refused_with_one_sentence(
    name: str, says: str, measure: Callable
) -> None:
    with FakeGrpcTriton() as fake:
        ended = measure(fake, 10, 1, "-H", f"{name}:s3cret" + ("é" if name == "x-blank" else ""))
        assert fake.inferences == []
    assert ended.code == 99
    assert len(ended.stderr.splitlines()) == 1
    assert says in ended.stderr
    assert "s3cret" not in ended.stderr


# --- addresses that do not speak gRPC


@pytest.mark.parametrize("words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""], ids=["words", "no words"])
def test_an_http_server_is_explained(words: bytes, run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferometer.services.detect.TIMEOUT_S", 0.1)  # nothing answers a second time

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(24)  # the preface; the rest is thrown away
            connection.sendall(words)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        ended = run(
            "perf_analyzer", "-m", "fake", "-i", "grpc", "-u", f"127.0.0.1:{listener.getsockname()[1]}"
        )
        thread.join()
    assert ended.code == 99
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith("error: failed to get model metadata: ")
    assert "leave out -i grpc to measure over HTTP" in ended.stderr


def test_a_grpc_server_asked_over_http_is_explained(run: Callable) -> None:
    with pytest.raises(AssertionError, match="preamble"), FakeGrpcTriton() as grpc:
        ended = run("perf_analyzer", "-m", "fake", "-u", grpc.server.address)
    assert ended.code == 99
    assert len(ended.stderr.splitlines()) == 1
    assert "-i grpc" in ended.stderr


def test_a_tls_server_asked_without_tls_is_explained(run: Callable, certificate: Certificate) -> None:
    with FakeGrpcTriton(tls=certificate("server")[1]) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-i", "grpc", "-u", fake.server.address)
    assert ended.code == 99
    assert len(ended.stderr.splitlines()) == 1
    assert "--ssl-grpc-use-ssl" in ended.stderr


def test_an_unknown_model_is_reported_in_the_servers_words(run: Callable) -> None:
    with FakeGrpcTriton() as fake:
        ended = run("perf_analyzer", "-m", "nope", "-i", "grpc", "-u", fake.server.address)
    assert ended.code == 99
    said = "error: failed to get model metadata: Request for unknown model: 'nope' is not found"
    assert ended.stderr == f"{said}; the server has fake\n"


# --- streams of responses

Responses = tuple[dict[str, Any], ...]
ONE: dict[str, Any] = {}
MORE: dict[str, Any] = {"is_final": False}
EMPTY: dict[str, Any] = {"has_data": False}


def speak(responses: Responses) -> Infer:
    def infer(number: int, call: Call) -> Act:
        return say(*(response(asked(call).id, **parts) for parts in responses))

    return infer


@pytest.mark.parametrize(
    ("responses", "counted"),
    [
        ((ONE,), 1),
        (({"is_final": None},), 1),
        ((MORE, MORE, MORE, EMPTY), 3),
        ((MORE, MORE, ONE), 3),
        (({"has_data": False, "is_final": False}, MORE, EMPTY), 1),
        ((MORE,) * 500 + (EMPTY,), 500),
    ],
    ids=["one", "without the flag", "3 and empty", "3", "one empty early", "500"],
)
def test_responses_are_counted(responses: Responses, counted: int, measure: Callable, tmp_path: Path) -> None:
    with FakeGrpcTriton(speak(responses), decoupled=True) as fake:
        ended = measure(fake, 12, 2, "--streaming", "--json", str(tmp_path / "r.json"))
    assert_all_good(ended, 12)
    (level,) = api.load(str(tmp_path / "r.json")).levels
    streaming = level.measurement.streaming
    assert streaming.responses == 12 * counted
    assert f"    Responses per request: {counted}\n" in ended.stdout


def test_requests_without_a_response_are_counted_separately(measure: Callable) -> None:
    with FakeGrpcTriton(speak((EMPTY,)), decoupled=True) as fake:
        ended = measure(fake, 12, 2, "--streaming")
    assert ended.code == 3
    assert "12 requests ended without a response" in ended.stderr
    assert "Client:" not in ended.stdout


def test_responses_of_earlier_requests_are_not_taken_for_those_of_the_next(
    measure: Callable, tmp_path: Path
) -> None:
    """Ids tell whose a response is: a request that ended early may still be answered."""

    def infer(number: int, call: Call) -> Act:
        number = int(asked(call).id)  # counts from 0
        if number % 2 == 0:
            return say(error_response(str(number), "early"))
        late = [response(str(number - 1), is_final=final) for final in (False, True, None)]
        return say(*late, response(str(number), is_final=False), *late, response(str(number)))

    with FakeGrpcTriton(infer, decoupled=True) as fake:
        ended = measure(fake, 20, 1, "--streaming", "--json", str(tmp_path / "r.json"))
        assert len({(call.connection, call.stream) for call in fake.inferences}) == 1
    assert ended.code == 99
    (level,) = api.load(str(tmp_path / "r.json")).levels
    assert level.measurement.request_count == 10
    assert level.measurement.streaming.responses == 20


@pytest.mark.machine(reason="a reply that other processes delay beyond the time-out of 0.5 s counts as lost")
def test_a_late_response_of_a_cancelled_request_is_dropped(measure: Callable, tmp_path: Path) -> None:
    """After a time-out the next request has another stream; the old one's frames still arrive."""

    def infer(number: int, call: Call) -> Act | None:
        if number == 2:
            return never
        if number != 3:
            return None
        old = fake.inferences[2]
        message = response(asked(old).id)
        body = b"\0" + len(message).to_bytes(4, "big") + message
        frame = len(body).to_bytes(3, "big") + b"\0\0" + old.stream.to_bytes(4, "big") + body
        return each(lambda wire, call: wire.send(frame), usual(call))

    with FakeGrpcTriton(infer, decoupled=True) as fake:
        ended = measure(
            *(fake, 6, 1, "--streaming", "--request-timeout", "0.5", "--json", str(tmp_path / "r.json"))
        )
    assert "    Failure: timeout, 1 request, " in ended.stdout
    (level,) = api.load(str(tmp_path / "r.json")).levels
    assert level.measurement.request_count == 5
    assert level.measurement.streaming.responses == 5


def test_control_calls_that_a_proxy_answers_are_explained(run: Callable) -> None:
    with GrpcServer(lambda call: answer_http(503, "text/html", b"<p>busy")) as server:
        ended = run("perf_analyzer", "-m", "fake", "-i", "grpc", "-u", server.address)
    assert ended.code == 99
    assert "HTTP status 503" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_control_that_has_been_used_goes_to_another_process():
    """The guard of `diagnose --apply` gets it: what it keeps open stays here."""
    with FakeGrpcTriton() as fake:
        service = KINDS["triton"].open(
            Connection(parse_endpoint(fake.server.address, default_port=1, tls=Tls())),
            Options(protocol="grpc"),
        )
        model = service.describe(fake.model.name, "", ())
        service.statistics(model)
        again = pickle.loads(pickle.dumps(service))
        assert list(again.statistics(model)) == list(service.statistics(model))
