"""Prompts from a trace: with exactly its lengths and shared prefixes."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.dataset.prompts import PromptText
from inferometer.dataset.replay import TraceLine
from inferometer.dataset.tokens import Tokenizer, open_tokenizer
from inferometer.dataset.trace_prompts import TracePrompts
from inferometer.dataset.trace_tokens import BLOCK, TraceTokens, cacheable_in_blocks
from inferometer.stats.prompts import AskedPrompts, SentPrompt, described_figures, prompt_figures
from tests.support.vocabularies import BUILDS, saved

BY_CHANCE = 16


def prompts(tokenizer: Tokenizer, *tokens: TraceTokens, seed: int = 0) -> list[str]:
    entries = [TraceLine(0, line, tokens=each) for line, each in enumerate(tokens, start=1)]
    return [step[0].data.decode() for step in TracePrompts(entries, tokenizer, seed)]


@pytest.mark.parametrize("build", BUILDS)
def test_lengths_are_exact_with_every_build_of_tokenizer(build: str, tmp_path: Path):
    tokenizer = open_tokenizer(str(saved(BUILDS[build], tmp_path)))
    asked = [
        TraceTokens(1100, 5, (1, 2, 3)),
        TraceTokens(1, 1, (4,)),
        TraceTokens(700),
        TraceTokens(600, 1, (1,)),
    ]
    assert [tokenizer.count(text) for text in prompts(tokenizer, *asked)] == [1100, 1, 700, 600]


@pytest.mark.parametrize("build", [*BUILDS, None])
def test_a_short_text_is_the_beginning_of_a_long_one_of_the_same_seed(build: str | None, tmp_path: Path):
    tokenizer = open_tokenizer(None if build is None else str(saved(BUILDS[build], tmp_path)))
    whole = tokenizer.text(BLOCK, Random(3))
    assert all(whole.startswith(tokenizer.text(size, Random(3))) for size in (1, 100, BLOCK - 1))


def common(one: list[str], other: list[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((n for n, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))


NAMED = st.lists(
    st.tuples(st.lists(st.integers(0, 2), max_size=3), st.integers(1, BLOCK)), min_size=1, max_size=5
)


@given(NAMED)
def test_an_ideal_cache_holds_what_the_texts_share(rows: list[tuple[list[int], int]]):
    asked = [TraceTokens(BLOCK * max(len(names) - 1, 0) + last, 1, tuple(names)) for names, last in rows]
    texts = [text.split() for text in prompts(open_tokenizer(None), *asked)]
    assert [len(text) for text in texts] == [each.input for each in asked]
    seen = [max((common(text, other) for other in texts[:n]), default=0) for n, text in enumerate(texts)]
    shared = sum(seen)
    assert cacheable_in_blocks(asked) <= shared < cacheable_in_blocks(asked) + BY_CHANCE * len(rows)


def test_the_seed_determines_the_texts():
    asked = TraceTokens(600, 1, (1, 2))
    words = open_tokenizer(None)
    assert prompts(words, asked) == prompts(words, asked) != prompts(words, asked, seed=1)


def test_requested_tokens():
    entries = [TraceLine(0, 1, tokens=TraceTokens(3, output)) for output in (7, 0, None)]
    steps = TracePrompts(entries, open_tokenizer(None), 0)
    asked = [{tensor.name: tensor.data for tensor in step}.get("max_tokens") for step in steps]
    assert asked == [b"7", b"1", None]
    assert (len(steps), steps[-1], steps[:2]) == (3, list(steps)[2], tuple(steps)[:2])


def test_their_size_is_known_in_advance():
    entries = [TraceLine(0, line, tokens=TraceTokens(5000, 1)) for line in range(20)]
    steps = TracePrompts(entries, open_tokenizer(None), 0)
    assert steps.size == pytest.approx(sum(len(step[0].data) for step in steps), rel=0.02)


def test_figures_of_described_prompts_are_those_of_their_texts():
    asked = [
        TraceTokens(1100, 5, (1, 2, 3)),
        TraceTokens(1030, 1, (1, 2, 4)),
        TraceTokens(700),
        TraceTokens(40, 1, (1,)),
    ]
    words, counts = open_tokenizer(None), (1, 1, 3, 1)
    texts = [PromptText(text) for text in prompts(words, *asked)]
    read = prompt_figures(AskedPrompts(), [*map(SentPrompt, texts, counts)], words, 0)
    known = described_figures(AskedPrompts(), list(zip(asked, counts, strict=True)), words)
    assert known.cacheable == 1024 + 2 * 700 + 40
    assert known.cacheable <= read.cacheable < known.cacheable + BY_CHANCE * len(asked)
    assert replace(read, cacheable=0) == replace(known, cacheable=0)
