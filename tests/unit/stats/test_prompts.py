"""Sent prompts, and how much of them a prefix cache could have served: compared with a check of every request."""

from itertools import product
from random import Random

import pytest

from inferometer.dataset.prompts import PromptText
from inferometer.dataset.tokens import WordCounter
from inferometer.stats.prompts import AskedPrompts, SentPrompt, prompt_figures

ASKED = AskedPrompts("5", "3", 2, 1)


def figures(rows: list[tuple[PromptText, int]], base: int = 0):
    return prompt_figures(ASKED, [SentPrompt(*row) for row in rows], WordCounter(), base)


def cacheable(prompts: list[list[str]]) -> int:
    known: set[tuple[str, ...]] = set()
    found = 0
    for prompt in prompts:
        beginnings = [tuple(prompt[:length]) for length in range(1, len(prompt) + 1)]
        found += sum(beginning in known for beginning in beginnings)
        known.update(beginnings)
    return found


def test_lengths_count_every_send():
    found = figures([(PromptText(" a b"), 98), (PromptText(" a b c d"), 2), (PromptText(" x"), 0)])
    assert (found.requests, found.different, found.tokens) == (100, 2, 204)
    assert (found.mean, found.p50, found.p99) == (2.04, 2, 4)
    assert (found.asked, found.asked_output, found.prefix_tokens, found.prefixes) == ("5", "3", 2, 1)
    assert (found.tokenizer, found.is_exact, found.is_unique) == ("words", False, False)


def test_nothing_sent_gives_no_figures():
    assert figures([(PromptText(" a"), 0), (PromptText(""), 5)]) is None


@pytest.mark.parametrize("seed", range(20))
def test_repeated_texts_count_like_a_check_of_each(seed):
    draw = Random(seed)
    words = ("a", "ab", "b", "abc")
    rows = [([draw.choice(words) for _ in range(draw.randint(1, 6))], draw.randint(1, 3)) for _ in range(30)]
    sent = [prompt for prompt, count in rows for _ in range(count)]
    draw.shuffle(sent)
    found = figures([(PromptText("".join(f" {word}" for word in prompt)), count) for prompt, count in rows])
    assert found.cacheable == cacheable(sent)
    assert found.cacheable_share == found.cacheable / sum(map(len, sent))


def test_texts_without_blanks_share_their_characters():
    """Like those of tokenizers whose words need no spaces."""

    class Letters(WordCounter):
        def count(self, text: str) -> int:
            return len(text)

    rows = [SentPrompt(PromptText(text), 1) for text in ("abcd", "abxy", "b")]
    assert prompt_figures(ASKED, rows, Letters(), 0).cacheable == 2


@pytest.mark.parametrize(
    ("requests", "prefix", "digits"), list(product((1, 5, 40, 300), ("", " p q r"), (2, 4)))
)
def test_unique_starts_share_only_their_first_digits(requests, prefix, digits):
    base = 5
    sent = []
    for number in range(1000, 1000 + requests):
        start = [f"d{number // base**digit % base}" for digit in range(digits)]
        sent.append([*prefix.split(), *start, *f"x{number % 3} y z".split()])
    rows = [
        (PromptText(prefix, digits, f" x{row} y z"), sum(prompt[-3] == f"x{row}" for prompt in sent))
        for row in range(3)
    ]
    found = figures(rows, base)
    assert found.is_unique
    assert found.tokens == sum(map(len, sent))
    assert found.cacheable == cacheable(sent)
