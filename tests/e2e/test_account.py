"""Every request a server saw is in the result's account."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer import api
from inferometer.stats.result import Account
from tests.support import grpc_servers
from tests.support.servers import FakeTriton, Wire, answer, never, reply


def accounted(path: Path) -> Account:
    found = api.load(str(path)).account
    assert found is not None
    assert found.is_complete
    return found


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    "words",
    [
        ("--concurrency-range", "3", "--request-count", "40", "--warmup-request-count", "7"),
        ("--concurrency-range", "2:4:2", "--duration", "0.5s"),
        ("--request-rate-range", "50", "--request-count", "60"),
        ("--request-rate-range", "200:400:200", "--duration", "0.5s"),
    ],
    ids=lambda words: " ".join(words[:1] + words[2:3]),
)
def test_what_the_server_saw_is_what_the_account_says(
    words: tuple[str, ...], workers: str, run: Callable, tmp_path: Path
) -> None:
    def script(number: int, request: object) -> Callable[[Wire], None] | None:
        return answer(b"no", 503) if number % 5 == 3 else None

    with FakeTriton(script) as fake:
        run(
            "inferometer",
            *("measure", "-m", "fake", "-u", fake.server.address, *words, "--workers", workers),
            *("--json", str(tmp_path / "r.json")),
        )
    found = accounted(tmp_path / "r.json")
    assert found.sent == len(fake.inferences)
    assert found.cut_off == found.unsent == found.resent == 0
    levels = api.load(str(tmp_path / "r.json")).levels
    assert found.good == sum(level.measurement.request_count for level in levels)
    assert found.failed == sum(level.measurement.failed_count for level in levels)
    bad = sum(number % 5 == 3 for number in range(found.sent))
    assert found.failed + found.left_out_failed == bad


def test_requests_that_never_end_are_counted_as_cut_off(run: Callable, tmp_path: Path) -> None:
    with FakeTriton(lambda number, request: never if number in (20, 21) else None) as fake:
        ended = run(
            "inferometer",
            *("measure", "-m", "fake", "-u", fake.server.address, "--concurrency-range", "4"),
            *("--duration", "0.5s", "--json", str(tmp_path / "r.json")),
        )
    found = accounted(tmp_path / "r.json")
    assert found.cut_off == 2
    assert found.sent == len(fake.inferences)
    assert "2 requests were still in flight at the end and dropped" in ended.stdout


def test_a_request_that_a_closing_connection_lost_goes_out_again_and_both_are_counted(
    run: Callable, tmp_path: Path
) -> None:
    """The server reads it, closes without a word, and sees it once more."""
    with FakeTriton(lambda number, request: Wire.close if number % 10 == 9 else None) as fake:
        run(
            "inferometer",
            *("measure", "-m", "fake", "-u", fake.server.address, "--request-count", "50"),
            *("--json", str(tmp_path / "r.json")),
        )
    found = accounted(tmp_path / "r.json")
    assert (found.sent, found.good) == (50, 50)
    assert found.resent == 5
    assert found.sent + found.resent == len(fake.inferences)


def test_requests_without_a_connection_are_counted_as_not_sent(run: Callable, tmp_path: Path) -> None:
    def kill(wire: Wire) -> None:
        fake.server.kill()

    with FakeTriton(lambda number, request: kill if number == 10 else None) as fake:
        run(
            "inferometer",
            *("measure", "-m", "fake", "-u", fake.server.address, "--request-count", "14"),
            *("--json", str(tmp_path / "r.json")),
        )
    found = accounted(tmp_path / "r.json")
    assert (found.good, found.failed, found.unsent) == (10, 4, 3)
    assert found.sent - found.unsent == len(fake.inferences)


@pytest.mark.machine(reason="a reply that other processes delay beyond the time-out of 0.5 s counts as lost")
@pytest.mark.parametrize("words", [(), ("--streaming",)], ids=["unary", "streaming"])
def test_calls_are_accounted_for_too(words: tuple[str, ...], run: Callable, tmp_path: Path) -> None:
    acts = {7: grpc_servers.fail(14, "busy"), 9: grpc_servers.never}
    with grpc_servers.FakeGrpcTriton(lambda number, call: acts.get(number % 40)) as fake:
        run(
            "inferometer",
            *("measure", "-m", "fake", "-i", "grpc", "-u", fake.server.address, *words),
            *("--concurrency-range", "4", "--connections", "4", "--request-count", "100"),
            *("--request-timeout", "0.5", "--json", str(tmp_path / "r.json")),
        )
    found = accounted(tmp_path / "r.json")
    assert found.sent == len(fake.inferences) == 100
    assert found.failed == 6


def test_a_queue_that_empties_is_waited_for(run: Callable, tmp_path: Path) -> None:
    """A hundred requests are outstanding, of which the server works off some 40 a second: none is left to the next."""
    pace, one_at_a_time = threading.Event(), threading.Lock()

    def slowly(wire: Wire) -> None:
        with one_at_a_time:
            pace.wait(0.025)
        wire.send(reply(b"{}"))

    with FakeTriton(lambda number, request: slowly) as fake:
        run(
            "inferometer",
            *("measure", "-m", "fake", "-u", fake.server.address, "--concurrency-range", "100"),
            *("--duration", "1s", "--json", str(tmp_path / "r.json")),
        )
    found = accounted(tmp_path / "r.json")
    assert found.cut_off == 0
    assert found.sent == len(fake.inferences)


@pytest.mark.parametrize("words", [(), ("--streaming",)], ids=["unary", "streaming"])
def test_calls_that_are_cut_off_are_cancelled_at_the_server(
    words: tuple[str, ...], run: Callable, tmp_path: Path
) -> None:
    silent = {20, 21, 22}
    with grpc_servers.FakeGrpcTriton(
        lambda number, call: grpc_servers.never if number in silent else None
    ) as fake:
        run(
            "inferometer",
            *("measure", "-m", "fake", "-i", "grpc", "-u", fake.server.address, *words),
            *("--concurrency-range", "6", "--duration", "0.5s", "--json", str(tmp_path / "r.json")),
        )
        assert fake.server.wait_for(lambda: all(wire.is_closed for wire in fake.server.wires))
    assert accounted(tmp_path / "r.json").cut_off == 3
    codes = [code for wire in fake.server.wires for _, code in wire.resets]
    assert codes == [grpc_servers.CANCEL] * 3


def test_a_request_that_is_cut_off_has_its_connection_closed(run: Callable, tmp_path: Path) -> None:
    gone = threading.Event()

    def listen(wire: Wire) -> None:
        if wire.receive(1) is None:
            gone.set()

    with FakeTriton(lambda number, request: listen if number == 20 else None) as fake:
        run(
            "inferometer",
            *("measure", "-m", "fake", "-u", fake.server.address, "--duration", "0.5s"),
            *("--json", str(tmp_path / "r.json")),
        )
        assert gone.wait(30)
    assert accounted(tmp_path / "r.json").cut_off == 1
