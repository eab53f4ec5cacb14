"""Matching of responses on a shared stream with requests."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferometer.base.errors import PeerError
from inferometer.load.grpc import SharedStream
from inferometer.services.endpoint import Endpoint
from inferometer.services.kserve import StreamReply
from inferometer.services.traffic import Wiring
from inferometer.wire.frames import DEFAULT_WINDOW, SETTINGS, frame
from inferometer.wire.grpc import GrpcConnection

CALL: Any = SimpleNamespace(sent_ns=100)
CHANNEL: Any = None
SERVER_SETTINGS = frame(SETTINGS, 0, 0)


def reply(name: bytes, error: str = "") -> StreamReply:
    return StreamReply(name, error, has_data=True, is_final=True)


@pytest.fixture
def stream() -> SharedStream:
    """A stream with requests 7, which was cancelled, and 8."""
    found = SharedStream(0, CHANNEL, first_id=7)
    found.calls[b"8"] = CALL
    found._sent = 2
    return found


@pytest.mark.parametrize(
    ("name", "owner"),
    [(b"8", CALL), (b"7", None), (b"", CALL)],
    ids=["its id", "given up", "no id"],
)
def test_the_id_identifies_the_request(stream: SharedStream, name: bytes, owner: object) -> None:
    assert stream.maybe_owner(reply(name), 100) == owner


@pytest.mark.parametrize("name", [b"6", b"9", b"nobody", b"9" * 5000, b"-8"])
def test_an_id_that_was_never_sent_is_refused(stream: SharedStream, name: bytes) -> None:
    with pytest.raises(PeerError, match="which matches no request on its stream"):
        stream.maybe_owner(reply(name), 100)


@pytest.mark.parametrize(("name", "error"), [(b"", ""), (b"", "no"), (b"nobody", "no")])
def test_a_response_without_an_id_does_not_answer_a_later_request(
    stream: SharedStream, name: bytes, error: str
) -> None:
    assert stream.maybe_owner(reply(name, error), 99) is None


def test_an_id_sent_after_the_response_arrived_is_refused(stream: SharedStream) -> None:
    with pytest.raises(PeerError, match="which matches no request on its stream"):
        stream.maybe_owner(reply(b"8"), 99)


def test_a_request_is_sent_when_its_own_last_byte_is_not_when_the_stream_is_empty() -> None:
    connection = GrpcConnection()
    connection.receive(SERVER_SETTINGS, len(SERVER_SETTINGS))
    stream, wiring = SharedStream(0, CHANNEL), Wiring(Endpoint("127.0.0.1", 1), block=b"\x82")
    calls: list[Any] = [SimpleNamespace() for _ in range(3)]
    for call in calls:
        stream.send(call, bytes(DEFAULT_WINDOW // 2), connection, wiring)
    connection.http2.take()
    assert [stream.has_unsent(call) for call in calls] == [False, True, True]
