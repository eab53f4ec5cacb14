"""Streamed answers, and the tokens of text servers.

The server's own token count is used if it gives one. Otherwise the events of a streamed answer are counted; an event
may hold more than one token, so the figures say how many answers were counted this way.

A streamed answer has two phases. Prefill lasts from the send to the first response: the request waits for its turn, and
the server reads the prompt. Decode lasts from the first response to the last: it generates the other tokens.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, pairwise

import numpy as np

from inferometer.base.frozen import frozen
from inferometer.base.slo import PERCENTILES
from inferometer.base.units import NS_PER_S
from inferometer.records.records import Column, Records
from inferometer.stats.estimate import Estimate
from inferometer.stats.intervals import mean_estimate, mean_margin, with_intervals
from inferometer.stats.series import Durations, Series, joined
from inferometer.stats.text_figures import (
    AskedLengths,
    CancelFigures,
    Lane,
    Phase,
    PromptClass,
    Streaming,
    TokenFigures,
    UserRates,
)

THOUSANDTHS = 1000  # of tokens per second: user rates are stored as whole numbers
CLASSES = (
    24  # of prompt lengths; class n has the lengths of n binary digits, the last one also all longer ones
)
MOST_CLASSES = 6  # shown in reports
LANES = 48


@frozen
class Streams:
    """Successful requests of a window that were answered with a stream."""

    responses: Series = field(default_factory=Series)  # number per request
    first_ns: Series = field(default_factory=Series)  # from the send to the first response
    gap_ns: Series = field(default_factory=Series)  # between responses
    answer_ns: Series = field(
        default_factory=Series
    )  # from the send to the first response after any reasoning

    tool_ns: Series = field(default_factory=Series)  # from the send to the first tool call, if there is one

    def add(self, records: Records) -> None:
        """Add successful requests; do nothing if none was streamed."""
        if not len(records.times):
            return
        self.responses.append(records.responses)
        self.first_ns.append((records.first_ns - records.sent_ns)[records.stamps > 0])
        self.gap_ns.append(gaps_ns(records))
        took = answers_ns(records)
        self.answer_ns.append(took[took >= 0])
        took = tools_ns(records)
        self.tool_ns.append(took[took >= 0])

    def columns(self) -> tuple[Series, ...]:
        return self.responses, self.first_ns, self.gap_ns, self.answer_ns, self.tool_ns

    @property
    def has_reasoning(self) -> bool:
        """Whether any answer began with reasoning, or ended during it."""
        return (self.answer_ns.count, self.answer_ns.total) != (self.first_ns.count, self.first_ns.total)

    @property
    def unanswered(self) -> int:
        """Streams that ended while still reasoning."""
        return self.first_ns.count - self.answer_ns.count

    def figures(self, duration_ns: int) -> Streaming | None:
        if not self.responses.count:
            return None
        return Streaming(
            responses=self.responses.total,
            per_s=self.responses.total * NS_PER_S / duration_ns,
            per_request=self.responses.distribution(),
            first=with_intervals(self.first_ns),
            gaps=with_intervals(self.gap_ns),
            answer=with_intervals(self.answer_ns) if self.has_reasoning else None,
            unanswered=self.unanswered,
            tool=with_intervals(self.tool_ns) if self.tool_ns.count else None,
        )


@dataclass(slots=True)
class TokenSums:
    """Sums over the requests of a window."""

    from_events: int = 0  # answers whose tokens the server did not count
    reasoning: int = 0
    cached: int = 0
    prefill_ns: int = 0
    prefill_tokens: int = 0
    decode_ns: int = 0
    decode_tokens: int = 0
    asked: int = 0  # requests with a requested length whose answers the server counted
    early: int = 0
    over: int = 0
    missing: int = 0
    extra: int = 0

    def add(self, **more: int) -> None:
        for name, value in more.items():
            setattr(self, name, getattr(self, name) + value)


def _joined_sums(parts: Sequence[TokenSums]) -> TokenSums:
    return TokenSums(
        **{row.name: sum(getattr(part, row.name) for part in parts) for row in fields(TokenSums)}
    )


@frozen
class PromptClassSeries:
    """Requests with prompts of similar length."""

    prompt: Series = field(default_factory=Series)
    output: Series = field(default_factory=Series)
    first_ns: Series = field(default_factory=Series)
    between_ns: Series = field(default_factory=Series)

    def columns(self) -> tuple[Series, ...]:
        return self.prompt, self.output, self.first_ns, self.between_ns

    def figures(self) -> PromptClass:
        lengths = self.prompt.distribution()
        return PromptClass(
            low=lengths.min_ns or 0,
            high=lengths.max_ns or 0,
            count=lengths.count,
            first=with_intervals(self.first_ns),
            between=with_intervals(self.between_ns),
            per_answer=self.output.distribution(),
        )


@dataclass(slots=True)
class Tokens:
    """Tokens of the successful requests of a window."""

    output: Series = field(default_factory=Series)  # of each answer
    prompt: Series = field(default_factory=Series)
    # Of each streamed answer with at least two tokens: the mean time between tokens.
    between_ns: Series = field(default_factory=Series)
    user_rates: Series = field(default_factory=Series)  # thousandths of tokens per second, of each answer
    sums: TokenSums = field(default_factory=TokenSums)
    classes: tuple[PromptClassSeries, ...] = field(
        default_factory=lambda: tuple(PromptClassSeries() for _ in range(CLASSES))
    )

    def add(self, records: Records, asked: Column | None = None) -> None:
        """Add successful requests; `asked` has the most tokens requested by each step, 0 if unlimited."""
        between, counted = between_ns(records), output_tokens(records)
        self.output.append(counted)
        self.prompt.append(records.prompt_tokens)
        self.between_ns.append(between[between >= 0])
        took = records.end_ns - records.sent_ns
        has_rate = (counted > 0) & (took > 0)
        self.user_rates.append(counted[has_rate] * (THOUSANDTHS * NS_PER_S) // took[has_rate])
        self.sums.add(
            from_events=int(((records.tokens == 0) & (records.stamps > 0)).sum()),
            reasoning=int(records.reasoning_tokens.sum()),
            cached=int(records.cached_tokens.sum()),
        )
        self._add_phases(records, counted)
        if asked is not None:
            self._add_asked(records.tokens, asked[records.step])
        self._add_classes(records, counted, between)

    def _add_phases(self, records: Records, counted: Durations) -> None:
        streamed = records.stamps > 0
        if not streamed.any():
            return
        last = _last_ns(records)[streamed]
        self.sums.add(
            prefill_ns=int((records.first_ns - records.sent_ns)[streamed].sum()),
            prefill_tokens=int(records.prompt_tokens[streamed].sum()),
            decode_ns=int((last - records.first_ns[streamed]).sum()),
            decode_tokens=int(np.maximum(counted[streamed] - 1, 0).sum()),
        )

    def _add_asked(self, tokens: Durations, asked: Column) -> None:
        chosen = (asked > 0) & (tokens > 0)
        apart = (tokens - asked)[chosen]
        self.sums.add(
            asked=len(apart),
            early=int((apart < 0).sum()),
            over=int((apart > 0).sum()),
            missing=-int(apart[apart < 0].sum()),
            extra=int(apart[apart > 0].sum()),
        )

    def _add_classes(self, records: Records, counted: Durations, between: Durations) -> None:
        if not records.prompt_tokens.any():
            return
        lengths = np.minimum(np.frexp(records.prompt_tokens)[1], CLASSES - 1)
        for number in np.unique(lengths):
            chosen = lengths == number
            found = self.classes[number]
            found.prompt.append(records.prompt_tokens[chosen])
            found.output.append(counted[chosen])
            streamed = chosen & (records.stamps > 0)
            found.first_ns.append((records.first_ns - records.sent_ns)[streamed])
            found.between_ns.append(between[chosen & (between >= 0)])

    def columns(self) -> tuple[Series, ...]:
        own = (self.output, self.prompt, self.between_ns, self.user_rates)
        return (*own, *chain.from_iterable(part.columns() for part in self.classes))

    def figures(self, duration_ns: int, rate: Estimate) -> TokenFigures:
        """Compute the figures; `rate` is that of the requests, with its interval."""
        sums, output = self.sums, self.output.total
        output_per_s = output * NS_PER_S / duration_ns
        prefill, decode = _phases(sums)
        return TokenFigures(
            output=output,
            output_per_s=output_per_s,
            per_answer=with_intervals(self.output),
            between=with_intervals(self.between_ns),
            prompt=self.prompt.total,
            prompt_per_s=self.prompt.total * NS_PER_S / duration_ns,
            per_prompt=self.prompt.distribution(),
            from_events=sums.from_events,
            output_interval=_product(output_per_s, rate, mean_interval(self.output)),
            per_user=self._user_rates(),
            prefill=prefill,
            decode=decode,
            classes=_prompt_classes(self.classes),
            asked=AskedLengths(sums.asked, sums.early, sums.over, sums.missing, sums.extra)
            if sums.asked
            else None,
            reasoning=sums.reasoning,
            cached=sums.cached,
        )

    def _user_rates(self) -> UserRates | None:
        rates = self.user_rates
        if not rates.count:
            return None
        mean = mean_interval(rates)
        ends = (None if end is None else end / THOUSANDTHS for end in (mean.low, mean.high))
        found = rates.distribution()
        return UserRates(
            Estimate(mean.value / THOUSANDTHS, *ends),
            tuple((p, found.percentile_ns(p) / THOUSANDTHS) for p in PERCENTILES),
        )


def mean_interval(series: Series) -> Estimate:
    """Return the mean of a series with its interval, without rounding."""
    value = series.total / series.count if series.count else 0.0
    return mean_estimate(value, mean_margin(series))


def _product(value: float, *factors: Estimate) -> Estimate:
    """Return the interval of a product of independent figures."""
    if any(factor.limits is None or not factor.value for factor in factors):
        return Estimate(value)
    down = [1 - (factor.low or 0.0) / factor.value for factor in factors]
    up = [(factor.high or 0.0) / factor.value - 1 for factor in factors]
    return Estimate(value, value * (1 - math.hypot(*down)), value * (1 + math.hypot(*up)))


def _phases(sums: TokenSums) -> tuple[Phase | None, Phase | None]:
    total = sums.prefill_ns + sums.decode_ns
    if not total:
        return None, None
    rows = ((sums.prefill_ns, sums.prefill_tokens), (sums.decode_ns, sums.decode_tokens))
    prefill, decode = (
        Phase(time_ns, time_ns / total, tokens, tokens * NS_PER_S / time_ns if time_ns else 0.0)
        for time_ns, tokens in rows
    )
    return prefill, decode


def _prompt_classes(classes: Sequence[PromptClassSeries]) -> tuple[PromptClass, ...]:
    """Merge neighbouring classes until there are few; empty if all prompts are in one class."""
    found = [part for part in classes if part.prompt.count]
    while len(found) > MOST_CLASSES:
        sizes = [one.prompt.count + other.prompt.count for one, other in pairwise(found)]
        place = sizes.index(min(sizes))
        found[place : place + 2] = [_join_classes(found[place : place + 2])]
    return tuple(part.figures() for part in found) if len(found) > 1 else ()


def _join_classes(parts: Sequence[PromptClassSeries]) -> PromptClassSeries:
    return PromptClassSeries(*_joined_columns(parts))


@dataclass(slots=True)
class Cancellations:
    """Requests of a window that the client cancelled on request."""

    ran_ns: Series = field(default_factory=Series)
    tokens: int = 0
    without_token: int = 0

    def add(self, records: Records) -> None:
        if not len(records):
            return
        sent = np.where(records.sent_ns > 0, records.sent_ns, records.end_ns)
        self.ran_ns.append(records.end_ns - sent)
        self.tokens += int(records.stamps.sum())
        self.without_token += int((records.stamps == 0).sum())

    def figures(self) -> CancelFigures | None:
        if not self.ran_ns.count:
            return None
        return CancelFigures(self.ran_ns.count, self.ran_ns.distribution(), self.tokens, self.without_token)


def join_cancellations(parts: Sequence[Cancellations]) -> Cancellations:
    return Cancellations(
        joined([part.ran_ns for part in parts]),
        sum(part.tokens for part in parts),
        sum(part.without_token for part in parts),
    )


def lanes(records: Records, origin_ns: int) -> tuple[Lane, ...]:
    """Return the timeline of each of these successful streamed requests."""
    rows = zip(
        *((column - origin_ns).tolist() for column in (records.due_ns, records.sent_ns)),
        *((column - origin_ns).tolist() for column in (records.first_ns, records.end_ns)),
        records.prompt_tokens.tolist(),
        output_tokens(records).tolist(),
        strict=True,
    )
    return tuple(Lane(*row) for row in rows)


def output_tokens(records: Records) -> Durations:
    """Return the tokens that the server counted, otherwise the events of a stream."""
    return np.where(records.tokens > 0, records.tokens, np.where(records.stamps > 0, records.responses, 0))


def answers_ns(records: Records) -> Durations:
    """Return the time from the send of each request to its first response after any reasoning; -1 if there is none."""
    found = np.where(records.stamps > 0, records.first_ns - records.sent_ns, -1)
    reasoned = (records.answer_at > 0) & (records.stamps > 0)
    if reasoned.any():
        places = (np.cumsum(records.stamps) - records.stamps + records.answer_at)[reasoned]
        has_answer = (records.answer_at < records.stamps)[reasoned]
        came = records.times[np.where(has_answer, places, 0)]
        found[reasoned] = np.where(has_answer, came - records.sent_ns[reasoned], -1)
    return found


def tools_ns(records: Records) -> Durations:
    """Return the time from the send of each request to the first tool call of its answer; -1 if there is none."""
    found = np.full(len(records), -1, dtype=np.int64)
    called = (records.tool_at > 0) & (records.tool_at <= records.stamps)
    if called.any():
        places = (np.cumsum(records.stamps) - records.stamps + records.tool_at - 1)[called]
        found[called] = records.times[places] - records.sent_ns[called]
    return found


def between_ns(records: Records) -> Durations:
    """Return the time from the first response to the last over the tokens after the first; -1 if not meaningful.

    With several choices, these times of all choices are added, over the tokens after the first of each.
    """
    found = np.full(len(records), -1, dtype=np.int64)
    counted, choices = output_tokens(records), _choices(records)
    chosen = (records.stamps > choices) & (counted > choices)
    if isinstance(choices, int):
        took = _last_ns(records) - records.first_ns
    else:
        counts, sums = gap_counts(records), np.concatenate(([0], np.cumsum(gaps_ns(records))))
        ends = np.cumsum(counts)
        took = sums[ends] - sums[ends - counts]
    found[chosen] = took[chosen] // (counted - choices)[chosen]
    return found


def _last_ns(records: Records) -> Durations:
    """Return the time of each request's last response; its end if it has none, or several choices."""
    found = records.end_ns.copy()
    chosen = (records.stamps > 0) & (_choices(records) == 1)
    found[chosen] = records.times[np.cumsum(records.stamps)[chosen] - 1]
    return found


def gaps_ns(records: Records) -> Durations:
    """Return the gaps between consecutive responses of each choice, choice by choice and request by request."""
    # Positions where the times of all but the first request begin.
    starts = np.cumsum(records.stamps[records.stamps > 0])[:-1]
    gaps = np.diff(records.times)
    within = gaps >= 0  # a decrease marks the beginning of another choice
    within[starts - 1] = (
        False  # exclude the step from the last response of one request to the first of the next
    )
    return gaps[within]


def gap_counts(records: Records) -> Durations:
    """Return the number of gaps of each request: one fewer than responses, for each of its choices."""
    return np.maximum(records.stamps - _choices(records), 0)


def _choices(records: Records) -> Durations | int:
    """Return the number of choices of each request, or 1 if all have one; see `Records.times`."""
    times, ends = records.times, np.cumsum(records.stamps)
    drops = (times[1:] < times[:-1]).nonzero()[0]
    owners = np.searchsorted(ends, drops, side="right")
    inner = owners[ends[owners] - 1 != drops]  # not from one request to the next
    return np.bincount(inner, minlength=len(records)) + 1 if len(inner) else 1


def longest_gaps_ns(records: Records) -> Durations:
    """Return the longest gap of each request; -1 if it has none."""
    found = np.full(len(records), -1, dtype=np.int64)
    counts = gap_counts(records)
    chosen = counts > 0
    if chosen.any():
        found[chosen] = np.maximum.reduceat(gaps_ns(records), (np.cumsum(counts) - counts)[chosen])
    return found


def join_streams(parts: Sequence[Streams]) -> Streams:
    return Streams(*_joined_columns(parts))


def join_tokens(parts: Sequence[Tokens]) -> Tokens | None:
    """Join tokens; None if no tokens are counted."""
    if not parts:
        return None
    output, prompt, between, rates, *_ = _joined_columns(parts)
    classes = tuple(map(_join_classes, zip(*(part.classes for part in parts), strict=True)))
    return Tokens(output, prompt, between, rates, _joined_sums([part.sums for part in parts]), classes)


def _joined_columns(parts: Sequence[Streams | Tokens | PromptClassSeries]) -> Iterator[Series]:
    return map(joined, zip(*(part.columns() for part in parts), strict=True))
