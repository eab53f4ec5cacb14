"""Traces with lengths in tokens as traffic."""

import json

import pytest

from inferometer.capacity.traffic import of_trace

AZURE = (
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6,374,44\n2023-11-16 18:15:50.9,396,0\n"
)
BURST = b"Timestamp,Model,Request tokens,Response tokens,Total tokens\n5,m,472,18,490\n45,m,1087,230,1317\n"
MOONCAKE = b"\n".join(
    json.dumps({"timestamp": at, "input_length": 1024, "output_length": 5, "hash_ids": blocks}).encode()
    for at, blocks in ((0, [1, 2]), (1000, [1, 3]))
)


@pytest.mark.parametrize(
    ("data", "pairs", "reusable"),
    [
        (AZURE, ((374, 44), (396, 1)), 0.0),  # an empty answer takes one token
        (BURST, ((472, 18), (1087, 230)), 0.0),
        (MOONCAKE, ((1024, 5), (1024, 5)), 0.25),
        (b'{"timestamp": 0}\n{"timestamp": 1000}\n', None, 0.0),
        (b'{"timestamp": 0, "input_length": 5}\n{"timestamp": 1000, "input_length": 5}\n', None, 0.0),
    ],
)
def test_a_trace_has_the_lengths_of_its_requests(data, pairs, reusable):
    traffic = of_trace("trace", data)
    assert traffic.pairs == pairs
    assert traffic.reusable == pytest.approx(reusable)
