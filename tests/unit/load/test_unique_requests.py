"""Requests with a different text prefix for each send."""

import pytest

from inferometer.load.http1 import UniqueRequests, first_number
from inferometer.model.unique import COUNTER_BITS, Unique

UNIQUE = Unique((b" aa", b" bb", b" cc"))
HEAD = b"POST /~~~~~~ HTTP/1.1\r\nA: ~~~~~~\r\n\r\n"


def request(place: str) -> bytes:
    return HEAD + b'{"model":"m~","prompt":" p%s x ~~~~~~"}' % place.encode()


@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_only_the_placeholder_is_filled(kind):
    requests = UniqueRequests([kind(request(UNIQUE.place(2)))], UNIQUE, 4)
    for expected in (" bb bb", " cc bb", " aa cc"):
        assert bytes(requests[0]) == request(expected)


def test_a_placeholder_has_any_length_and_is_optional():
    plain = HEAD + b"{}"
    requests = UniqueRequests([request(UNIQUE.place(1)), plain, request(UNIQUE.place(3))], UNIQUE, 0)
    assert requests[1] is plain
    assert [requests[step] for step in (0, 2, 0)] == [request(" aa"), request(" bb aa aa"), request(" cc")]


def test_workers_have_separate_numbers_and_later_runs_higher_ones():
    first, other, later = first_number(0), first_number(3), first_number(0)
    assert first <= later < 1 << COUNTER_BITS
    assert other >> COUNTER_BITS == 3
