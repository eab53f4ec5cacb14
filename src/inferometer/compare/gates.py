"""When a comparison counts as a regression, such as `p99 > +5%, throughput < -3%, snr < 40`."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from inferometer.base.errors import UsageError
from inferometer.compare.comparison import (
    FAILED,
    INCONCLUSIVE,
    PASSED,
    THROUGHPUT,
    Contrast,
    Difference,
    GateOutcome,
    LevelDifference,
    OutputSimilarity,
    Variant,
)

_WORDS = re.compile(r"\s*(?P<name>[^\s<>=]*)\s*(?P<sign>[<>]?=?)\s*(?P<limit>.*?)\s*")
_PERCENTILE = re.compile(r"p([1-9]\d?)")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")

Figure = Callable[[OutputSimilarity], float | None]


def _snr(output: OutputSimilarity) -> float | None:
    return float("inf") if output.is_identical else output.snr_db


def _cosine(output: OutputSimilarity) -> float | None:
    return 1.0 if output.is_identical else output.cosine


def _relative(output: OutputSimilarity) -> float | None:
    return 0.0 if output.is_identical else output.relative


OUTPUT_FIGURES: dict[str, Figure] = {
    "snr": _snr,
    "cosine": _cosine,
    "relative": _relative,
    "max_abs": lambda output: output.max_abs,
    "mean_abs": lambda output: output.mean_abs,
    "top1": lambda output: output.top1,
    "exact": lambda output: output.exact,
}
_SHARES = ("top1", "exact", "errors", "relative")  # may be written in percent
ERRORS = "errors"
KNOWN = f"{THROUGHPUT}, p50, p95, p99, {ERRORS}, {', '.join(OUTPUT_FIGURES)}"


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition under which a variant fails: a difference in percent, or a figure of its outputs or errors."""

    name: str
    is_above: bool  # fails above the limit; else below it
    limit: float  # percent for speed, a share for errors
    text: str

    @property
    def percentile(self) -> int | None:
        found = _PERCENTILE.fullmatch(self.name)
        return int(found[1]) if found else None

    @property
    def is_speed(self) -> bool:
        return self.name == THROUGHPUT or self.percentile is not None

    @property
    def is_output(self) -> bool:
        return self.name in OUTPUT_FIGURES

    def is_beyond(self, value: float) -> bool:
        return value > self.limit if self.is_above else value < self.limit


def parse_gates(text: str) -> tuple[Gate, ...]:
    """Conditions separated by commas; any of them fails the variant."""
    gates = []
    position = 0
    for part in text.split(","):
        gates.append(_gate(part, text, position))
        position += len(part) + 1
    return tuple(gates)


def _gate(part: str, whole: str, position: int) -> Gate:
    found = _WORDS.fullmatch(part)
    assert found is not None  # every text fits: what is wrong with it is said below
    name, sign, limit = found["name"].lower(), found["sign"], found["limit"]

    def refuse(what: str, group: str, remedy: str) -> UsageError:
        place = position + found.start(group)
        return UsageError(f"--fail-if: {what}; {remedy}\n  {whole}\n  {' ' * place}^")

    if not name:
        raise refuse("a condition is missing", "name", "write conditions like 'p99 > +5%, snr < 40'")
    if name not in (THROUGHPUT, ERRORS, *OUTPUT_FIGURES) and not _PERCENTILE.fullmatch(name):
        raise refuse(f"'{found['name']}' is no figure of a comparison", "name", f"take one of {KNOWN}")
    if sign.rstrip("=") not in ("<", ">"):
        raise refuse(f"after '{found['name']}' comes < or >", "sign", "write it like 'p99 > +5%'")
    number, is_percent = limit.removesuffix("%").strip(), limit.endswith("%")
    if not _NUMBER.fullmatch(number):
        raise refuse(f"'{limit}' is no number", "limit", "write it like +5%, -3% or 40")
    is_speed = name == THROUGHPUT or name.startswith("p")
    if is_speed and not is_percent:
        raise refuse(
            f"'{name}' is compared with the baseline's, so '{limit}' needs a %", "limit", f"write {limit}%"
        )
    if is_percent and not is_speed and name not in _SHARES:
        raise refuse(f"'{name}' has no percent", "limit", f"write {number}")
    value = float(number) / 100 if is_percent and not is_speed else float(number)
    return Gate(name, sign.startswith(">"), value, " ".join(part.split()))


def judge(
    gates: Sequence[Gate], contrasts: Sequence[Contrast], variants: Sequence[Variant]
) -> tuple[GateOutcome, ...]:
    """Every condition for every variant but the baseline."""
    known = {variant.name: variant for variant in variants}
    return tuple(_judge(gate, contrast, known[contrast.variant]) for contrast in contrasts for gate in gates)


def _judge(gate: Gate, contrast: Contrast, variant: Variant) -> GateOutcome:
    rows = list(_findings(gate, contrast, variant))
    for outcome in (FAILED, INCONCLUSIVE, PASSED):
        for row in rows:
            if row[0] == outcome:
                return GateOutcome(gate.text, contrast.variant, outcome, row[1])
    return GateOutcome(gate.text, contrast.variant, INCONCLUSIVE, f"no {gate.name} was measured")


def _findings(gate: Gate, contrast: Contrast, variant: Variant) -> Iterator[tuple[str, str]]:
    """(outcome, why) at every level, or of every output."""
    if gate.name == ERRORS:
        share = variant.result.failed_share
        yield FAILED if gate.is_beyond(share) else PASSED, f"{share:.2%} of the requests failed"
    elif gate.is_output:
        if not contrast.outputs:
            yield INCONCLUSIVE, contrast.outputs_note or "outputs were not compared"
        for output in contrast.outputs:
            yield from _of_output(gate, output)
    else:
        for level in contrast.levels:
            for difference in level.differences:
                if difference.metric == gate.name:
                    yield _of_difference(gate, level, difference)


def _of_difference(gate: Gate, level: LevelDifference, found: Difference) -> tuple[str, str]:
    percent = found.percent
    where = f"at {level.mode.replace('_', ' ')} {level.value:g}"
    if percent.low is None or percent.high is None:
        return INCONCLUSIVE, f"{percent.value:+.1f} % without an interval {where}: {found.reason}"
    words = f"{percent.value:+.1f} % ({percent.low:+.1f} to {percent.high:+.1f}) {where}"
    beyond = [gate.is_beyond(end) for end in (percent.low, percent.high)]
    if all(beyond):
        return FAILED, words
    return (INCONCLUSIVE, f"{words}: the limit lies inside the interval") if any(beyond) else (PASSED, words)


def _of_output(gate: Gate, output: OutputSimilarity) -> Iterator[tuple[str, str]]:
    where = f"in output '{output.name}'"
    if output.problem:
        yield FAILED, f"output '{output.name}': {output.problem}"
        return
    if output.non_finite:
        yield (
            FAILED,
            f"output '{output.name}' has {output.non_finite} elements with NaN or infinity on one side only",
        )
        return
    value = OUTPUT_FIGURES[gate.name](output)
    if value is not None:  # a figure that does not apply to this output says nothing about it
        shown = "identical" if output.is_identical else f"{gate.name} {value:.4g}"
        yield FAILED if gate.is_beyond(value) else PASSED, f"{shown} {where}"
