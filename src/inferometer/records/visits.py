"""Visits in the rows of their requests: the row of the request that ended a visit also tells of the visit.

Its sequence is the visit, `sequence_started_ns` when that was due, `tokens` how long the user thought and
`prompt_tokens` how long after it was due the first request was sent (both in microseconds), `reasoning_tokens` how the
visit ended, as a status.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from inferometer.base.units import NS_PER_US
from inferometer.records.records import Records
from inferometer.records.ring import PART, of_which

MOST_US = (1 << PART) - 1


class VisitCells(NamedTuple):
    """What the last row of a visit holds beside its own: sequence, when it started, tokens, prompt tokens."""

    sequence: int = 0
    started_ns: int = 0
    tokens: int = 0
    prompt_tokens: int = 0


NO_VISIT = VisitCells()


def visit_cells(number: int, due_ns: int, thought_ns: int, late_ns: int, status: int) -> VisitCells:
    """Of the row that ends the visit."""
    return VisitCells(
        number + 1,
        due_ns,
        of_which(min(thought_ns // NS_PER_US, MOST_US), status),
        min(late_ns // NS_PER_US, MOST_US),
    )


def visits_in(records: Records) -> tuple[Records, int]:
    """The visits that ended, as if each were one request without the time that its user thought; how long those that
    ended well thought together."""
    last = records.where(records.sequence_started_ns > 0)
    thought = last.tokens * NS_PER_US
    due = last.sequence_started_ns + thought
    sent = due + last.prompt_tokens * NS_PER_US
    nothing = np.zeros_like(due)
    found = replace(
        last,
        due_ns=due,
        sent_ns=sent,
        wrote_ns=sent,
        first_ns=last.end_ns,
        status=last.reasoning_tokens,
        sequence=nothing,
        sequence_started_ns=nothing,
        tokens=nothing,
        prompt_tokens=nothing,
        reasoning_tokens=nothing,
    )
    return found, int(thought[found.status == 0].sum())


def requests_in(records: Records) -> Records:
    """The requests alone, without what their rows tell of visits."""
    nothing = np.zeros_like(records.end_ns)
    return replace(
        records,
        sequence=nothing,
        sequence_started_ns=nothing,
        tokens=nothing,
        prompt_tokens=nothing,
        reasoning_tokens=nothing,
    )
