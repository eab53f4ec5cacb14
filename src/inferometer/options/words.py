"""Positional words: which of them are addresses."""

import re
from collections.abc import Sequence

from inferometer.base.errors import UsageError
from inferometer.base.units import plain_number
from inferometer.options.option import Given


def check_numbers(words: Sequence[str], given: Given, *, has_model: bool) -> None:
    """Raise for stray numbers: values written without commas or without their option."""
    numbers = [word for word in words if re.fullmatch(r"[0-9][0-9.]*,?", word)]
    if not numbers or (len(numbers) == len(words) == 1 and not has_model):
        return
    levels = {"concurrency": "-c", "request_rate": "-r"}
    field = next((name for name in levels if name in given), None)
    remedy = "write the option before the number, such as -c 8, -r 100 or -d 10s"
    if field is not None:
        listed = ",".join(
            (plain_number(given[field].start).replace(",", ""), *(word.rstrip(",") for word in numbers))
        )
        remedy = f"separate levels with commas: {levels[field]} {listed}"
    raise UsageError(f"Unexpected argument '{numbers[0]}'", remedy=remedy)


def addresses_of(words: Sequence[str], *, is_known: bool = False) -> list[str]:
    """Return the positional words that are addresses. A name with a dot counts only if no other word and no option
    (`is_known`) gives the address."""
    sure = [word for word in words if "@" not in word and is_surely_address(word)]
    if sure or is_known or any("@" in word for word in words):
        return sure
    return [word for word in words if is_address(word)]


def is_address(word: str) -> bool:
    """Whether a positional word may be an address."""
    return word == "localhost" or any(mark in word for mark in ":/.")


def is_surely_address(word: str) -> bool:
    """Whether a word has a scheme or a port, which model names lack; they may look like org/llama-3.1:8b."""
    return word == "localhost" or re.fullmatch(r"\w+://.*|([^/:]*|\[.*\]):\d+([/?].*)?", word) is not None
