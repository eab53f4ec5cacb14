"""`--body key=value`, and bodies that are meant as fields."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.services.body_fields import body_field, maybe_fields


@pytest.mark.parametrize(
    ("word", "value"),
    [("temperature=0.5", 0.5), ("stop=[1,2]", [1, 2]), ("user=a,b", "a,b"), ('seed="1,2"', "1,2")],
)
def test_a_value_is_json_or_text(word, value):
    assert body_field(word).value == value


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("temperature=0,5", "temperature=0.5 for a number, temperature=[0,5] for a list"),
        ("stop_token_ids=1,2,3", "write stop_token_ids=[1,2,3] for a list"),
    ],
)
def test_commas_between_digits_are_not_sent_as_text(word, says):
    with pytest.raises(UsageError) as refused:
        body_field(word)
    assert says in refused.value.remedy


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ('{"temperature": 0.5, "stop": ["a"]}', "--body temperature=0.5 --body 'stop=[\"a\"]'"),
        ("temperature:0.5", "--body temperature=0.5"),
        ('{"user": "me"}', "--body user=me"),
        ('{"messages": []}', ""),
        ('{"prompt": "x", "temperature": 1}', ""),
        ("@body.json", ""),
        ("{}", ""),
        ("text", ""),
    ],
)
def test_a_body_without_a_prompt_is_meant_as_fields(body, fields):
    assert UsageError("", remedy=maybe_fields(body)).remedy == fields
