"""The HTTP/1.1 codec: replies in any split, leniencies, invalid replies, and requests."""

import pytest

from inferometer.base.errors import PeerError, UsageError
from inferometer.wire.http1 import (
    CHUNK_LINE_LIMIT,
    CHUNKED,
    ERROR_BODY_LIMIT,
    HEAD_LIMIT,
    INTERIM_LIMIT,
    TRAILERS_LIMIT,
    UNTIL_CLOSE,
    Head,
    ReplyDecoder,
    encode_request,
)

Reply = tuple[int, str, tuple[tuple[str, str], ...], bytes, int, bool]

SIZED = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 11\r\n\r\nhello world"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
BAD_REQUEST = b'HTTP/1.1 400 Bad Request\r\nContent-Length: 15\r\n\r\n{"error":"no!"}'
CHUNKS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'5;name=value;q="x"\r\nhello\r\n006  \r\n world\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n'
)
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + SIZED
BARE_LF = b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"
BARE_LF_CHUNKS = b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n0\nX: y\n\n"
MIXED_ENDS = b"HTTP/1.1 200 OK\r\nContent-Length: 8\n\r\n\r\n\r\nabcd"
FOLDED = b"HTTP/1.1 200 OK\r\nX-Long: one\r\n two\r\n\tthree\r\nContent-Length: 2\r\n\r\nhi"
UNTIL_EOF = b"HTTP/1.1 200 OK\r\n\r\nto the\r\n\r\nend"

STREAMS = {
    "sized": SIZED,
    "empty": EMPTY,
    "no content": NO_CONTENT,
    "bad request": BAD_REQUEST,
    "chunked": CHUNKS,
    "interim": CONTINUED,
    "bare LF": BARE_LF,
    "bare LF chunked": BARE_LF_CHUNKS,
    "mixed line ends": MIXED_ENDS,
    "folded": FOLDED,
    "two glued": SIZED + CHUNKS,
    "many glued": EMPTY + SIZED + NO_CONTENT + BAD_REQUEST + CONTINUED + CHUNKS + SIZED,
    "until close": UNTIL_EOF,
    "until close behind another": SIZED + UNTIL_EOF,
}


def decode(*pieces: bytes, keep: bool = True) -> list[Reply]:
    """Return all replies of a stream that arrives in these pieces and then ends."""
    decoder = ReplyDecoder(keep=keep)
    replies: list[Reply] = []
    for piece in pieces:
        done = decoder.receive(piece, len(piece))
        while done:
            replies.append(taken(decoder))
            done = decoder.receive(b"", 0)
    if decoder.eof():
        replies.append(taken(decoder))
    assert decoder.idle
    return replies


def taken(decoder: ReplyDecoder) -> Reply:
    head = decoder.head
    assert head is not None
    reply = (head.status, head.reason, head.headers, bytes(decoder.body), decoder.received, head.reusable)
    decoder.next()
    return reply


def feed(decoder: ReplyDecoder, raw: bytes, step: int) -> None:
    for i in range(0, len(raw), step):
        piece = raw[i : i + step]
        assert not decoder.receive(piece, len(piece))


def head_of(raw: bytes) -> Head:
    decoder = ReplyDecoder()
    decoder.receive(raw, len(raw))
    assert decoder.head is not None
    return decoder.head


def reply_with(*lines: str, status: str = "200 OK", version: str = "1.1") -> bytes:
    return "\r\n".join([f"HTTP/{version} {status}", *lines, "", ""]).encode()


def chunked(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body


# Replies, whole


def test_reply_of_known_length():
    (reply,) = decode(SIZED)
    headers = (("server", "nginx"), ("content-length", "11"))
    assert reply == (200, "OK", headers, b"hello world", len(SIZED), True)


def test_chunked_reply_with_extensions_and_trailers():
    (reply,) = decode(CHUNKS)
    headers = (("transfer-encoding", "chunked"),)
    assert reply == (200, "OK", headers, b"hello world", len(CHUNKS), True)


def test_reply_until_close():
    (reply,) = decode(UNTIL_EOF)
    assert reply == (200, "OK", (), b"to the\r\n\r\nend", len(UNTIL_EOF), False)


def test_empty_reply_until_close():
    (reply,) = decode(b"HTTP/1.0 200 OK\r\n\r\n")
    assert reply == (200, "OK", (), b"", 19, False)


def test_interim_replies_are_skipped_and_counted():
    (reply,) = decode(CONTINUED)
    assert (reply[0], reply[3], reply[4]) == (200, b"hello world", len(CONTINUED))


def test_endless_interim_replies_are_refused():
    interim = b"HTTP/1.1 102 Processing\r\n\r\n"
    (reply,) = decode(interim * INTERIM_LIMIT + SIZED)
    assert reply[0] == 200
    with pytest.raises(PeerError, match="interim replies, the last with 102"):
        decode(interim * (INTERIM_LIMIT + 1))


def test_interim_replies_are_counted_per_reply():
    interim = b"HTTP/1.1 102 Processing\r\n\r\n"
    assert len(decode((interim * INTERIM_LIMIT + SIZED) * 3)) == 3


def test_folded_header_lines_are_joined():
    (reply,) = decode(FOLDED)
    assert reply[2] == (("x-long", "one two three"), ("content-length", "2"))
    assert reply[3] == b"hi"


@pytest.mark.parametrize("raw", [BARE_LF, BARE_LF_CHUNKS])
def test_bare_line_feeds_end_lines(raw):
    assert [reply[3] for reply in decode(raw)] == [b"hello"]


def test_head_ends_at_the_first_empty_line_of_either_kind():
    (reply,) = decode(MIXED_ENDS)
    assert reply[3] == b"\r\n\r\nabcd"


# Replies, split


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("raw", STREAMS.values(), ids=STREAMS)
def test_reply_split_anywhere_is_the_same(raw, keep):
    whole = decode(raw, keep=keep)
    for cut in range(len(raw)):
        assert decode(raw[:cut], raw[cut:], keep=keep) == whole


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("raw", STREAMS.values(), ids=STREAMS)
def test_reply_byte_by_byte_is_the_same(raw, keep):
    assert decode(*(raw[i : i + 1] for i in range(len(raw))), keep=keep) == decode(raw, keep=keep)


@pytest.mark.parametrize("raw", [SIZED, CHUNKS, CONTINUED, BARE_LF])
def test_received_counts_every_byte_of_an_unfinished_reply(raw):
    decoder = ReplyDecoder()
    for n in range(1, len(raw)):
        assert not decoder.receive(raw[n - 1 : n], 1)
        assert decoder.received == n


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_is_read_up_to_its_length(kind):
    decoder = ReplyDecoder(keep=True)
    for _ in range(3):
        assert not decoder.receive(kind(SIZED[:40] + b"stale"), 40)
        assert decoder.receive(kind(SIZED[40:] + b"HTTP/1.1 stale"), len(SIZED) - 40)
        assert taken(decoder)[3] == b"hello world"
        assert decoder.receive(kind(SIZED + b"stale"), len(SIZED))
        assert taken(decoder)[3] == b"hello world"
        assert decoder.idle


def test_shared_buffer_may_be_overwritten_between_calls():
    buffer = bytearray(4096)
    decoder = ReplyDecoder(keep=True)
    bodies = []
    for piece in (SIZED + SIZED[:30], SIZED[30:60], SIZED[60:]):
        buffer[:] = bytes(4096)
        buffer[: len(piece)] = piece
        done = decoder.receive(buffer, len(piece))
        while done:
            bodies.append(taken(decoder)[3])
            done = decoder.receive(b"", 0)
    assert bodies == [b"hello world"] * 2


def test_usual_reply_then_others_of_the_same_size():
    same_size = SIZED.replace(b"nginx", b"caddy")
    unusual = b"x" * len(SIZED)
    decoder = ReplyDecoder()
    for raw, server in ((SIZED, "nginx"), (SIZED, "nginx"), (same_size, "caddy"), (SIZED, "nginx")):
        assert decoder.receive(raw, len(raw))
        assert decoder.head is not None
        assert decoder.head.get("Server") == server
        assert decoder.received == len(raw)
        decoder.next()
    with pytest.raises(PeerError):
        decoder.receive(unusual, len(unusual))


@pytest.mark.parametrize(
    ("before", "after", "length"),
    [
        (chunked(b"%x\r\n" % len(SIZED)), b"\r\n0\r\n\r\n", CHUNKED),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"", UNTIL_CLOSE),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-Folded: 1\r\n ", b"", 11),
    ],
    ids=["in a chunk", "in a body until close", "in a head"],
)
def test_the_usual_reply_within_another_is_part_of_that(before: bytes, after: bytes, length: int):
    decoder = ReplyDecoder()
    assert decoder.receive(SIZED, len(SIZED))
    decoder.next()
    assert not decoder.receive(before, len(before))
    is_complete = decoder.receive(SIZED, len(SIZED))
    if length < 0:
        assert not is_complete
        is_complete = decoder.receive(after, len(after)) or decoder.eof()
    assert is_complete
    assert decoder.head is not None
    assert decoder.head.length == length
    assert decoder.received == len(before + SIZED + after)


def test_a_later_chunk_line_may_arrive_in_two_parts():
    chunk = b"1388\r\n" + 5000 * b"x" + b"\r\n"
    decoder = ReplyDecoder()
    begun, rest = chunked(chunk + chunk[:1]), chunk[1:] + b"0\r\n\r\n"
    assert not decoder.receive(begun, len(begun))
    assert decoder.receive(rest, len(rest))


@pytest.mark.parametrize(
    ("piece", "begin"),
    [
        (b"5\r\nhello\r\n", 3),
        (b"5\r\nworld\r\n", 3),  # known by its length
        (b"4\r\nhello\r\n", 0),
        (b"5;a=b\r\nhello\r\n", 7),
        (b"05\r\nhell\r\n", 0),  # as long as a known one
        (b"A\r\nhello you!\r\n", 3),
        (b"5\r\nhello\r\n1\r\n!\r\n", 0),
        (b"5\r\nhel", 0),
        (b"0\r\n\r\n", 0),
        (b"\r\n", 0),
        (b"", 0),
    ],
)
def test_a_whole_chunk_is_recognised_in_place(piece: bytes, begin: int):
    decoder = ReplyDecoder(keep=True)
    feed(decoder, chunked(b""), 1000)
    assert decoder.whole_chunk(bytearray(piece + b"behind it\r\n"), len(piece)) == begin
    decoder.receive(piece[:1], min(1, len(piece)))
    assert decoder.whole_chunk(b"5\r\nhello\r\n", 10) == (0 if piece else 3)  # partial data is pending


@pytest.mark.parametrize(
    ("piece", "found"),
    [
        (b"5\r\nhello\r\n", (3, 8)),
        (b"5\r\nhello\r\n1\r\n!", (3, 8)),
        (b"5\r\nworld\r\n", (3, 8)),  # the line is known
        (b"5;a=b\r\nhello\r\n", (7, 12)),
        (b"4\r\nhello\r\n", None),
        (b"5\r\nhello\r", None),
        (b"+5\r\nhello\r\n", None),
        (b"0\r\n\r\n", None),
        (b"5", None),
        (b"", None),
    ],
)
def test_one_of_several_chunks_is_recognised_in_place(piece: bytes, found: tuple[int, int] | None):
    decoder = ReplyDecoder(keep=True)
    feed(decoder, chunked(b""), 1000)
    before = b"1\r\n?\r\n"
    at = decoder.chunk_at(bytearray(before + piece + b"\nbehind it\r\n"), len(before), len(before + piece))
    assert at == (found and tuple(len(before) + place for place in found))
    decoder.receive(b"5", 1)
    assert decoder.chunk_at(bytearray(b"5\r\nhello\r\n"), 0, 10) is None  # partial data is pending


def test_two_lengths_are_refused_and_both_named():
    raw = reply_with("Content-Length: 3", "Content-Length: 4")
    with pytest.raises(PeerError, match="two different Content-Lengths, 3 and 4"):
        ReplyDecoder().receive(raw, len(raw))


def test_more_different_heads_than_are_cached():
    decoder = ReplyDecoder()
    for n in range(5000):
        raw = reply_with(f"X-Id: {n}", "Content-Length: 0")
        assert decoder.receive(raw, len(raw))
        assert taken(decoder)[2][0] == ("x-id", str(n))


# Bytes after a reply


def test_bytes_after_a_reply_are_seen_before_and_after_next():
    decoder = ReplyDecoder()
    assert decoder.receive(SIZED + b"HTTP", len(SIZED) + 4)
    assert decoder.received == len(SIZED)
    assert not decoder.idle
    decoder.next()
    assert (decoder.head, decoder.received, decoder.idle) == (None, 4, False)
    assert not decoder.receive(b"", 0)
    assert not decoder.idle


def test_no_bytes_after_a_reply_is_idle():
    decoder = ReplyDecoder()
    assert decoder.idle
    assert decoder.receive(SIZED, len(SIZED))
    assert decoder.idle
    decoder.next()
    assert decoder.idle
    assert not decoder.receive(b"", 0)
    assert decoder.idle
    assert decoder.eof() is False


def test_finished_reply_stays_finished_until_next():
    decoder = ReplyDecoder(keep=True)
    assert decoder.receive(SIZED, len(SIZED))
    assert decoder.receive(EMPTY, len(EMPTY))
    assert taken(decoder)[3:5] == (b"hello world", len(SIZED))
    assert decoder.receive(b"", 0)
    assert taken(decoder)[3:5] == (b"", len(EMPTY))
    assert decoder.idle


# Kept bodies


def test_good_bodies_are_counted_but_not_kept():
    assert [reply[3] for reply in decode(SIZED + CHUNKS + UNTIL_EOF, keep=False)] == [b"", b"", b""]


def test_bad_bodies_are_kept():
    assert [reply[3] for reply in decode(BAD_REQUEST, keep=False)] == [b'{"error":"no!"}']


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_bad_bodies_are_kept_up_to_a_limit(keep, pieces):
    length = 3 * ERROR_BODY_LIMIT // 2
    raw = b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n" % length + b"x" * length
    step = len(raw) // pieces
    (reply,) = decode(*(raw[i : i + step] for i in range(0, len(raw), step)), keep=keep)
    assert (len(reply[3]), reply[4]) == (ERROR_BODY_LIMIT, len(raw))


def test_kept_body_survives_next():
    decoder = ReplyDecoder(keep=True)
    decoder.receive(SIZED, len(SIZED))
    body = decoder.body
    decoder.next()
    assert body == b"hello world"
    assert not decoder.body


def test_streamed_body_may_be_emptied_while_reading():
    decoder = ReplyDecoder(keep=True)
    bodies = []
    for i in range(len(CHUNKS)):
        decoder.receive(CHUNKS[i : i + 1], 1)
        bodies.append(bytes(decoder.body))
        decoder.body.clear()
    assert b"".join(bodies) == b"hello world"


# The head


def test_header_is_found_by_any_spelling():
    head = head_of(reply_with("Content-Length: 0", "X-Id:  a b \t", "x-id: second"))
    assert (head.get("X-ID"), head.get("x-id"), head.get("X-None")) == ("a b", "a b", None)


def test_head_cannot_be_changed():
    with pytest.raises(AttributeError):
        head_of(SIZED).status = 500  # type: ignore[misc]


@pytest.mark.parametrize("line", ["HTTP/1.1 200 ", "HTTP/1.1 200"])
def test_reason_may_be_absent(line):
    assert head_of(f"{line}\r\nContent-Length: 0\r\n\r\n".encode()).reason == ""


@pytest.mark.parametrize(
    ("length", "reusable", "raw"),
    [
        (5, True, reply_with("Content-Length: 5")),
        (5, True, reply_with("CONTENT-LENGTH:5\t")),
        (5, True, reply_with("Content-Length: 5", "Content-Length: 05")),
        (5, True, reply_with("Content-Length: 5, 5")),
        (2**62, True, reply_with(f"Content-Length: {2**62}")),
        (5, False, reply_with("Content-Length: 5", "Connection: close")),
        (5, False, reply_with("Content-Length: 5", "Connection: Foo , CLOSE")),
        (5, False, reply_with("Content-Length: 5", "Connection: foo", "Connection: close")),
        (5, False, reply_with("Content-Length: 5", "Connection: keep-alive, close")),
        (5, True, reply_with("Content-Length: 5", "Connection: closed")),
        (5, False, reply_with("Content-Length: 5", version="1.0")),
        (5, True, reply_with("Content-Length: 5", "Connection: Keep-Alive", version="1.0")),
        (5, True, reply_with("Content-Length: 5", version="1.2")),
        (CHUNKED, True, reply_with("Transfer-Encoding: Chunked")),
        (CHUNKED, False, reply_with("Transfer-Encoding: chunked", "Connection: close")),
        (CHUNKED, False, reply_with("Transfer-Encoding: chunked", "Content-Length: 5")),
        (CHUNKED, False, reply_with("Content-Length: 5", "Transfer-Encoding: chunked")),
        (CHUNKED, False, reply_with("Transfer-Encoding: chunked", "Connection: keep-alive", version="1.0")),
        (UNTIL_CLOSE, False, reply_with()),
        (UNTIL_CLOSE, False, reply_with("Connection: keep-alive")),
        (0, True, reply_with(status="204 No Content")),
        (0, True, reply_with("Content-Length: 500", status="304 Not Modified")),
        (0, True, reply_with("Transfer-Encoding: chunked", status="304 Not Modified")),
        (0, False, reply_with("Connection: close", status="204 No Content")),
    ],
)
def test_framing(length, reusable, raw):
    head = head_of(raw)
    assert (head.length, head.reusable) == (length, reusable)


# Invalid replies


ILLEGAL = {
    "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "TLS alert": b"\x15\x03\x01\x00\x02\x02\x46",
    "HTTP/2 settings": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    "empty line first": b"\r\nHTTP/1.1 200 OK\r\n\r\n",
    "HTTP/2 in letters": b"HTTP/2.0 200 OK\r\n\r\n",
    "no status": b"HTTP/1.1\r\n\r\n",
    "status too short": b"HTTP/1.1 20 OK\r\n\r\n",
    "status too long": b"HTTP/1.1 2000 OK\r\n\r\n",
    "status below 100": b"HTTP/1.1 099 OK\r\n\r\n",
    "status with a sign": b"HTTP/1.1 +20 OK\r\n\r\n",
    "two spaces": b"HTTP/1.1  200 OK\r\n\r\n",
    "NUL in the reason": b"HTTP/1.1 200 O\0K\r\n\r\n",
    "CR in the reason": b"HTTP/1.1 200 O\rK\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
    "header without colon": b"HTTP/1.1 200 OK\r\nServer\r\n\r\n",
    "header without name": b"HTTP/1.1 200 OK\r\n: x\r\n\r\n",
    "space before colon": b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
    "name beyond ASCII": b"HTTP/1.1 200 OK\r\nX-\xe9: 5\r\n\r\n",
    "NUL in a value": b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
    "CR in a value": b"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",
    "CR before the line's end": b"HTTP/1.1 200 OK\r\nX: a\r\r\n\r\n",
    "folded first header": b"HTTP/1.1 200 OK\r\n X: a\r\n\r\n",
    "folded first header before a fold": b"HTTP/1.1 200 OK\r\n X: a\r\n b\r\n\r\n",
    "fold, and an illegal line": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nnonsense\r\n\r\n",
    "empty length": b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "signed length": b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
    "hexadecimal length": b"HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\n",
    "underscored length": b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
    "superscript length": b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n",
    "huge length": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (2**62 + 1),
    "absurd length": b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n" % (b"9" * 5000),
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "two lengths in one": b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n",
    "illegal length, chunked": b"HTTP/1.1 200 OK\r\nContent-Length: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    "other coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "other coding, then chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "chunked twice": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "empty coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: \r\n\r\n",
    "head too long": b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_LIMIT + b"\r\n\r\n",
    "head without end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_LIMIT,
    "chunk size not hexadecimal": chunked(b"xyz\r\n"),
    "chunk size empty": chunked(b"\r\n"),
    "chunk size prefixed": chunked(b"0x5\r\nhello\r\n"),
    "chunk size signed": chunked(b"+5\r\nhello\r\n"),
    "chunk size negative": chunked(b"-5\r\nhello\r\n"),
    "chunk size underscored": chunked(b"1_0\r\nhello\r\n"),
    "chunk size huge": chunked(b"%x\r\n" % (2**62 + 1)),
    "chunk size absurd": chunked(b"f" * 100 + b"\r\n"),
    "chunk size with junk": chunked(b"5 x\r\nhello\r\n"),
    "chunk size with a bare CR": chunked(b"5;a\rb\r\nhello\r\n"),
    "chunk line too long": chunked(b"5;" + b"x" * CHUNK_LINE_LIMIT + b"\r\n"),
    "chunk line without end": chunked(b"5;" + b"x" * CHUNK_LINE_LIMIT),
    "chunk longer than it says": chunked(b"5\r\nhello!\r\n"),
    "chunk with half an end": chunked(b"5\r\nhello\r0"),
    "trailer without colon": chunked(b"0\r\nnonsense\r\n\r\n"),
    "trailer with NUL": chunked(b"0\r\nX: \0\r\n\r\n"),
    "CR, then no LF, for the last line": chunked(b"0\r\n\rX\r\n"),
    "trailer too long": chunked(b"0\r\nX: " + b"x" * TRAILERS_LIMIT + b"\r\n\r\n"),
    "trailers too long": chunked(b"0\r\n" + b"X: 12345\r\n" * (TRAILERS_LIMIT // 10 + 1)),
}


@pytest.mark.parametrize("raw", ILLEGAL.values(), ids=ILLEGAL)
def test_illegal_reply_is_a_peer_error_in_any_split(raw):
    with pytest.raises(PeerError) as whole:
        ReplyDecoder().receive(raw, len(raw))
    assert len(str(whole.value)) < 80 + 4 * 80
    for step in (1, 7, 4096) if len(raw) < 10_000 else (1000, 4096):
        with pytest.raises(PeerError):
            feed(ReplyDecoder(), raw, step)


@pytest.mark.parametrize(
    ("raw", "limit"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: %s\r\n\r\n", HEAD_LIMIT),
        (chunked(b"5;%s\r\n") + b"hello\r\n0\r\n\r\n", CHUNK_LINE_LIMIT),
        (chunked(b"0\r\n") + b"X: %s\r\n\r\n", TRAILERS_LIMIT),
    ],
    ids=["head", "chunk line", "trailers"],
)
@pytest.mark.parametrize("pieces", [1, 2, 100])
def test_limits_are_exact(raw, limit, pieces):
    fixed = {HEAD_LIMIT: len(raw) - 2, CHUNK_LINE_LIMIT: len(b"5;\r\n")}
    if raw.startswith(chunked(b"0")):
        fixed[TRAILERS_LIMIT] = len(b"X: \r\n\r\n")
    longest = limit - fixed[limit]

    def split(padding: int) -> list[bytes]:
        whole = raw % (b"x" * padding)
        step = -(-len(whole) // pieces)
        return [whole[i : i + step] for i in range(0, len(whole), step)]

    assert len(decode(*split(longest))) == 1
    with pytest.raises(PeerError):
        decode(*split(longest + 1))


# The end


def test_close_before_any_byte_is_orderly():
    assert ReplyDecoder().eof() is False


def test_close_after_a_finished_reply_is_orderly():
    decoder = ReplyDecoder()
    decoder.receive(SIZED, len(SIZED))
    assert decoder.eof() is False


@pytest.mark.parametrize("name", ["sized", "empty", "no content", "chunked", "interim", "bare LF", "folded"])
def test_close_at_every_position_is_a_peer_error(name):
    raw = STREAMS[name]
    for cut in range(1, len(raw)):
        decoder = ReplyDecoder()
        assert not decoder.receive(raw, cut)
        with pytest.raises(PeerError, match="closed the connection in"):
            decoder.eof()


def test_close_of_a_reply_until_close_at_every_position():
    for cut in range(1, len(UNTIL_EOF)):
        decoder = ReplyDecoder()
        assert not decoder.receive(UNTIL_EOF, cut)
        if decoder.head is None:
            with pytest.raises(PeerError, match=f"after {cut} bytes"):
                decoder.eof()
        else:
            assert decoder.eof()
            assert decoder.received == cut


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"HTT", "in the head of a reply, after 3 bytes"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "in the head of a reply, after 25 bytes"),
        (SIZED[:-4], "in the body of a reply, after 7 of 11 bytes"),
        (chunked(b"5\r\nhel"), "in a chunked body, before the last chunk, after 53 bytes of the reply"),
    ],
)
def test_close_reports_how_much_of_the_reply_arrived(raw, message):
    decoder = ReplyDecoder()
    decoder.receive(raw, len(raw))
    with pytest.raises(PeerError) as error:
        decoder.eof()
    assert str(error.value) == f"the server closed the connection {message}"


# Requests


def test_request_head():
    raw = encode_request("POST", "/infer?x=1", [("Host", "a:80"), ("X-Id", "7 é")], 12)
    assert raw == b"POST /infer?x=1 HTTP/1.1\r\nHost: a:80\r\nX-Id: 7 \xc3\xa9\r\nContent-Length: 12\r\n\r\n"


def test_request_without_body_has_no_length():
    assert encode_request("GET", "/", [("Host", "a")], None) == b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def test_empty_body_has_a_length():
    assert b"\r\nContent-Length: 0\r\n" in encode_request("POST", "/", [], 0)


def test_bytes_of_the_command_line_are_sent_unchanged():
    value = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert b"\r\nX: \xff\xfe\r\n" in encode_request("GET", "/", [("X", value)], None)


@pytest.mark.parametrize(
    ("method", "path", "headers", "named"),
    [
        ("", "/", [], "''"),
        ("GET IT", "/", [], "GET IT"),
        ("GET", "", [], "path ''"),
        ("GET", "/a b", [], "/a b"),
        ("GET", "/a\r\nX: y", [], "/a"),
        ("GET", "/\N{SNOWMAN}", [], "path"),
        ("GET", "/", [("X-Id", "a\rb")], "'X-Id'"),
        ("GET", "/", [("X-Id", "a\nb")], "'X-Id'"),
        ("GET", "/", [("X-Id", "a\0b")], "'X-Id'"),
        ("GET", "/", [("X-Id", "\ud800")], "'X-Id'"),
        ("GET", "/", [("X Id", "a")], "'X Id'"),
        ("GET", "/", [("", "a")], "''"),
        ("GET", "/", [("Content-length", "3")], "'Content-length'"),
        ("GET", "/", [("Transfer-Encoding", "chunked")], "'Transfer-Encoding'"),
    ],
)
def test_illegal_request_is_the_users_error_and_names_the_part(method, path, headers, named):
    with pytest.raises(UsageError, match="(?s)" + named):
        encode_request(method, path, headers, 5)


@pytest.mark.parametrize("limit", [3, 2])
def test_bodies_of_replies_alike_are_kept_only_when_asked_and_within_the_limit(limit):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
    decoder = ReplyDecoder(limit=limit)
    found = []
    for keep, body in ((False, b"one"), (True, b"two"), (False, b"six"), (True, b"ten")):
        decoder.keep = keep
        if keep and limit < len(body):
            with pytest.raises(PeerError):
                decoder.receive(head + body, len(head + body))
            return
        assert decoder.receive(bytearray(head + body), len(head + body))
        found.append(bytes(decoder.body))
        decoder.next()
    assert found == [b"", b"two", b"", b"ten"]


def test_bodies_are_not_kept_unless_requested():
    decoder = ReplyDecoder()
    assert decoder.receive(SIZED, len(SIZED))
    assert decoder.body == b""


@pytest.mark.parametrize(("code", "is_refused"), [(399, True), (400, False)])
def test_only_a_successful_reply_is_refused_for_its_length(code, is_refused):
    decoder, length = ReplyDecoder(keep=True, limit=4), 2 * ERROR_BODY_LIMIT
    raw = reply_with(f"Content-Length: {length}", status=f"{code} Odd") + bytes(length)
    if is_refused:
        with pytest.raises(PeerError):
            decoder.receive(raw, len(raw))
    else:
        assert decoder.receive(raw, len(raw))
        assert len(decoder.body) == ERROR_BODY_LIMIT


def test_an_empty_chunk_line_is_refused_at_once():
    raw = chunked(b"\n")
    with pytest.raises(PeerError):
        ReplyDecoder().receive(raw, len(raw))
