"""Tasks encoded in the rows of their calls.

Every row of a call has the due time of its task as `sequence_started_ns`, and as its sequence the number of the task,
the node of the call, and, if the task has ended with it, the outcome of the task. The calls of a task written in Python
are numbered, and their rows also have the number of the call whose conversation they continue. Such a task ends when
its function does; a separate row with the status `TASK_END`, which is not a request, records that.
"""

from dataclasses import replace

import numpy as np

from inferometer.records.records import Column, Records

RUNNING, COMPLETE, FAILED, LIMITED = range(4)
"""Outcome of a task; LIMITED is complete up to the limit of turns."""

_OUTCOME_BITS = 2
_NODE_BITS = 13  # more than the most calls of a task
_NODES = (1 << _NODE_BITS) - 1


def task_cell(number: int, node: int, outcome: int, context: int = -1) -> int:
    """Return the sequence cell of a call."""
    return (((number + 1) << _NODE_BITS | context + 1) << _NODE_BITS | node) << _OUTCOME_BITS | outcome


def task_numbers(records: Records) -> Column:
    """Return the number of the task of each call."""
    return (records.sequence >> (2 * _NODE_BITS + _OUTCOME_BITS)) - 1


def contexts(records: Records) -> Column:
    """Return the call that each call continues; -1 if it begins a conversation."""
    return (records.sequence >> (_NODE_BITS + _OUTCOME_BITS) & _NODES) - 1


def nodes(records: Records) -> Column:
    return (records.sequence >> _OUTCOME_BITS) & _NODES


def outcomes(records: Records) -> Column:
    return records.sequence & ((1 << _OUTCOME_BITS) - 1)


def calls_in(records: Records) -> Records:
    """Return the calls alone, without the description of tasks in their rows."""
    records = records.requests
    nothing = np.zeros_like(records.end_ns)
    return replace(records, sequence=nothing, sequence_started_ns=nothing)
