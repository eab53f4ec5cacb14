"""Header blocks: encoded ones read by hpack, and hpack's blocks decoded."""

import pytest
from hpack import Decoder, Encoder, NeverIndexedHeaderTuple
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.wire.frames import Fault
from inferometer.wire.headers import SHRINK, BlockReader, Headers, encode_block
from tests.support.samples import examples

EXAMPLES = examples(60)
fuzz = settings(max_examples=EXAMPLES, deadline=None)

# Bytes are drawn at once, texts letter by letter.
IN_NAMES = b"abcdefghijklmnopqrstuvwxyz0123456789-_."
TO_NAMES = bytes(IN_NAMES[n % len(IN_NAMES)] for n in range(256))
TO_VALUES = bytes(n if n >= 0x20 else 0x20 + n for n in range(256))
names = st.binary(min_size=1, max_size=20).map(lambda raw: raw.translate(TO_NAMES).decode())
names = names.filter(
    lambda name: (
        name not in ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
        and name != "content-length"
    )
)
values = st.binary(max_size=200).map(lambda raw: raw.translate(TO_VALUES).decode("latin-1"))
fields = st.lists(st.tuples(names, values), max_size=6)


@fuzz
@given(
    fields, st.sampled_from([(":method", "POST"), (":scheme", "https"), (":path", "/a"), (":authority", "b")])
)
def test_client_blocks_are_read_by_hpack_and_leave_no_state(given_fields, pseudo) -> None:
    decoder = Decoder()
    decoder.max_allowed_table_size = 0
    headers = [pseudo, *given_fields]
    expected = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    for _ in range(2):
        assert [tuple(row) for row in decoder.decode(SHRINK + encode_block(headers), raw=True)] == expected
        assert list(decoder.header_table.dynamic_entries) == []


@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 254, 255, 16510, 16511, 60_000])
def test_lengths_around_the_steps_of_integers(length: int) -> None:
    (found,) = Decoder().decode(encode_block([("x", "y" * length)]))
    assert tuple(map(str, found)) == ("x", "y" * length)


def test_secrets_are_never_indexed() -> None:
    first, second = Decoder().decode(encode_block([("authorization", "Bearer x"), ("user-agent", "y")]))
    assert isinstance(first, NeverIndexedHeaderTuple)
    assert not isinstance(second, NeverIndexedHeaderTuple)


@fuzz
@given(st.lists(st.tuples(fields, st.booleans()), min_size=1, max_size=6), st.integers(0, 5))
def test_blocks_of_hpack_are_read_before_and_after_the_acknowledgement(blocks, moment: int) -> None:
    encoder, reader = Encoder(), BlockReader()
    for n, (given_fields, huffman) in enumerate(blocks):
        if n == moment:
            encoder.header_table_size = 0
            reader.acknowledged()
        raw = [
            (b":status", b"200"),
            *((name.encode(), value.encode("latin-1")) for name, value in given_fields),
        ]
        headers = reader.decode(encoder.encode(raw, huffman=huffman))
        assert not headers.fault
        assert headers.status == 200
        assert headers.fields == tuple(given_fields)
        assert reader.frozen == (n >= moment)


def decode_frozen(block: bytes) -> Headers:
    reader = BlockReader()
    reader.acknowledged()
    reader.decode(SHRINK)
    assert reader.frozen
    return reader.decode(block)


@fuzz
@given(st.binary(max_size=60), st.binary(max_size=60), st.booleans())
def test_random_bytes_are_headers_or_a_fault(first: bytes, second: bytes, acknowledged: bool) -> None:
    reader = BlockReader()
    if acknowledged:
        reader.acknowledged()
    try:
        reader.decode(first)
        reader.decode(second)
    except Fault:
        pass
    try:
        once = decode_frozen(second)
    except Fault:
        return
    again = decode_frozen(second)
    assert (once.fields, once.status, once.fault) == (again.fields, again.status, again.fault)


@pytest.mark.parametrize(
    "block", [b"\x3f" + b"\x80" * 5 + bytes(4), b"\x3f" + b"\xff" * 9, b"\x3f\x80", b"\xff"]
)
def test_a_fault_states_the_problem_without_memory_addresses(block: bytes) -> None:
    with pytest.raises(Fault) as caught:
        BlockReader().decode(block)
    assert caught.value.message.startswith("cannot decode a header block: ")
    assert "<" not in caught.value.message


def test_known_block_is_the_same_object_and_a_long_one_is_not_kept() -> None:
    short, long = b"\x88", encode_block([(":status", "200"), ("x", "y" * 3000)])
    assert decode_frozen(short) is decode_frozen(bytes(bytearray(short)))
    assert decode_frozen(long) is not decode_frozen(long)
    assert decode_frozen(long).get("x") == "y" * 3000
    assert decode_frozen(long).get("z") is None
