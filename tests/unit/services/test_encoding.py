"""Compressed replies are read like uncompressed ones; those that cannot be decoded are named."""

import gzip
import json
import zlib
from collections.abc import Callable

import pytest

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError
from inferometer.services import encoding, text_reply
from inferometer.services.encoding import decoded, start_reading
from inferometer.services.text_reply import TextReader
from inferometer.services.traffic import Reply
from inferometer.wire.http1 import CHUNKED, Head

WORDS = ("one", "two", "three")
EVENTS = [b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % word.encode() for word in WORDS]
STREAM = b"".join(EVENTS) + b"data: [DONE]\n\n"


def bare_deflate(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


def two_members(data: bytes) -> bytes:
    return gzip.compress(data[:50]) + gzip.compress(data[50:])


def head(name: str, content_type: str = "text/event-stream") -> Head:
    return Head(200, "OK", (("content-type", content_type), ("content-encoding", name)), CHUNKED, True)


def read(name: str, body: bytes, size: int, content_type: str = "text/event-stream") -> Reply:
    reading = start_reading(TextReader(), head(name, content_type))
    for at in range(0, len(body), size):
        assert not reading.takes(body, at, at + size, at)
        reading.receive(body[at : at + size], at)
    return reading.end()


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("x-gzip", gzip.compress),
        ("gzip", two_members),
        ("deflate", zlib.compress),
        ("deflate", bare_deflate),
        ("identity", bytes),
        ("", bytes),
    ],
)
def test_the_answer_is_the_same_however_it_was_compressed(
    name: str, compress: Callable[[bytes], bytes], size: int
) -> None:
    assert read(name, compress(STREAM), size).responses == len(WORDS)
    usage = json.dumps({"usage": {"completion_tokens": 9}}).encode()
    assert read(name, compress(usage), size, "application/json") == Reply(tokens=9)


def test_an_event_arrives_with_its_bytes() -> None:
    packed = zlib.compressobj(wbits=31)
    reading = start_reading(TextReader(), head("gzip"))
    for number, event in enumerate(EVENTS):
        reading.receive(packed.compress(event) + packed.flush(zlib.Z_SYNC_FLUSH), 10 * number)
    reading.receive(packed.compress(b"data: [DONE]\n\n") + packed.flush(), 99)
    assert reading.times == [0, 10, 20]
    assert reading.end().times == (0, 10, 20)


@pytest.mark.parametrize("name", ["br", "zstd", "gzip, br", "compress"])
def test_other_encodings_are_refused_by_name(name: str) -> None:
    with pytest.raises(PeerError, match=f"Content-Encoding '{name}'.*Accept-Encoding: identity"):
        start_reading(TextReader(), head(name))


def test_a_body_that_does_not_match_its_encoding_is_refused() -> None:
    with pytest.raises(PeerError, match="does not match its Content-Encoding 'gzip'"):
        read("gzip", STREAM, 50)


def test_a_truncated_body_is_a_failure() -> None:
    reply = read("gzip", gzip.compress(STREAM)[:-9], 50)
    assert (reply.status, reply.text) == (outcome.MALFORMED, "the reply ends in the middle of its gzip data")


def test_a_small_reply_that_expands_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_reply, "BODY_LIMIT", 1 << 16)
    monkeypatch.setattr(encoding, "_STEP", 1 << 12)
    with pytest.raises(PeerError, match="exceeds 65536 bytes"):
        read("gzip", gzip.compress(bytes(1 << 24)), 1 << 20, "application/json")


def test_error_bodies_are_decoded_for_their_text() -> None:
    assert decoded(head("gzip"), gzip.compress(b"slow down")) == b"slow down"
    assert decoded(head("gzip"), b"slow down") == b"slow down"
    assert decoded(head(""), b"slow down") == b"slow down"
