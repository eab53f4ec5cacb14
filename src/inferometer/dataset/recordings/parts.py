"""Recorded tasks and their calls, and the readers of values that the formats share."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from inferometer.base.errors import UsageError

MOST_TOKENS = 50_000_000  # generated for one recording
TURN = "turn"
REMEDY = (
    "give ShareGPT conversations, chats with 'messages', Mooncake lines with 'session_id', Weka traces with "
    "'requests', TraceLab rounds with 'round_index', aiperf's lines with 'turns', or OpenTelemetry spans with "
    "'resourceSpans'"
)


class RecordedCall(NamedTuple):
    """A recorded call. Some texts are known only by their number of tokens."""

    prompt: str | int  # what it adds to its context
    answer: str | int | None = None
    after: tuple[int, ...] = ()
    context: int = -1
    pause_ns: int = 0
    kind: str = TURN
    system: str = ""
    limit: int = 0  # tokens of the answer, if the recording says so
    messages: tuple[tuple[str, str], ...] = ()  # role and text, instead of a prompt


class RecordedTask(NamedTuple):
    """A recorded task; each call comes after those that it waits for."""

    name: str
    calls: tuple[RecordedCall, ...]


Found = tuple[str, tuple[str, ...], list[RecordedTask]]  # format, findings, tasks


def list_of(place: str, value: Any, name: str) -> Sequence[Any]:
    """Return a value that must be a list."""
    if not isinstance(value, list | tuple):
        raise UsageError(f"{place}: '{name}' is not a list", remedy=REMEDY)
    return value


def count_of(place: str, row: Mapping[str, Any], name: str) -> int:
    """Return a number of tokens."""
    value = row.get(name)
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise UsageError(f"{place}: '{name}' is {value!r}", remedy="give a whole number of tokens")
    return value


def number_of(place: str, row: Mapping[str, Any], name: str) -> float:
    """Return a number of 0 or more; 0 if it is absent."""
    value = row.get(name) or 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise UsageError(f"{place}: '{name}' is {value!r}", remedy="give a number of 0 or more")
    return float(value)
