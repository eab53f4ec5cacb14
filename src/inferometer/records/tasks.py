"""Tasks encoded in the rows of their calls.

Every row of a call has the due time of its task as `sequence_started_ns`, and as its sequence the number of the task,
the node of the call, and, if the task has ended with it, the outcome of the task.
"""

from dataclasses import replace

import numpy as np

from inferometer.records.records import Column, Records

RUNNING, COMPLETE, FAILED, LIMITED = range(4)
"""Outcome of a task; LIMITED is complete up to the limit of turns."""

_OUTCOME_BITS = 2
_NODE_BITS = 16


def task_cell(number: int, node: int, outcome: int) -> int:
    """Return the sequence cell of a call."""
    return ((number + 1) << _NODE_BITS | node) << _OUTCOME_BITS | outcome


def task_numbers(records: Records) -> Column:
    """Return the number of the task of each call."""
    return (records.sequence >> (_NODE_BITS + _OUTCOME_BITS)) - 1


def nodes(records: Records) -> Column:
    return (records.sequence >> _OUTCOME_BITS) & ((1 << _NODE_BITS) - 1)


def outcomes(records: Records) -> Column:
    return records.sequence & ((1 << _OUTCOME_BITS) - 1)


def calls_in(records: Records) -> Records:
    """Return the calls alone, without the description of tasks in their rows."""
    nothing = np.zeros_like(records.end_ns)
    return replace(records, sequence=nothing, sequence_started_ns=nothing)
