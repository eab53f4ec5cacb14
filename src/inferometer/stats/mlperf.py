"""Validity of a run by the rules of MLPerf's loadgen, and a sequential test of the same question.

Loadgen calls a run VALID if all of its rules hold:

* **minimum duration**: in the server scenario the last query was scheduled no earlier than that, in the stream
  scenarios it was issued no earlier, and offline the last sample ended no earlier;
* **minimum queries**, and the samples in them;
* **latency**, server only: the value at position floor(n p) of the n sorted latencies is at most the target;
* **early stopping**, not offline: with 99 % confidence the share of queries over the target is below 1 - p. With t of
  n queries over it, the probability of at most t in a binomial distribution of n trials with 1 - p is below 1 %. The
  stream scenarios have no target: the largest such t >= 1 must exist, and the latency with t - 1 above it is the
  early-stopping estimate of the percentile.

With token latencies, the latency rules apply to the time to the first token and the time per output token instead.

The sequential test asks the same question, "are at most 1 - p of the queries over the target?", after each of many
looks, and its error probability holds for all looks together. For each side it mixes the likelihood ratios of several
alternatives against the boundary. By Ville's inequality, the mixture exceeds 1 / error with at most that probability if
the boundary, or any value on its side, is the true value (Robbins 1970). As in loadgen, that holds for independent
queries. Queries that wait for each other are not: counts are divided by the factor by which sections of the run vary
more than independent queries would, and nothing is decided before the sections are longer than that correlation.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.base.units import duration, plain_number
from inferometer.stats.binomial import at_least

Scenario = Literal["server", "offline", "single-stream", "multi-stream"]
SCENARIOS: tuple[Scenario, ...] = ("server", "offline", "single-stream", "multi-stream")
STREAMS = ("single-stream", "multi-stream")

CONFIDENCE = 0.99
SUBMISSION_S = 600.0  # minimum duration of a submission
MULTI_STREAM_SHARE = 0.99  # a single-stream run also estimates this percentile

DURATION_RULE = "minimum duration"
QUERIES_RULE = "minimum queries"
LATENCY_RULE = "latency"
EARLY_STOPPING_RULE = "early stopping"

ERROR = 0.01  # of the sequential test, as likely as a wrong early stop
FIRST_LOOK = 50  # queries
LOOK_RATIO = 1.05  # between looks
SECTIONS = 20
INDEPENDENT = 8  # queries that a section must be worth
_FACTORS = (
    1.15,
    1.35,
    1.7,
    2.2,
    3.0,
    5.0,
    10.0,
    30.0,
)  # alternatives: the boundary share multiplied and divided by these

Latencies = NDArray[np.int64]
Answer = Literal["met", "violated", "undecided"]


@frozen
class MlperfTarget:
    """A time that at most 1 - p of the queries may exceed."""

    figure: str  # latency, ttft or tpot
    limit_ns: int


@frozen
class MlperfSettings:
    """Rules of a run. `share` is the percentile p, between 0 and 1."""

    scenario: Scenario
    share: float
    min_duration_s: float
    min_queries: int  # offline: samples
    samples_per_query: int = 1
    targets: tuple[MlperfTarget, ...] = ()  # only those of the server scenario decide its validity


@frozen
class MlperfLog:
    """Outcome of a run: the times of each query in the order of their ends, and the span that its duration rule covers.

    A failed query has taken longer than any target.
    """

    times_ns: Mapping[str, Latencies]  # by figure: latency, ttft, tpot
    span_s: float
    issued: int  # queries

    @property
    def latency_ns(self) -> Latencies:
        return self.times_ns["latency"]


@frozen
class MlperfRule:
    """Outcome of one rule, with its figures in words."""

    name: str
    is_met: bool
    text: str


@frozen
class SequentialAnswer:
    """Verdict of the sequential test on one target, and the queries after which it was reached."""

    figure: str
    limit_ns: int
    share: float  # of queries that must be within the target
    answer: Answer
    queries: int  # all of them if undecided
    over: int  # of these queries, over the target
    error: float = ERROR

    @property
    def is_violated(self) -> bool:
        """Whether the test, or that of early stopping turned around, shows that the target is violated."""
        if self.answer != "undecided":
            return self.answer == "violated"
        return at_least(self.over, self.queries, 1 - self.share) < 1 - CONFIDENCE


@frozen
class MlperfVerdict:
    """Verdict of loadgen's rules, and of the sequential test."""

    scenario: Scenario
    is_valid: bool
    rules: tuple[MlperfRule, ...]
    queries: int
    share: float
    percentile_ns: int | None  # latency at that share, as loadgen reports it
    early_stopping_ns: int | None = None  # stream scenarios: the estimate of the percentile
    samples_per_s: float | None = None  # offline
    sequential: tuple[SequentialAnswer, ...] = ()
    is_full_length: bool = True  # the minimum duration is at least that of a submission

    @property
    def failed(self) -> tuple[MlperfRule, ...]:
        return tuple(rule for rule in self.rules if not rule.is_met)

    @property
    def is_too_slow(self) -> bool:
        """Whether a target is shown to be violated, so that a longer run would not help. The measured percentile alone
        may be over it by chance."""
        is_over = any(rule.name == LATENCY_RULE for rule in self.failed)
        return is_over and any(row.is_violated for row in self.sequential)


def judge_mlperf(settings: MlperfSettings, log: MlperfLog) -> MlperfVerdict:
    """Apply loadgen's rules, and the sequential test to each target."""
    rules = [_duration_rule(settings, log), _queries_rule(settings, log)]
    if settings.scenario == "server":
        rules += [_latency_rule(settings, log, target) for target in settings.targets]
        rules += [_early_stopping_rule(settings, log, target) for target in settings.targets]
    estimate = None
    if settings.scenario in STREAMS:
        estimate = early_stopping_estimate(log.latency_ns, settings.share)
        rules.append(_stream_rule(settings, len(log.latency_ns), estimate))
    is_offline = settings.scenario == "offline"
    return MlperfVerdict(
        scenario=settings.scenario,
        is_valid=all(rule.is_met for rule in rules),
        rules=tuple(rules),
        queries=log.issued,
        share=settings.share,
        percentile_ns=percentile_ns(log.latency_ns, settings.share),
        early_stopping_ns=estimate,
        samples_per_s=log.issued * settings.samples_per_query / log.span_s
        if is_offline and log.span_s
        else None,
        sequential=()
        if is_offline
        else tuple(sequential_answer(log, target, settings.share) for target in settings.targets),
        is_full_length=settings.min_duration_s >= SUBMISSION_S,
    )


# --- loadgen's rules


def percentile_ns(latencies: Latencies, share: float) -> int | None:
    """Return the latency at position floor(n p) of the sorted ones; None without any."""
    if not len(latencies):
        return None
    index = int(len(latencies) * share)
    return int(np.partition(latencies, index)[index])


def is_early_stop(over: int, queries: int, share: float) -> bool:
    """Return whether the queries above the target are few enough to show with 99 % confidence that the percentile
    meets it."""
    return _log_at_most(over, queries, share) < math.log(1 - CONFIDENCE)


def fewest_queries(over: int, share: float) -> int:
    """Return the number of queries at which early stopping allows this many over the target."""
    low = high = over + 1
    while not is_early_stop(over, high, share):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_early_stop(over, middle, share) else (middle + 1, high)
    return high


def early_stopping_estimate(latencies: Latencies, share: float) -> int | None:
    """Return the early-stopping estimate of a percentile; None if there are too few queries for one."""
    queries = len(latencies)
    if not is_early_stop(1, queries, share):
        return None
    low, high = 1, queries  # `low` queries may be over it, `high` may not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_early_stop(middle, queries, share) else (low, middle)
    return int(np.partition(latencies, queries - low)[queries - low])


def _log_at_most(count: int, trials: int, share: float) -> float:
    """Return the logarithm of P(X <= count) for a binomial X with the probability 1 - share; 0 from its mean on.

    The terms are summed downwards from the largest one, so nothing is lost to cancellation.
    """
    rest = 1 - share
    if trials <= count or count >= (trials + 1) * rest:
        return 0.0
    top = (
        math.lgamma(trials + 1)
        - math.lgamma(count + 1)
        - math.lgamma(trials - count + 1)
        + count * math.log(rest)
        + (trials - count) * math.log(share)
    )
    steps = np.arange(count, dtype=np.float64)
    ratios = (count - steps) / (trials - count + 1 + steps) * (share / rest)
    return top + math.log1p(float(np.cumprod(ratios).sum()))


def _duration_rule(settings: MlperfSettings, log: MlperfLog) -> MlperfRule:
    ended = {
        "server": "the last query was scheduled",
        "offline": "the last sample ended",
        "single-stream": "the last query was issued",
        "multi-stream": "the last query was issued",
    }[settings.scenario]
    wanted = plain_number(settings.min_duration_s)
    text = f"{ended} after {plain_number(round(log.span_s, 3))} s, at least {wanted} s are required"
    return MlperfRule(DURATION_RULE, log.span_s >= settings.min_duration_s, text)


def _queries_rule(settings: MlperfSettings, log: MlperfLog) -> MlperfRule:
    noun = "samples" if settings.scenario == "offline" else "queries"
    found = log.issued * (settings.samples_per_query if settings.scenario == "offline" else 1)
    text = f"{found:,} {noun}, at least {settings.min_queries:,} are required"
    return MlperfRule(QUERIES_RULE, found >= settings.min_queries, text)


def _latency_rule(settings: MlperfSettings, log: MlperfLog, target: MlperfTarget) -> MlperfRule:
    name = f"{_prefix(target.figure)}p{plain_number(settings.share * 100)}"
    found = percentile_ns(log.times_ns[target.figure], settings.share)
    limit = duration(target.limit_ns)
    if found is None:
        return MlperfRule(LATENCY_RULE, False, f"no query has a {target.figure}; the target is {limit}")
    shown = "no answer" if found >= NEVER_NS else duration(found)
    return MlperfRule(LATENCY_RULE, found <= target.limit_ns, f"{name} is {shown}, the target is {limit}")


def _early_stopping_rule(settings: MlperfSettings, log: MlperfLog, target: MlperfTarget) -> MlperfRule:
    times = log.times_ns[target.figure]
    over = int((times > target.limit_ns).sum())
    needed = fewest_queries(over, settings.share)
    text = (
        f"{over:,} of {log.issued:,} queries are over the {_prefix(target.figure)}target of {duration(target.limit_ns)}"
        f"; {needed:,} queries are required for that"
    )
    return MlperfRule(EARLY_STOPPING_RULE, log.issued >= needed, text)


def _stream_rule(settings: MlperfSettings, queries: int, estimate: int | None) -> MlperfRule:
    name = f"p{plain_number(settings.share * 100)}"
    if estimate is None:
        needed = fewest_queries(1, settings.share)
        text = f"{queries:,} queries, at least {needed:,} are required to estimate {name}"
    else:
        text = f"{name} is at most {duration(estimate)} with 99 % confidence"
    return MlperfRule(EARLY_STOPPING_RULE, estimate is not None, text)


def _prefix(figure: str) -> str:
    return "" if figure == "latency" else f"{figure} "


# --- the sequential test

NEVER_NS = 10**14  # stands for the time of a failed query


def sequential_answer(log: MlperfLog, target: MlperfTarget, share: float) -> SequentialAnswer:
    """Return the first verdict that the queries allow in the order of their ends."""
    times = log.times_ns[target.figure]
    over = _Sums.of((times > target.limit_ns).astype(np.float64))
    usual = _Sums.of(np.minimum(times, 10 * np.median(times[:FIRST_LOOK])) if len(times) else times)
    for queries in _looks(len(times)):
        # The latency's factor counts too: how queries over the target are grouped is unknown until some are.
        alike = max(1.0, over.excess(queries), usual.excess(queries))
        if queries < SECTIONS * INDEPENDENT * alike:
            continue  # sections shorter than the correlation hide it
        count = over.total(queries)
        answer = _answer(count / alike, queries / alike, share)
        if answer != "undecided":
            return SequentialAnswer(target.figure, target.limit_ns, share, answer, queries, round(count))
    whole = round(over.total(len(times)))
    return SequentialAnswer(target.figure, target.limit_ns, share, "undecided", len(times), whole)


def _looks(queries: int) -> list[int]:
    """Return the numbers of queries after which to test: the same for every run, up to its end."""
    found, look = [], float(FIRST_LOOK)
    while look < queries:
        found.append(int(look))
        look = max(look + 1, look * LOOK_RATIO)
    return found


def _answer(over: float, queries: float, share: float) -> Answer:
    rest = 1 - share
    limit = math.log(1 / ERROR + 1)  # fractional counts add at most 1 to the mixture
    if _log_mixture(over, queries, rest, [rest / factor for factor in _FACTORS]) >= limit:
        return "met"
    above = [1 - share / factor if rest > 0.5 else min(rest * factor, (1 + rest) / 2) for factor in _FACTORS]
    if _log_mixture(over, queries, rest, above) >= limit:
        return "violated"
    return "undecided"


def _log_mixture(over: float, queries: float, null: float, alternatives: list[float]) -> float:
    """Return the logarithm of the mean likelihood ratio of the alternatives against the null share."""
    rows = np.array(alternatives)
    logs = over * np.log(rows / null) + (queries - over) * np.log((1 - rows) / (1 - null))
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).mean()))


@frozen
class _Sums:
    """Sums of the first n values and of their squares, for every n."""

    values: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[Any]) -> "_Sums":
        rows = values.astype(np.float64)
        return cls(*(np.concatenate(([0.0], np.cumsum(part))) for part in (rows, rows * rows)))

    def total(self, count: int) -> float:
        return float(self.values[count])

    def excess(self, count: int) -> float:
        """Return how many times more sections of the first values vary than independent values would."""
        size = count // SECTIONS
        ends = self.values[count - size * SECTIONS : count + 1 : size]
        mean = self.total(count) / count
        variance = float(self.squares[count]) / count - mean * mean
        if variance <= 0:
            return 1.0
        return float(np.diff(ends).var(ddof=1)) / size / variance
