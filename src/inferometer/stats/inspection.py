"""Contents of a trace or a prompt file, saved as an answer from which reports can be reproduced."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import inferometer
from inferometer.base.answer_file import Answer
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S
from inferometer.dataset.contents import Contents, read_contents
from inferometer.dataset.tokens import open_tokenizer
from inferometer.options.stored import InspectOptions
from inferometer.stats.prompts import tree_tokens
from inferometer.stats.series import rank

MOST_BINS = 120
PER_BIN = 5  # requests, on average
MANY_TOGETHER = 0.5  # share of requests with duplicate times above which times count as rounded
PER_WINDOW = 10  # mean requests per window when looking for bursts
FEWEST_WINDOWS = 20
_STEPS_S = tuple(factor * 10.0**power for power in range(-3, 8) for factor in (1, 2, 5))
_CURVE = (0.0, 1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.9, 100.0)

Times = NDArray[np.int64]


@frozen
class TokenLengths:
    """Lengths of prompts or answers in tokens; `curve` has (percentile, tokens)."""

    count: int
    total: int
    mean: float
    p50: int
    p90: int
    p99: int
    max: int
    curve: tuple[tuple[float, int], ...]


@frozen
class ArrivalBin:
    """Requests and tokens due in one interval."""

    start_s: float
    requests: int
    input_tokens: int
    output_tokens: int


@frozen
class Burstiness:
    """Unevenness of arrivals; both figures are 1 for independent requests (Poisson), 0 for regular ones.

    `gap_variation` is the variance of the gaps over the square of their mean. `dispersion` is the variance of the
    number of requests in windows of `window_s` over its mean; None if there are too few windows.
    """

    gap_variation: float
    dispersion: float | None
    window_s: float
    chance: float  # deviation of the last figure from 1 that chance can explain for independent requests
    together: float  # share of requests that share their time with another one
    tick_s: float  # all times are multiples of it, counted from the first one


@frozen
class Inspection(Answer):
    """Contents of a trace or prompt file. All `bins` last `bin_s`; the last one may end after the last request."""

    kind: ClassVar[str] = "inspection"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "inspect the file again"

    tool: str
    name: str  # of the file
    format: str
    requests: int
    counted_in: str  # the unit in which tokens were counted
    span_s: float | None = None  # from the first request to the last; None without times
    bin_s: float = 0.0
    bins: tuple[ArrivalBin, ...] = ()
    burstiness: Burstiness | None = None
    input: TokenLengths | None = None
    output: TokenLengths | None = None
    cacheable_tokens: int | None = None  # of the prompts, with an ideal prefix cache
    session_count: int = 0
    session_requests: tuple[int, int] = (0, 0)  # in the median session, and in the longest
    findings: tuple[str, ...] = ()

    @property
    def per_s(self) -> float | None:
        """Mean rate between the first and the last request."""
        return (self.requests - 1) / self.span_s if self.span_s else None

    @property
    def cacheable_share(self) -> float | None:
        if self.cacheable_tokens is None or self.input is None or not self.input.total:
            return None
        return self.cacheable_tokens / self.input.total

    @property
    def peak_per_s(self) -> float | None:
        """Rate in the busiest bin; at least the mean, which ignores the time after the last request."""
        if not self.bins:
            return None
        return max(max(row.requests for row in self.bins) / self.bin_s, self.per_s or 0.0)


def inspect_file(path: str, asked: InspectOptions) -> Inspection:
    """Inspect a trace or a prompt file."""
    tokenizer = open_tokenizer(asked.tokenizer)
    contents = read_contents(path, tokenizer, asked.prompt_column)
    if contents.texts:
        cacheable = sum(contents.inputs) - tree_tokens(set(contents.texts), tokenizer.count)
        contents = replace(contents, cacheable_tokens=cacheable)
    return inspection(contents, name=Path(path).name, tool=f"inferometer {inferometer.__version__}")


def inspection(found: Contents, *, name: str, tool: str) -> Inspection:
    """Compute the figures of the columns."""
    times = np.array(found.times_ns, dtype=np.int64)
    span_s = float(times[-1] - times[0]) / NS_PER_S if len(times) else None
    spread = burstiness(times) if span_s and len(times) > 2 else None
    bin_s = _bin_s(span_s, len(times), spread) if span_s else 0.0
    sessions = sorted(found.sessions)
    return Inspection(
        tool=tool,
        name=name,
        format=found.format,
        requests=found.requests,
        counted_in=found.counted_in,
        span_s=span_s,
        bin_s=bin_s,
        bins=_bins(times, bin_s, found) if bin_s else (),
        burstiness=spread,
        input=lengths_of(found.inputs),
        output=lengths_of(found.outputs),
        cacheable_tokens=found.cacheable_tokens,
        session_count=len(sessions),
        session_requests=(sessions[rank(50, len(sessions))], sessions[-1]) if sessions else (0, 0),
        findings=found.findings,
    )


def lengths_of(values: Sequence[int]) -> TokenLengths | None:
    """Summarize lengths; None if there are none."""
    if not values:
        return None
    ordered = np.sort(np.array(values, dtype=np.int64))

    def at(p: float) -> int:
        return int(ordered[rank(p, len(ordered))])

    total = int(ordered.sum())
    return TokenLengths(
        count=len(ordered),
        total=total,
        mean=total / len(ordered),
        p50=at(50),
        p90=at(90),
        p99=at(99),
        max=at(100),
        curve=tuple((p, at(p)) for p in _CURVE),
    )


def _bin_s(span_s: float, requests: int, spread: Burstiness | None) -> float:
    """Return a round bin length that gives a moderate number of bins; a multiple of the time resolution if many times
    coincide."""
    most = max(1, min(MOST_BINS, requests // PER_BIN))
    found = next((step for step in _STEPS_S if span_s / step < most), _STEPS_S[-1])
    if spread is None or spread.together <= MANY_TOGETHER:
        return found
    return math.ceil(found / spread.tick_s) * spread.tick_s


def _bins(times: Times, bin_s: float, found: Contents) -> tuple[ArrivalBin, ...]:
    places = (times - times[0]) // round(bin_s * NS_PER_S)
    count = int(places[-1]) + 1

    def sums(values: Sequence[int]) -> list[int]:
        """Sum values by bin; zeros unless every request has a length."""
        if len(values) != len(times):
            return [0] * count
        return [round(value) for value in np.bincount(places, weights=values, minlength=count).tolist()]

    counts = np.bincount(places, minlength=count).tolist()
    rows = zip(counts, sums(found.inputs), sums(found.outputs), strict=True)
    return tuple(ArrivalBin(number * bin_s, *row) for number, row in enumerate(rows))


def burstiness(times: Times) -> Burstiness:
    """Measure the burstiness of at least three ordered requests that are not all simultaneous."""
    gaps = np.diff(times)
    mean = float(gaps.mean())
    tick_ns = int(np.gcd.reduce(gaps))
    window_ns = math.ceil(PER_WINDOW * mean / tick_ns) * tick_ns
    windows = int(times[-1] - times[0]) // window_ns  # complete windows
    dispersion, chance = None, 3 * math.sqrt(8 / len(gaps))
    if windows >= FEWEST_WINDOWS:
        places = (times - times[0]) // window_ns
        counts = np.bincount(places[places < windows], minlength=windows)
        dispersion, chance = float(counts.var(ddof=1) / counts.mean()), 3 * math.sqrt(2 / windows)
    _, repeats = np.unique(times, return_counts=True)
    return Burstiness(
        gap_variation=float(gaps.var(ddof=1)) / mean**2,
        dispersion=dispersion,
        window_s=window_ns / NS_PER_S,
        chance=chance,
        together=float(repeats[repeats > 1].sum()) / len(times),
        tick_s=tick_ns / NS_PER_S,
    )
