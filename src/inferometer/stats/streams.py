"""Streamed answers, and the tokens of servers that make text.

The server's own count of tokens is taken where it gives one. Where it does not, the events of a streamed answer are
counted instead; an event may hold more than one token, so the figures say how many answers were counted like that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from inferometer.base.units import NS_PER_S
from inferometer.records.records import Records
from inferometer.stats.measurement import Streaming, TokenFigures
from inferometer.stats.series import Durations, Series, joined


@dataclass(frozen=True, slots=True)
class Streams:
    """Of the good requests of a window that were answered with a stream."""

    responses: Series = field(default_factory=Series)  # how many each had
    first_ns: Series = field(default_factory=Series)  # from the send to the first response
    gap_ns: Series = field(default_factory=Series)  # between responses

    def add(self, records: Records) -> None:
        """Good requests; nothing is added when none of them was streamed."""
        if not len(records.times):
            return
        answered = records.stamps > 0
        # Where the times of all but the first request begin.
        starts = np.cumsum(records.stamps[answered])[:-1]
        gaps = np.diff(records.times)
        within = np.ones(len(gaps), dtype=np.bool_)
        within[starts - 1] = False  # not from the last response of one request to the first of the next
        self.responses.append(records.responses)
        self.first_ns.append((records.first_ns - records.sent_ns)[answered])
        self.gap_ns.append(gaps[within])

    def columns(self) -> tuple[Series, ...]:
        return self.responses, self.first_ns, self.gap_ns

    def figures(self, duration_ns: int) -> Streaming | None:
        if not self.responses.count:
            return None
        return Streaming(
            responses=self.responses.total,
            per_s=self.responses.total * NS_PER_S / duration_ns,
            per_request=self.responses.distribution(),
            first=self.first_ns.distribution(),
            gaps=self.gap_ns.distribution(),
        )


@dataclass(slots=True)
class Tokens:
    """Of the good requests of a window."""

    output: Series = field(default_factory=Series)  # of each answer
    prompt: Series = field(default_factory=Series)
    # Of each streamed answer of at least two tokens: the mean time from one to the next.
    between_ns: Series = field(default_factory=Series)
    from_events: int = 0  # answers whose tokens the server did not count

    def add(self, records: Records) -> None:
        """Good requests."""
        between = between_ns(records)
        self.output.append(output_tokens(records))
        self.prompt.append(records.prompt_tokens)
        self.between_ns.append(between[between >= 0])
        self.from_events += int(((records.tokens == 0) & (records.stamps > 0)).sum())

    def columns(self) -> tuple[Series, ...]:
        return self.output, self.prompt, self.between_ns

    def figures(self, duration_ns: int) -> TokenFigures:
        return TokenFigures(
            output=self.output.total,
            output_per_s=self.output.total * NS_PER_S / duration_ns,
            per_answer=self.output.distribution(),
            between=self.between_ns.distribution(),
            prompt=self.prompt.total,
            prompt_per_s=self.prompt.total * NS_PER_S / duration_ns,
            per_prompt=self.prompt.distribution(),
            from_events=self.from_events,
        )


def output_tokens(records: Records) -> Durations:
    """As the server counts them, else the events of a stream."""
    return np.where(records.tokens > 0, records.tokens, np.where(records.stamps > 0, records.responses, 0))


def between_ns(records: Records) -> Durations:
    """From the first response to the last, over the tokens that came after the first; -1 where that says nothing."""
    found = np.full(len(records), -1, dtype=np.int64)
    counted = output_tokens(records)
    chosen = (records.stamps > 1) & (counted > 1)
    last = records.times[np.cumsum(records.stamps)[chosen] - 1]
    found[chosen] = (last - records.first_ns[chosen]) // (counted[chosen] - 1)
    return found


def join_streams(parts: Sequence[Streams]) -> Streams:
    return Streams(*_joined_columns(parts))


def join_tokens(parts: Sequence[Tokens]) -> Tokens | None:
    """None where no tokens are counted."""
    if not parts:
        return None
    output, prompt, between = _joined_columns(parts)
    return Tokens(output, prompt, between, sum(part.from_events for part in parts))


def _joined_columns(parts: Sequence[Streams | Tokens]) -> Iterator[Series]:
    return map(joined, zip(*(part.columns() for part in parts), strict=True))
