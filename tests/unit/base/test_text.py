"""Foreign JSON is a document or a ValueError, and a decoded document can be encoded again; the nearest word."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.text import DEEPEST, decode_json, nearest

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**64), 2**64), st.floats(allow_nan=False), st.text()),
    lambda part: st.one_of(st.lists(part, max_size=3), st.dictionaries(st.text(), part, max_size=3)),
    max_leaves=10,
)


@given(JSON.filter(lambda document: "Infinity" not in json.dumps(document)))
def test_a_valid_document_is_unchanged(document) -> None:
    assert decode_json(json.dumps(document).encode()) == document


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "Expecting value"),
        (b"\xff\xff", "decode"),
        (b"NaN", "NaN is not a JSON number"),
        (b'{"a": [Infinity]}', "Infinity is not a JSON number"),
        (b"-Infinity", "-Infinity is not a JSON number"),
        (b"1e999", "the number 1e999 is too large"),
        (b"9" * 39, "more than 38 digits"),
        (b"9" * 10_000, "more than 38 digits"),
        (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), "nested more than"),
        (b"[" * 100_000 + b"]" * 100_000, "nested more than"),
        (b'{"a":' * 100_000, "nested more than"),
    ],
    ids=lambda value: value[:20] if isinstance(value, (bytes, str)) else "",
)
def test_values_that_later_code_cannot_handle_are_rejected(text: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        decode_json(text)


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert decode_json(rb'{"\ud800": ["\udfff", "\ud83d\ude00"]}') == {"\ufffd": ["\ufffd", "\U0001f600"]}


def test_documents_may_be_as_deep_as_allowed() -> None:
    assert json.dumps(decode_json(b"[" * DEEPEST + b"]" * DEEPEST)) == "[" * DEEPEST + "]" * DEEPEST


@pytest.mark.parametrize(
    ("word", "known", "found"),
    [
        ("concurency", ("concurrency", "count"), "concurrency"),
        ("zip", ("none", "gzip", "deflate"), "gzip"),
        ("2", ("0", "1"), ""),
        ("10", ("0", "1"), ""),
        ("PEM", ("pem",), ""),
        ("x", (), ""),
    ],
)
def test_the_nearest_word_shares_letters(word, known, found):
    assert nearest(word, known) == found
