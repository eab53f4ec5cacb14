"""Tokens of requests and answers, for servers that make text.

The server's own count is taken where it gives one. Where it does not, the events of a streamed answer are counted
instead; an event may hold more than one token, so the figures say how many answers were counted like that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from inferometer.base.units import NS_PER_S
from inferometer.records.records import Records
from inferometer.stats.measurement import TokenFigures
from inferometer.stats.series import Durations, Series, joined


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


def join_tokens(parts: Sequence[Tokens]) -> Tokens | None:
    if not parts:
        return None
    return Tokens(
        joined([part.output for part in parts]),
        joined([part.prompt for part in parts]),
        joined([part.between_ns for part in parts]),
        sum(part.from_events for part in parts),
    )


def token_figures(parts: Sequence[Tokens], duration_ns: int) -> TokenFigures | None:
    whole = join_tokens(parts)
    if whole is None:
        return None
    output, prompt = whole.output.total, whole.prompt.total
    return TokenFigures(
        output=output,
        output_per_s=output * NS_PER_S / duration_ns,
        per_answer=whole.output.distribution(),
        between=whole.between_ns.distribution(),
        prompt=prompt,
        prompt_per_s=prompt * NS_PER_S / duration_ns,
        per_prompt=whole.prompt.distribution(),
        from_events=whole.from_events,
    )
