"""The HTTP/2 client, rule by rule; frames are built with hyperframe or, if it refuses, by hand."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from inferometer.base.errors import LocalError, PeerError
from inferometer.wire import frames, http2
from inferometer.wire.headers import Headers, encode_block
from inferometer.wire.http2 import Http2Connection, StreamFault
from inferometer.wire.sender import QUANTUM, Stream, patch, render

BLOCK = encode_block([(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "b")])
HEAD = encode_block([(":status", "200"), ("content-type", "text/plain")])
TRAILERS = encode_block([("result", "0")])
GET = render(BLOCK)
SHRUNK = b"\x20"


@dataclass
class Events:
    """A reader that records events; adjacent parts of a body are joined."""

    seen: list[tuple[object, ...]] = field(default_factory=list)
    disliked: bytes | None = None

    def head(self, stream: Stream, headers: Headers) -> None:
        self.seen.append(("head", stream.token, headers.status, headers.fields))

    def body(self, stream: Stream, data: bytes | bytearray | memoryview, start: int, stop: int) -> None:
        piece = bytes(data[start:stop])
        if self.disliked is not None and self.disliked in piece:
            raise StreamFault("not this", frames.ENHANCE_YOUR_CALM)
        last = self.seen[-1] if self.seen else ()
        if last[:2] == ("body", stream.token):
            piece = last[2] + piece  # type: ignore[operator]
            self.seen.pop()
        self.seen.append(("body", stream.token, piece))

    def whole(self, stream, data, start, stop, trailers):
        return b""

    def ended(self, stream: Stream, trailers: Headers | None) -> None:
        self.seen.append(("ended", stream.token, trailers and trailers.fields))

    def failed(self, stream: Stream, cause: str, code: int, text: str) -> None:
        self.seen.append(("failed", stream.token, cause, code, text))

    def take(self) -> list[tuple[object, ...]]:
        seen, self.seen = self.seen, []
        return seen


class Client:
    """A connection and its events, with the requested number of open streams named a, b, c."""

    def __init__(
        self, streams: int = 1, *, window: int = http2.WINDOW, greeted: bool = True, **settings: int
    ) -> None:
        self.events = Events()
        self.connection = Http2Connection(self.events, window=window)
        self.streams = [self.connection.open("abcdefgh"[n], GET) for n in range(streams)]
        self.sent()
        if greeted:
            self.receive(server_settings(settings), SettingsFrame(0, flags=["ACK"]))
            assert read_frames(self.sent()) == [(frames.SETTINGS, frames.ACK, 0, b"")]

    def receive(self, *parts: bytes | Frame) -> list[tuple[object, ...]]:
        raw = b"".join(part if isinstance(part, bytes) else part.serialize() for part in parts)
        self.connection.receive(bytearray(raw + b"stale"), len(raw))
        return self.events.take()

    def sent(self, limit: int = http2.TAKE) -> bytes:
        return b"".join(self.connection.take(limit))

    def frames(self, limit: int = http2.TAKE) -> list[tuple[int, int, int, bytes]]:
        return read_frames(self.sent(limit))

    def refuses(self, *parts: bytes | Frame, code: int, match: str) -> None:
        """Check for a connection error: named, sent to the server, and ending all streams."""
        open_streams = [stream.token for stream in self.connection.streams.values()]
        seen = self.receive(*parts)
        broken = self.connection.broken
        assert isinstance(broken, PeerError)
        assert match in str(broken)
        assert [row[1] for row in seen if row[0] in ("ended", "failed")] == open_streams
        assert {row[3] for row in seen if http2.BROKEN in row} <= {code}
        kind, _, stream_id, payload = self.frames()[-1]
        assert (kind, stream_id, payload[:8]) == (frames.GOAWAY, 0, bytes(4) + code.to_bytes(4, "big"))
        assert self.connection.closing
        assert not self.connection.can_open
        assert not self.connection.streams
        assert self.receive(server_settings({})) == []

    def fails(self, *parts: bytes | Frame, code: int, match: str, stream_id: int = 1) -> None:
        """Check for a stream error: sent to the server and the reader; the connection continues."""
        *_, last = self.receive(*parts)
        assert last[:4] == ("failed", "a", http2.MALFORMED, code)
        assert match in str(last[4])
        assert (frames.RST_STREAM, 0, stream_id, code.to_bytes(4, "big")) in self.frames()
        assert self.connection.broken is None
        assert stream_id not in self.connection.streams
        assert self.receive(PingFrame(0, b"12345678")) == []
        assert self.frames() == [(frames.PING, frames.ACK, 0, b"12345678")]


def server_settings(values: dict[str, int]) -> bytes:
    return SettingsFrame(
        0, settings={getattr(SettingsFrame, name): value for name, value in values.items()}
    ).serialize()


def read_frames(raw: bytes) -> list[tuple[int, int, int, bytes]]:
    return list(_read_frames(raw))


def _read_frames(raw: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    if raw.startswith(frames.PREFACE):
        raw = raw[len(frames.PREFACE) :]
    while raw:
        size = int.from_bytes(raw[:3], "big")
        assert len(raw) >= 9 + size
        yield raw[3], raw[4], int.from_bytes(raw[5:9], "big"), raw[9 : 9 + size]
        raw = raw[9 + size :]


def headers(block: bytes, *flags: str, stream_id: int = 1) -> HeadersFrame:
    return HeadersFrame(stream_id, SHRUNK + block, flags=["END_HEADERS", *flags])


def data(body: bytes, *flags: str, stream_id: int = 1) -> DataFrame:
    return DataFrame(stream_id, body, flags=flags)


HEAD_SEEN = ("head", "a", 200, (("content-type", "text/plain"),))


# --- the beginning


def test_greeting_is_preface_settings_and_window() -> None:
    raw = b"".join(Http2Connection(Events()).take())
    assert raw.startswith(frames.PREFACE)
    settings, update = read_frames(raw)
    values = dict(frames.parse_settings(settings[3]))
    assert values == {1: 0, 2: 0, 4: http2.WINDOW, 5: http2.OUR_FRAME_SIZE, 6: 65536}
    assert update == (frames.WINDOW_UPDATE, 0, 0, (http2.WINDOW - 65535).to_bytes(4, "big"))


def test_first_request_shrinks_the_table_and_later_ones_are_patched() -> None:
    connection = Http2Connection(Events())
    connection.take()
    request = render(BLOCK, b"hello")
    connection.open(1, request)
    assert read_frames(b"".join(connection.take())) == [
        (frames.HEADERS, frames.END_HEADERS, 1, SHRUNK + BLOCK),
        (frames.DATA, frames.END_STREAM, 1, b"hello"),
    ]
    connection.open(2, request)
    (whole,) = connection.take()
    assert whole == patch(request, 3)
    assert read_frames(bytes(whole)) == [
        (frames.HEADERS, frames.END_HEADERS, 3, BLOCK),
        (frames.DATA, frames.END_STREAM, 3, b"hello"),
    ]


def test_reply_of_a_server_that_does_not_speak_http2_is_named() -> None:
    client = Client(greeted=False)
    client.refuses(
        b"HTTP/1.1 400 Bad Request\r\n\r\n", code=frames.PROTOCOL_ERROR, match="begins with 'HTTP/1.1 '"
    )


@pytest.mark.parametrize(
    "first",
    [PingFrame(0, bytes(8)), SettingsFrame(0, flags=["ACK"]), headers(HEAD), frames.frame(99, 0, 0)],
)
def test_connection_begins_with_settings(first: bytes | Frame) -> None:
    Client(greeted=False).refuses(first, code=frames.PROTOCOL_ERROR, match="")


# --- replies


def test_reply_in_any_split_is_the_same() -> None:
    raw = b"".join(
        part.serialize()
        for n in (1, 3, 5)
        for part in (
            headers(HEAD, stream_id=n),
            DataFrame(n, b"one", pad_length=7, flags=["PADDED"]),
            data(b"two", stream_id=n),
            headers(TRAILERS, "END_STREAM", stream_id=n),
        )
    )
    whole = Client(3).receive(raw)
    assert [row[0] for row in whole] == ["head", "body", "ended"] * 3
    for cut in range(len(raw)):
        client = Client(3)
        first = client.receive(raw[:cut])
        client.events.seen = first
        assert client.receive(raw[cut:]) == whole
        assert not client.connection.streams


def test_usual_replies_are_read_like_all_others() -> None:
    raw = b"".join(
        frames.frame(frames.HEADERS, 4, n, HEAD)
        + frames.frame(frames.DATA, 0, n, b"x" * n)
        + frames.frame(frames.HEADERS, 5, n, TRAILERS)
        for n in range(3, 13, 2)
    )
    client = Client(6)
    client.receive(headers(HEAD), data(b"x"), headers(TRAILERS, "END_STREAM"))
    seen = client.receive(raw)
    assert [row for row in seen if row[0] == "body"] == [
        ("body", "bcdef"[n], b"x" * (3 + 2 * n)) for n in range(5)
    ]
    assert [row for row in seen if row[0] == "ended"] == [("ended", c, (("result", "0"),)) for c in "bcdef"]
    assert [stream.received for stream in client.streams[1:]] == [
        27 + len(HEAD) + len(TRAILERS) + n for n in range(3, 13, 2)
    ]


OTHER_HEAD = encode_block([(":status", "200"), ("content-type", "text/html!")])
OTHER_TRAILERS = encode_block([("result", "1")])


@pytest.mark.parametrize(
    ("head", "middle", "trailers"),
    [
        (OTHER_HEAD, frames.frame(0, 0, 3, b"x"), TRAILERS),
        (HEAD, frames.frame(0, 0, 3, b"x"), OTHER_TRAILERS),
        (HEAD, frames.frame(0, 0, 3, b""), TRAILERS),
        (HEAD, frames.frame(0, 8, 3, b"\x01x\x00"), TRAILERS),
        (HEAD, frames.frame(0, 0, 3, b"x") * 2, TRAILERS),
        (HEAD, frames.frame(0, 0, 5, b"x"), TRAILERS),
        (HEAD, frames.frame(6, 0, 0, bytes(8)), TRAILERS),
        (HEAD, b"", TRAILERS),
        (b"\x88", frames.frame(0, 0, 3, b"x"), TRAILERS),
    ],
)
def test_reply_that_is_almost_usual_is_still_read(head: bytes, middle: bytes, trailers: bytes) -> None:
    raw = frames.frame(1, 4, 3, head) + middle + frames.frame(1, 5, 3, trailers)
    seen = []
    for learns in (True, False):
        client = Client(3)
        client.receive(headers(HEAD), data(b"x"), *([headers(TRAILERS, "END_STREAM")] if learns else []))
        seen.append(client.receive(raw))
        assert 3 not in client.connection.streams
    assert seen[0] == seen[1]
    assert seen[0][-1][:2] == ("ended", "b")


def test_usual_reply_is_refused_when_its_stream_has_ended() -> None:
    reply = b"".join(
        (
            frames.frame(frames.HEADERS, 4, 3, HEAD),
            frames.frame(frames.DATA, 0, 3, b"x"),
            frames.frame(frames.HEADERS, 5, 3, TRAILERS),
        )
    )
    client = Client(2)
    client.receive(headers(HEAD), data(b"x"), headers(TRAILERS, "END_STREAM"))
    client.receive(reply)
    client.refuses(reply, code=frames.STREAM_CLOSED, match="stream 3, which has ended")


def test_memoryview_works_like_bytes() -> None:
    client = Client()
    raw = headers(HEAD).serialize() + data(b"x", "END_STREAM").serialize()
    client.connection.receive(memoryview(raw), len(raw))
    assert client.events.take() == [HEAD_SEEN, ("body", "a", b"x"), ("ended", "a", None)]


def test_empty_data_frame_ends_the_reply() -> None:
    assert Client().receive(headers(HEAD), data(b"", "END_STREAM")) == [HEAD_SEEN, ("ended", "a", None)]


def test_interim_heads_are_skipped() -> None:
    interim = encode_block([(":status", "103"), ("link", "x")])
    seen = Client().receive(headers(interim), headers(interim), headers(HEAD, "END_STREAM"))
    assert seen == [HEAD_SEEN, ("ended", "a", None)]


def test_endless_interim_heads_fail_the_stream() -> None:
    interim = headers(encode_block([(":status", "102")]))
    client = Client()
    assert client.receive(*[interim] * http2.INTERIM_LIMIT) == []
    ((kind, token, *rest),) = client.receive(interim)
    assert (kind, token) == ("failed", "a")
    assert "interim replies" in str(rest)


def test_priority_and_padding_of_headers_are_stripped() -> None:
    head = HeadersFrame(
        1, SHRUNK + HEAD, pad_length=9, flags=["END_HEADERS", "END_STREAM", "PADDED", "PRIORITY"]
    )
    assert Client().receive(head) == [HEAD_SEEN, ("ended", "a", None)]


def test_continued_block_is_one_block() -> None:
    block = SHRUNK + HEAD
    parts: list[Frame] = [HeadersFrame(1, block[:1], flags=["END_STREAM"])]
    parts += [ContinuationFrame(1, block[n : n + 1]) for n in range(1, len(block) - 1)]
    parts += [ContinuationFrame(1, block[-1:], flags=["END_HEADERS"])]
    assert Client().receive(*parts) == [HEAD_SEEN, ("ended", "a", None)]


def test_reserved_bit_is_ignored() -> None:
    raw = headers(HEAD).serialize() + data(b"x", "END_STREAM").serialize()
    raw = raw.replace(b"\x00\x00\x00\x01", b"\x80\x00\x00\x01")
    assert Client().receive(raw)[-1] == ("ended", "a", None)


def test_unknown_frames_and_flags_are_ignored() -> None:
    client = Client()
    assert client.receive(frames.frame(0x77, 0xFF, 1, b"abc"), PriorityFrame(1), PriorityFrame(9)) == []
    assert client.receive(frames.frame(frames.PING, 0xFE, 0, bytes(8))) == []
    assert client.frames() == [(frames.PING, frames.ACK, 0, bytes(8))]


def test_answer_to_our_ping_is_ignored() -> None:
    client = Client()
    assert client.receive(PingFrame(0, bytes(8), flags=["ACK"])) == []
    assert client.frames() == []


LONG = encode_block([("x", "y" * 40_000)])


@pytest.mark.parametrize(
    ("parts", "code", "match"),
    [
        ([data(b"x")], frames.PROTOCOL_ERROR, "before the headers"),
        ([headers(TRAILERS)], frames.PROTOCOL_ERROR, "no status"),
        ([headers(HEAD), headers(TRAILERS)], frames.PROTOCOL_ERROR, "do not end the reply"),
        ([headers(HEAD), headers(HEAD, "END_STREAM")], frames.PROTOCOL_ERROR, "second head"),
        ([headers(encode_block([(":status", "100")]), "END_STREAM")], frames.PROTOCOL_ERROR, "status 100"),
        ([headers(encode_block([(":status", "101")]))], frames.PROTOCOL_ERROR, "status 101"),
        ([headers(encode_block([(":status", "99")]))], frames.PROTOCOL_ERROR, "the invalid status '99'"),
        ([headers(encode_block([(":path", "/")]))], frames.PROTOCOL_ERROR, "':path'"),
        ([headers(encode_block([(":status", "200")] * 2))], frames.PROTOCOL_ERROR, "':status'"),
        ([headers(encode_block([("a", "b"), (":status", "200")]))], frames.PROTOCOL_ERROR, "after regular headers"),
        ([headers(encode_block([(":status", "200"), ("A", "b")]))], frames.PROTOCOL_ERROR, "'A'"),
        ([headers(encode_block([(":status", "200"), ("a b", "")]))], frames.PROTOCOL_ERROR, "'a b'"),
        ([headers(encode_block([(":status", "200"), ("a", "b\r\n")]))], frames.PROTOCOL_ERROR, "line break"),
        ([headers(encode_block([(":status", "200"), ("upgrade", "x")]))], frames.PROTOCOL_ERROR, "forbids"),
        ([headers(encode_block([(":status", "200"), ("content-length", "x")]))], frames.PROTOCOL_ERROR, "Length"),
        (
            [headers(encode_block([(":status", "200"), ("content-length", "3")])), data(b"ab", "END_STREAM")],
            frames.PROTOCOL_ERROR,
            "2 bytes, but its Content-Length is 3",
        ),
        ([frames.frame(frames.PRIORITY, 0, 1, b"1234")], frames.FRAME_SIZE_ERROR, "PRIORITY"),
        ([frames.window_update(1, 0)], frames.PROTOCOL_ERROR, "increment of 0"),
        ([frames.window_update(1, 2**31 - 1)], frames.FLOW_CONTROL_ERROR, "above 2^31-1"),
    ],
)  # fmt: skip
def test_malformed_reply_fails_its_stream(parts: list[bytes | Frame], code: int, match: str) -> None:
    Client().fails(*parts, code=code, match=match)


def test_correct_content_length_is_accepted() -> None:
    head = encode_block([(":status", "200"), ("content-length", "3"), ("content-length", "3")])
    assert Client().receive(headers(head), data(b"abc", "END_STREAM"))[-1] == ("ended", "a", None)


def test_reader_can_fail_a_stream_from_within() -> None:
    for cut in range(1, 20):
        client = Client(2)
        client.events.disliked = b"b"
        raw = headers(HEAD).serialize() + data(b"abab", "END_STREAM").serialize()
        seen = client.receive(raw[: len(raw) - cut]) + client.receive(raw[len(raw) - cut :])
        assert seen[-1] == ("failed", "a", http2.MALFORMED, frames.ENHANCE_YOUR_CALM, "not this")
        assert client.frames() == [(frames.RST_STREAM, 0, 1, (11).to_bytes(4, "big"))]
        assert client.receive(headers(HEAD, "END_STREAM", stream_id=3))[-1] == ("ended", "b", None)


BAD_BLOCK = b"\xff\xff\xff"


@pytest.mark.parametrize(
    ("parts", "code", "match"),
    [
        ([headers(HEAD, stream_id=3)], frames.PROTOCOL_ERROR, "never opened"),
        ([headers(HEAD, stream_id=2)], frames.PROTOCOL_ERROR, "never opened"),
        ([data(b"x", stream_id=3)], frames.PROTOCOL_ERROR, "never opened"),
        ([frames.frame(frames.DATA, 0, 0, b"x")], frames.PROTOCOL_ERROR, "stream 0"),
        ([frames.frame(frames.HEADERS, 4, 0, SHRUNK + HEAD)], frames.PROTOCOL_ERROR, "stream 0"),
        ([RstStreamFrame(3)], frames.PROTOCOL_ERROR, "never opened"),
        ([WindowUpdateFrame(3, 1)], frames.PROTOCOL_ERROR, "never opened"),
        ([headers(HEAD, "END_STREAM"), data(b"x")], frames.STREAM_CLOSED, "has ended"),
        ([headers(HEAD, "END_STREAM"), headers(TRAILERS)], frames.STREAM_CLOSED, "has ended"),
        ([RstStreamFrame(1), data(b"x")], frames.STREAM_CLOSED, "has ended"),
        ([frames.frame(frames.PRIORITY, 0, 0, bytes(5))], frames.PROTOCOL_ERROR, "on stream 0"),
        ([frames.frame(frames.RST_STREAM, 0, 1, b"123")], frames.FRAME_SIZE_ERROR, "RST_STREAM frame has 3"),
        ([frames.frame(frames.RST_STREAM, 0, 0, bytes(4))], frames.PROTOCOL_ERROR, "stream 0"),
        ([frames.frame(frames.SETTINGS, 0, 1)], frames.PROTOCOL_ERROR, "instead of stream 0"),
        ([frames.frame(frames.SETTINGS, 0, 0, b"12345")], frames.FRAME_SIZE_ERROR, "multiple of 6"),
        ([frames.frame(frames.SETTINGS, 1, 0, bytes(6))], frames.FRAME_SIZE_ERROR, "SETTINGS frame has 6"),
        ([frames.settings({frames.ENABLE_PUSH: 1})], frames.PROTOCOL_ERROR, "ENABLE_PUSH"),
        ([frames.settings({frames.INITIAL_WINDOW_SIZE: 2**31})], frames.FLOW_CONTROL_ERROR, "INITIAL_WINDOW"),
        ([frames.settings({frames.MAX_FRAME_SIZE: 16383})], frames.PROTOCOL_ERROR, "16383"),
        ([frames.settings({frames.MAX_FRAME_SIZE: 2**24})], frames.PROTOCOL_ERROR, "MAX_FRAME_SIZE"),
        ([PushPromiseFrame(1, 2, HEAD, flags=["END_HEADERS"])], frames.PROTOCOL_ERROR, "PUSH_PROMISE"),
        ([frames.frame(frames.PING, 0, 0, b"1234567")], frames.FRAME_SIZE_ERROR, "PING frame has 7"),
        ([frames.frame(frames.PING, 0, 1, bytes(8))], frames.PROTOCOL_ERROR, "PING"),
        ([frames.frame(frames.GOAWAY, 0, 0, bytes(7))], frames.FRAME_SIZE_ERROR, "GOAWAY"),
        ([frames.frame(frames.GOAWAY, 0, 1, bytes(8))], frames.PROTOCOL_ERROR, "GOAWAY"),
        ([GoAwayFrame(0, 1), GoAwayFrame(0, 3)], frames.PROTOCOL_ERROR, "higher"),
        ([frames.window_update(0, 0)], frames.PROTOCOL_ERROR, "increment of 0"),
        ([frames.window_update(0, 2**31 - 1)], frames.FLOW_CONTROL_ERROR, "above 2^31-1"),
        ([frames.frame(frames.WINDOW_UPDATE, 0, 0, b"123")], frames.FRAME_SIZE_ERROR, "WINDOW_UPDATE"),
        ([ContinuationFrame(1, HEAD)], frames.PROTOCOL_ERROR, "does not follow a HEADERS frame"),
        ([HeadersFrame(1, HEAD), data(b"")], frames.PROTOCOL_ERROR, "only a CONTINUATION"),
        ([HeadersFrame(1, HEAD), PingFrame(0, bytes(8))], frames.PROTOCOL_ERROR, "only a CONTINUATION"),
        ([HeadersFrame(1, HEAD), frames.frame(0x77, 0, 1)], frames.PROTOCOL_ERROR, "unknown type 119"),
        ([HeadersFrame(1, HEAD), headers(HEAD)], frames.PROTOCOL_ERROR, "only a CONTINUATION"),
        ([HeadersFrame(1, HEAD), ContinuationFrame(3, HEAD)], frames.PROTOCOL_ERROR, "does not follow a HEADERS frame"),
        ([headers(HEAD), frames.frame(frames.DATA, 8, 1, b"\x04abc")], frames.PROTOCOL_ERROR, "4 bytes of padding"),
        ([headers(HEAD), frames.frame(frames.DATA, frames.PADDED, 1)], frames.FRAME_SIZE_ERROR, "padded"),
        ([frames.frame(frames.HEADERS, frames.PADDED, 1, b"\x04abc")], frames.PROTOCOL_ERROR, "padding"),
        ([frames.frame(frames.HEADERS, frames.PRIORITISED, 1, b"abcd")], frames.FRAME_SIZE_ERROR, "priority"),
        ([headers(BAD_BLOCK)], frames.COMPRESSION_ERROR, "cannot decode"),
        ([frames.frame_head(2**20 + 1, frames.DATA, 0, 1)], frames.FRAME_SIZE_ERROR, "1048577 bytes"),
        ([frames.frame(frames.HEADERS, 4, 1, bytes(65537))], frames.ENHANCE_YOUR_CALM, "too long"),
        ([HeadersFrame(1, LONG), ContinuationFrame(1, LONG)], frames.ENHANCE_YOUR_CALM, "too long"),
        ([HeadersFrame(1), *[ContinuationFrame(1)] * 64], frames.ENHANCE_YOUR_CALM, "65 frames"),
    ],
)  # fmt: skip
def test_illegal_frame_ends_the_connection(parts: list[bytes | Frame], code: int, match: str) -> None:
    Client().refuses(*parts, code=code, match=match)


def test_a_peer_that_requests_endless_acknowledgements_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "ANSWERS_LIMIT", 1000)
    parts = [PingFrame(0, bytes(8))] * 1001
    Client().refuses(*parts, code=frames.ENHANCE_YOUR_CALM, match="more acknowledgements")


def test_padding_may_fill_the_frame() -> None:
    padded = frames.frame(frames.DATA, frames.PADDED | frames.END_STREAM, 1, b"\x03abc")
    assert Client().receive(headers(HEAD), padded) == [HEAD_SEEN, ("ended", "a", None)]


def test_events_before_an_error_in_the_same_bytes_are_reported() -> None:
    seen = Client(2).receive(headers(HEAD, "END_STREAM"), PushPromiseFrame(1, 2, HEAD))
    assert seen[:2] == [HEAD_SEEN, ("ended", "a", None)]
    assert seen[2][:3] == ("failed", "b", http2.BROKEN)


# --- header compression


def test_blocks_before_the_acknowledgement_may_use_the_table() -> None:
    encoder = Encoder()
    client = Client(3, greeted=False)
    client.receive(server_settings({}))
    fields = [(":status", "200"), ("content-type", "text/plain")]
    assert client.receive(frames.frame(1, 5, 1, encoder.encode(fields))) == [HEAD_SEEN, ("ended", "a", None)]
    indexed = encoder.encode(fields)
    assert len(indexed) == 2
    assert client.receive(frames.frame(1, 5, 3, indexed))[0][2:] == HEAD_SEEN[2:]
    client.receive(SettingsFrame(0, flags=["ACK"]))
    client.refuses(frames.frame(1, 5, 5, indexed), code=frames.COMPRESSION_ERROR, match="shrink")


def test_a_shrunk_table_cannot_grow_again() -> None:
    client = Client(2)
    client.receive(headers(HEAD, "END_STREAM"))
    client.refuses(
        frames.frame(1, 5, 3, b"\x3f\xe1\x1f" + HEAD), code=frames.COMPRESSION_ERROR, match="max allowable"
    )


def test_same_bytes_mean_the_same_only_without_a_table() -> None:
    """Byte 0xbe is the newest entry of the table: its meaning depends on earlier blocks."""
    for name in ("x", "y"):
        client = Client(2, greeted=False)
        client.receive(server_settings({}))
        literal = b"\x88\x40\x01" + name.encode() + b"\x01z"
        client.receive(frames.frame(1, 5, 1, literal))
        assert client.receive(frames.frame(1, 5, 3, b"\x88\xbe"))[0] == ("head", "b", 200, ((name, "z"),))


def test_table_shrunk_before_the_acknowledgement_is_frozen_by_it() -> None:
    client = Client(3, greeted=False)
    client.receive(server_settings({}), headers(HEAD, "END_STREAM"))
    client.receive(SettingsFrame(0, flags=["ACK"]))
    assert client.receive(frames.frame(1, 5, 3, HEAD))[-1] == ("ended", "b", None)
    client.refuses(frames.frame(1, 5, 5, b"\x88\xbe"), code=frames.COMPRESSION_ERROR, match="decode")


def test_too_many_headers_fail_the_stream_once_no_state_can_be_lost() -> None:
    many = b"\x88" + encode_block([("x", "")]) * 3000
    client = Client(2)
    client.receive(headers(HEAD, "END_STREAM", stream_id=3))
    client.fails(frames.frame(1, 5, 1, many), code=frames.PROTOCOL_ERROR, match="65536 bytes")
    Client(1).refuses(headers(many), code=frames.ENHANCE_YOUR_CALM, match="65536 bytes")


# --- ends of streams


@pytest.mark.parametrize(("code", "cause"), [(2, http2.RESET), (7, http2.REFUSED), (0x99, http2.RESET)])
def test_reset_is_reported_with_its_code(code: int, cause: str) -> None:
    client = Client()
    (seen,) = client.receive(headers(HEAD), RstStreamFrame(1, code))[1:]
    assert seen[:4] == ("failed", "a", cause, code)
    assert client.frames() == []
    assert client.receive(RstStreamFrame(1, code), WindowUpdateFrame(1, 5)) == []


def test_cancelled_stream_is_ignored_but_counts_for_the_window() -> None:
    client = Client(2, window=100_000)
    stream = client.streams[0]
    client.connection.cancel(stream)
    client.connection.cancel(stream)
    assert client.frames() == [(frames.RST_STREAM, 0, 1, (8).to_bytes(4, "big"))]
    rest: list[Frame] = [
        headers(HEAD),
        data(b"x" * 16384),
        data(b"x" * 16384),
        data(b"x" * 16384),
        data(b"x" * 1000),
    ]
    assert (
        client.receive(*rest, headers(TRAILERS, "END_STREAM"), WindowUpdateFrame(1, 5), RstStreamFrame(1))
        == []
    )
    assert client.frames() == [(frames.WINDOW_UPDATE, 0, 0, (3 * 16384 + 1000).to_bytes(4, "big"))]
    assert client.receive(headers(HEAD, "END_STREAM", stream_id=3))[-1] == ("ended", "b", None)


def test_stream_cancelled_in_the_middle_of_a_frame() -> None:
    client = Client(2)
    body = data(b"x" * 100, "END_STREAM").serialize()
    assert client.receive(headers(HEAD), body[:50])[-1] == ("body", "a", b"x" * 41)
    client.connection.cancel(client.streams[0])
    assert client.receive(body[50:], headers(HEAD, "END_STREAM", stream_id=3))[-1] == ("ended", "b", None)


def test_frames_for_forgotten_cancelled_streams_are_tolerated() -> None:
    client = Client(0)
    for _ in range(3000):
        client.connection.cancel(client.connection.open("x", GET))
    assert len(client.connection._cancelled) == http2.CANCELLED_LIMIT
    assert client.receive(headers(HEAD), headers(HEAD, stream_id=5999)) == []
    assert client.connection.broken is None


def test_early_end_stops_the_upload() -> None:
    client = Client(0)
    client.connection.open("a", render(BLOCK, b"x" * 100_000))
    client.sent()
    assert client.receive(headers(HEAD, "END_STREAM"))[-1] == ("ended", "a", None)
    assert client.frames() == [(frames.RST_STREAM, 0, 1, bytes(4))]
    assert (
        client.receive(WindowUpdateFrame(0, 100_000), WindowUpdateFrame(1, 100_000), RstStreamFrame(1)) == []
    )
    assert not client.connection.wants_to_send


@pytest.mark.parametrize("last", [0, 1, 3, 5, 2**31 - 1])
def test_goaway_refuses_what_is_above_it_and_lets_the_rest_finish(last: int) -> None:
    client = Client(3)
    seen = client.receive(headers(HEAD), GoAwayFrame(0, last, 11, b"too_many_pings"))
    refused = [token for n, token in ((1, "a"), (3, "b"), (5, "c")) if n > last]
    assert [row[:4] for row in seen[1:]] == [("failed", token, http2.REFUSED, 11) for token in refused]
    assert all("ENHANCE_YOUR_CALM: too_many_pings" in str(row[4]) for row in seen[1:])
    assert client.connection.goaway == http2.Goaway(last, 11, "too_many_pings")
    assert client.connection.closing
    assert not client.connection.can_open
    client.receive(server_settings({"MAX_CONCURRENT_STREAMS": 100}))
    assert not client.connection.can_open
    if last:
        assert client.receive(data(b"x", "END_STREAM"))[-1] == ("ended", "a", None)
    assert client.connection.broken is None
    with pytest.raises(LocalError):
        client.connection.open("d", GET)


def test_goaway_may_lower_its_stream() -> None:
    client = Client(2)
    assert client.receive(GoAwayFrame(0, 2**31 - 1)) == []
    (seen,) = client.receive(GoAwayFrame(0, 1))
    assert seen[:3] == ("failed", "b", http2.REFUSED)


def test_end_of_connection_loses_the_open_streams() -> None:
    client = Client(2)
    client.receive(headers(HEAD, "END_STREAM"), GoAwayFrame(0, 3, 2, b"bye"))
    client.connection.eof()
    text = "the server closed the connection after a GOAWAY with INTERNAL_ERROR: bye"
    assert client.events.take() == [("failed", "b", http2.LOST, 0, text)]
    assert str(client.connection.broken) == text
    client.connection.eof()
    assert client.events.take() == []


def test_concurrent_streams_are_limited_by_the_server() -> None:
    client = Client(2, MAX_CONCURRENT_STREAMS=3)
    assert client.connection.can_open
    client.connection.open("c", GET)
    assert not client.connection.can_open
    client.receive(headers(HEAD, "END_STREAM"))
    assert client.connection.can_open
    client.receive(server_settings({"MAX_CONCURRENT_STREAMS": 0}))
    assert not client.connection.can_open


def test_stream_ids_end() -> None:
    client = Client(0)
    client.connection.next_id = 2**31 - 1
    client.connection.open("a", GET)
    assert client.connection.closing
    assert not client.connection.can_open
    assert client.receive(headers(HEAD, "END_STREAM", stream_id=2**31 - 1))[-1] == ("ended", "a", None)


# --- the client's windows


def test_windows_are_returned_in_large_steps() -> None:
    client = Client(window=1_000_000)
    client.receive(headers(HEAD))
    sizes = []
    for _ in range(100):
        client.receive(data(b"x" * 16384))
        sizes += [(row[2], int.from_bytes(row[3], "big")) for row in client.frames()]
    assert sizes == [(0, 31 * 16384), (1, 31 * 16384)] * 3


def test_server_that_overruns_a_window_is_refused() -> None:
    client = Client(2, window=1000)
    client.receive(headers(HEAD))
    client.fails(data(b"x" * 1001), code=frames.FLOW_CONTROL_ERROR, match="stream's window")
    big = Client(1, window=100_000)
    big.receive(headers(HEAD))
    big.refuses(data(b"x" * 100_001), code=frames.FLOW_CONTROL_ERROR, match="connection's window")


# --- the server's windows


def upload(client: Client, size: int, token: str = "a") -> Stream:
    return client.connection.open(token, render(BLOCK, bytes(size)))


def sizes(rows: list[tuple[int, int, int, bytes]]) -> list[tuple[int, int, int]]:
    return [
        (stream_id, len(payload), flags) for kind, flags, stream_id, payload in rows if kind == frames.DATA
    ]


def test_body_waits_for_the_connection_window() -> None:
    client = Client(0, INITIAL_WINDOW_SIZE=1_000_000)
    upload(client, 70_000)
    assert sizes(client.frames()) == [(1, 16384, 0)] * 3 + [(1, 16383, 0)]
    assert not client.connection.wants_to_send
    client.receive(WindowUpdateFrame(0, 10))
    assert client.connection.wants_to_send
    assert sizes(client.frames()) == [(1, 10, 0)]
    client.receive(WindowUpdateFrame(0, 100_000))
    assert sizes(client.frames()) == [(1, 4455, 1)]


def test_body_waits_for_the_stream_window_while_others_continue() -> None:
    client = Client(0, INITIAL_WINDOW_SIZE=10)
    upload(client, 25)
    upload(client, 5, "b")
    assert sizes(client.frames()) == [(3, 5, 1), (1, 10, 0)]
    client.receive(WindowUpdateFrame(1, 100))
    assert sizes(client.frames()) == [(1, 15, 1)]


def test_negative_window_must_be_refilled_first() -> None:
    client = Client(0, INITIAL_WINDOW_SIZE=100)
    upload(client, 150)
    assert sizes(client.frames()) == [(1, 100, 0)]
    client.receive(server_settings({"INITIAL_WINDOW_SIZE": 20}))
    assert client.streams == []
    client.receive(WindowUpdateFrame(1, 80))
    assert sizes(client.frames()) == []
    client.receive(WindowUpdateFrame(1, 1))
    assert sizes(client.frames()) == [(1, 1, 0)]
    client.receive(server_settings({"INITIAL_WINDOW_SIZE": 30}))
    assert sizes(client.frames()) == [(1, 10, 0)]
    client.receive(server_settings({"INITIAL_WINDOW_SIZE": 1000}))
    assert sizes(client.frames()) == [(1, 39, 1)]


def test_window_that_falls_while_the_stream_waits_its_turn() -> None:
    client = Client(0)
    upload(client, 100_000)
    client.frames(limit=1)
    client.receive(server_settings({"INITIAL_WINDOW_SIZE": 0}))
    assert sizes(client.frames()) == []
    assert not client.connection.wants_to_send


def test_new_initial_window_may_not_raise_a_stream_too_high() -> None:
    client = Client(1, INITIAL_WINDOW_SIZE=0)
    client.receive(WindowUpdateFrame(1, 2**31 - 1))
    client.refuses(
        server_settings({"INITIAL_WINDOW_SIZE": 1}),
        code=frames.FLOW_CONTROL_ERROR,
        match="raises the window of stream 1",
    )


def test_small_requests_wait_when_a_window_is_too_small() -> None:
    client = Client(1, INITIAL_WINDOW_SIZE=3)
    client.connection.open("b", render(BLOCK, b"hello"))
    assert sizes(client.frames()) == [(3, 3, 0)]
    client.receive(WindowUpdateFrame(3, 3))
    assert sizes(client.frames()) == [(3, 2, 1)]


def test_streams_take_turns() -> None:
    client = Client(0, INITIAL_WINDOW_SIZE=1_000_000, MAX_FRAME_SIZE=2**20)
    client.receive(WindowUpdateFrame(0, 2**30))
    for token in "abc":
        upload(client, 3 * QUANTUM, token)
    rows = sizes(client.frames(limit=10 * QUANTUM))
    assert [row[0] for row in rows] == [1, 3, 5] * 3
    assert {row[1] for row in rows} == {QUANTUM}


def test_take_returns_about_as_much_as_requested() -> None:
    client = Client(0, INITIAL_WINDOW_SIZE=10_000_000)
    client.receive(WindowUpdateFrame(0, 2**30))
    upload(client, 10_000_000)
    assert sum(row[1] for row in sizes(client.frames(limit=100_000))) == 7 * 16384
    assert client.connection.wants_to_send


def test_large_bodies_are_not_copied() -> None:
    client = Client(1)
    body = bytearray(50_000)
    client.connection.open("b", render(BLOCK, (b"12345", memoryview(body))))
    views = [chunk for chunk in client.connection.take() if isinstance(chunk, memoryview)]
    assert sum(map(len, views)) == 50_005
    assert sum(len(view) for view in views if view.obj is body) == 50_000


def test_request_can_be_continued() -> None:
    client = Client(1)
    stream = client.connection.open("b", render(BLOCK, b"one", ends=False))
    assert client.frames() == [(frames.HEADERS, 4, 3, BLOCK), (frames.DATA, 0, 3, b"one")]
    client.connection.send(stream, (b"t", b"wo"))
    client.connection.send(stream, b"three", ends=True)
    assert client.frames() == [(frames.DATA, 1, 3, b"twothree")]
    with pytest.raises(LocalError):
        client.connection.send(stream, b"four")
    client.receive(headers(HEAD, "END_STREAM", stream_id=3))
    client.connection.send(stream, b"five")
    assert client.frames() == []


def test_request_can_end_empty_even_without_a_window() -> None:
    client = Client(1, INITIAL_WINDOW_SIZE=0)
    stream = client.connection.open("b", render(BLOCK, ends=False))
    client.connection.send(stream, ends=True)
    assert client.frames() == [(frames.HEADERS, 4, 3, BLOCK), (frames.DATA, 1, 3, b"")]


def test_headers_longer_than_a_frame_are_continued() -> None:
    client = Client(0)
    block = BLOCK + encode_block([("x", "y" * 40_000)])
    client.connection.open("a", render(block, b"z"))
    rows = client.frames()
    assert [row[:3] for row in rows] == [(1, 0, 1), (9, 0, 1), (9, 4, 1), (0, 1, 1)]
    assert b"".join(row[3] for row in rows[:3]) == SHRUNK + block
    assert all(len(row[3]) <= 16384 for row in rows)
    client.connection.open("b", render(block))
    assert [row[:3] for row in client.frames()] == [(1, 1, 3), (9, 0, 3), (9, 4, 3)]
