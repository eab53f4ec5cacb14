"""Requests that were seen against outcomes that were reported: which have no counterpart."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tests.torture.log import Seen


@dataclass(frozen=True, slots=True)
class Unmatched:
    """What is left over."""

    lost: list[Seen]  # seen, and in no count
    invented: Counter[str]  # reported, and never seen


def match(seen: Iterable[Seen], reported: Counter[str]) -> Unmatched:
    """As many pairs as there can be. Those that the client may have sent again come last: they need none."""
    rows = list(seen)
    taken: dict[str, list[Seen]] = {kind: [] for kind in reported}
    lost = [
        entry
        for entry in sorted(rows, key=lambda entry: entry.may_repeat)
        if not _place(entry, taken, reported, set()) and not entry.may_repeat
    ]
    left = Counter({kind: reported[kind] - len(taken[kind]) for kind in reported})
    return Unmatched(lost, +left)


def _place(entry: Seen, taken: dict[str, list[Seen]], room: Counter[str], tried: set[str]) -> bool:
    """Whether the entry finds an outcome, where need be by moving others."""
    for kind in sorted(entry.allowed & taken.keys()):
        if kind in tried:
            continue
        tried.add(kind)
        if len(taken[kind]) < room[kind]:
            taken[kind].append(entry)
            return True
        for number, other in enumerate(taken[kind]):
            if other.allowed - tried and _place(other, taken, room, tried):
                taken[kind][number] = entry
                return True
    return False
