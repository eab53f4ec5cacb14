"""Generated prompts: their number, their prefixes, and the unique prefix of each send."""

import json
from collections import Counter
from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.dataset.dataset import Dataset
from inferometer.dataset.prompts import (
    DRAWN,
    MOST_TOKENS,
    POOL,
    PromptText,
    make_prompts,
    text_of,
    with_unique_starts,
)
from inferometer.model.spec import Tensor
from inferometer.model.unique import MARK, maybe_unique
from inferometer.options.options import DataOptions


def made(output: int | str | None = None, **options) -> list[PromptText]:
    dataset = make_prompts(DataOptions(**options), output)
    return [text_of(step, dataset.unique) for step in dataset.streams[0]]


def test_the_number_of_prompts_follows_from_their_lengths():
    assert len(made(prompt_tokens=5)) == POOL
    assert len(made(prompt_tokens="normal(5, 2)")) == DRAWN
    assert len(made(prompt_tokens=5, output="normal(5, 2)")) == DRAWN
    assert len(made(prompt_tokens=MOST_TOKENS // 20)) == 20


def test_every_line_of_a_file_is_one_prompt(tmp_path):
    path = tmp_path / "lengths"
    path.write_text("3\n" * 3000)
    assert len(made(prompt_tokens=f"@{path}")) == 3000
    path.write_text("10000000\n" * 6)
    with pytest.raises(UsageError, match="60,000,000 tokens"):
        made(prompt_tokens=f"@{path}")


def test_a_prompt_has_its_prefix_then_a_placeholder_then_its_own_words():
    texts = made(prompt_tokens=50, prefix_tokens=20, prefix_pool=3)
    assert Counter(len(text.before.split()) for text in texts) == {20: POOL}
    assert len({text.before for text in texts}) == 3
    assert {text.start + len(text.after.split()) for text in texts} == {50}
    assert len({text.after for text in texts}) == POOL


def test_the_placeholder_of_a_short_prompt_is_all_of_it():
    assert set(made(prompt_tokens=2)) == {PromptText("", 2, "")}


def test_popularity_follows_the_rank():
    without: dict[str, Any] = {}
    even, uneven = (
        Counter(text.before for text in made(prompt_tokens="uniform(5, 6)", prefix_tokens=9, prefix_pool=4, **zipf))
        for zipf in (without, {"prefix_zipf": 2.0})
    )  # fmt: skip
    assert [count / DRAWN for _, count in even.most_common()] == [pytest.approx(0.25, abs=0.03)] * 4
    weights = [1, 1 / 4, 1 / 9, 1 / 16]
    expected = [pytest.approx(weight / sum(weights), abs=0.03) for weight in weights]
    assert [count / DRAWN for _, count in uneven.most_common()] == expected


# --- unique prefixes


def test_numbers_are_written_in_words_of_equal_width():
    unique = maybe_unique((" aa", " bb", " ccc", " dd"))
    assert unique.words == (b" aa", b" bb", b" dd")
    assert (unique.width, len(unique.place(2))) == (3, 6)
    assert 3**unique.tokens >= 2**50 > 3 ** (unique.tokens - 1)
    assert unique.start(5, 3) == b" dd bb aa"  # the lowest digit first
    assert len({unique.start(number, 4) for number in range(100)}) == 81


def test_two_words_of_equal_width_are_required():
    assert maybe_unique((" a", " bb")) is None


GIVEN = {
    "prompt": ("prompt", "hello", "hello"),
    "chat": ("messages", [{"role": "user", "content": "hello"}], "hello"),
    "parts": (
        "messages",
        [{"content": [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "hello"}]}],
        "hello",
    ),
    "payload": ("payload", {"messages": [{"content": "be kind"}, {"content": "hello"}]}, "be kind\nhello"),
    "completion": ("payload", {"prompt": "hello", "max_tokens": 3}, "hello"),
    "embeddings": ("payload", {"input": ["hello", "world"]}, "hello\nworld"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "text"), list(GIVEN.values()), ids=list(GIVEN))
def test_given_requests_get_a_placeholder_before_their_first_text(name, content, text):
    data = content if name == "prompt" else json.dumps(content)
    step = (Tensor(name, "JSON", (1,), data.encode()), Tensor("max_tokens", "JSON", (1,), b"5"))
    dataset = Dataset("json", ((step,),), times_ms=(1.0,))
    assert text_of(step, None) == PromptText(text)
    started = with_unique_starts(dataset, DataOptions())
    found = text_of(started.streams[0][0], started.unique)
    assert found == PromptText("", started.unique.tokens, f"\n{text}")
    assert started.times_ms == (1.0,)
    assert started.streams[0][0][0].data.count(MARK.encode() * started.unique.width) == started.unique.tokens
    assert started.streams[0][0][1] == step[1]


def test_a_request_without_text_cannot_have_a_unique_prefix():
    step = (Tensor("payload", "JSON", (1,), b'{"prompt":[1,2,3]}'),)
    with pytest.raises(UsageError, match="step 0 of the data has no text"):
        with_unique_starts(Dataset("json", ((step,),)), DataOptions())
