"""The result of a comparison as one value and one file, from which every report can be rendered."""

from typing import ClassVar

from inferometer.base.answer_file import Answer
from inferometer.base.frozen import frozen
from inferometer.options.effective import common_unit
from inferometer.stats.estimate import Estimate
from inferometer.stats.result import Result

FASTER, SLOWER, NO_DIFFERENCE = "faster", "slower", "no difference shown"
MIXED = "mixed"  # faster by one figure, slower by another
LESS, MORE = "less energy", "more energy"
THROUGHPUT = "throughput"

PASSED, FAILED, INCONCLUSIVE = "passed", "failed", "inconclusive"

FINE, REGRESSION, UNDECIDED, INVALID = "fine", "regression", "inconclusive", "invalid"
EXIT_CODES = {FINE: 0, REGRESSION: 1, UNDECIDED: 2, INVALID: 3}


@frozen
class Turn:
    """Figures of one variant in one round."""

    number: int  # of the round, from 0
    place: int  # the variant's position in that round, from 0
    start_s: float  # since the start of the load
    request_count: int
    infer_per_s: float
    percentiles: tuple[tuple[float, int], ...]  # (p, ns) of the compared ones


@frozen
class Variant:
    """A variant with its result; `turns` has the turns of each level, and is empty for a saved result."""

    name: str
    result: Result
    turns: tuple[tuple[Turn, ...], ...] = ()


@frozen
class Difference:
    """Difference of one figure between a variant and the baseline. All intervals of a comparison hold jointly."""

    metric: str  # throughput, or a percentile of the latency such as p99
    base: float  # infer/s or ns
    value: float
    percent: Estimate  # relative to the baseline; positive means more, whether that is better or worse
    verdict: str  # FASTER, SLOWER, NO_DIFFERENCE or INCONCLUSIVE
    reason: str = ""  # why there is no interval


@frozen
class LevelDifference:
    """Differences of all figures at one load."""

    mode: str  # concurrency or request_rate
    value: float
    differences: tuple[Difference, ...]


@frozen
class EnergyDifference:
    """Difference of the energy per request or per token between a variant and the baseline, at one load."""

    mode: str
    value: float  # the load
    metric: str  # energy per request or energy per token
    base: Estimate | None  # joules; None if there is no valid figure
    other: Estimate | None
    percent: Estimate | None  # relative to the baseline
    verdict: str  # LESS, MORE, NO_DIFFERENCE, INCONCLUSIVE or INVALID
    reason: str = ""  # why there is no figure or no interval


@frozen
class OutputSimilarity:
    """Similarity of one output of two variants for the same inputs. Figures that do not apply are None.

    If both are identical, `exact` is 1 and the signal-to-noise ratio, which would be infinite, is None.
    """

    name: str
    datatype: str  # the baseline's; "FP32 / FP16" if they differ
    requests: int  # compared
    elements: int
    exact: float | None = None  # share of identical elements
    max_abs: float | None = None  # errors consider elements that are finite on both sides
    mean_abs: float | None = None
    relative: float | None = None  # norm of the error over norm of the baseline's output
    cosine: float | None = None
    snr_db: float | None = None
    top1: float | None = None  # share of rows with the same top class, if the output looks like classes
    non_finite: int = 0  # elements with NaN or infinity on one side only
    problem: str = ""  # why figures are missing: different shape, missing on one side ...

    @property
    def is_identical(self) -> bool:
        return not self.problem and self.exact == 1.0


@frozen
class Contrast:
    """Comparison of a variant with the baseline: speed by level, then outputs."""

    variant: str
    levels: tuple[LevelDifference, ...]
    verdict: str  # FASTER, SLOWER, NO_DIFFERENCE, INCONCLUSIVE or MIXED
    outputs: tuple[OutputSimilarity, ...] = ()
    outputs_note: str = ""  # why outputs were not compared
    energy: tuple[EnergyDifference, ...] = ()  # empty if neither variant has energy figures


@frozen
class GateOutcome:
    """Outcome of one condition of --fail-if for one variant."""

    text: str  # as written, such as "p99 > +5%"
    variant: str
    outcome: str  # PASSED, FAILED or INCONCLUSIVE
    found: str  # the deciding figure, and its level or output


@frozen
class Comparison(Answer):
    """A comparison of variants. `problems` make it invalid; `notes` are informational."""

    kind: ClassVar[str] = "comparison"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "compare again"

    tool: str
    started_at: str
    is_live: bool  # measured in turns, not read from saved results
    confidence: float  # with which all intervals hold jointly
    baseline: str  # name of the variant that the others are compared with
    variants: tuple[Variant, ...]
    contrasts: tuple[Contrast, ...]
    gates: tuple[GateOutcome, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def rate_unit(self) -> str:
        """The unit of throughput: requests if any variant counts them."""
        return common_unit(row.result.effective.rate_unit for row in self.variants)

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
