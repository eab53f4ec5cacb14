"""The HTTP/1.1 codec against h11 as an oracle, and against nonsense."""

from dataclasses import dataclass

import h11
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.base.errors import PeerError
from inferometer.wire.http1 import ReplyDecoder, encode_request
from tests.support.samples import examples

EXAMPLES = examples(60)
fuzz = settings(max_examples=EXAMPLES, deadline=None)

# Bytes are drawn in one go, texts letter by letter.
TOKEN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
TEXT = bytes([*b"abc", *range(0x21, 0x7F), *range(0x80, 0x100), *b" " * 30])
TO_TOKEN = bytes(TOKEN[n % len(TOKEN)] for n in range(256))
TO_TEXT = bytes(TEXT[n % len(TEXT)] for n in range(256))
TO_PATH = bytes(0x21 + n % (0x7F - 0x21) for n in range(256))
OURS = ("content-length", "transfer-encoding", "connection")


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    reason: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


# Valid replies


tokens = st.binary(min_size=1, max_size=12).map(lambda raw: raw.translate(TO_TOKEN))
values = st.binary(max_size=36).map(lambda raw: raw.translate(TO_TEXT).strip(b" "))
fields = st.tuples(tokens.filter(lambda name: name.decode().lower() not in OURS), values)
bodies = st.one_of(
    st.binary(max_size=60), st.sampled_from([b"\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 3000])
)
paddings = st.sampled_from([b"", b" ", b"\t", b" \t "])


@st.composite
def chunked_bodies(draw: st.DrawFn, body: bytes) -> bytes:
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(body) - 1)), max_size=5)))
    parts = [body[i:j] for i, j in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    raw = b""
    for part in filter(None, parts):
        size = draw(st.sampled_from([b"%x", b"%X", b"0%x"])) % len(part)
        raw += size + draw(st.sampled_from([b"", b";a", b';a=b;c="d"'])) + b"\r\n" + part + b"\r\n"
    trailers = draw(st.lists(fields, max_size=2))
    return raw + b"0\r\n" + b"".join(b"%s: %s\r\n" % field for field in trailers) + b"\r\n"


@st.composite
def replies(draw: st.DrawFn) -> bytes:
    """One reply that leaves the connection open, perhaps behind an interim one."""
    status = draw(st.one_of(st.sampled_from([200, 204, 304, 400, 500]), st.integers(200, 599)))
    headers = draw(st.lists(fields, max_size=5))
    body = draw(bodies)
    if draw(st.booleans()):
        headers.insert(0, (b"Transfer-Encoding", b"chunked"))
        raw = draw(chunked_bodies(body))
    else:
        headers.append((b"content-length", b"%d" % len(body)))
        raw = body
    if status in (204, 304):
        raw = b""
    reason = draw(values)
    head = b"HTTP/1.1 %d %s\r\n" % (status, reason)
    head += b"".join(b"%s:%s%s%s\r\n" % (n, draw(paddings), v, draw(paddings)) for n, v in headers)
    interim = draw(st.sampled_from([b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    return interim + head + b"\r\n" + raw


def split(raw: bytes, cuts: bytes) -> list[bytes]:
    """Cut where each two bytes of `cuts` say."""
    places = sorted(int.from_bytes(cuts[n : n + 2], "big") % (len(raw) + 1) for n in range(0, len(cuts), 2))
    return [raw[i:j] for i, j in zip([0, *places], [*places, len(raw)], strict=True)]


cuts = st.binary(min_size=4, max_size=16)


def test_oracle_reads_a_plain_reply() -> None:
    assert oracle([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"], 1) == [
        Reply(200, b"OK", ((b"content-length", b"1"),), b"x")
    ]


# Both decoders


def oracle(pieces: list[bytes], count: int) -> list[Reply]:
    """The replies as h11 reads them."""
    connection = h11.Connection(h11.CLIENT)
    incoming = iter([*filter(None, pieces), b""])  # no bytes are the end to h11
    found = []
    for n in range(count):
        if n:
            connection.start_next_cycle()
        connection.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
        connection.send(h11.EndOfMessage())
        found.append(oracle_reply(connection, incoming))
    return found


def oracle_reply(connection, incoming) -> Reply:
    head, body = None, b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(next(incoming))
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif not isinstance(event, h11.InformationalResponse):
            assert isinstance(event, h11.EndOfMessage)
            assert head is not None
            return Reply(head.status_code, bytes(head.reason), tuple(head.headers), body)


def ours(pieces: list[bytes], *, keep: bool = True) -> tuple[list[Reply], list[int], bool]:
    """The replies, their sizes, and whether the stream ended with an error."""
    decoder = ReplyDecoder(keep=keep)
    found: list[Reply] = []
    sizes: list[int] = []

    def take(done: bool) -> None:
        while done:
            found.append(our_reply(decoder))
            sizes.append(decoder.received)
            decoder.next()
            done = decoder.receive(b"", 0)

    try:
        for piece in pieces:
            take(decoder.receive(bytearray(piece + b"stale"), len(piece)))
        take(decoder.eof())
    except PeerError:
        return found, sizes, True
    assert decoder.idle
    return found, sizes, False


def our_reply(decoder: ReplyDecoder) -> Reply:
    head = decoder.head
    assert head is not None
    headers = tuple((name.encode(), value.encode("latin-1")) for name, value in head.headers)
    return Reply(head.status, head.reason.encode("latin-1"), headers, bytes(decoder.body))


@fuzz
@given(st.lists(replies(), min_size=1, max_size=4), cuts)
def test_replies_are_those_of_h11(raws: list[bytes], cuts: bytes) -> None:
    pieces = split(b"".join(raws), cuts)
    found, sizes, failed = ours(pieces)
    assert not failed
    assert found == oracle(pieces, len(raws))
    assert sizes == [len(raw) for raw in raws]


@fuzz
@given(replies(), st.lists(fields, max_size=3), bodies, cuts)
def test_reply_until_close_is_that_of_h11(first: bytes, headers, body: bytes, cuts: bytes) -> None:
    last = b"HTTP/1.1 200 OK\r\n" + b"".join(b"%s: %s\r\n" % field for field in headers) + b"\r\n" + body
    pieces = split(first + last, cuts)
    found, sizes, failed = ours(pieces)
    assert not failed
    assert found == oracle(pieces, 2)
    assert sizes == [len(first), len(last)]


# Nonsense


FRAGMENTS = (
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 404 Not Found\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: 0\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b" folded\r\n",
    b"X: y\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"3\r\nabc\r\n",
    b"3;x\nabc\n",
    b"0\r\n\r\n",
    b"0\r\n",
    b"ffffffffffffffff\r\n",
    b"abc",
)
fragments = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    raw = bytearray(b"".join(draw(st.lists(replies(), min_size=1, max_size=2))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(raw)))
        end = at + draw(st.integers(0, 4))
        raw[at:end] = draw(
            st.one_of(st.binary(max_size=3), st.sampled_from([b"\r\n", b"\n", b"\r", b"0", b" "]))
        )
    return bytes(raw)


@fuzz
@given(st.one_of(fragments, mutated(), st.binary(max_size=80)), cuts, st.booleans())
def test_random_bytes_give_replies_or_a_peer_error_in_any_split(raw: bytes, cuts: bytes, keep: bool) -> None:
    whole = ours([raw], keep=keep)
    assert ours(split(raw, cuts), keep=keep) == whole
    assert ours([raw[i : i + 1] for i in range(len(raw))], keep=keep) == whole


# Requests


@fuzz
@given(
    tokens.map(bytes.decode),
    st.binary(max_size=20).map(lambda raw: "/" + raw.translate(TO_PATH).decode()),
    st.lists(
        st.tuples(tokens.filter(lambda n: n.decode().lower() not in (*OURS, "host")), values), max_size=5
    ),
    st.none() | st.binary(max_size=40),
)
def test_request_is_read_by_h11(method: str, path: str, headers, body: bytes | None) -> None:
    sent = [("Host", "a:1"), *((n.decode(), v.decode("utf-8", "surrogateescape")) for n, v in headers)]
    head = encode_request(method, path, sent, None if body is None else len(body))
    server = h11.Connection(h11.SERVER)
    server.receive_data(head + (body or b""))
    request = server.next_event()
    assert isinstance(request, h11.Request)
    assert (request.method, request.target) == (method.encode(), path.encode())
    length = () if body is None else ((b"content-length", b"%d" % len(body)),)
    assert tuple(request.headers) == ((b"host", b"a:1"), *((n.lower(), v) for n, v in headers), *length)
    pieces = []
    while isinstance(event := server.next_event(), h11.Data):
        pieces.append(event.data)
    assert isinstance(event, h11.EndOfMessage)
    assert b"".join(pieces) == (body or b"")
