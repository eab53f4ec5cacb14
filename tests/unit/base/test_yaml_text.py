"""YAML from others: a value or an error, in bounded time and memory."""

import pytest

from inferometer.base.yaml_text import YamlError, load_yaml

MERGES = "[&a {x: 1}, " + ", ".join(
    f"&{chr(98 + n)} {{k{n}: 1, <<: [{', '.join([f'*{chr(97 + n)}'] * 9)}]}}" for n in range(12)
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ("a: [1, 2.5, x, null]", {"a": [1, 2.5, "x", None]}),
        ("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}", {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}),
        ("a: 1:30\nb: [1:4, -1:30.5]\nc: 010", {"a": "1:30", "b": ["1:4", "-1:30.5"], "c": 8}),
    ],
)
def test_documents(text, found):
    assert load_yaml(text) == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "line 1: "),
        ("x: 1\n\ta: 2", "line 2: "),
        ("&a [*a]", "more than 100,000 values"),
        (MERGES + "]", "more than 100,000 values"),
        ("a: " + "1" * 601, "line 1: a number has 601 characters, more than the limit of 400"),
        ("a: 0x" + "f" * 500, "a number has 502 characters, more than the limit of 400"),
        ("[" * 65, "nested more than 64 deep"),
        ("\n" + "{a: " * 65, "line 2: it is nested more than 64 deep"),
        ("\n".join(" " * n + "a:" for n in range(2000)), "nested too deep"),
        ("!!bool maybe", "does not fit its type"),
        ("!!int ''", "does not fit its type"),
        ("!!timestamp x", "does not fit its type"),
        ("2001-99-99", "does not fit its type"),
        ("!!python/object:os.system {}", "could not determine a constructor"),
        ("a\0b", "special characters are not allowed"),
        ("a: 1\n---\nb: 2", "but found another document"),
    ],
)
def test_rejected_documents(text, sentence):
    with pytest.raises(YamlError) as caught:
        load_yaml(text)
    assert sentence in str(caught.value)
