"""Server counters of all traffic classes, read together."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferometer.base.errors import PeerError
from inferometer.base.units import NS_PER_S, Clock, monotonic_ns
from inferometer.measure.class_windows import of_class
from inferometer.measure.prepare import Setup
from inferometer.observe.statistics import Counters, Snapshot, snapshot

AGAIN_NS = 5 * NS_PER_S  # pause before asking again after a failed read


@dataclass(slots=True)
class ClassCounters:
    """Reads the counters of every class; a failure leaves out only that class."""

    setups: Sequence[Setup]
    clock: Clock = monotonic_ns
    _resting: dict[int, int] = field(default_factory=dict)  # time of the next attempt, by class

    def __call__(self) -> Snapshot | None:
        found: dict[tuple[str, str], Counters] = {}
        for number, setup in enumerate(self.setups):
            if not setup.has_statistics or self._resting.get(number, 0) > self.clock():
                continue
            try:
                found |= of_class(number, _counters(setup))
            except PeerError:
                self._resting[number] = self.clock() + AGAIN_NS
        return found or None


def _counters(setup: Setup) -> Snapshot:
    """Read the counters of a class; for visits, of each step whose model no other step calls."""
    if setup.traffic.visits is None:
        return snapshot(setup.service.statistics(setup.model))
    found: dict[tuple[str, str], Counters] = {}
    names = [step.model.name for step in setup.parts]
    for number, step in enumerate(setup.parts):
        if names.count(step.model.name) == 1:
            found |= of_class(number, _counters(step))
    return found
