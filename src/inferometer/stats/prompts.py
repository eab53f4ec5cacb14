"""Prompts that were sent: their lengths, and how much of them a prefix cache could have served.

Tokens that a prompt shares with the beginning of an earlier one could have been cached. Over all prompts, these are all
tokens except the nodes of the prefix tree that the prompts form, in any order: a node is a token that is new after the
text before it. Neighbours among the sorted texts share the longest prefixes, which gives the nodes.

Unique beginnings are numbers that count up, lowest digit first. Among n of them in base b, at most b^d differ in their
first d digits, so all others share these digits: a token or two each, which no block cache can use.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np

from inferometer.base.frozen import frozen
from inferometer.dataset.prompts import PromptText
from inferometer.dataset.tokens import Tokenizer
from inferometer.dataset.trace_tokens import TraceTokens, cacheable_in_blocks
from inferometer.stats.prompt_figures import PromptFigures


@frozen
class AskedPrompts:
    """Requested properties of the prompts, as in `PromptFigures`."""

    asked: str = ""
    asked_output: str = ""
    prefix_tokens: int = 0
    prefixes: int = 0


@frozen
class SentPrompt:
    """A rendered request, and how often it was sent."""

    text: PromptText
    count: int


def prompt_figures(
    asked: AskedPrompts, sent: Sequence[SentPrompt], tokenizer: Tokenizer, base: int
) -> PromptFigures | None:
    """Compute the figures; None if no text was sent. `base` is that of the unique beginnings, 0 without."""
    count = cache(tokenizer.count)
    sent = [row for row in sent if row.count and (row.text.before or row.text.start)]
    if not sent:
        return None
    lengths = [count(row.text.before) + row.text.start + count(row.text.after) for row in sent]
    total = sum(length * row.count for length, row in zip(lengths, sent, strict=True))
    found = _figures(asked, tokenizer, lengths, [row.count for row in sent])
    return replace(
        found,
        is_unique=all(row.text.start > 0 for row in sent),
        cacheable=total - _new_tokens(sent, base, count),
    )


def described_figures(
    asked: AskedPrompts, sent: Sequence[tuple[TraceTokens, int]], tokenizer: Tokenizer
) -> PromptFigures | None:
    """Compute the figures of prompts described by a trace and how often each was sent, without reading any text."""
    sent = [(prompt, times) for prompt, times in sent if times]
    if not sent:
        return None
    again = sum(prompt.input * (times - 1) for prompt, times in sent)
    lengths, counts = [prompt.input for prompt, _ in sent], [times for _, times in sent]
    found = _figures(asked, tokenizer, lengths, counts)
    return replace(found, cacheable=again + cacheable_in_blocks([prompt for prompt, _ in sent]))


def _figures(
    asked: AskedPrompts, tokenizer: Tokenizer, lengths: Sequence[int], counts: Sequence[int]
) -> PromptFigures:
    every = np.repeat(lengths, counts)
    p50, p99 = np.percentile(every, (50, 99), method="inverted_cdf")
    total = int(every.sum())
    return PromptFigures(
        tokenizer=tokenizer.name,
        is_exact=tokenizer.is_exact,
        asked=asked.asked,
        asked_output=asked.asked_output,
        prefix_tokens=asked.prefix_tokens,
        prefixes=asked.prefixes,
        is_unique=False,
        requests=len(every),
        different=len(lengths),
        tokens=total,
        mean=total / len(every),
        p50=int(p50),
        p99=int(p99),
        cacheable=0,
    )


def _new_tokens(sent: Sequence[SentPrompt], base: int, count: Callable[[str], int]) -> int:
    """Count the tokens of each request that follow its common beginning with an earlier one."""
    new = tree_tokens({row.text.before for row in sent}, count)
    groups: dict[tuple[str, int], list[SentPrompt]] = defaultdict(list)
    for row in sent:
        if row.text.start:
            groups[row.text.before, row.text.start].append(row)
    for (_, digits), rows in groups.items():
        sends = Counter({row.text.after: row.count for row in rows})
        requests = sends.total()
        behind = sum(count(after) * times for after, times in sends.items())
        # One of every number with every text: requests beyond that are repetitions.
        most = base**digits * len(rows)
        new += sum(min(requests, base**digit) for digit in range(1, digits + 1))
        new += round(behind * min(1.0, most / requests))
    return new


def tree_tokens(texts: Iterable[str], count: Callable[[str], int]) -> int:
    """Count the tokens of the prefix tree that the texts form."""
    ordered = sorted(texts)
    shared = sum(count(_common(one, other)) for one, other in pairwise(ordered))
    return sum(map(count, ordered)) - shared


def _common(one: str, other: str) -> str:
    """Return the common prefix, up to the end of a word; texts without white space have no words."""
    same, other_than = 0, min(len(one), len(other)) + 1  # lengths that are equal and different
    while other_than - same > 1:
        middle = (same + other_than) // 2
        if one[:middle] == other[:middle]:
            same = middle
        else:
            other_than = middle
    if not any(map(str.isspace, one)):
        return one[:same]
    while same and not all(same == len(text) or text[same].isspace() for text in (one, other)):
        same -= 1
    return one[:same]
