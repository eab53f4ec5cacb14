"""Checked access to the JSON of a foreign file: errors name the file, the place in it, and the rule."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.stats.estimate import Distribution

LONGEST_NS = 24 * 3600 * NS_PER_S
"""Limit of a duration, so that sums of durations stay exact."""
LATEST_NS = 1 << 62
"""Limit of a moment, in nanoseconds since any epoch."""
MOST = 1 << 53
"""Limit of a count: the largest whole number that every JSON reader keeps exact."""

UNITS = {"ms": NS_PER_MS, "s": NS_PER_S, "sec": NS_PER_S, "ns": 1, "us": 1000}
"""Nanoseconds in each unit of time, as written by these tools."""


@frozen
class Part:
    """A JSON object in a file, and its place there."""

    fields: Mapping[str, Any]
    origin: str  # name of the file
    tool: str  # that wrote it
    place: str = ""

    def error(self, name: str, rule: str) -> UsageError:
        where = ".".join(filter(None, (self.place, name)))
        return UsageError(
            f"'{self.origin}' is not a valid result of {self.tool}: {where or 'the document'} {rule}",
            remedy=f"use the file as {self.tool} wrote it",
        )

    def get(self, name: str) -> Any:
        return self.fields.get(name)

    def maybe_part(self, name: str) -> "Part | None":
        found = self.get(name)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise self.error(name, "is not an object")
        return Part(found, self.origin, self.tool, ".".join(filter(None, (self.place, name))))

    def part(self, name: str) -> "Part":
        found = self.maybe_part(name)
        if found is None:
            raise self.error(name, "is missing")
        return found

    def rows(self, name: str) -> list[Any]:
        """Return a list; empty if it is absent."""
        found = self.get(name)
        if found is None:
            return []
        if not isinstance(found, list):
            raise self.error(name, "is not a list")
        return found

    def parts(self, name: str) -> "Iterator[Part]":
        for number, row in enumerate(self.rows(name)):
            place = f"{name}[{number}]"
            if not isinstance(row, dict):
                raise self.error(place, "is not an object")
            yield Part(row, self.origin, self.tool, ".".join(filter(None, (self.place, place))))

    def text(self, name: str) -> str:
        """Return a text; empty if it is absent or something else."""
        found = self.get(name)
        return found if isinstance(found, str) else ""

    def maybe_number(self, name: str) -> float | None:
        found = self.get(name)
        return None if found is None else self._number(found, name)

    def number(self, name: str) -> float:
        found = self.maybe_number(name)
        if found is None:
            raise self.error(name, "is missing")
        return found

    def maybe_count(self, name: str) -> int | None:
        found = self.maybe_number(name)
        if found is not None and (found < 0 or found != int(found)):
            raise self.error(name, f"is {found}, not a whole number of at least 0")
        return None if found is None else int(found)

    def maybe_ns(self, name: str, unit: int = NS_PER_S) -> int | None:
        """Return a duration in nanoseconds."""
        found = self.get(name)
        return None if found is None else self.duration(found, name, unit)

    def moment_ns(self, name: str, unit: int) -> int | None:
        """Return a moment in nanoseconds. Whole numbers stay exact."""
        found = self.get(name)
        if found is None:
            return None
        self._number(found, name)
        moment = found * unit if isinstance(found, int) else round(found * unit)
        if not 0 <= moment <= LATEST_NS:
            raise self.error(name, "is outside the range of a moment")
        return moment

    def duration(self, value: Any, name: str, unit: int) -> int:
        found = self._number(value, name) * unit
        if not 0 <= found <= LONGEST_NS:
            raise self.error(name, f"is {value}, outside the range of a duration: 0 to 24 hours")
        return round(found)

    def _number(self, value: Any, name: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(name, "is not a number")
        if abs(value) > LATEST_NS or not math.isfinite(value):
            raise self.error(name, "is too large")
        return float(value)


@frozen
class Names:
    """The names of the statistics in a file; an empty name is not stated there."""

    mean: str
    std: str = ""
    min: str = ""
    max: str = ""
    count: str = ""
    percentiles: tuple[tuple[float, str], ...] = ()


def summary(part: Part, names: Names, unit: int, count: int) -> Distribution | None:
    """Return the stated figures of a distribution; None if the mean is not stated.

    `count` is used if the file does not state how many values there are.
    """
    mean = part.maybe_ns(names.mean, unit)
    if mean is None:
        return None
    known = [(p, part.maybe_ns(name, unit)) for p, name in names.percentiles]
    stated = part.maybe_count(names.count) if names.count else None
    return Distribution(
        count=count if stated is None else stated,
        mean_ns=mean,
        std_ns=part.maybe_ns(names.std, unit) if names.std else None,
        min_ns=part.maybe_ns(names.min, unit) if names.min else None,
        max_ns=part.maybe_ns(names.max, unit) if names.max else None,
        percentiles=tuple((p, ns) for p, ns in known if ns is not None),
    )
