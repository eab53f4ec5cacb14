"""SLOs of a load, such as `p99<50ms, errors<0.1%, throughput>100`, or for text `ttft<200ms, tpot<20ms`.

Each term limits a figure of the whole load: a percentile, a mean (`latency`, `ttft`, `ttfo`, `ttfc`, `tpot` and `gap`
without a percentile), a share or a rate. `wrong` is the share of wrong answers among those that were checked. `ttft`
is the time to the first token, `ttfo` the time to the first token of the answer itself if the model reasons first; an
answer without such a token violates any limit on them. `ttfc` is the time to the first tool call, of answers that
have one. `tpot` is the mean time between the tokens of an answer; `gap` is each of these times individually. `itl`
and `tbt` are aliases of `tpot`, `e2e` is an alias of `latency`, `ttfa` of `ttfo`. `task` is the time of a whole task,
in classes of a scenario that have tasks. The time limits also apply to each single request, whatever their percentile
(`gap` to its longest gap): requests that meet all of them are the goodput, and `goodput>95%` limits their share.
"""

import re
from collections.abc import Mapping
from dataclasses import field

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, SECONDS, plain_number

PERCENTILES = (
    1.0,
    5.0,
    10.0,
    25.0,
    50.0,
    75.0,
    90.0,
    95.0,
    99.0,
    99.9,
    99.99,
)  # of every series of durations
STREAMED = ("ttft", "ttfo", "ttfc", "tpot", "gap")  # only streams have these
TASK = "task"
TIMES = ("latency", TASK, *STREAMED)
SHARES = ("errors", "wrong", "goodput")
MOST_FAILED = 0.001  # share of requests that may fail if an SLO does not limit it
_TIME_UNITS = {
    unit: round(SECONDS[unit] * NS_PER_S)
    for unit in ("ms", "us", "s", *(unit for unit in SECONDS if unit != "ns"))
}
_UNITS: Mapping[str, Mapping[str, float]] = {
    **dict.fromkeys(TIMES, _TIME_UNITS),
    "errors": {"%": 0.01},
    "wrong": {"%": 0.01},
    "goodput": {"%": 0.01},
    "throughput": {"": 1, "/s": 1, "infer/s": 1},
    "energy": {
        f"{prefix}j/{of}": factor
        for prefix, factor in (("", 1), ("m", 1e-3), ("k", 1e3))
        for of in ("token", "request", "inference")
    },
}
"""Units of limits by figure, suggested ones first."""
_LARGEST = 1e15
_LONGEST = 1000  # characters of an SLO
EXAMPLE = (
    "write it like 'p99<50ms, mean<10ms, ttft<200ms, ttft p99<1s, tpot<20ms, gap p99<50ms, errors<0.1%, "
    "throughput>100, goodput>95%'"
)
_TERM = r"(?P<name>[^<>=]+?)\s*(?P<sign>[<>]=?)\s*(?P<limit>[^<>=]+)"
_ALIASES = {
    "ttfa": "ttfo",
    "itl": "tpot",
    "tbt": "tpot",
    "e2e": "latency",
}  # names in other tools
_NAME = r"(?:(?P<figure>latency|task|ttft|ttfo|ttfc|tpot|gap) )?(?P<statistic>mean|avg|average|p\d{1,2}(?:\.\d+)?)"
_LIMIT = r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+|nan|inf|infinity))\s*(?P<unit>[^\d.]*)"


@frozen
class Term:
    """One figure and its limit: nanoseconds, a share of errors or goodput, or inferences per second."""

    name: str  # mean, a percentile such as p99, errors, throughput, goodput
    limit: float
    figure: str = "latency"  # or TASK, or one of STREAMED
    sign: str = field(default="<", compare=False)
    text: str = field(default="", compare=False)  # as written
    is_implied: bool = field(default=False, compare=False)  # not written, but part of every SLO

    @property
    def label(self) -> str:
        if self.figure not in (TASK, *STREAMED):
            return self.name
        return self.figure if self.name == "mean" else f"{self.figure} {self.name}"

    @property
    def percentile(self) -> float | None:
        return float(self.name[1:]) if self.figure in TIMES and self.name != "mean" else None

    @property
    def share(self) -> float | None:
        """Share of requests that may exceed the limit, fail or have a wrong answer; None for a mean."""
        if self.name in ("errors", "wrong"):
            return self.limit
        return None if self.percentile is None else 1 - self.percentile / 100

    def is_within(self, value: float) -> bool:
        """Return whether a figure meets the limit."""
        if value == self.limit:
            return self.sign.endswith("=")
        return value < self.limit if self.sign.startswith("<") else value > self.limit


@frozen
class Slo:
    """Service level objective; all terms must hold."""

    terms: tuple[Term, ...]
    text: str


def parse_slo(text: str, *, has_tasks: bool = False) -> Slo:
    """Parse terms separated by commas; without an errors term, one in a thousand may fail."""
    terms = tuple(_term(part, text) for part in slo_parts(text))
    of_task = next((term for term in terms if term.figure == TASK), None)
    if of_task is not None and not has_tasks:
        raise UsageError(
            f"'{of_task.text}' in the SLO '{text}' limits the time of a task, but this load has no tasks",
            remedy="set it as `slo:` of a scenario's class with `task:`, or limit the latency of requests",
        )
    names = [term.label for term in terms]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the SLO '{text}' limits {twice} twice", remedy="remove one of the limits")
    if "goodput" in names and not any(term.figure in TIMES for term in terms):
        raise UsageError(
            f"the SLO '{text}' limits goodput, but has no time limit that defines a good request",
            remedy="add one, such as latency<2s",
        )
    if "errors" not in names:
        implied = Term("errors", MOST_FAILED, "errors", text=f"errors<{MOST_FAILED:.1%}", is_implied=True)
        terms = (*terms, implied)
    return Slo(terms, text.strip())


def slo_parts(text: str) -> list[str]:
    """Return the terms of an SLO in our spelling. They are separated by commas, semicolons or `and`."""
    if len(text) > _LONGEST:
        raise UsageError(f"the SLO has {len(text)} characters", remedy=f"write at most {_LONGEST}")
    if re.search(r"\d,\d", text):
        meant = [re.sub(r"(?<=\d),(?=\d)", mark, text) for mark in (".", "")]
        is_grouped = re.search(r"\d,\d{3}(?!\d)", text) is not None
        written = " or ".join(f"'{word}'" for word in (meant if is_grouped else meant[:1]))
        raise UsageError(f"a number in the SLO '{text}' contains a comma", remedy=f"write {written}")
    return [" ".join(part.split()) for part in _as_usual(" ".join(text.split())).split(",")]


_TIME_NAMES = rf"(?:{'|'.join(TIMES)})"
_USUAL = (
    ("≤|=<", "<="),
    ("≥|=>", ">="),
    (r"\s*(?:;|&&?|\band\b)\s*", ", "),
    (r"\bwrong[ _](?:answers?|rate|share)\b", "wrong"),
    (r"\s+(?:is\s+)?(?:under|below|less than|at most|up to|within)\s+", "<"),
    (r"\s+(?:is\s+)?(?:over|above|more than|at least)\s+", ">"),
    (r"([<>]=?\s*[\d.]+\s*[a-zµ%/]*)\s+(?=[a-z][\w .()]*[<>])", r"\1, "),  # terms without a comma
    (r"(?<![\w.])([\d.]+\s*[a-zµ%]*)\s*<(=?)\s*([a-z][\w .()]*)$", r"\3>\2\1"),  # 100<throughput
    (r"(?<![\w.])([\d.]+\s*[a-zµ%]*)\s*>(=?)\s*([a-z][\w .()]*)$", r"\3<\2\1"),
    (r"\bp\((\d+(?:\.\d+)?)\)", r"p\1"),
    (r"\bp(9\d)(\d{1,2})(?!\d)", r"p\1.\2"),  # p999
    (r"(?<![\w.])(\d\d?(?:\.\d+)?)\s*(?:%|th\b)(?:\s*percentile)?(?:\s+of\s[a-z ]+)?(?=[\w ]*[<>])", r"p\1"),
    (r"\bmedian\b", "p50"),
    (r"\bresponse[ _]?time\b", "latency"),
    (rf"\b(p\d[\d.]*|mean|avg|average)[ _]*({_TIME_NAMES})(?![a-z])", r"\2 \1"),  # p99 latency
    (r"\b(?:error|failure)s?[ _]?rate\b|\b(?:failures?|error)\b|\bhttp_req_failed\b", "errors"),
    (r"\b(?:rps|qps|req/s|requests/s|requests per second)(?=\s*[<>])", "throughput"),
    (r"\bhttp_req_duration:?\s*", ""),
    (r"(?<=[\d.])\s*(?:rps|qps|req/s|requests/s)\s*(?=,|$)", ""),
)
"""Spellings of other tools and people, with ours."""


def _as_usual(text: str) -> str:
    for pattern, written in _USUAL:
        text = re.sub(pattern, written, text, flags=re.IGNORECASE)
    return text


def _term(part: str, whole: str) -> Term:
    found = re.fullmatch(_TERM, part)
    if found is None:
        remedy = _meant(part) or EXAMPLE
        if _is_figure(part):
            remedy = f"{EXAMPLE}, in quotes, because a shell takes < and > as redirections"
        raise UsageError(f"'{part}' in the SLO '{whole}' is not a figure with a limit", remedy=remedy)
    written, sign, limit = found["name"], found["sign"], found["limit"]
    figure, name = _figure(written, part)
    is_below = figure in (*TIMES, "errors", "wrong", "energy")
    if sign.startswith("<") is not is_below:
        better = "lower" if is_below else "higher"
        raise UsageError(
            f"'{part}' has the wrong direction: for {written}, {better} is better",
            remedy=_suggestion(written, limit, sign[1:]),
        )
    value, unit = _limit(figure, part, sign, limit)
    if figure == "energy":
        name = f"energy per {unit.partition('/')[2]}"
    return Term(name, value, figure, sign, part)


def _meant(part: str) -> str:
    """Suggest a term for words without `<` or `>`, such as `p99=50ms`, `p99 50ms` or `50ms`; empty if there is
    none."""
    limit = r"(?P<limit>\d[\d.]*\s*[a-zµ%/]*)"
    for pattern in (
        rf"(?P<name>[a-z][\w .]*?)\s*(?:[=:]+|\s(?:in|is|of)?)\s*{limit}",
        rf"[<>=]*\s*{limit}(?:\s+(?P<name>[a-z][\w .]*))?",
    ):
        if (found := re.fullmatch(pattern, part, re.IGNORECASE)) is not None:
            name = found["name"] or "p99"
            return _suggestion(name if _is_figure(name) else "p99", found["limit"])
    return ""


def _is_figure(name: str) -> bool:
    try:
        _figure(name, name)
    except UsageError:
        return False
    return True


def _suggestion(name: str, limit: str, equal: str = "") -> str:
    """Suggest a term with the right sign, and a unit if the limit has none."""
    sign = ">" if name.lower() in ("throughput", "goodput") else "<"
    if limit.strip()[-1:].isdigit():
        unit = {"throughput": "", "errors": "%", "goodput": "%"}.get(name.lower(), "ms")
        limit = f"{limit.strip()}{unit}"
    if name.lower() == "errors" and re.fullmatch(r"[0.]+\s*%", limit):
        equal = "="  # no failures at all
    return f"write '{name}{sign}{equal}{limit}'"


def _figure(written: str, part: str) -> tuple[str, str]:
    """Return the limited figure and its statistic."""
    words = " ".join(_ALIASES.get(word, word) for word in written.lower().replace("_", " ").split())
    if words in TIMES:
        return words, "mean"
    if words in _UNITS:
        return words, words
    found = re.fullmatch(_NAME, words)
    if found is None:
        if (
            success := re.fullmatch(r"(?:success\w*|availability)[^<>]*>=?\s*([\d.]+)\s*%", part.lower())
        ) is not None:
            failed = plain_number(round(100 - float(success[1]), 6))
            raise UsageError(f"'{part}': unknown SLO figure '{written}'", remedy=f"write 'errors<{failed}%'")
        if words in ("max", "maximum", "p100", "worst"):
            remedy = f"limit a high percentile: 'p99.9{part[len(written) :]}'"
            raise UsageError(f"'{part}': the maximum cannot be limited", remedy=remedy)
        raise UsageError(f"'{part}': unknown SLO figure '{written}'", remedy=EXAMPLE)
    figure, statistic = found["figure"] or "latency", found["statistic"]
    if not statistic.startswith("p"):
        return figure, "mean"
    if (p := float(statistic[1:])) not in PERCENTILES:
        known = ", ".join(f"p{plain_number(p)}" for p in PERCENTILES)
        raise UsageError(f"'{part}': {statistic} is not measured", remedy=f"use one of {known}")
    return figure, f"p{plain_number(p)}"


def _limit(figure: str, part: str, sign: str, written: str) -> tuple[float, str]:
    """Return the limit in nanoseconds, as a share, per second or in joules, with its unit as written. Reject
    ambiguous and impossible limits."""
    found = re.fullmatch(_LIMIT, written.lower())
    if found is None:
        raise UsageError(f"'{part}': '{written}' is not a limit", remedy=EXAMPLE)
    number, unit, units = found["number"], found["unit"].rstrip(), _UNITS[figure]
    # An SLO may demand no failures at all, or only good requests.
    is_bound = (figure, sign, float(number)) in (
        ("errors", "<=", 0),
        ("wrong", "<=", 0),
        ("goodput", ">=", 100),
    )
    if not is_bound and not 0 < float(number) < (100 if figure in SHARES else _LARGEST):
        between = "above 0 % and below 100 %" if figure in SHARES else "above 0"
        remedy = "write 'errors<=0%' to allow none" if figure == "errors" and float(number) == 0 else EXAMPLE
        raise UsageError(f"'{part}': a limit on {figure} must be {between}", remedy=remedy)
    if unit not in units:
        what = f"has the unknown unit '{unit}'" if unit else "has no unit"
        remedy = f"write {_choices(number, units)}"
        if figure in SHARES and not unit and float(number) < 1:
            remedy += f", or {plain_number(round(float(number) * 100, 6))}% if {number} is a share"
        raise UsageError(f"'{part}' {what}", remedy=remedy)
    if unit == "%":
        return float(number) / 100, unit
    return float(number) * units[unit], unit


def _choices(number: str, units: Mapping[str, float]) -> str:
    first = [f"{number}{unit.replace('j/', 'J/')}" for unit in units][:3]
    return first[0] if len(first) == 1 else f"{', '.join(first[:-1])} or {first[-1]}"
