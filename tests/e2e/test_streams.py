"""Requests share bidirectional streams: not many of them, a sequence on one, every answer with its request."""

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferometer import api
from tests.support.grpc_servers import (
    MAX_CONCURRENT_STREAMS,
    STREAM_INFER,
    Act,
    Call,
    FakeGrpcTriton,
    Wire,
    asked,
    each,
    error_response,
    fail,
    goaway,
    response,
    say,
)
from tests.support.servers import FakeModel


class SequenceModel(FakeModel):
    def config(self) -> dict[str, Any]:
        return {**super().config(), "sequence_batching": {}}


def stream(call: Call) -> tuple[int, int]:
    return call.connection, call.stream


def streams_of(fake: FakeGrpcTriton) -> set[tuple[int, int]]:
    return {stream(call) for call in fake.inferences}


def marks(call: Call) -> tuple[int, bool, bool]:
    found = asked(call).parameters
    names = ("sequence_id", "sequence_start", "sequence_end")
    number, start, end = (found[name] for name in names)
    return number.int64_param, start.bool_param, end.bool_param


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("--concurrency-range", "40"), 16),
        (("--concurrency-range", "3"), 3),
        (("--concurrency-range", "40", "--max-threads", "5"), 5),
        (("--concurrency-range", "40", "--workers", "2"), 16),
        (("--request-rate-range", "200"), 4),
        (("--concurrency-range", "10", "--connections", "1"), 10),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
@pytest.mark.parametrize("decoupled", [False, True], ids=["", "decoupled"])
def test_streams_are_as_few_as_the_classic_tool_has_threads(
    decoupled: bool, words: tuple[str, ...], most: int, run: Callable, tmp_path: Path
) -> None:
    def script(number: int, call: Call) -> Act:
        name = asked(call).id
        if not decoupled:
            return say(response(name))
        return say(response(name, is_final=False), response(name, has_data=False))

    with FakeGrpcTriton(script, decoupled=decoupled) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming", "--async", *words),
            *("--request-count", "200", "--json", str(tmp_path / "r.json")),
        )
    assert ended.code == 0, ended.stderr
    # At a rate, a stream is opened when all open ones are in use: fewer do where answers come at once.
    used = len(streams_of(fake))
    assert used <= most if "--request-rate-range" in words else used == most
    (level,) = api.load(str(tmp_path / "r.json")).levels
    assert level.measurement.request_count == len(fake.inferences) == 200


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("--request-rate-range", "400", "--num-of-sequences", "1"), 1),
        (("--request-rate-range", "400", "--num-of-sequences", "3"), 3),
        (("--request-rate-range", "400", "--num-of-sequences", "9"), 9),
        (("--request-rate-range", "400", "--num-of-sequences", "3", "--serial-sequences"), 3),
        (("--concurrency-range", "20"), 20),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_sequence_keeps_its_stream_and_its_order(
    words: tuple[str, ...], most: int, run: Callable, tmp_path: Path
) -> None:
    """The server answers late and in a different order, so that several requests of a sequence are outstanding."""
    held: list[Callable[[], None]] = []
    lock = threading.Lock()

    def script(number: int, call: Call) -> Act:
        def act(wire: Wire, call: Call) -> None:
            with lock:
                held.append(lambda: wire.answer(call, response(asked(call).id)))
                if len(held) >= min(3, most) or number > 380:
                    for late in reversed(held):
                        late()
                    held.clear()

        return act

    with FakeGrpcTriton(script, model=SequenceModel()) as fake:
        ended = run(
            "inferometer",
            *("measure", "-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming", *words),
            *("--request-count", "400", "--sequence-length", "10", "--json", str(tmp_path / "r.json")),
        )
    assert ended.code == 0, ended.stderr
    assert len(streams_of(fake)) == most
    sequences = defaultdict(list)
    for call in fake.inferences:
        sequences[marks(call)[0]].append(call)
    for calls in sequences.values():
        assert len({stream(call) for call in calls}) == 1
        flags = [marks(call)[1:] for call in calls]
        assert (
            flags == [(True, False), *[(False, False)] * (len(calls) - 2), (False, True)] or len(calls) == 1
        )
    (level,) = api.load(str(tmp_path / "r.json")).levels
    assert level.measurement.failed_count == 0
    assert level.measurement.sequences.count == len(sequences)


def test_a_sequence_lasts_at_least_as_long_as_its_last_request(run: Callable, tmp_path: Path) -> None:
    """By rate the next sequence begins before the one before has been answered."""
    held: list[Callable[[], None]] = []

    def script(number: int, call: Call) -> Act:
        def act(wire: Wire, call: Call) -> None:
            held.append(lambda: wire.answer(call, response(asked(call).id)))
            if len(held) > 15 or number > 180:
                for late in held:
                    late()
                held.clear()

        return act

    with FakeGrpcTriton(script, model=SequenceModel()) as fake:
        run(
            "inferometer",
            *("measure", "-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming"),
            *("--request-rate-range", "200", "--num-of-sequences", "1", "--request-count", "200"),
            *(
                "--sequence-length",
                "5",
                "--sequence-length-variation",
                "0",
                "--json",
                str(tmp_path / "r.json"),
            ),
        )
    (level,) = api.load(str(tmp_path / "r.json")).levels
    found = level.measurement
    assert found.sequences.count == 40
    assert found.sequences.latency.mean_ns > found.latency.mean_ns
    assert found.sequences.latency.min_ns >= 4 * 5_000_000  # five requests, 5 ms apart


def test_answers_in_any_order_go_to_their_requests(run: Callable, tmp_path: Path) -> None:
    """Ten requests on one stream; every third fails, and the data say which."""
    held: list[Callable[[], None]] = []

    def script(number: int, call: Call) -> Act:
        def act(wire: Wire, call: Call) -> None:
            name = asked(call).id
            text = error_response(name, "boom") if number % 3 == 1 else response(name)
            held.append(lambda: wire.answer(call, text))
            if len(held) == 10:
                for late in reversed(held):
                    late()
                held.clear()

        return act

    with FakeGrpcTriton(script) as fake:
        run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming"),
            *("--concurrency-range", "10", "--max-threads", "1", "--request-count", "100"),
            *("--json", str(tmp_path / "r.json")),
        )
    assert len(streams_of(fake)) == 1
    (level,) = api.load(str(tmp_path / "r.json")).levels
    assert (level.measurement.request_count, level.measurement.failed_count) == (67, 33)


def test_a_stream_that_ends_takes_only_its_own_requests_along(run: Callable, tmp_path: Path) -> None:
    with FakeGrpcTriton(lambda number, call: fail(13, "gone") if number == 50 else None) as fake:
        run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming"),
            *("--concurrency-range", "8", "--max-threads", "2", "--request-count", "200"),
            *("--json", str(tmp_path / "r.json")),
        )
    result = api.load(str(tmp_path / "r.json"))
    (level,) = result.levels
    assert 1 <= level.measurement.failed_count <= 4
    assert level.measurement.request_count + level.measurement.failed_count == 200
    assert result.account.is_complete


@pytest.mark.parametrize("name", ["777", "9" * 5000, "²"])
def test_a_response_for_a_request_that_was_never_sent_fails_its_stream_at_once(
    run: Callable, tmp_path: Path, name: str
) -> None:
    with FakeGrpcTriton(lambda number, call: say(response(name)) if number == 50 else None) as fake:
        run(
            "inferometer",
            *("measure", "-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming"),
            *("--concurrency-range", "2", "--request-count", "100", "--json", str(tmp_path / "r.json")),
        )
    (level,) = api.load(str(tmp_path / "r.json")).levels
    (group,) = level.measurement.failures
    assert (group.kind, group.count) == ("malformed", 1)
    assert "which matches no request on its stream" in group.example


@pytest.mark.machine(reason="a reply that other processes delay beyond the time-out of 0.3 s counts as lost")
def test_a_request_that_is_given_up_leaves_the_others_on_its_stream_alone(
    run: Callable, tmp_path: Path
) -> None:
    numbers = itertools.count()

    def script(number: int, call: Call) -> Act | None:
        return (lambda wire, call: None) if next(numbers) == 20 else None

    with FakeGrpcTriton(script) as fake:
        run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming"),
            *("--request-rate-range", "200", "--max-threads", "1", "--request-count", "400"),
            *("--request-timeout", "0.3", "--json", str(tmp_path / "r.json")),
        )
    (level,) = api.load(str(tmp_path / "r.json")).levels
    (group,) = level.measurement.failures
    assert (group.kind, group.count) == ("timeout", 1)
    assert level.measurement.request_count == 399


def test_a_server_that_takes_one_stream_to_a_connection_gets_more_connections(run: Callable) -> None:
    with FakeGrpcTriton(settings={MAX_CONCURRENT_STREAMS: 1}) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming"),
            *("--concurrency-range", "8", "--max-threads", "4", "--request-count", "100"),
        )
    assert ended.code == 0, ended.stderr
    assert len(fake.inferences) == 100
    assert len(streams_of(fake)) == 4


def test_a_goaway_moves_requests_to_the_next_connection_and_answers_those_on_the_old(run: Callable) -> None:
    def script(number: int, call: Call) -> Act | None:
        return each(say(response(asked(call).id)), goaway()) if number % 50 == 30 else None

    with FakeGrpcTriton(script) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming"),
            *("--concurrency-range", "6", "--max-threads", "2", "--request-count", "200"),
        )
        assert fake.server.wait_for(lambda: all(wire.is_closed for wire in fake.server.wires))
    assert ended.code == 0, ended.stderr
    assert "    Request count: 200\n" in ended.stdout
    assert len([call for call in fake.server.calls if call.method == STREAM_INFER]) == 200
