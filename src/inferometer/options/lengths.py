"""Lengths in tokens, as options take them: a number, a distribution, a weighted list, or a file.

    512                             always 512
    normal(512, 128)                mean and standard deviation
    lognormal(512, 128)             mean and standard deviation of the lengths themselves, not of their logarithms
    uniform(100, 200)               whole numbers from 100 to 200, inclusive, all equally likely
    128:60, 2048:40                 128 with weight 60, 2048 with weight 40
    128/128:60, 2048/256:40         the same with pairs: prompt tokens / answer tokens
    @lengths.csv                    one per line: a number, or a pair `prompt,answer`

Drawn lengths are rounded, and drawn again if below 1.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from inferometer.base.confined import check_path
from inferometer.base.errors import Name, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import is_named
from inferometer.options.reach import Reach
from inferometer.options.values import Values, whole

LONGEST = 10_000_000  # tokens per text
_REMEDY = (
    "write a number, normal(512, 128), lognormal(512, 128), uniform(100, 200), a weighted list such as 128:60, "
    "2048:40, or @FILE"
)
_PAIRS = "128/128:60, 2048/256:40"
_PROMPT_TOKENS = Name("--prompt-tokens", "data.prompt_tokens")
_CALL = r"(normal|lognormal|uniform)\(([^()]*)\)"
_ITEM = r"(\d{1,8})(?:/(\d{1,8}))?(?::(\d{1,9}(?:\.\d{1,9})?))?"
_number = whole(least=1)


@frozen
class Choice:
    """An item of a weighted list: a length or a pair of lengths."""

    prompt: int
    output: int | None
    weight: float


@frozen
class Lengths:
    """Parsed lengths; `kind` determines which of the other fields apply."""

    kind: str  # constant, normal, lognormal, uniform, listed or file
    first: float = 0.0  # the number, the mean, or the lowest
    second: float = 0.0  # the deviation, or the highest
    choices: tuple[Choice, ...] = ()
    path: str = ""

    @property
    def has_pairs(self) -> bool:
        """Whether the list gives answer lengths too; unknown for a file until it is read."""
        return any(choice.output is not None for choice in self.choices)


def parse_lengths(name: str, asked: int | str) -> Lengths:
    """Parse the value of a length option."""
    if isinstance(asked, int):
        return Lengths("constant", asked)
    word = asked.strip().lower()
    if word.isdigit():
        return Lengths("constant", _number.read(name, word))
    if word.startswith("@"):
        return Lengths("file", path=_existing(name, asked.strip()[1:]))
    called = re.fullmatch(_CALL, word)
    if called is not None:
        return _distribution(name, asked, called[1], called[2])
    return Lengths("listed", choices=tuple(_choice(name, asked, item) for item in word.split(",")))


def _existing(name: str, path: str) -> str:
    check_path(path)
    if not is_named(path):
        raise UsageError(
            f"{name}: file '{path}' does not exist",
            remedy="give a file with a number or a pair prompt,answer per line",
        )
    return path


def _distribution(name: str, asked: str, kind: str, inside: str) -> Lengths:
    try:
        first, second = (float(part) for part in inside.split(","))
    except ValueError:
        raise UsageError(f"{name} '{asked}': {kind} takes two numbers", remedy=_EXAMPLES[kind]) from None
    if not (1 <= first <= LONGEST and 0 <= second <= LONGEST):
        raise UsageError(
            f"{name} '{asked}': the numbers of {kind} must be from 1 to {LONGEST:,}; a deviation may be 0",
            remedy=_EXAMPLES[kind],
        )
    if kind == "uniform" and not (first <= second and first == int(first) and second == int(second)):
        raise UsageError(
            f"{name} '{asked}': uniform takes two whole numbers, the lower first", remedy=_EXAMPLES[kind]
        )
    return Lengths(kind, first, second)


_EXAMPLES: Mapping[str, str] = {
    "normal": "write normal(512, 128), with mean and standard deviation",
    "lognormal": "write lognormal(512, 128), with mean and standard deviation of the lengths themselves",
    "uniform": "write uniform(100, 200), with the shortest and the longest",
}


def _meant(item: str) -> str:
    """Suggest a distribution for `100-200` and `512±64`; empty for anything else."""
    found = re.fullmatch(r"\s*(\d+)\s*(-|:|\.{2,3}|–|±|\+/?-)\s*(\d+)\s*", item)
    if found is None:
        return ""
    return f"write '{'normal' if found[2] in ('±', '+-', '+/-') else 'uniform'}({found[1]}, {found[3]})'"


def _choice(name: str, asked: str, item: str) -> Choice:
    found = re.fullmatch(_ITEM, item.strip())
    if found is None:
        raise UsageError(
            f"{name} '{asked}': '{item.strip()}' is not a length", remedy=_meant(item) or _REMEDY
        )
    prompt, output, weight = found.groups()
    choice = Choice(int(prompt), None if output is None else int(output), float(weight or 1))
    sizes = (choice.prompt, *(() if choice.output is None else (choice.output,)))
    if not (all(1 <= size <= LONGEST for size in sizes) and choice.weight > 0):
        raise UsageError(
            f"{name} '{asked}': '{item.strip()}' needs a weight above 0 and lengths from 1 to {LONGEST:,}",
            remedy=f"write {_PAIRS}",
        )
    if (output is None) != ("/" not in asked):
        raise UsageError(
            f"{name} '{asked}': '{item.strip()}' is not a pair, but others are", remedy=f"write {_PAIRS}"
        )
    return choice


def lengths(*, pairs: bool) -> Values:
    """Return the values of a length option: a number, or the text for `parse_lengths`. Only prompts take pairs."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise UsageError(f"{name} must be a number or a text, but is {value!r}", remedy=_REMEDY)
        if isinstance(value, int):
            _number.check(name, value)
        elif parse_lengths(name, value).has_pairs and not pairs:
            raise UsageError(
                f"{name} '{value}': pairs of lengths belong in {_PROMPT_TOKENS}",
                remedy=f"write {_PROMPT_TOKENS} '{_PAIRS}' and leave {name} out",
            )

    def read(name: str, word: str) -> int | str:
        if re.fullmatch(r"[+-]?\d+", word.strip()):
            return int(_number.read(name, word))
        check(name, word)
        return word

    return Values(
        read, "LENGTHS", check=check, reach=Reach.READS_FILES, is_harmless=lambda word: "@" not in word
    )


def log_parameters(mean: float, deviation: float) -> tuple[float, float]:
    """Return mean and deviation of the logarithms of lengths with this mean and deviation."""
    variance = math.log1p((deviation / mean) ** 2)
    return math.log(mean) - variance / 2, math.sqrt(variance)
