"""Lengths of prompts and answers as equally likely pairs: as measured, or as requested. Pure."""

from collections.abc import Iterable, Sequence

import numpy as np

from inferometer.dataset.lengths import LengthRules, draw_outputs, draw_pairs
from inferometer.stats.estimate import Distribution

Pair = tuple[int, int]
"""Tokens of a prompt and of its answer."""

PAIRS = 120  # that represent a measured distribution
_SIDE = 14  # groups of prompts, each with as many groups of answers, that represent many pairs
_DRAWN = 40_000
_SEED = 1


def mean_lengths(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Return the mean tokens of prompts and answers."""
    return sum(pair[0] for pair in pairs) / len(pairs), sum(pair[1] for pair in pairs) / len(pairs)


def measured_pairs(prompts: Distribution | None, answers: Distribution) -> tuple[Pair, ...]:
    """Return pairs with these distributions; unknown prompts have one token."""
    first = (1,) if prompts is None else _lengths(prompts)
    second = _lengths(answers)
    if len(first) == 1 or len(second) == 1:
        return tuple((prompt, answer) for prompt in first for answer in second)
    order = np.random.default_rng(_SEED).permutation(PAIRS)
    return tuple((first[place], second[other]) for place, other in enumerate(order.tolist()))


def _lengths(found: Distribution) -> tuple[int, ...]:
    """Return PAIRS equally likely lengths with the mean of the distribution, or a single one."""
    low, high = found.min_ns, found.max_ns
    inner = [(p / 100, ns) for p, ns in found.percentiles if 0 < p < 100]
    knots = [*([] if low is None else [(0.0, low)]), *inner, *([] if high is None else [(1.0, high)])]
    if len({ns for _, ns in knots}) < 2:
        return (max(1, found.mean_ns),)
    shares = (np.arange(PAIRS) + 0.5) / PAIRS
    values = np.interp(shares, [share for share, _ in knots], [float(ns) for _, ns in knots])
    values *= found.mean_ns / values.mean()
    return tuple(max(1, round(value)) for value in values.tolist())


def requested_pairs(
    prompt: int | str | None, output: int | str | None, measured: Sequence[Pair]
) -> tuple[Pair, ...]:
    """Return pairs with lengths as `measure` takes them; a length that is not given is as measured."""
    prompts, outputs = ([pair[place] for pair in measured] for place in (0, 1))
    if prompt is None:
        drawn = draw_outputs(output or 1, _DRAWN, _SEED)
        return reduced((prompts[number % len(prompts)], length) for number, length in enumerate(drawn))
    pairs = draw_pairs(LengthRules(prompt, output), _DRAWN, _SEED)
    return reduced(
        (length, outputs[number % len(outputs)] if answer is None else answer)
        for number, (length, answer) in enumerate(pairs)
    )


def reduced(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Return few pairs with nearly the same joint distribution and the same means."""
    rows = np.array(sorted(pairs), dtype=np.float64)
    if len(np.unique(rows, axis=0)) == 1:
        return ((round(rows[0, 0]), round(rows[0, 1])),)
    if len(rows) <= _SIDE * _SIDE:
        return tuple((round(prompt), round(answer)) for prompt, answer in rows.tolist())
    found: list[Pair] = []
    for group in np.array_split(rows, _SIDE):
        by_answer = group[np.argsort(group[:, 1], kind="stable")]
        for part in np.array_split(by_answer, _SIDE):
            prompt, answer = part.mean(axis=0).tolist()
            found.append((max(1, round(prompt)), max(1, round(answer))))
    return tuple(found)
