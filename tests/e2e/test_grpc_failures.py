"""A gRPC call that fails is counted, grouped and shown; it never ends the run, and the run always ends."""

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer import api
from tests.support.grpc_servers import (
    CANCEL,
    HEAD,
    INTERNAL_ERROR,
    REFUSED_STREAM,
    STREAM_INFER,
    Act,
    Call,
    FakeGrpcTriton,
    Wire,
    answer,
    answer_http,
    asked,
    error_response,
    fail,
    framed,
    goaway,
    hang_up,
    never,
    raw,
    refuse,
    reset,
    reset_stream,
    response,
    say,
)

BAD = 13


def is_bad(call: Call) -> bool:
    return asked(call).raw_input_contents[0] == struct.pack("<i", BAD)


def without_status(wire: Wire, call: Call) -> None:
    wire.answer_plainly(call, HEAD, framed(b""))


def half_a_message(wire: Wire, call: Call) -> None:
    wire.answer_plainly(call, (*HEAD, ("grpc-status", "0")), framed(b"whole")[:-1])


def boom(wire: Wire, call: Call) -> None:
    wire.answer(call, error_response(asked(call).id, "boom"))


LARGE_FRAME = b"\xff\xff\xff\0\0\0\0\0\1"

FAILURES: tuple[tuple[str, Act, str, str], ...] = (
    ("a status in the trailers", fail(14, "overloaded"), "grpc UNAVAILABLE", "overloaded"),
    ("a stream that is reset", reset_stream(INTERNAL_ERROR), "reset", "INTERNAL_ERROR"),
    ("a stream that is refused each time", reset_stream(REFUSED_STREAM), "reset", "REFUSED_STREAM"),
    ("a connection that takes nothing", goaway(0), "reset", "GOAWAY"),
    ("a close instead of an answer", hang_up, "reset", "closed the connection"),
    ("a reset instead of an answer", reset, "reset", "reset by peer"),
    ("bytes that are not HTTP/2", raw(LARGE_FRAME), "malformed", "bytes, which exceeds the limit of 1048576"),
    ("no answer at all", never, "timeout", "no complete reply within 1 s"),
)
UNARY: tuple[tuple[str, Act, str, str], ...] = (
    *FAILURES,
    ("a reply without a status", without_status, "malformed", "without a grpc-status"),
    ("a message that stops in the middle", half_a_message, "malformed", "ended in the middle of a message"),
    ("a good status without a message", answer(), "malformed", "0 messages"),
    ("two messages", answer(b"", b""), "malformed", "2 messages"),
    ("a message without an end", say(b""), "timeout", ""),
)
STREAMED: tuple[tuple[str, Act, str, str], ...] = (
    *FAILURES,
    ("an error in band", boom, "grpc UNKNOWN", "boom"),
    ("a stream that ends", answer(), "malformed", "0 messages"),
    ("a message that is no response", say(b"\xff\xff"), "malformed", "middle of a field"),
)
ROWS = [pytest.param((), *row[1:], id=row[0]) for row in UNARY]
ROWS += [pytest.param(("--streaming",), *row[1:], id=f"streaming: {row[0]}") for row in STREAMED]


@pytest.mark.machine(reason="a reply that other processes delay beyond the time-out of 1 s counts as lost")
@pytest.mark.parametrize(("words", "act", "kind", "says"), ROWS)
def test_every_kind_of_failure_is_counted_and_shown(
    words: tuple[str, ...], act: Act, kind: str, says: str, run: Callable, steps: Callable, tmp_path: Path
) -> None:
    with FakeGrpcTriton(lambda number, call: act if is_bad(call) else None) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, *words),
            *("--request-count", "10", "--request-timeout", "1", "--json", str(tmp_path / "r.json")),
            *("--input-data", steps(1, 2, 3, 4, BAD)),
        )
    assert ended.code == 99
    assert "    Request count: 8\n" in ended.stdout
    assert "    Failed request count: 2 (20.00 %)\n" in ended.stdout
    assert re.search(rf"^    Failure: {kind}, 2 requests, first at .*{re.escape(says)}", ended.stdout, re.M)
    assert "Thread [0] had error: " in ended.stderr
    assert "Traceback" not in ended.stderr
    (level,) = api.load(str(tmp_path / "r.json")).levels
    (group,) = level.measurement.failures
    assert (group.kind, group.count) == (kind, 2)
    assert says in group.example
    assert group.example
    assert level.measurement.latency.count == level.measurement.request_count == 8


PATTERN: dict[int, Act] = {
    5: fail(14, "busy"),
    55: fail(14, "busy"),
    25: reset,
    45: never,
    85: raw(LARGE_FRAME),
}


@pytest.mark.machine(reason="a reply that other processes delay beyond the time-out of 1.5 s counts as lost")
@pytest.mark.parametrize("words", [(), ("--streaming",)], ids=["unary", "streaming"])
def test_a_server_with_every_fault_is_measured_to_the_end_and_its_faults_are_counted(
    words: tuple[str, ...], run: Callable, tmp_path: Path
) -> None:
    with FakeGrpcTriton(lambda number, call: PATTERN.get(number % 100)) as fake:
        run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, *words, "--request-count", "400"),
            # Each call has a connection of its own, so that a reset fails no other.
            *("--concurrency-range", "4", "--connections", "4", "--request-timeout", "1.5"),
            *("--json", str(tmp_path / "r.json")),
        )
        assert len(fake.inferences) == 400
    (level,) = api.load(str(tmp_path / "r.json")).levels
    groups = {group.kind: group.count for group in level.measurement.failures}
    assert groups == {"grpc UNAVAILABLE": 8, "reset": 4, "timeout": 4, "malformed": 4}
    assert level.measurement.request_count == 380


GROUPED: tuple[tuple[Act, str, str], ...] = (
    (fail(4, "slow"), "grpc DEADLINE_EXCEEDED", "slow"),
    (fail(8, "no room", b"an answer"), "grpc RESOURCE_EXHAUSTED", "no room"),
    (refuse(3, "caf%C3%A9"), "grpc INVALID_ARGUMENT", "café"),
    (refuse(13), "grpc INTERNAL", "INTERNAL"),
    (refuse(99, "odd"), "grpc UNKNOWN", "grpc-status 99: odd"),
    (answer_http(503, "text/html", b"<p>busy"), "grpc UNAVAILABLE", "HTTP status 503"),
    (answer_http(404, "text/html", b"<p>what?"), "grpc UNIMPLEMENTED", "<p>what?"),
    (reset_stream(CANCEL), "reset", "CANCEL"),
)


def test_failures_are_grouped_by_the_name_of_their_status(
    run: Callable, steps: Callable, tmp_path: Path
) -> None:
    def infer(number: int, call: Call) -> Act | None:
        (step,) = struct.unpack("<i", asked(call).raw_input_contents[0])
        return GROUPED[step][0] if step < len(GROUPED) else None

    with FakeGrpcTriton(infer) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--request-count", "30"),
            *("--input-data", steps(*range(10)), "--json", str(tmp_path / "r.json")),
        )
    assert ended.code == 99
    assert "Failed request count: 24 (80.00 %)" in ended.stdout
    (level,) = api.load(str(tmp_path / "r.json")).levels
    found = {group.kind: group for group in level.measurement.failures}
    assert set(found) == {kind for _, kind, _ in GROUPED}
    for _, kind, says in GROUPED:
        assert found[kind].count == 3
        assert says in found[kind].example
        assert f"    Failure: {kind}, 3 requests, " in ended.stdout


@pytest.mark.machine(reason="a reply that other processes delay beyond the time-out of 1 s counts as lost")
@pytest.mark.parametrize("words", [(), ("--streaming",)], ids=["unary", "streaming"])
def test_a_call_given_up_is_cancelled_at_the_server(words: tuple[str, ...], run: Callable) -> None:
    with FakeGrpcTriton(lambda number, call: never if number == 2 else None) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, *words),
            *("--request-count", "5", "--request-timeout", "1"),
        )
        wire, stream = fake.server.wires[fake.inferences[2].connection], fake.inferences[2].stream
        assert fake.server.wait_for(lambda: (stream, CANCEL) in wire.resets)
        assert fake.inferences[3].stream != stream
        assert fake.inferences[3].connection == fake.inferences[2].connection
    assert ended.code == 99
    assert "    Failure: timeout, 1 request, " in ended.stdout
    assert "    Request count: 4\n" in ended.stdout


@pytest.mark.parametrize("words", [(), ("--streaming",)], ids=["unary", "streaming"])
def test_a_server_where_every_request_fails_ends_the_run(words: tuple[str, ...], run: Callable) -> None:
    with FakeGrpcTriton(lambda number, call: refuse(14, "boom")) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, *words, "-p", "100", "-s", "999999"),
        )
    assert ended.code == 99
    assert "had error: boom\n" in ended.stderr
    assert "    Request count: 0\n" in ended.stdout
    assert "(100.00 %)" in ended.stdout


def test_a_server_that_refuses_in_the_middle_gives_connect_failures(run: Callable) -> None:
    def infer(number: int, call: Call) -> Act | None:
        return (lambda wire, call: fake.server.stop()) if number == 5 else None

    with FakeGrpcTriton(infer) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--request-count", "10"),
        )
    assert ended.code == 99
    assert "    Request count: 5\n" in ended.stdout
    assert "    Failed request count: 5 (50.00 %)\n" in ended.stdout
    assert "    Failure: connect, " in ended.stdout
    assert "Connection refused" in ended.stdout


# --- streams


def test_an_error_in_band_leaves_the_stream_open(run: Callable, steps: Callable) -> None:
    with FakeGrpcTriton(lambda number, call: boom if is_bad(call) else None) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming"),
            *("--request-count", "20", "--input-data", steps(1, 2, BAD)),
        )
        assert len({(call.connection, call.stream) for call in fake.inferences}) == 1
    assert "    Failed request count: 6 (30.00 %)\n" in ended.stdout


@pytest.mark.parametrize("act", [answer(), fail(14, "gone"), reset_stream(INTERNAL_ERROR)])
def test_a_stream_that_ends_is_opened_again(act: Act, run: Callable) -> None:
    with FakeGrpcTriton(lambda number, call: act if number == 7 else None) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming", "--request-count", "20"),
        )
        streams = [call.stream for call in fake.inferences]
        assert {call.method for call in fake.inferences} == {STREAM_INFER}
    assert streams == [1] * 8 + [3] * 12
    assert "    Request count: 19\n" in ended.stdout
    assert "    Failed request count: 1 (5.00 %)\n" in ended.stdout


def test_a_stream_that_ends_between_two_requests_costs_none(run: Callable) -> None:
    """The end comes with the last response, in the same bytes: the next request must not go to the old stream."""

    def infer(number: int, call: Call) -> Act | None:
        return answer(response(asked(call).id)) if number == 7 else None

    with FakeGrpcTriton(infer) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming", "--request-count", "20"),
        )
        assert [call.stream for call in fake.inferences] == [1] * 8 + [3] * 12
    assert ended.code == 0, ended.stderr
    assert "    Request count: 20\n" in ended.stdout
