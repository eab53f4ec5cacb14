"""The number of replicas that each stretch of the traffic needs.

If only rates are known, a higher rate never needs fewer replicas. If two rates need the same number, so do all rates
between them; otherwise a rate between them is simulated, up to a maximum of simulations. The remaining rates are
interpolated linearly and rounded up. A stretch of individual requests may have bursts that its rate does not show, so
each of them is simulated.
"""

import math
from collections.abc import Iterator
from itertools import pairwise

from inferometer.capacity.keeping import Simulator

MOST_SIMULATED = 32  # rates


def needed_over_time(simulator: Simulator) -> tuple[int, ...]:
    """Return the replicas for each stretch; 0 if it has no requests."""
    stretches = simulator.traffic.stretches
    found = [0] * len(stretches)
    order = sorted(
        (place for place, row in enumerate(stretches) if row.rate), key=lambda place: stretches[place].rate
    )
    rates = [stretches[place].rate for place in order]
    simulated = _simulated(simulator, order)
    places = sorted(simulated)
    for before, after in pairwise(places):
        low, high = simulated[before], simulated[after]
        for number in range(before, after):
            part = (rates[number] - rates[before]) / max(rates[after] - rates[before], 1e-12)
            found[order[number]] = math.ceil(low + part * (high - low) - 1e-9)
    for number in places:
        found[order[number]] = simulated[number]
    if simulator.traffic.times_s is not None:
        for number, place in enumerate(order):
            if number not in simulated:
                found[place] = simulator.needed(place, found[place])
        hardest = max(order, key=lambda place: (found[place], stretches[place].rate))
        found[hardest] = simulator.surely_needed(hardest, found[hardest])
        return tuple(found)
    for fewer, more in pairwise(order):  # simulations vary
        found[more] = max(found[fewer], found[more])
    return tuple(found)


def _simulated(simulator: Simulator, order: list[int]) -> dict[int, int]:
    """Return the replicas for the simulated stretches, keyed by their rank in rate order."""
    last = len(order) - 1
    found = {last: simulator.surely_needed(order[last])}
    if last == 0:
        return found
    found[0] = simulator.needed(order[0])
    for number in _between(found):
        ends = _around(found, number)
        guess = math.ceil((found[ends[0]] + found[ends[1]]) / 2)
        found[number] = simulator.needed(order[number], guess)
    return found


def _between(found: dict[int, int]) -> Iterator[int]:
    """Yield the rank to simulate next: the middle of the gap whose ends differ most."""
    while len(found) < MOST_SIMULATED:
        places = sorted(found)
        gaps = [
            (found[after] - found[before], after - before, before)
            for before, after in pairwise(places)
            if after - before > 1 and found[after] != found[before]
        ]
        if not gaps:
            return
        _, width, start = max(gaps)
        yield start + width // 2


def _around(found: dict[int, int], number: int) -> tuple[int, int]:
    return max(place for place in found if place < number), min(place for place in found if place > number)
