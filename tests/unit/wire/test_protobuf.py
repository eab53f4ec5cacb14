"""Fields of the protobuf wire format, compared with the official library."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from inferometer.base import varint as ours
from inferometer.base.errors import PeerError
from inferometer.wire.protobuf import fields, string_field
from tests.support.samples import examples

CASES = examples(50)

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


numbers = st.integers(1, 2**29 - 1)
values = st.one_of(
    st.tuples(numbers, st.just(VARINT), st.integers(0, 2**64 - 1)),
    st.tuples(numbers, st.just(FIXED64), st.binary(min_size=8, max_size=8)),
    st.tuples(numbers, st.just(FIXED32), st.binary(min_size=4, max_size=4)),
    st.tuples(numbers, st.just(LENGTH), st.binary(max_size=300)),
)


def write(number: int, kind: int, value: int | bytes) -> bytes:
    key = varint(number << 3 | kind)
    if isinstance(value, int):
        return key + varint(value)
    return key + (varint(len(value)) if kind == LENGTH else b"") + value


def read(data: bytes) -> list[tuple[int, int | bytes]]:
    found = fields(memoryview(data))
    return [(number, value if isinstance(value, int) else bytes(value)) for number, value in found]


@given(st.lists(values, max_size=10))
def test_what_is_written_is_read_back(rows: list[tuple[int, int, int | bytes]]) -> None:
    data = b"".join(write(*row) for row in rows)
    assert read(data) == [(number, value) for number, _, value in rows]


@given(st.lists(values, min_size=1, max_size=3), st.data())
def test_a_truncated_message_gives_its_complete_fields_or_an_error(
    rows: list[tuple[int, int, int | bytes]], data: st.DataObject
) -> None:
    parts = [write(*row) for row in rows]
    whole = b"".join(parts)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, parts[: count + 1])) for count in range(len(parts))]
    if cut in (0, *ends):
        assert len(read(whole[:cut])) == sum(end <= cut for end in ends)
    else:
        with pytest.raises(PeerError, match="in the middle of a field"):
            read(whole[:cut])


@settings(max_examples=CASES)
@given(st.binary(max_size=100))
def test_any_bytes_are_fields_or_an_error(data: bytes) -> None:
    with contextlib.suppress(PeerError):
        assert sum(len(value) for _, value in read(data) if isinstance(value, bytes)) <= len(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x08", "middle of a field"),
        (b"\x80", "middle of a field"),
        (b"\x0a\x05abc", "middle of a field"),
        (b"\x09\0\0\0", "middle of a field"),
        (b"\x0d\0\0", "middle of a field"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "middle of a field"),
        (b"\x0b", "unknown wire type 3"),
        (b"\x0f", "unknown wire type 7"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "longer than ten bytes"),
        (b"\xff" * 11, "longer than ten bytes"),
    ],
)
def test_an_invalid_message_is_named(data: bytes, says: str) -> None:
    with pytest.raises(PeerError, match=says):
        read(data)


def test_bytes_are_views_not_copies() -> None:
    message = bytearray(b"\x0a\x03abc")
    ((_, view),) = fields(memoryview(message))
    assert isinstance(view, memoryview)
    assert view.obj is message


@given(st.text("ab é☃\n\0", max_size=42))
def test_an_appended_string_is_one_of_the_message(text: str) -> None:
    request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[b"0123"])
    data = request.SerializeToString() + string_field(3, text)
    request.id = text
    assert service_pb2.ModelInferRequest.FromString(data) == request


@given(st.integers(0, 2**64 - 1))
def test_integers_are_written_as_they_are_read(value: int) -> None:
    assert ours.varint(value) == varint(value)
