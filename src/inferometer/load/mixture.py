"""Order of the requests of several classes, such that each class has its share at any time.

A list of prime length P holds a request of some class at each place. Place i is the point (i * g mod P) / P of the unit
interval, with g near P over the golden ratio; each class has a piece of the interval as long as its share. Multiples of
the golden ratio fill the interval evenly, however few there are, so that no class waits for long. A worker of W visits
every W-th place; because P is prime it reaches all places, in an equally even order.
"""

import math
from collections.abc import Sequence
from itertools import accumulate

GOLDEN = (math.sqrt(5) - 1) / 2
SHORTEST = 1009
LONGEST = 1_000_003
EXACT = 0.002  # tolerated error of a class's share in the list


def mixture(weights: Sequence[float], sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return (class, step of its data) for each place; `sizes` is the number of different requests of each class.

    Every request of a class occurs at least once in the list, unless the list would become too long.
    """
    total = sum(weights)
    shares = [weight / total for weight in weights]
    length = next_prime(_least_length(shares, sizes))
    ends = [round(end * length) for end in accumulate(shares)]
    step = _coprime_step(length)
    turns = [0] * len(weights)
    order = []
    for place in range(length):
        point = place * step % length
        number = next((number for number, end in enumerate(ends) if point < end), len(ends) - 1)
        order.append((number, turns[number] % sizes[number]))
        turns[number] += 1
    return tuple(order)


def _least_length(shares: Sequence[float], sizes: Sequence[int]) -> int:
    """Return a length that holds all data of every class and gives shares within EXACT."""
    needed = [math.ceil(size / share) for size, share in zip(sizes, shares, strict=True)]
    # A class has a whole number of places: an error of half a place at either end of its piece.
    precise = [math.ceil(1 / (EXACT * share)) for share in shares]
    return min(max(SHORTEST, *needed, *precise), LONGEST - 2)


def _coprime_step(length: int) -> int:
    """Return the number nearest to the golden section of a prime; any number below works, this one is the most even."""
    return max(1, round(length * GOLDEN))


def next_prime(least: int) -> int:
    """Return the smallest prime that is at least `least`."""
    number = max(2, least)
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number
