"""Order of requests of several classes: each has its share for any number of workers."""

from itertools import pairwise

import pytest

from inferometer.load.mixture import mixture, next_prime
from tests.support.samples import sample

WEIGHTS = ([3, 1], [1, 1, 1], [100, 1], [1000, 1], [0.3, 0.5, 0.2])


@pytest.mark.sampled
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("workers", sample([1, 7], [1, 2, 3, 4, 7, 16, 64]))
def test_shares_are_within_one_percent_after_ten_thousand_requests(weights, workers):
    order = mixture(weights, [8] * len(weights))
    counts = [0] * len(weights)
    for worker in range(workers):
        for turn in range(10_000 // workers):
            counts[order[(worker + turn * workers) % len(order)][0]] += 1
    total = sum(counts)
    for count, weight in zip(counts, weights, strict=True):
        asked = weight / sum(weights)
        assert abs(count / total - asked) <= max(0.01 * asked, 1.5 / total * workers), (counts, weights)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_no_class_waits_long(workers):
    order = mixture([3, 1], [1, 1])
    seen = [order[turn * workers % len(order)][0] for turn in range(len(order))]
    gaps = [number for number, owner in enumerate(seen) if owner == 1]
    assert max(after - before for before, after in pairwise(gaps)) <= 12


def test_every_request_of_every_class_is_sent():
    order = mixture([1, 9], [500, 20])
    assert {step for owner, step in order if owner == 0} == set(range(500))
    assert {step for owner, step in order if owner == 1} == set(range(20))


def test_the_list_has_a_prime_length():
    assert [next_prime(number) for number in (0, 2, 8, 1009, 1010)] == [2, 2, 11, 1009, 1013]
    length = len(mixture([3, 1], [1, 1]))
    assert next_prime(length) == length
