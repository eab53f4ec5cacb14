"""Values of options: how they are parsed from words, and how values from Python are checked."""

import os.path
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from inferometer.base.confined import check_path
from inferometer.base.drawn_times import parse_time
from inferometer.base.errors import Name, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import is_named
from inferometer.base.slo import parse_slo
from inferometer.base.text import is_digits, nearest
from inferometer.base.units import NS_PER_MS, NS_PER_S, parse_duration_ns, parse_share, plain_number
from inferometer.options.reach import Reach

Read = Callable[[str, str], Any]  # (the option as written, its word)
Check = Callable[[str, Any], None]  # (the field, the value): raises if no word could give this value

_LARGEST = 2**31 - 1  # range of the classic tool's integers
_WHOLE = r"[+-]?[0-9]{1,20}"
_DECIMAL = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
_HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # "token" of RFC 9110, 5.6.2
_IDENTIFIERS = r"([0-9]{1,20})(?::([0-9]{1,20}))?"
SMALLEST_FACTOR = 1.01  # between levels: a smaller one would give too many levels

GENERATED = ("random", "zero")  # data without a file


LARGEST_PICTURE = 16384  # pixels per side


def _nothing(name: str, value: Any) -> None:
    """Accept any value of the field's type."""


def _never(word: str) -> bool:
    return False


@frozen
class Values:
    """The values of an option. `check` is for values from Python, which are not parsed."""

    read: Read
    metavar: str
    choices: tuple[str, ...] = ()
    check: Check = _nothing
    reach: Reach | None = Reach.NOTHING  # None: each option declares its own
    is_harmless: Callable[[str], bool] = _never  # words that reach nothing, unlike others
    classic: Read | None = None  # parser of the classic script, if our own commands accept more


def reads(
    metavar: str,
    *,
    check: Check = _nothing,
    reach: Reach | None = Reach.NOTHING,
    is_harmless: Callable[[str], bool] = _never,
) -> Callable[[Read], Values]:
    """Decorate a parser of words, turning it into the values of an option."""
    return lambda read: Values(read, metavar, check=check, reach=reach, is_harmless=is_harmless)


def _refined(values: Values, refuse: Callable[[str, Any, object], None]) -> Values:
    """Exclude values for which `refuse` raises; it gets the name, the value, and the value as written."""

    def read(name: str, word: str) -> Any:
        found = values.read(name, word)
        refuse(name, found, word)
        return found

    def check(name: str, value: Any) -> None:
        values.check(name, value)
        refuse(name, value, value)

    return replace(values, read=read, check=check)


# --- informal notations; the classic script accepts only the plain form

_THOUSANDS = {"k": 1_000, "m": 1_000_000}
_PERIODS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_COUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kKmM])")
_GROUPED = re.compile(r"[0-9]{1,3}(?:([,_' ])[0-9]{3})(?:\1[0-9]{3})*|[0-9]+(?:_[0-9]+)+")
_RATE = re.compile(
    r"(?P<number>.*?[0-9.kKmM])\s*(?:(?:rps|qps|hz|ops|tps)|r(?:eq)?p(?P<per>[mh])|(?:(?:r|req|reqs|requests?|queries)\s*)?(?:/|\bper\s)\s*"
    r"(?:1\s*)?(?P<period>s|sec|second|m|min|minute|h|hour))",
    re.IGNORECASE,
)
_TIME = re.compile(r"[0-9]+(\.[0-9]+)?\s*(ns|us|µs|ms|s|sec|secs|seconds?|min|mins|minutes?|h|hours?)")
_SPANNED = re.compile(r"([0-9.kK]*[0-9kK])\s*(?:-|\.{2,3}|…|–|—|\bto\b)\s*([0-9kK][0-9.kK]*)")

_STEPPED = re.compile(r"(.+?)\s*(?::|\bstep\b|\bby\b)\s*([x*]?[0-9.kK]+[x*]?)")


def plain_count(word: str) -> str:
    """Convert `1k`, `1_000`, `1,000` and `1e3` to `1000`; return any other word unchanged."""
    text = word.strip()
    if (match := _COUNT.fullmatch(text)) is not None:
        number = float(match[1]) * _THOUSANDS[match[2].lower()]
    elif _GROUPED.fullmatch(text) is not None:
        return re.sub(r"[^0-9]", "", text)
    elif re.fullmatch(r"[0-9]{1,3}(\.[0-9]{3})+", text) is not None:
        return word  # 1.000 is a thousand to some, and one to others
    elif re.fullmatch(_DECIMAL, text) is not None and re.fullmatch(_WHOLE, text) is None:
        number = float(text)
    else:
        return word
    return str(int(number)) if abs(number) <= _LARGEST and number == int(number) else word


def plain_rate(word: str) -> str:
    """Turn `100/s`, `100rps`, `6000/min` and `1k` into requests per second; return any other word unchanged."""
    match, scale = _RATE.fullmatch(word.strip()), 1
    if match is not None:
        word, scale = match["number"], _PERIODS[(match["period"] or match["per"] or "s").lower()]
    word = plain_count(word)
    is_scaled = scale != 1 and re.fullmatch(_DECIMAL, word.strip()) is not None
    return str(float(word) / scale) if is_scaled else word


def plain_levels(word: str, plain: Callable[[str], str]) -> str:
    """Turn `1-8`, `1..8`, `1 2 4`, `1;2;4` and `[1,2,4]` into `1:8` and `1,2,4`, with plain numbers."""
    text = word.strip()
    if text[:1] + text[-1:] in ("[]", "()", "{}"):
        text = text[1:-1].strip()
    text = text.strip(",; ")
    stepped = _STEPPED.fullmatch(text)
    if (match := _SPANNED.fullmatch(text if stepped is None else stepped[1])) is not None:
        text = f"{match[1]}:{match[2]}{f':{stepped[2]}' if stepped is not None else ''}"
    match = _RATE.fullmatch(text) if plain is plain_rate else None
    if match is None and re.fullmatch(r"[0-9.kK]+(?:(?:\s*[;,]\s*|\s+)[0-9.kK]+)+", text):
        text = re.sub(r"\s*[;,]\s*|\s+", ",", text)
    text = re.sub(r":([0-9.]+)[x*]$", r":x\1", text)
    rest = text.split(":") if ":" in text else text.split(",")
    joined = (":" if ":" in text else ",").join(
        f"{part[:1]}{plain(part[1:])}" if part[:1] in ("x", "*") else plain(part) for part in rest
    )
    return joined if re.search("[0-9]", joined) else word


def _refuse_time(name: str, word: str, metavar: str = "") -> None:
    if _TIME.fullmatch(word.strip()) is not None:
        remedy = f"give a duration with {Name('-d', 'duration_s')}: {Name(f'-d {word}', 'duration_s', word)}"
        if metavar == "MSEC":
            milliseconds = plain_number(parse_duration_ns(word, name) / NS_PER_MS).replace(",", "")
            remedy = f"write {name} {milliseconds}, in milliseconds"
        raise refusal(name, f"'{word}' is a duration, but {name} takes a number", remedy=remedy)


def _refuse_content(name: str, word: str) -> None:
    """Raise for a body or a file name where a number belongs, since options of other tools with the same name take
    them."""
    if word.lstrip()[:1] in ("{", "@"):
        body = word
    elif re.search(r"[A-Za-z]", word) and is_named(word):
        body = f"@{word}"
    else:
        return
    remedy = f"for a request body, write {Name(f'--body {shlex.quote(body)}', 'bodies', body)}"
    raise refusal(name, f"'{word}' is not a number", remedy=remedy)


def _plainly(values: Values, plain: Callable[[str], str]) -> Values:
    """Accept informal notations of the values in our own commands."""

    def read(name: str, word: str) -> Any:
        _refuse_time(name, word, values.metavar)
        _refuse_content(name, word)
        return values.read(name, plain(word))

    return replace(values, read=read, classic=values.read)


@frozen
class Range:
    """`start:end:step` of a sweep; an end of None means not given, 0 means open."""

    start: float
    end: float | None = None
    step: float = 1
    listed: tuple[float, ...] = field(default=(), kw_only=True)  # the levels, if not evenly spaced

    @classmethod
    def of(cls, levels: Sequence[float]) -> "Range":
        """Return a range of exactly these levels, in this order."""
        return cls(levels[0], max(levels), listed=tuple(levels)) if len(levels) > 1 else cls(levels[0])

    @property
    def last(self) -> int:
        """The end, or the start if no end was given."""
        return int(self.start if self.end is None else self.end)


def refusal(name: str, reason: str, *, remedy: str = "", classic: str = "") -> UsageError:
    """Return the error for a value that an option does not accept; `classic` is the reason in the classic scripts."""
    return UsageError(
        f"{name}: {reason[:1].lower()}{reason[1:]}",
        remedy=remedy,
        classic=f"Failed to parse {name}. {classic or reason}",
    )


def invalid(name: str, text: str, remedy: str) -> UsageError:
    """Return the error for a value that cannot be parsed."""
    return refusal(name, f"'{text}' is not valid", remedy=remedy, classic=f"Invalid value provided: {text}")


def _whole(name: str, text: str, shown: str) -> int:
    if re.fullmatch(_WHOLE, text.strip()) is None or abs(number := int(text)) > _LARGEST:
        raise invalid(name, shown, f"give a whole number up to {_LARGEST}, without unit")
    return number


def _decimal(name: str, text: str, shown: str) -> float:
    if re.fullmatch(_DECIMAL, text.strip()) is None or abs(number := float(text)) == float("inf"):
        raise invalid(name, shown, "give a number such as 10 or 2.5, without unit")
    return number


def _at_least(least: float, *, most: float = float("inf"), is_whole: bool = False) -> Check:
    def check(name: str, value: Any) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (is_whole and value != int(value)):
            raise UsageError(f"{name} must be a {'whole ' if is_whole else ''}number, but is {value!r}")
        if value < least:
            raise UsageError(f"{name} must be {plain_number(least)} or more, but is {value}")
        if value > most:
            raise UsageError(f"{name} must be {plain_number(most)} or less, but is {value}")

    return check


def text(metavar: str, reach: Reach | None = None, *, is_harmless: Callable[[str], bool] = _never) -> Values:
    """Any word, unchanged. Its reach depends on the option, which must declare it."""
    return Values(lambda name, word: word, metavar, reach=reach, is_harmless=is_harmless)


def label(metavar: str) -> Values:
    """A name or text that only this program interprets; it reaches nothing."""
    return text(metavar, Reach.NOTHING)


def objective() -> Values:
    """A service level objective."""
    return Values(lambda name, word: parse_slo(word), "SLO")


def server_url(metavar: str = "URL") -> Values:
    """The address of a server; errors are reported when connecting."""
    return text(metavar, Reach.NAMES_HOSTS)


def path(metavar: str = "FILE", reach: Reach = Reach.WRITES_FILES) -> Values:
    """The path of a file or folder; errors are reported when opening it."""
    return Values(lambda name, word: Path(word), metavar, reach=reach)


def whole(metavar: str = "COUNT", *, least: int | None = None, noun: str = "") -> Values:
    """Integers from `least` on; `noun` explains a short option in error messages."""

    def read(name: str, word: str) -> int:
        number = _whole(name, word, word)
        if least is not None and number < least:
            label = f"{name} ({noun})" if noun else name
            rule = f"> {least - 1}" if least == 1 else f">= {least}"
            raise refusal(label, f"The value must be {rule}, but is {number}")
        return number

    check = _at_least(-_LARGEST if least is None else least, is_whole=True)
    return _plainly(Values(read, metavar, check=check), plain_count)


def decimal(metavar: str, *, least: float, most: float = float("inf")) -> Values:
    """Numbers from `least` to `most`."""

    def read(name: str, word: str) -> float:
        number = _decimal(name, word, word)
        if number < least:
            raise refusal(name, f"The value must be >= {plain_number(least)}, but is {word}")
        if number > most:
            raise refusal(name, f"The value must be <= {plain_number(most)}, but is {word}")
        return number

    return Values(read, metavar, check=_at_least(least, most=most))


def above_zero(metavar: str, noun: str, example: str, *, suffix: str = "") -> Values:
    """Numbers above 0, with or without a suffix."""

    def read(name: str, word: str) -> float:
        number = word.removesuffix(suffix)
        return _decimal(name, number, number)

    def refuse(name: str, value: float, shown: object) -> None:
        if value <= 0:
            raise UsageError(f"{name} needs a {noun} above 0, but got '{shown}'", remedy=example)

    return _refined(Values(read, metavar, check=_at_least(0)), refuse)


_SYNONYMS = {
    word: choice
    for choice, words in {
        "openai": "vllm sglang tgi ollama llama.cpp llamacpp lmdeploy trtllm tensorrt-llm openai-chat "
        "openai-completions openai_http nim chat llm text",
        "triton": "kserve kserve-v2 mlserver tritonserver nvidia",
        "torchserve": "torch pytorch",
        "tfserving": "tf tf-serving tensorflow tensorflow_serving",
        "dynamic_grpc": "grpc",
        "http": "https rest web",
        "poisson": "exponential exp random",
        "constant": "uniform fixed deterministic",
    }.items()
    for word in words.split()
}
"""Words of other tools for values of options."""


def _meant(word: str, values: tuple[str, ...]) -> str:
    """Return the value that was probably meant; empty if none is."""
    found = _SYNONYMS.get(word.lower(), "")
    return found if found in values else nearest(word.lower(), values)


def choice(metavar: str, *values: str, any_case: bool = False, unsaid: tuple[str, ...] = ()) -> Values:
    """One of the values; `unsaid` are accepted only from Python."""

    def refuse(name: str, value: Any) -> UsageError:
        close = _meant(value, values) if isinstance(value, str) else ""
        hint = f"did you mean '{close}'? " if close else ""
        return refusal(
            name,
            f"'{value}' is not supported",
            classic=f"Unsupported type provided: '{value}'",
            remedy=f"{hint}the available options are {_list(values)}",
        )

    def read(name: str, word: str) -> str:
        found = word.lower() if any_case else word
        if found not in values:
            raise refuse(name, word)
        return found

    def check(name: str, value: Any) -> None:
        if value not in (*values, *unsaid):
            raise refuse(name, value)

    return Values(read, metavar, values, check)


def api_or_path(*names: str) -> Values:
    """The name of an API, or the path of its endpoint."""
    path = text("PATH", Reach.CHOOSES_CALLS, is_harmless=lambda word: word in names)

    def read(name: str, word: str) -> str:
        if word not in names and "/" not in word and (close := nearest(word.lower(), names)):
            raise refusal(
                name, f"Unknown API '{word}'", remedy=f"did you mean '{close}'? a path begins with /"
            )
        return word

    return replace(path, read=read, classic=path.read)


def switch(metavar: str, *off: str, on: tuple[str, ...]) -> Values:
    """A boolean written as one of these words."""
    words = choice(metavar, *off, *on)
    return Values(
        lambda name, word: words.read(name, word) in on,
        metavar,
        words.choices,
        is_harmless=lambda word: word in on,
    )


def _list(values: tuple[str, ...]) -> str:
    quoted = [f"'{value}'" for value in values]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else quoted[0]


def span(*, decimals: bool = False) -> Values:
    """`start[:end[:step]]`; the end is None if not given."""

    def read(name: str, word: str) -> Range:
        parts = word.split(":")
        if len(parts) > 3:
            raise refusal(
                name,
                f"'{word}' does not have the form start:end:step",
                classic=f"The value '{word}' does not match <start:end:step>",
            )
        convert = _decimal if decimals else _whole
        start, *rest = (convert(name, part, word) for part in parts)
        return Range(start, *rest)

    def check(name: str, value: Any) -> None:
        if not isinstance(value, Range):
            raise UsageError(
                f"{name} must be a Range, but is {value!r}", remedy="give Range(start, end, step)"
            )

    return _refined(Values(read, "RANGE", check=check), _refuse_range)


def levels(*, decimals: bool = False) -> Values:
    """`4`, `1,2,4`, `1:16`, `1:16:4` or `1:64:x2`."""
    whole_range = span(decimals=decimals)
    convert = _decimal if decimals else _whole

    def read(name: str, word: str) -> Range:
        _refuse_time(name, word)
        if word.lower() in ("auto", "max", "inf", "unlimited"):
            remedy = (
                f"use {Name('--sweep', 'sweep')}, which raises the load until the server saturates, or "
                f"{Name('-c', 'concurrency')} for a fixed load"
            )
            raise invalid(name, word, remedy)
        word = plain_levels(word, plain_rate if decimals else plain_count)
        first, *rest = word.split(":")
        spans = len(re.findall(r"(?<=[0-9])\s*[:-]\s*(?=[0-9x*])", word))
        if spans > 2 or (spans and "," in word) or ".." in word:  # notations mixed
            remedy = f"write a list, such as {name} 1,2,4, or a range, such as {name} 1:8, 1:8:2 or 1:64:x2"
            raise invalid(name, word, remedy)
        if not rest:
            numbers = [convert(name, part, word) for part in word.split(",")]
        elif len(rest) == 2 and rest[1][:1] in ("x", "*"):
            numbers = _multiplied(
                name, word, *(convert(name, part, word) for part in (first, *rest[:1], rest[1][1:]))
            )
        else:
            found: Range = whole_range.read(name, word)
            if found.end is not None and found.end < found.start:
                raise refusal(
                    name,
                    f"The levels of '{word}' are decreasing",
                    remedy="write the lowest first, such as 1:8",
                )
            return found
        if min(numbers) <= 0:
            raise refusal(
                name, f"A level must be > 0, but got '{word}'", remedy=f"write {name} 1, for example"
            )
        if len(set(numbers)) < len(numbers):
            raise refusal(name, f"'{word}' contains a level twice", remedy="write each level once")
        return Range.of(numbers)

    return replace(whole_range, read=read, metavar="LEVELS")


def _multiplied(name: str, word: str, start: float, end: float, factor: float) -> list[float]:
    if start <= 0 or end < start or factor < SMALLEST_FACTOR:
        raise refusal(
            name,
            f"'{word}' gives no levels",
            remedy=f"write lowest:highest:xFACTOR, such as 1:64:x2, with a factor of {SMALLEST_FACTOR} or more",
        )
    found = [start]
    while (value := found[-1] * factor) <= end * (1 + 1e-9):
        found.append(value)
    return found


def _refuse_range(name: str, value: Range, shown: object) -> None:
    for part, is_broken, rule in (
        ("start", value.start <= 0, "> 0"),
        ("end", value.end is not None and value.end < 0, ">= 0"),
        ("step", value.step <= 0, "> 0"),
    ):
        if is_broken:
            raise refusal(name, f"The {part} of the range must be {rule}, but got '{shown}'")


def _refuse_ramp(name: str, value: Range, shown: object) -> None:
    if value.end is None:
        raise refusal(name, f"Both start and end values must be provided, but got '{shown}'")
    if value.start > value.end:
        raise refusal(name, f"The start must not be above the end, but got '{shown}'")
    if (value.end - value.start) % value.step:
        raise refusal(
            name,
            f"The range must be a multiple of the step, but got '{shown}'",
            remedy="choose a step that divides end minus start",
        )


ramp = _refined(span(), _refuse_ramp)
"""`start:end[:step]`, where the steps divide the range evenly."""


@reads("RANGE")
def identifiers(name: str, word: str) -> tuple[int, int | None]:
    """`start[:end]` of sequence ids."""
    match = re.fullmatch(_IDENTIFIERS, word)
    if match is None:
        raise invalid(name, word, "write it like 1:1000, with ids of 0 or more")
    start, end = int(match[1]), None if match[2] is None else int(match[2])
    if end is not None and end < start:
        raise refusal(name, f"The end must not be below the start, but got '{word}'")
    return start, end


def _check_bounds(name: str, value: Any) -> None:
    if not 1 <= value[0] <= value[1]:
        raise UsageError(
            f"{name} is {value[0]}:{value[1]}",
            remedy="the lowest must be at least 1 and not above the highest",
        )


@reads("LOW:HIGH", check=_check_bounds)
def bounds(name: str, word: str) -> tuple[int, int]:
    """`lowest:highest`, at least 1; a single number stands for both."""
    word = plain_levels(word, plain_count)
    low, colon, high = word.partition(":")
    if not is_digits(low) or (colon and not is_digits(high)):
        raise UsageError(f"{name} is '{word}'", remedy="write lowest:highest, such as 1:8")
    found = int(low), int(high or low)
    _check_bounds(name, found)
    return found


_processes = whole(least=1)


def _check_workers(name: str, value: Any) -> None:
    if value != "auto":
        _processes.check(name, value)


@reads("COUNT", check=_check_workers)
def workers(name: str, word: str) -> int | str:
    """A number of processes, or auto."""
    if word.lower() in ("all", "max", "cores", "nproc"):
        raise invalid(name, word, f"write {name} auto, which adds processes while they are the limit")
    return word if word == "auto" else _processes.read(name, word)


_CLUSTER = r"auto|local|(ray://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/]+):[0-9]{1,5}"


def _check_cluster(name: str, value: Any) -> None:
    if not isinstance(value, str) or re.fullmatch(_CLUSTER, value) is None:
        raise refusal(
            name,
            f"'{value}' is not the address of a Ray cluster",
            remedy="write auto, local, host:port, or ray://host:port such as ray://head:10001",
        )


@reads("ADDRESS", check=_check_cluster, reach=Reach.NAMES_HOSTS | Reach.RUNS_CODE)
def cluster(name: str, word: str) -> str:
    """The address of a Ray cluster."""
    _check_cluster(name, word)
    return word


def _check_resources(name: str, value: Any) -> None:
    if not isinstance(value, dict) or not value:
        raise refusal(name, f"'{value}' does not name any resources", remedy=_RESOURCES)
    for resource, amount in value.items():
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not isinstance(resource, str) or not resource or not is_number or not 0 < amount <= _LARGEST:
            raise refusal(
                name, f"'{resource}' needs an amount above 0, but has {amount!r}", remedy=_RESOURCES
            )
        if amount > 1 and amount != int(amount):
            raise refusal(
                name,
                f"'{resource}' has {amount!r}, but Ray accepts fractions only below 1",
                remedy=_RESOURCES,
            )


_RESOURCES = """write them as CPU=2 or CPU=2,client=1, or as JSON: '{"client": 1}'"""


@reads("RESOURCES", check=_check_resources)
def resources(name: str, word: str) -> dict[str, float]:
    """Amounts by name, as NAME=AMOUNT,... or as a JSON object."""
    found: Any
    if word.lstrip().startswith("{"):
        import json

        try:
            found = json.loads(word)
        except ValueError as error:
            raise refusal(name, f"'{word}' is not JSON", remedy=_RESOURCES) from error
    else:
        pairs = [part.partition("=") for part in word.split(",")]
        if not all(
            resource.strip() and sign and re.fullmatch(_DECIMAL, amount.strip())
            for resource, sign, amount in pairs
        ):
            raise refusal(name, f"'{word}' does not name any resources", remedy=_RESOURCES)
        found = {resource.strip(): float(amount) for resource, _, amount in pairs}
    _check_resources(name, found)
    return {resource: float(amount) for resource, amount in found.items()}


@reads("NUMBER", check=_at_least(1, most=99, is_whole=True))
def _percentile(name: str, word: str) -> int | None:
    """1 to 99, or -1 for the mean, which becomes None."""
    try:
        number = _whole(name, word, word)
    except UsageError as error:
        raise invalid(name, word, "give a whole number from 1 to 99, or -1 for the mean") from error
    if number != -1 and not 0 < number < 100:
        raise refusal(
            name,
            f"the percentile must be from 1 to 99, or -1 for the mean, but is {number}",
            classic=f"The value must be -1 for not reporting or in range (0, 100), but is {number}",
        )
    return None if number == -1 else number


def _plain_percentile(word: str) -> str:
    """Turn `p99`, `99%` and `99th` into `99`."""
    match = re.fullmatch(r"[pP]?([0-9]{1,2})(?:\s*%|th|st|nd|rd)?", word.strip())
    return word if match is None else match[1]


percentile = _plainly(_percentile, _plain_percentile)


def duration(*, zero: bool) -> Values:
    """A duration in seconds, such as `90`, `90s` or `1.5m`; `zero` allows 0."""

    def read(name: str, word: str) -> float:
        if word.lstrip()[:1] in ("{", "@"):
            _refuse_content(name, word)
        try:
            seconds = parse_duration_ns(word, name) / NS_PER_S
        except OverflowError as error:
            raise invalid(name, word, "give a shorter time, such as 10s or 2m") from error
        if seconds == 0 and not zero:
            raise UsageError(
                f"{name} needs a duration above 0, but got '{word}'", remedy="write it like 10s or 2m"
            )
        return seconds

    return Values(read, "TIME", check=_at_least(0))


def _check_drawn_time(name: str, value: Any) -> None:
    try:
        parse_time(value)
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise UsageError(f"{name}: {what}", remedy=remedy or "write it like 2s or exponential(2s)") from None


@reads("TIME", check=_check_drawn_time)
def drawn_time(name: str, word: str) -> str:
    """A time or a distribution of times, such as `2s` or `exponential(2s)`."""
    _check_drawn_time(name, word)
    return word


def duration_or_file(*, zero: bool) -> Values:
    """A duration in seconds, or the name of a JSON file that has it."""
    plain = duration(zero=zero)

    def is_time(word: str) -> bool:
        return not word.lower().endswith(".json")

    def read(name: str, word: str) -> float | str:
        return plain.read(name, word) if is_time(word) else word

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str):
            plain.check(name, value)

    return Values(read, "TIME|FILE", check=check, reach=Reach.READS_FILES, is_harmless=is_time)


def share(*, zero: bool) -> Values:
    """A fraction, written as `2%` or `0.02`."""

    def read(name: str, word: str) -> float:
        fraction = parse_share(word, name)
        if fraction == 0 and not zero:
            raise UsageError(
                f"{name} needs a share above 0, but got '{word}'", remedy="write it as 2% or 0.02"
            )
        return fraction

    return Values(read, "SHARE", check=_at_least(0, most=1))


@reads("FILE", reach=Reach.READS_FILES)
def existing_file(name: str, word: str) -> str:
    check_path(word)
    if not is_named(word):
        raise refusal(
            name, f"The path '{word}' is not an existing file", remedy="give the path of a readable file"
        )
    return word


@reads("PATH", reach=Reach.READS_FILES)
def existing_path(name: str, word: str) -> str:
    check_path(word)
    if not os.path.exists(word):
        raise refusal(
            name, f"'{word}' does not exist", remedy="give the path of a readable file or of its folder"
        )
    return word


@reads("FILE", reach=Reach.WRITES_FILES)
def new_file(name: str, word: str) -> str:
    if os.path.exists(word):
        raise UsageError(
            f"{name}: '{word}' already exists; give the name of a new file",
            classic=f"Failed to parse {name} {word}. Path must not already exist.",
        )
    return word


@reads("FILE", reach=Reach.WRITES_FILES, is_harmless=lambda word: word == "-")
def output_file(name: str, word: str) -> str:
    if not word:
        raise refusal(name, "The path is empty", remedy="give the name of a file to write")
    if word.lstrip()[:1] in ("{", "[", "@"):
        body = Name(f"--body {shlex.quote(word)}", "bodies", word)
        raise refusal(
            name, f"'{word}' is not the name of a file to write", remedy=f"for a request body, write {body}"
        )
    return word


@reads("SOURCE", reach=Reach.READS_FILES | Reach.RUNS_CODE, is_harmless=lambda word: word in GENERATED)
def _data_source(name: str, word: str) -> str:
    """zero, random, or the path of something that exists."""
    if word in GENERATED:
        return word
    check_path(word)
    if not os.path.exists(word):
        raise refusal(
            name,
            f"'{word}' does not exist",
            classic=f"Unsupported type provided: '{word}'",
            remedy="the available options are 'zero', 'random', or the path of an existing file or directory",
        )
    return word


def _own_data_source(name: str, word: str) -> str:
    """Parse the same, and answer curl's notations of a body."""
    if word[:1] == "@" or word.lstrip()[:1] in ("{", "["):
        body = Name(f"--body {shlex.quote(word)}", "bodies", word)
        values = (
            f"write {word[1:]}"
            if word[:1] == "@"
            else "write it to a file, or give values as --input NAME=1,2"
        )
        raise refusal(
            name,
            f"'{word}' is not the name of a file",
            remedy=f"{values}; for a whole request body, write {body}",
        )
    found: str = _data_source.read(name, word)
    return found


data_source = replace(_data_source, read=_own_data_source, classic=_data_source.read)


def _check_marked(source: str) -> None:
    """Raise for `@FILE` if reading that file is not allowed."""
    if source.startswith("@"):
        check_path(os.path.expanduser(source[1:]))


@reads("BODY", reach=Reach.CHOOSES_CALLS | Reach.READS_FILES)
def body(name: str, word: str) -> str:
    """`@FILE`, or the text itself."""
    _check_marked(word)
    return word


@reads("JSON|FILE", reach=Reach.READS_FILES, is_harmless=lambda word: word.lstrip().startswith("{"))
def template(name: str, word: str) -> str:
    """JSON, or the name of a file that contains it."""
    return word if word.lstrip().startswith("{") else existing_file.read(name, word.removeprefix("@"))


@reads("NAME=@FILE", reach=Reach.READS_FILES, is_harmless=lambda word: "@" not in word)
def named_source(name: str, word: str) -> tuple[str, str]:
    """`NAME=@FILE` or `NAME=value,value`."""
    tensor, equals, source = word.partition("=")
    if not tensor or not equals or source == "@":
        given = re.fullmatch(r"([A-Za-z_][\w.-]*)[:\s]\s*(.+)", word)
        raise refusal(
            name,
            f"There must be an input name, '=' and a value, but got '{word}'",
            remedy="write it like IMAGE=@photo.jpg, IMAGE=@'photos/*.jpg' or SCALE=0.5"
            if given is None
            else f"write {shlex.quote(f'{given[1]}={given[2]}')}",
        )
    _check_marked(source)
    if (listed := re.fullmatch(r"\[([-+0-9eE.,\s]+)\]", source)) is not None:
        source = listed[1].replace(" ", "")
    return tensor, source


@reads("WIDTHxHEIGHT")
def picture_size(name: str, word: str) -> tuple[int, int]:
    """`512x512`, in pixels."""
    width, _, height = word.lower().partition("x")
    if not (is_digits(width) and is_digits(height)) or 0 in (int(width), int(height)):
        raise invalid(name, word, "write its width and height in pixels, such as 512x512")
    if max(int(width), int(height)) > LARGEST_PICTURE:
        raise refusal(name, f"An image may have up to {LARGEST_PICTURE} pixels a side, but got '{word}'")
    return int(width), int(height)


@reads("SHAPE")
def _shape(name: str, word: str) -> tuple[str, tuple[int, ...]]:
    """`name:d1,d2`; the name may hold colons."""
    tensor, colon, dims = word.rpartition(":")
    if not colon or not tensor:
        raise refusal(
            name,
            f"'{word}' does not have the form NAME:SIZES",
            classic=f"There must be a colon after input name, but got '{word}'",
            remedy="write it like IMAGE:3,224,224",
        )
    sizes = tuple(_whole(name, dim, word) for dim in dims.split(","))
    if min(sizes) <= 0:
        raise refusal(
            name,
            f"all sizes must be above 0, but got '{word}'",
            classic=f"The dimensions of input tensor must be > 0, but got '{word}'",
        )
    return tensor, sizes


def _plain_shape(word: str) -> str:
    """Turn `IMAGE:[3,224,224]`, `IMAGE:3x224x224` and `IMAGE=3,224,224` into `IMAGE:3,224,224`."""
    found = re.fullmatch(r"(.+)[:=]([\[(]?)([0-9]+(?:\s*[,x×]\s*[0-9]+)*)[\])]?", word)
    return word if found is None else f"{found[1]}:{','.join(re.findall('[0-9]+', found[3]))}"


shape = replace(_shape, read=lambda name, word: _shape.read(name, _plain_shape(word)), classic=_shape.read)


@reads("HEADER", reach=Reach.SENDS_SECRETS)
def header(name: str, word: str) -> tuple[str, str]:
    """`Name:Value`, the value unchanged. Values may be secrets, so no message shows one."""
    field, colon, value = word.partition(":")
    if not colon:
        raise refusal(
            name,
            "The header has no colon (it is not shown, as it may be a secret)",
            remedy="write it as Name:Value",
        )
    if re.fullmatch(_HEADER_NAME, field) is None:
        raise refusal(
            name,
            "The text before the colon is not a header name (it is not shown, as it may be a secret)",
            remedy="write it as Name:Value, without spaces in the name",
        )
    if any(mark in value for mark in "\r\n\0"):
        raise refusal(name, f"The value of header '{field}' contains a line break")
    return field, value


@reads("MICROSECONDS")
def microseconds(name: str, word: str) -> tuple[int, ...]:
    """`number,number`, at least 0 each."""
    words = [part.strip() for part in word.split(",") if part.strip()]
    if not all(map(is_digits, words)):
        raise UsageError(f"{name} is '{word}'", remedy="write whole numbers, such as 100,500")
    return tuple(map(int, words))


@reads("MODELS")
def members(name: str, word: str) -> tuple[tuple[str, str], ...]:
    """`name[:version],...` as pairs without white space; a missing version becomes empty."""
    pairs = []
    for item in "".join(word.split()).split(","):
        model, colon, version = item.partition(":")
        if not model or ":" in version or (colon and not version):
            raise invalid(name, word, "write it like model_a,model_b:2")
        pairs.append((model, version))
    return tuple(pairs)


@reads("PARAMETER", reach=Reach.CHOOSES_CALLS)
def parameter(name: str, word: str) -> tuple[str, str, str]:
    """`name:value:type` of a request parameter."""
    parts = word.split(":")
    if len(parts) != 3 or not parts[0] or parts[2].lower() not in ("bool", "int", "string"):
        raise refusal(
            name,
            f"'{word}' does not have the form name:value:type",
            classic=f"The value '{word}' does not match <name:value:type>",
            remedy="the type is bool, int or string",
        )
    return parts[0], parts[1], parts[2].lower()


@reads("NUMBERS")
def tolerance(name: str, word: str) -> tuple[float, float]:
    """`absolute[,relative]`."""
    try:
        numbers = [float(part) for part in word.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or any(not 0 <= number < float("inf") for number in numbers):
        raise invalid(name, word, "write it like 1e-5 or 1e-5,1e-3, absolute and relative")
    return numbers[0], numbers[1] if len(numbers) == 2 else 0.0
