"""JSON text read in blocks."""

import io
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.dataset.json_reader import JsonConstant, JsonError, JsonReader
from tests.support.samples import examples

BLOCKS = st.sampled_from([4, 5, 17, 100, 1 << 20])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=6),
    max_leaves=20,
)
INDENTS = st.sampled_from([None, 0, 3])


def reader(text: str | bytes, block: int = 1 << 20) -> JsonReader:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return JsonReader(io.BytesIO(data), block=block)


def walk(source: JsonReader):
    """Read the value with the methods that hold little of it in memory."""
    begin = source.peek()
    if begin == "{":
        return {name: walk(source) for name in source.names()}
    if begin == "[":
        return [walk(source) for _ in source.items()]
    if begin == '"':
        whole = "".join(source.pieces())
        return whole.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return source.value()


def read(text: str | bytes, block: int = 1 << 20):
    source = reader(text, block)
    found = walk(source)
    source.end()
    return found


@settings(deadline=None)
@given(DOCUMENTS, INDENTS, st.booleans(), BLOCKS)
def test_json_output_is_read_in_any_blocks(document, indent, ascii_only, block):
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    assert repr(read(text, block)) == repr(document)
    assert repr(reader(text, block).value()) == repr(document)


@settings(deadline=None)
@given(st.lists(SCALARS, max_size=60), INDENTS, BLOCKS)
def test_runs_are_the_list(values, indent, block):
    source = reader(json.dumps({"x": values, "y": 1}, indent=indent), block)
    found = [value for name in source.names() for run in _runs(source, name) for value in run]
    source.end()
    assert repr(found) == repr([*values, 1])


def _runs(source, name):
    return source.runs() if name == "x" else [[source.value()]]


@settings(deadline=None, max_examples=examples(30))
@given(DOCUMENTS, st.data(), BLOCKS)
def test_text_that_json_refuses_is_refused(document, data, block):
    text = json.dumps(document)
    cut = data.draw(st.integers(0, len(text)))
    junk = data.draw(st.sampled_from(["", ",", "]", "}", "[", "{", '"', ":", "1", ".", "\\", "\n", "nul"]))
    broken = text[:cut] + junk + text[cut + data.draw(st.integers(0, 2)) :]
    try:
        expected = json.loads(broken)
    except ValueError:
        with pytest.raises(JsonError, match=r"^line \d+, column \d+: "):
            read(broken, block)
    else:
        try:
            assert repr(read(broken, block)) == repr(expected)
        except JsonError as error:
            assert "appears twice" in str(error)  # noqa: PT017  json keeps the last of two keys


@settings(deadline=None)
@given(
    st.lists(st.integers() | st.floats(allow_nan=False) | st.text(max_size=9), min_size=1), st.data(), BLOCKS
)
def test_broken_runs_are_refused(values, data, block):
    text = json.dumps(values)
    cut = data.draw(st.integers(1, len(text) - 1))
    broken = text[:cut] + data.draw(st.sampled_from([",", "x", "\\", '"', " 1", ""])) + text[cut + 1 :]
    try:
        expected = json.loads(broken)
    except ValueError:
        with pytest.raises(JsonError):
            _flat(broken, block)
    else:
        assert repr(_flat(broken, block)) == repr(expected)


def _flat(text, block):
    source = reader(text, block)
    found = [value for run in source.runs() for value in run]
    source.end()
    return found


@pytest.mark.parametrize("block", [4, 64, 1 << 20])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "line 1, column 1: Expecting value", id="nothing"),
        pytest.param('{"a"\n 1}', "line 2, column 2: Expecting ':' delimiter", id="no colon"),
        pytest.param("{1: 2}", "line 1, column 2: Expecting property name", id="a key that is no string"),
        pytest.param('{"a": 1, "a": 2}', "line 1, column 10: the key 'a' appears twice", id="a key twice"),
        pytest.param('{"b": 1,\n"a": 1 2}', "line 2, column 8: Expecting ',' delimiter", id="no comma"),
        pytest.param("[1,\n2,\n]", "line 3, column 1: Expecting value", id="a comma before the end"),
        pytest.param('"abc', "line 1, column 1: Unterminated string", id="a string without end"),
        pytest.param('"ab\\u12g4"', "line 1, column ", id="a bad escape"),
        pytest.param('"a\nb"', "line 1, column 3: Invalid control character", id="a line break in a string"),
        pytest.param("[1] x", "line 1, column 5: Extra data", id="more than one value"),
        pytest.param("[tru]", "line 1, column 2: Expecting value", id="no word"),
    ],
)
def test_error_positions(text, message, block):
    with pytest.raises(JsonError) as caught:
        read(text, block)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("block", [4, 1 << 20])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[1, 2,\n3 4]", "line 2, column 3: Expecting ',' delimiter", id="no comma"),
        pytest.param("[1,,2]", "line 1, column 4: Expecting value", id="two commas"),
        pytest.param("[1,\n2,\n]", "line 3, column 1: Expecting value", id="a comma before the end"),
        pytest.param("[1, 2", "line 1, column 6: Expecting ',' delimiter", id="no end"),
        pytest.param('["a", "b]', "line 1, column 7: Unterminated string", id="no end of a string"),
        pytest.param(f"[1, {'9' * 5000}]", "line 1, column ", id="a number of more digits than Python reads"),
    ],
)
def test_error_positions_in_a_run(text, message, block):
    with pytest.raises(JsonError) as caught:
        _flat(text, block)
    assert str(caught.value).startswith(message)


def test_a_list_inside_a_run_is_not_read():
    runs = reader('["a", [1, 2, 3]]').runs()
    assert [next(runs), next(runs)] == [["a"], [[]]]


@pytest.mark.parametrize("block", [4, 1 << 20])
def test_constants_are_distinguished_from_numbers_too_large(block):
    nan, infinite, large = _flat("[NaN, -Infinity, 1e999]", block)
    assert (type(nan), type(infinite), type(large)) == (JsonConstant, JsonConstant, float)
    assert math.isnan(nan)
    assert infinite == -large


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32-le"])
@pytest.mark.parametrize("block", [4, 7, 1 << 20])
def test_encodings_that_json_allows(encoding, block):
    assert read('{"é": "𝄞"}'.encode(encoding), block) == {"é": "𝄞"}


@pytest.mark.parametrize("block", [4, 5, 6, 7, 1 << 20])
@pytest.mark.parametrize(
    ("data", "byte"), [(b'["abcdef\xff"]', 8), (b'["\xc3\xa9\xc3"]', 4), (b'["abc\xe2\x82', 5)]
)
def test_invalid_utf_8_is_named_by_its_byte(data, byte, block):
    with pytest.raises(JsonError, match=f"^byte {byte}: not UTF-8 text"):
        read(data, block)
