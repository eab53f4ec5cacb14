"""Values of placeholders: ranges and lists."""

import re

import pytest

from inferometer.base.errors import UsageError
from inferometer.options.varying import Vary, parse_vary


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("slots=1:16:x2", (1, 2, 4, 8, 16)),
        ("slots=3:40:x3", (3, 9, 27)),
        ("slots=1:4", (1, 2, 3, 4)),
        ("slots=2:9:3", (2, 5, 8)),
        ("share=0.5:0.9:0.1", (0.5, 0.6, 0.7, 0.8, 0.9)),
        ("share=1:4:x1.5", (1.0, 1.5, 2.25, 3.375)),
        ("batch=64,256,1024", (64, 256, 1024)),
        ("batch=0.5, 2", (0.5, 2)),
        ("one=7", (7,)),
        ("low=-2:2:2", (-2, 0, 2)),
        ("dtype=float16,bfloat16", ("float16", "bfloat16")),
        ("eager=,--enforce-eager", ("", "--enforce-eager")),
        ("name=007,8", ("007", 8)),
        ("url=http://a:1/x", ("http://a:1/x",)),
        ("rate=1e-3,0.01", (0.001, 0.01)),
    ],
)
def test_values(word, values):
    found = parse_vary("--vary", word)
    assert found == Vary(word.partition("=")[0], values)
    assert [type(value) for value in found.values] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("1:16", "--vary '1:16' does not name a placeholder"),
        ("a b=1", "--vary 'a b=1' does not name a placeholder"),
        ("slots=16:1", "--vary slots=16:1 ends below its start"),
        ("slots=1:16:x1", "--vary slots=1:16:x1 does not grow"),
        ("slots=0:16:x2", "--vary slots=0:16:x2 does not grow"),
        ("slots=1:16:0", "--vary slots=1:16:0 has the step 0"),
        ("slots=1:16:2:3", "--vary slots=1:16:2:3 is not a range"),
        ("share=0.1:0.9", "--vary share=0.1:0.9 has no step"),
        ("slots=1:1000000", "has 1,000,000 values, but the limit is 1,000"),
        ("slots=1,2,1", "--vary slots=1,2,1 has a value twice"),
    ],
)
def test_rejected_values(word, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        parse_vary("--vary", word)
