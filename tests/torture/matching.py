"""Match received requests with the counts of a result, and find those without a counterpart."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tests.torture.log import Seen

Placed = tuple[Seen, set[str]]
"""A request, and the counts it may be in."""


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Requests and counts without a counterpart."""

    lost: list[Seen]  # received, but in no count
    invented: Counter[str]  # counted, but never received
    repeated: int  # in no count because the client sent them again


def match(rows: Sequence[Placed], counted: Counter[str], optional: Collection[str]) -> Unmatched:
    """Find a maximum matching.

    Requests that the client may have sent again come last, since they need no count; `optional` counts need no request.
    """
    taken: dict[str, list[Placed]] = {kind: [] for kind in counted}
    without = [
        row
        for row in sorted(rows, key=lambda row: row[0].may_repeat)
        if not _place(row, taken, counted, set())
    ]
    for kind in taken.keys() - set(optional):
        while len(taken[kind]) < counted[kind] and _fill(kind, taken, optional, {kind}):
            pass
    left = Counter({kind: counted[kind] - len(taken[kind]) for kind in counted if kind not in optional})
    lost = [row[0] for row in without if not row[0].may_repeat]
    return Unmatched(lost, +left, len(without) - len(lost))


def _place(row: Placed, taken: dict[str, list[Placed]], room: Counter[str], tried: set[str]) -> bool:
    """Whether a count can be found for the request, if necessary by moving others."""
    for kind in sorted(row[1] & taken.keys()):
        if kind in tried:
            continue
        tried.add(kind)
        if len(taken[kind]) < room[kind]:
            taken[kind].append(row)
            return True
        for number, other in enumerate(taken[kind]):
            if other[1] - tried and _place(other, taken, room, tried):
                taken[kind][number] = row
                return True
    return False


def _fill(kind: str, taken: dict[str, list[Placed]], optional: Collection[str], tried: set[str]) -> bool:
    """Whether a request can be moved here from an optional count, if necessary by moving others."""
    for source in sorted(taken.keys() - tried):
        movable = [number for number, row in enumerate(taken[source]) if kind in row[1]]
        if not movable:
            continue
        tried.add(source)
        row = taken[source].pop(movable[0])
        if source in optional or _fill(source, taken, optional, tried):
            taken[kind].append(row)
            return True
        taken[source].insert(movable[0], row)
    return False
