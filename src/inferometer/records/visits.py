"""Visits encoded in the rows of their requests: the row of a visit's last request also describes the visit.

Its sequence is the visit, `sequence_started_ns` its due time, `tokens` the user's think time and `prompt_tokens` the
delay of the first request after the due time (both in microseconds), and `reasoning_tokens` the status of the visit.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from inferometer.base.units import NS_PER_US
from inferometer.records.records import Records
from inferometer.records.ring import PART, of_which

MOST_US = (1 << PART) - 1


class VisitCells(NamedTuple):
    """Cells of a visit's last row that describe the visit: sequence, start, tokens, prompt tokens."""

    sequence: int = 0
    started_ns: int = 0
    tokens: int = 0
    prompt_tokens: int = 0


NO_VISIT = VisitCells()


def visit_cells(number: int, due_ns: int, thought_ns: int, late_ns: int, status: int) -> VisitCells:
    """Return the cells for the row that ends the visit."""
    return VisitCells(
        number + 1,
        due_ns,
        of_which(min(thought_ns // NS_PER_US, MOST_US), status),
        min(late_ns // NS_PER_US, MOST_US),
    )


def visits_in(records: Records) -> tuple[Records, int]:
    """Return the finished visits as if each were one request without think time, and the total think time of the
    successful ones."""
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
    """Return the requests alone, without the description of visits in their rows."""
    nothing = np.zeros_like(records.end_ns)
    return replace(
        records,
        sequence=nothing,
        sequence_started_ns=nothing,
        tokens=nothing,
        prompt_tokens=nothing,
        reasoning_tokens=nothing,
    )
