"""One option of the command line as a row of a table, and the small parsers its values need."""

import os.path
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S, parse_duration_ns, parse_share

Parse = Callable[[str, str], object]  # (the option as it was written, the text given to it)
Span = tuple[float, float | None, float]  # start, end, step

_LARGEST = 2**31 - 1  # what the classic tool's integers hold
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # "token" of RFC 9110, 5.6.2


class Dialect(Enum):
    """Where an option comes from. Prefixes of the reference's options win over all others."""

    REFERENCE = "perf_analyzer 2.51"
    NEWER = "perf_analyzer after 2.51"
    OURS = "inferometer"


@dataclass(frozen=True, slots=True)
class Option:
    """A row: how the option is written, what its value means, and whether it is built yet."""

    names: tuple[str, ...]
    field: str  # of Options; "data." and "tls." reach into its parts
    help: str
    parse: Parse | None = None  # None for a flag
    metavar: str = ""
    default: str = ""  # as shown
    value: object = True  # what a flag stands for
    repeatable: bool = False
    built: bool = True
    meanwhile: str = ""  # what to use until it is built
    dialect: Dialect = Dialect.REFERENCE
    deprecated: bool = False
    secret: bool = False  # its value is never shown

    def unsupported(self, name: str) -> UsageError | None:
        """The refusal of an option that is not built yet, if this is one."""
        return None if self.built else UsageError(f"{name} is not supported yet", remedy=self.meanwhile)


def invalid(name: str, text: str, remedy: str) -> UsageError:
    """The contract's sentence for a value that cannot be read."""
    return UsageError(f"Failed to parse {name}. Invalid value provided: {text}", remedy=remedy)


def _whole(name: str, text: str, shown: str) -> int:
    if _WHOLE.fullmatch(text.strip()) is None or abs(number := int(text)) > _LARGEST:
        raise invalid(name, shown, f"give a whole number up to {_LARGEST}, without unit")
    return number


def _decimal(name: str, text: str, shown: str) -> float:
    if _DECIMAL.fullmatch(text.strip()) is None or abs(number := float(text)) == float("inf"):
        raise invalid(name, shown, "give a number such as 10 or 2.5, without unit")
    return number


def as_given(name: str, text: str) -> str:
    return text


def whole(*, least: int | None = None, noun: str = "") -> Parse:
    """Whole numbers from `least` on; `noun` explains a short option in the message."""

    def parse(name: str, text: str) -> int:
        number = _whole(name, text, text)
        if least is not None and number < least:
            label = f"{name} ({noun})" if noun else name
            rule = f"> {least - 1}" if least == 1 else f">= {least}"
            raise UsageError(f"Failed to parse {label}. The value must be {rule}, but is {number}")
        return number

    return parse


def decimal(*, least: float) -> Parse:
    """Numbers from `least` on."""

    def parse(name: str, text: str) -> float:
        number = _decimal(name, text, text)
        if number < least:
            raise UsageError(f"Failed to parse {name}. The value must be >= {least:g}, but is {text}")
        return number

    return parse


def choice(*values: str, any_case: bool = False) -> Parse:
    """One of the values."""

    def parse(name: str, text: str) -> str:
        found = text.lower() if any_case else text
        if found not in values:
            raise UsageError(
                f"Failed to parse {name}. Unsupported type provided: '{text}'",
                remedy=f"the available options are {_list(values)}",
            )
        return found

    return parse


def switch(*off: str, on: tuple[str, ...]) -> Parse:
    """A truth written as one of the texts."""

    def parse(name: str, text: str) -> bool:
        choice(*off, *on)(name, text)
        return text in on

    return parse


def span(*, decimals: bool = False) -> Callable[[str, str], Span]:
    """`start[:end[:step]]`; the end is None when it was not given."""

    def parse(name: str, text: str) -> Span:
        fields = text.split(":")
        if len(fields) > 3:
            raise UsageError(f"Failed to parse {name}. The value '{text}' does not match <start:end:step>")
        read = _decimal if decimals else _whole
        numbers = [read(name, field, text) for field in fields]
        start = numbers[0]
        end = numbers[1] if len(numbers) > 1 else None
        step = numbers[2] if len(numbers) > 2 else 1
        for part, broken, rule in (
            ("start", start <= 0, "> 0"),
            ("end", end is not None and end < 0, ">= 0"),
            ("step", step <= 0, "> 0"),
        ):
            if broken:
                raise UsageError(
                    f"Failed to parse {name}. The {part} of the range must be {rule}, but got '{text}'"
                )
        return start, end, step

    return parse


def percentile(name: str, text: str) -> int | None:
    """1 to 99, or -1 for the mean."""
    number = _whole(name, text, text)
    if number != -1 and not 0 < number < 100:
        raise UsageError(
            f"Failed to parse {name}. The value must be -1 for not reporting or in range (0, 100), "
            f"but is {number}"
        )
    return None if number == -1 else number


def duration(*, zero: bool) -> Parse:
    """Seconds of `90`, `90s`, `1.5m`; 0 where it means off."""

    def parse(name: str, text: str) -> float:
        try:
            seconds = parse_duration_ns(text, name) / NS_PER_S
        except OverflowError as error:
            raise invalid(name, text, "give a time that can pass, such as 10s or 2m") from error
        if seconds == 0 and not zero:
            raise UsageError(
                f"{name} needs a duration above 0, but got '{text}'", remedy="write it like 10s or 2m"
            )
        return seconds

    return parse


def share(*, zero: bool) -> Parse:
    """The fraction of `2%` or `0.02`."""

    def parse(name: str, text: str) -> float:
        fraction = parse_share(text, name)
        if fraction == 0 and not zero:
            raise UsageError(
                f"{name} needs a share above 0, but got '{text}'", remedy="write it as 2% or 0.02"
            )
        return fraction

    return parse


def existing_file(name: str, text: str) -> str:
    if not os.path.isfile(text):
        raise UsageError(
            f"Failed to parse {name}. The path '{text}' is not an existing file",
            remedy="give the path of a readable file",
        )
    return text


def new_file(name: str, text: str) -> str:
    if os.path.exists(text):
        raise UsageError(f"Failed to parse {name} {text}. Path must not already exist.")
    return text


def data_source(name: str, text: str) -> str:
    """zero, random, or the path of something that exists."""
    if text not in ("zero", "random") and not os.path.exists(text):
        raise UsageError(
            f"Failed to parse {name}. Unsupported type provided: '{text}'",
            remedy="the available options are 'zero', 'random', or the path of an existing file or directory",
        )
    return text


def shape(name: str, text: str) -> tuple[str, tuple[int, ...]]:
    """`name:d1,d2`; the name may hold colons."""
    tensor, colon, dims = text.rpartition(":")
    if not colon or not tensor:
        raise UsageError(
            f"Failed to parse {name}. There must be a colon after input name, but got '{text}'",
            remedy="write it like IMAGE:3,224,224",
        )
    sizes = tuple(_whole(name, dim, text) for dim in dims.split(","))
    if min(sizes) <= 0:
        raise UsageError(
            f"Failed to parse {name}. The dimensions of input tensor must be > 0, but got '{text}'"
        )
    return tensor, sizes


def header(name: str, text: str) -> tuple[str, str]:
    """`Name:Value`, the value kept as it is. Values may be secrets, so no message shows one."""
    field, colon, value = text.partition(":")
    if not colon:
        raise UsageError(
            f"Failed to parse {name}. The header has no colon (it is not shown, as it may be a secret)",
            remedy="write it as Name:Value",
        )
    if _HEADER_NAME.fullmatch(field) is None:
        raise UsageError(
            f"Failed to parse {name}. What stands before the colon is not a header name "
            "(it is not shown, as it may be a secret)",
            remedy="write it as Name:Value, the name without blanks",
        )
    if any(mark in value for mark in "\r\n\0"):
        raise UsageError(f"Failed to parse {name}. The value of header '{field}' has a line break in it")
    return field, value


def members(name: str, text: str) -> tuple[tuple[str, str], ...]:
    """`name[:version],...` as pairs; all white space is dropped, no version is an empty one."""
    pairs = []
    for item in "".join(text.split()).split(","):
        model, colon, version = item.partition(":")
        if not model or ":" in version or (colon and not version):
            raise invalid(name, text, "write it like model_a,model_b:2")
        pairs.append((model, version))
    return tuple(pairs)


def _list(values: tuple[str, ...]) -> str:
    quoted = [f"'{value}'" for value in values]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else quoted[0]
