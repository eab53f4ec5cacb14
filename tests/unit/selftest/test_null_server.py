"""The built-in servers against the client's codecs, back to back in memory."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.selftest.null_server import (
    BROKEN_OFF,
    CYCLE,
    GOOD,
    Book,
    NullGrpc,
    NullHttp,
    Peer,
    fault,
    grpc_reply,
    http_reply,
)
from inferometer.wire.frames import (
    ACK,
    DATA,
    FRAME_HEAD,
    LARGEST_FRAME_SIZE,
    LARGEST_WINDOW,
    PING,
    frame,
    frame_head,
    window_update,
)
from inferometer.wire.grpc import GrpcConnection, encode_headers, render_call
from inferometer.wire.http1 import ReplyDecoder, encode_request

BLOCK = encode_headers(path="/inference.GRPCInferenceService/ModelInfer", authority="null")


def request(size: int) -> bytes:
    headers = (("Host", "null"), ("Inference-Header-Content-Length", "3"))
    return encode_request("POST", "/v2/models/null/infer", headers, size) + bytes(size)


def feed(peer: Peer, stream: bytes, cuts: list[int]) -> bytes:
    """Return all replies to a stream received in pieces, in a buffer with old bytes after them."""
    out = b""
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, stop in itertools.pairwise(edges):
        if start < stop:
            buffer = bytearray(stream[start:stop] + b"\r\n\r\nContent-Length: 9\r\n")
            out += b"".join(peer.receive(buffer, stop - start))
    return out


@given(st.lists(st.integers(0, 300), min_size=1, max_size=4), st.lists(st.integers(0, 10**6), max_size=12))
def test_http_requests_are_answered_in_any_split(sizes: list[int], cuts: list[int]) -> None:
    book = Book(keeps_arrivals=True)
    replies = feed(NullHttp(book, is_failing=False), b"".join(map(request, sizes)), cuts)
    assert replies == GOOD * len(sizes)
    assert book.requests == len(book.take_arrivals()) == len(sizes)
    assert book.take_arrivals() == []


def test_http_reply_is_complete_and_can_be_followed_by_another() -> None:
    decoder = ReplyDecoder()
    assert decoder.receive(GOOD, len(GOOD))
    assert decoder.head is not None
    assert (decoder.head.status, decoder.head.reusable) == (200, True)


def test_http_faults_depend_on_the_request_number() -> None:
    book = Book(keeps_arrivals=False)
    whole = bytearray(request(1))
    for number in range(CYCLE):
        (reply,) = NullHttp(book, is_failing=True).receive(whole, len(whole))
        kind = fault(number)
        assert (kind is None) == (reply == GOOD)
        assert (kind == "timeout") == (reply == b"")
        assert (kind == "reset") == (reply is BROKEN_OFF)
        assert (kind == "http 503") == (b" 503 " in reply)


def talk(client: GrpcConnection, server: NullGrpc, piece: int) -> list[tuple[int | None, bool]]:
    """Run both ends until neither sends more; return the code of each call, and whether messages arrived."""
    found = []
    to_client = server.greeting
    while to_client or client.http2.wants_to_send:
        for start in range(0, len(to_client), piece):
            part = to_client[start : start + piece]
            events = client.receive(bytearray(part), len(part))
            found += [(None if ending is None else ending.code, ending is None) for _, ending, _ in events]
        to_server = b"".join(bytes(chunk) for chunk in client.take())
        to_client = b""
        for start in range(0, len(to_server), piece):
            part = to_server[start : start + piece]
            to_client += b"".join(server.receive(bytearray(part), len(part)))
    assert not client.http2.broken
    return found


@pytest.mark.parametrize("piece", [1, 7, 10**9])
@pytest.mark.parametrize("size", [0, 64, 70_000])
def test_grpc_calls_are_answered_in_any_split(size: int, piece: int) -> None:
    client, server = GrpcConnection(), NullGrpc(Book(keeps_arrivals=False))
    for token in range(3):
        client.open(token, render_call(BLOCK, bytes(size)))
    assert sorted(talk(client, server, piece), key=str) == sorted([(None, True), (0, False)] * 3, key=str)


@pytest.mark.parametrize("size", [1, 16_384, 300_000])
def test_replies_are_as_large_as_requested(size: int) -> None:
    small, large = (reply.partition(b"\r\n\r\n")[2] for reply in (GOOD, http_reply(size)))
    assert len(large) - len(small) == size
    assert len(b"".join(grpc_reply(size))) - len(b"".join(grpc_reply(0))) > size
    client, server = GrpcConnection(), NullGrpc(Book(keeps_arrivals=False), grpc_reply(size))
    client.open(0, render_call(BLOCK, b""))
    assert sorted(talk(client, server, 10**9), key=str) == sorted([(None, True), (0, False)], key=str)


def test_grpc_window_is_returned_before_it_is_used_up() -> None:
    server = opened()
    head, payload = bytearray(frame_head(LARGEST_FRAME_SIZE, DATA, 0, 1)), bytearray(LARGEST_FRAME_SIZE)
    window = LARGEST_WINDOW
    for _ in range(300):  # 4.7 GiB
        window -= len(payload)
        assert window >= 0
        for update in [*server.receive(head, len(head)), *server.receive(payload, len(payload))]:
            window += int.from_bytes(update[FRAME_HEAD:], "big")
            assert update == window_update(0, int.from_bytes(update[FRAME_HEAD:], "big"))
            assert window <= LARGEST_WINDOW


def opened() -> NullGrpc:
    """Return a server that has received the client's greeting."""
    server = NullGrpc(Book(keeps_arrivals=False))
    words = b"".join(bytes(chunk) for chunk in GrpcConnection().take())
    server.receive(bytearray(words), len(words))
    return server


def test_grpc_ping_is_answered() -> None:
    ping = bytearray(frame(PING, 0, 0, b"12345678"))
    assert opened().receive(ping, len(ping)) == [frame(PING, ACK, 0, b"12345678")]
