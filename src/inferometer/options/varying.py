"""Values to try for a placeholder of a command line: `slots=1:16:x2`, `batch=64,256,1024`, `dtype=float16,bfloat16`."""

import math
import re
from collections.abc import Iterator

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen

MOST_VALUES = 1000  # of one placeholder
DIGITS = 12  # of a value that is not whole, so that 0.1 + 0.2 is 0.3
_NUMBER = r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|-?\.\d+"
_SPAN = re.compile(rf"({_NUMBER}):({_NUMBER})(?::(x?)({_NUMBER}))?")
_FORMS = "write a range such as 1:8, 0:1:0.25 or 1:64:x2, or a list such as 64,256 or float16,bfloat16"

Value = int | float | str


@frozen
class Vary:
    """A placeholder and its values, each once."""

    name: str
    values: tuple[Value, ...]

    @property
    def is_numeric(self) -> bool:
        return not any(isinstance(value, str) for value in self.values)


def parse_vary(option: str, word: str) -> Vary:
    """Parse `NAME=VALUES`."""
    name, sign, values = word.partition("=")
    name = name.strip()
    if not sign or re.fullmatch(r"[A-Za-z_]\w*", name) is None:
        raise UsageError(
            f"{option} '{word}' does not name a placeholder",
            remedy="write NAME=VALUES, such as slots=1:16:x2, for {slots} in the command",
        )
    return Vary(name, parse_values(option, name, values.strip()))


def parse_values(option: str, name: str, text: str) -> tuple[Value, ...]:
    span = _SPAN.fullmatch(text)
    if span is None:
        if re.fullmatch(rf"(?:{_NUMBER}):\S*", text):
            raise UsageError(f"{option} {name}={text} is not a range", remedy=_FORMS)
        found = tuple(map(value_of, (part.strip() for part in text.split(","))))
    else:
        found = tuple(_spanned(f"{option} {name}={text}", *span.groups()))
    if len(set(found)) < len(found):
        raise UsageError(f"{option} {name}={text} has a value twice", remedy="list each value once")
    return found


def value_of(word: str) -> Value:
    """Return a number, or the word itself."""
    if re.fullmatch(_NUMBER, word) is None:
        return word
    return int(word) if re.fullmatch(r"-?\d+", word) else float(word)


def _spanned(given: str, low: str, high: str, factor: str | None, step: str | None) -> Iterator[Value]:
    first, last = value_of(low), value_of(high)
    by = value_of(step) if step is not None else 1
    assert not isinstance(first, str)
    assert not isinstance(last, str)
    assert not isinstance(by, str)
    if step is None and not (isinstance(first, int) and isinstance(last, int)):
        raise UsageError(f"{given} has no step", remedy="write one, such as 0:1:0.25")
    if first > last:
        raise UsageError(f"{given} ends below its start", remedy=f"write {high}:{low}")
    if factor and (by <= 1 or first <= 0):
        raise UsageError(
            f"{given} does not grow", remedy="multiply a start above 0 by a factor above 1, such as 1:16:x2"
        )
    if by <= 0:
        raise UsageError(f"{given} has the step {step}", remedy="give a step above 0")
    count = (
        math.floor(math.log(last / first) / math.log(by) + 1e-9)
        if factor
        else math.floor((last - first) / by + 1e-9)
    )
    if count >= MOST_VALUES:
        raise UsageError(
            f"{given} has {count + 1:,} values, but the limit is {MOST_VALUES:,}",
            remedy="give a larger step, or a factor",
        )
    is_whole = all(isinstance(one, int) for one in (first, by))
    for number in range(count + 1):
        value = first * by**number if factor else first + number * by
        yield int(value) if is_whole else round(value, DIGITS - math.ceil(math.log10(abs(value) or 1.0)))
