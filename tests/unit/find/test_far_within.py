"""Loads so far below every limit that a few requests are enough."""

from dataclasses import replace

import numpy as np
import pytest

from inferometer.base.slo import parse_slo
from inferometer.find.keeping import Counts, LoadRun, is_far_within

MS = 1e6


def run(slo, latency_ms: float, requests: int, beyond: int = 0, failed: int = 0) -> LoadRun:
    def counts(beyond: int) -> Counts:
        return Counts(
            np.array([float(requests)]), np.array([float(beyond)]), np.array([requests * latency_ms * MS])
        )

    terms = tuple(counts(failed if term.name == "errors" else beyond) for term in slo.terms)
    return LoadRun(10.0, 1.0, terms, np.array([latency_ms * MS]))


@pytest.mark.parametrize(
    ("slo", "latency_ms", "requests", "beyond", "failed", "is_far"),
    [
        ("p99<10s", 12, 8, 0, 0, True),
        ("p99<10s", 12, 3, 0, 0, False),  # too few
        ("p99<10s", 120, 8, 0, 0, False),  # one in a hundred may take 12 s
        ("p99<10s", 12, 800, 1, 0, False),
        ("p99<10s", 12, 800, 0, 1, False),
        ("p50<1s", 200, 8, 0, 0, True),
        ("p50<1s", 400, 8, 0, 0, False),
        ("mean<1s", 100, 8, 0, 0, True),
    ],
)
def test_far_within_every_limit(slo, latency_ms, requests, beyond, failed, is_far) -> None:
    parsed = parse_slo(slo)
    assert is_far_within(parsed, run(parsed, latency_ms, requests, beyond, failed)) is is_far


@pytest.mark.parametrize(
    ("deviation_ms", "requests", "is_open", "is_far"),
    [
        (0.5, 8, False, True),
        (0.5, 7, False, False),  # too few
        (1.5, 8, False, False),  # up to a fortieth of the requests may take 28 ms
        (0.5, 8, True, False),  # a queue may have just begun to grow
    ],
)
def test_a_small_deviation_is_proof_without_a_growing_queue(deviation_ms, requests, is_open, is_far) -> None:
    slo = parse_slo("p95<28ms")
    found = run(slo, 22.0, requests)
    terms = tuple(replace(counts, deviation_ns=deviation_ms * MS) for counts in found.terms)
    assert is_far_within(slo, replace(found, terms=terms, is_open=is_open)) is is_far
