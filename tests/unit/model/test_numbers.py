"""Elements to bytes and back."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.model.numbers import DATATYPES, ElementError, count, decode, encode, encode_fractions

INTEGER_BITS = {name: row.size * 8 for name, row in DATATYPES.items() if "INT" in name}


def integers(name: str) -> st.SearchStrategy[int]:
    bits = INTEGER_BITS[name]
    if name.startswith("U"):
        return st.integers(0, 2**bits - 1)
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def upper_half(bits: int) -> float:
    """Return the BF16 value with these bits."""
    (value,) = struct.unpack("<f", struct.pack("<I", bits << 16))
    return value


ELEMENTS = {
    **{name: integers(name) for name in INTEGER_BITS},
    "BOOL": st.booleans(),
    "FP16": st.floats(width=16),
    "BF16": st.integers(0, 0xFFFF).map(upper_half),
    "FP32": st.floats(width=32),
    "FP64": st.floats(),
    "BYTES": st.binary(max_size=20),
}


def test_every_datatype_has_a_round_trip():
    assert ELEMENTS.keys() == DATATYPES.keys()


@pytest.mark.parametrize("datatype", ELEMENTS)
def test_elements_survive_a_round_trip(datatype):
    @settings(deadline=None)
    @given(st.lists(ELEMENTS[datatype], max_size=20))
    def check(values):
        data = encode(datatype, values)
        assert repr(decode(datatype, data)) == repr(values)  # repr: NaN equals itself, -0.0 differs from 0.0
        assert count(datatype, data) == len(values)
        if datatype != "BYTES":
            assert len(data) == len(values) * DATATYPES[datatype].size

    check()


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=10))
def test_text_is_encoded_as_utf8(values):
    assert [element.decode() for element in decode("BYTES", encode("BYTES", values))] == values


@pytest.mark.parametrize(
    ("datatype", "values", "expected"),
    [
        pytest.param("INT32", [1, -1], "01000000ffffffff", id="integers are little-endian"),
        pytest.param("UINT64", [2**64 - 1], "ff" * 8, id="the largest UINT64 fits"),
        pytest.param("FP32", [1], "0000803f", id="an integer is a float"),
        pytest.param("FP16", [1.5], "003e", id="FP16 from a number"),
        pytest.param("BF16", [1.5], "c03f", id="BF16 from a number"),
        pytest.param("BOOL", [True, False], "0100", id="a BOOL is one byte"),
        pytest.param("BYTES", ["é", b"\xff"], "02000000c3a901000000ff", id="strings carry their byte length"),
        pytest.param("INT8", [], "", id="no elements, no bytes"),
    ],
)
def test_bytes_of(datatype, values, expected):
    assert encode(datatype, values).hex() == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(1 + 2**-8, 1.0, id="halfway goes to the even neighbour below"),
        pytest.param(1 + 3 * 2**-8, 1 + 2**-6, id="halfway goes to the even neighbour above"),
        pytest.param(
            1 + 2**-8 + 2**-40, 1 + 2**-7, id="a hair above halfway goes up, as no float32 is between"
        ),
        pytest.param(2.0**-134, 0.0, id="half the smallest subnormal is even at zero"),
        pytest.param(1.5 * 2.0**-133, 2.0**-132, id="subnormals round too"),
        pytest.param(-0.0, -0.0, id="zero keeps its sign"),
        pytest.param(math.inf, math.inf, id="infinity stays"),
    ],
)
def test_bf16_rounds_to_nearest_even(value, expected):
    assert repr(decode("BF16", encode("BF16", [value]))) == repr([expected])


@settings(deadline=None)
@given(st.floats(-3.3e38, 3.3e38))
def test_bf16_is_never_further_than_half_a_step(value):
    (rounded,) = decode("BF16", encode("BF16", [value]))
    assert abs(rounded - value) <= max(abs(value) * 2**-8, 2.0**-134)


@pytest.mark.parametrize(
    ("datatype", "values", "index", "expected"),
    [
        ("UINT8", [0, 256], 1, "an integer from 0 to 255"),
        ("UINT8", [-1], 0, "an integer from 0 to 255"),
        ("INT8", [0, 0, 128], 2, "an integer from -128 to 127"),
        ("INT64", [2**63], 0, "an integer from -9223372036854775808 to 9223372036854775807"),
        ("UINT64", [2**64], 0, "an integer from 0 to 18446744073709551615"),
        ("INT32", [1, 1.0], 1, "an integer from -2147483648 to 2147483647"),
        ("INT32", [True], 0, "an integer from -2147483648 to 2147483647"),
        ("FP32", [1.0, "1"], 1, "a number"),
        ("FP32", [False], 0, "a number"),
        ("FP16", [65504, 65520], 1, "a number from -65504 to 65504"),
        ("BF16", [3.4e38], 0, "a number from -3.38953e+38 to 3.38953e+38"),
        ("FP32", [0, -1e39], 1, "a number from -3.40282e+38 to 3.40282e+38"),
        ("FP64", [0, 10**400], 1, "a number from -1.79769e+308 to 1.79769e+308"),
        ("BOOL", [True, 1], 1, "true or false"),
        ("BYTES", ["a", 1], 1, "a string"),
        ("BYTES", ["a", "\ud800"], 1, "a string without lone surrogates"),
    ],
)
def test_elements_that_do_not_fit_are_named(datatype, values, index, expected):
    with pytest.raises(ElementError) as caught:
        encode(datatype, values)
    assert (caught.value.index, caught.value.expected) == (index, expected)
    assert caught.value.found is values[index]
    assert str(caught.value) == f"element {index} must be {expected}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x01\x00", "byte 0 starts a length of 4 bytes, but the data ends there"),
        (b"\x00\x00\x00\x00\x05\x00\x00\x00abc", "element 1 has a length of 5 bytes, but only 3 follow"),
    ],
)
def test_partial_strings_are_rejected(data, message):
    with pytest.raises(ValueError, match=message):
        decode("BYTES", data)


def test_partial_numbers_are_rejected():
    with pytest.raises(ValueError, match="5 bytes are not a whole number of INT32 elements"):
        count("INT32", b"12345")


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
def test_an_array_has_the_bytes_of_its_numbers(datatype):
    array = np.linspace(-3, 3, 2_100_000, dtype=np.float32).reshape(3, -1)
    assert encode_fractions(datatype, array) == encode(datatype, array.reshape(-1).tolist())
    assert encode_fractions(datatype, array[:, :0]) == b""


def test_the_element_of_an_array_that_does_not_fit_is_named():
    array = np.zeros(2_000_000, dtype=np.float64)
    array[1_500_000] = 1e39
    with pytest.raises(ElementError) as caught:
        encode_fractions("FP32", array)
    assert (caught.value.index, caught.value.found) == (1_500_000, 1e39)
