"""Variants side by side as one value and one file: every report can be made again from it."""

from dataclasses import dataclass
from typing import ClassVar

from inferometer.base.answer_file import Answer
from inferometer.stats.measurement import Estimate
from inferometer.stats.result import Result

FASTER, SLOWER, NO_DIFFERENCE = "faster", "slower", "no difference shown"
MIXED = "mixed"  # faster by one figure, slower by another
THROUGHPUT = "throughput"

PASSED, FAILED, INCONCLUSIVE = "passed", "failed", "inconclusive"

FINE, REGRESSION, UNDECIDED, INVALID = "fine", "regression", "inconclusive", "invalid"
EXIT_CODES = {FINE: 0, REGRESSION: 1, UNDECIDED: 2, INVALID: 3}


@dataclass(frozen=True, slots=True)
class Turn:
    """What one variant did in one round."""

    number: int  # of the round, from 0
    place: int  # the variant's place in the order of that round, from 0
    start_s: float  # after the comparison's load began
    request_count: int
    infer_per_s: float
    percentiles: tuple[tuple[float, int], ...]  # (p, ns) of the compared ones


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant with all its figures; `turns` are those of each level of its result, none for a saved result."""

    name: str
    result: Result
    turns: tuple[tuple[Turn, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of a variant against the baseline's. All intervals of a comparison hold together."""

    metric: str  # throughput, or a percentile of the latency such as p99
    base: float  # infer/s or ns
    value: float
    percent: Estimate  # of the baseline's figure; positive is more, whether that is good or bad
    verdict: str  # FASTER, SLOWER, NO_DIFFERENCE or INCONCLUSIVE
    reason: str = ""  # why there is no interval


@dataclass(frozen=True, slots=True)
class LevelDifference:
    """All compared figures at one load."""

    mode: str  # concurrency or request_rate
    value: float
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class OutputSimilarity:
    """How similar one output of two variants is over the same inputs. What does not apply is None.

    Where both are the same everywhere, `exact` is 1 and the signal-to-noise ratio, which would be infinite, is None.
    """

    name: str
    datatype: str  # the baseline's; "FP32 / FP16" where they differ
    requests: int  # that were compared
    elements: int
    exact: float | None = None  # share of elements that are the same
    max_abs: float | None = None  # errors are over the elements that are finite on both sides
    mean_abs: float | None = None
    relative: float | None = None  # size of the error over size of the baseline's output (root of squares)
    cosine: float | None = None
    snr_db: float | None = None
    top1: float | None = None  # share of rows with the same largest class, where it looks like classes
    non_finite: int = 0  # elements where one side has NaN or infinity and the other something else
    problem: str = ""  # why figures are missing: another shape, missing on one side ...

    @property
    def is_identical(self) -> bool:
        return not self.problem and self.exact == 1.0


@dataclass(frozen=True, slots=True)
class Contrast:
    """A variant against the baseline: speed by level, then outputs."""

    variant: str
    levels: tuple[LevelDifference, ...]
    verdict: str  # FASTER, SLOWER, NO_DIFFERENCE, INCONCLUSIVE or MIXED
    outputs: tuple[OutputSimilarity, ...] = ()
    outputs_note: str = ""  # why outputs were not compared


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """What became of one condition of --fail-if for one variant."""

    text: str  # as it was written, such as "p99 > +5%"
    variant: str
    outcome: str  # PASSED, FAILED or INCONCLUSIVE
    found: str  # the figure that decided, and where


@dataclass(frozen=True, slots=True)
class Comparison(Answer):
    """`problems` make it invalid; `notes` are only to be known."""

    kind: ClassVar[str] = "comparison"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "compare again"

    tool: str
    started_at: str
    is_live: bool  # measured now and in turns, or read from saved results
    confidence: float  # with which all intervals hold together
    baseline: str  # name of the variant all others are compared with
    variants: tuple[Variant, ...]
    contrasts: tuple[Contrast, ...]
    gates: tuple[GateOutcome, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """FINE, REGRESSION, UNDECIDED or INVALID."""
        found = {gate.outcome for gate in self.gates}
        if self.problems:
            return INVALID
        if FAILED in found:
            return REGRESSION
        return UNDECIDED if INCONCLUSIVE in found else FINE

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]
