"""Server-sent events: the standard's examples, any split of the stream, and random streams."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.base.errors import PeerError
from inferometer.wire import sse
from inferometer.wire.sse import Event, SseDecoder
from tests.support.samples import examples

FUZZ = settings(max_examples=examples(60), deadline=None)


def decode(*pieces: bytes) -> list[Event]:
    decoder = SseDecoder()
    return [event for piece in pieces for event in decoder.receive(piece)]


STREAMS = [
    ("one line", b"data: one\n\n", [Event(b"one")]),
    ("no blank behind the colon", b"data:one\n\n", [Event(b"one")]),
    ("only the first blank goes", b"data:  one\n\n", [Event(b" one")]),
    ("several lines are joined", b"data: YHOO\ndata: +2\ndata: 10\n\n", [Event(b"YHOO\n+2\n10")]),
    ("an empty data line", b"data\n\ndata\ndata\n\ndata:\n", [Event(b""), Event(b"\n")]),
    ("comments are nothing", b": ping\n\n:\n\ndata: one\n: inside\n\n", [Event(b"one")]),
    ("a type", b"event: error\ndata: {}\n\ndata: one\n\n", [Event(b"{}", b"error"), Event(b"one")]),
    ("a type without data is no event", b"event: ping\n\ndata: one\n\n", [Event(b"one")]),
    ("other fields are left alone", b"id: 1\nretry: 5\nfoo: x\nfoo\ndata: one\n\n", [Event(b"one")]),
    (
        "carriage returns and line feeds",
        b"data: one\r\n\r\ndata: two\r\n\r\n",
        [Event(b"one"), Event(b"two")],
    ),
    ("carriage returns alone", b"data: one\r\rdata: two\r\r", [Event(b"one"), Event(b"two")]),
    ("a byte order mark at the beginning", b"\xef\xbb\xbfdata: one\n\n", [Event(b"one")]),
    ("a byte order mark elsewhere", b"data: a\n\n\xef\xbb\xbfdata: one\n\n", [Event(b"a")]),
    ("half an event at the end is dropped", b"data: one\n\ndata: two\n", [Event(b"one")]),
    ("a colon in the data", b'data: {"a":1}\n\n', [Event(b'{"a":1}')]),
    ("nothing", b"", []),
]


@pytest.mark.parametrize(("stream", "events"), [row[1:] for row in STREAMS], ids=[row[0] for row in STREAMS])
def test_streams_split_anywhere_give_the_same_events(stream: bytes, events: list[Event]):
    assert decode(stream) == events
    for cut in range(len(stream)):
        assert decode(stream[:cut], stream[cut:]) == events
    assert decode(*(stream[at : at + 1] for at in range(len(stream)))) == events


@pytest.mark.parametrize(
    ("stream", "rest"),
    [
        (b"data: one\n\n", None),
        (b"data: one\n\ndata: two", Event(b"two")),
        (b"data: one\n\nevent: error\ndata: two\r", Event(b"two", b"error")),
        (b"data: one\n\n: half a comm", None),
        (b"data: one\n\ndat", None),
        (b"data: one\ndata: two", Event(b"one\ntwo")),
        (b"", None),
    ],
)
def test_the_rest_at_the_end_is_available(stream: bytes, rest: Event | None):
    for size in (1, 2, 1000):
        decoder = SseDecoder()
        for at in range(0, len(stream), size):
            decoder.receive(stream[at : at + size])
        assert decoder.rest() == rest


def test_a_long_line_is_joined_once(monkeypatch: pytest.MonkeyPatch):
    """Joining it with every piece would take quadratic time."""
    joins = []
    plain = SseDecoder._joined

    def joined(decoder: SseDecoder, data: bytes) -> bytes:
        whole = plain(decoder, data)
        joins.append(len(whole))
        return whole

    monkeypatch.setattr(SseDecoder, "_joined", joined)
    pieces = [b"data: ", *[b"x" * 1000] * 1000, b"\n\n"]
    assert decode(*pieces) == [Event(b"x" * 1_000_000)]
    assert sum(joins) < 1_100_000


def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sse, "EVENT_LIMIT", 100)
    for piece in (b"data: ", b"data: 0123456789\n"):
        with pytest.raises(PeerError, match="longer than 100 bytes"):
            decode(*[piece] * 1000)


TEXT = st.binary(max_size=20).filter(lambda data: not set(data) & set(b"\r\n"))
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@FUZZ
@given(st.lists(st.lists(TEXT, min_size=1, max_size=3), max_size=6), LINE_ENDS, st.lists(st.integers(0, 300)))
def test_what_is_written_is_read_back(events: list[list[bytes]], end: bytes, cuts: list[int]):
    stream = b"".join(b"".join(b"data: " + line + end for line in event) + end for event in events)
    edges = [0, *sorted(cuts), len(stream)]
    pieces = [stream[start:stop] for start, stop in pairwise(edges)]
    assert decode(*pieces) == [Event(b"\n".join(event)) for event in events]


@FUZZ
@given(st.lists(st.binary(max_size=50), max_size=8))
def test_random_bytes_give_only_events(pieces: list[bytes]):
    whole = decode(b"".join(pieces))
    assert decode(*pieces) == whole
    assert all(isinstance(event, Event) for event in whole)


def test_comments_and_empty_lines_belong_to_the_event_before_them() -> None:
    data = b"data: x\n\n: c\n\n\n: d\ndata: y\n\n: half a comm"
    first = SseDecoder.event_end(data, 0)
    assert data[first:].startswith(b"data: y")
    assert data[SseDecoder.event_end(data, first) :] == b": half a comm"
    assert SseDecoder.event_end(data, data.index(b"half")) == len(data)
