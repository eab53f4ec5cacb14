"""Histograms under the names of the conventions for generative AI."""

import numpy as np

from inferometer.base import status
from inferometer.options.options import ENDPOINTS
from inferometer.records.records import COLUMNS, from_rows
from inferometer.report.genai import (
    DURATION,
    FIRST_CHUNK,
    OPERATIONS,
    PER_CHUNK,
    TOKENS,
    USAGE,
    GenAiHistograms,
    genai_attributes,
)

MS = 1_000_000


def test_every_api_has_an_operation_and_a_provider():
    assert set(OPERATIONS) == set(ENDPOINTS)
    assert TOKENS[:3] == (1, 4, 16)
    assert TOKENS[-1] == 67108864
    found = genai_attributes("chat", "m", "https://h.example/v1")
    assert (found["server.address"], found["server.port"]) == ("h.example", 443)


def test_histograms_hold_every_request():
    rows = np.zeros((3, len(COLUMNS)), dtype=np.int64)
    values = (  # sent, first, end, status, tokens, prompt tokens, stamps
        (MS, 21 * MS, 161 * MS, 0, 5, 16, 3),
        (MS, 41 * MS, 11 * MS, status.HTTP + 500, 0, 0, 0),
        (0, 0, 11 * MS, status.CONNECT, 0, 0, 0),
    )
    names = ("sent_ns", "first_ns", "end_ns", "status", "tokens", "prompt_tokens", "stamps")
    for place, row in enumerate(sorted(values, key=lambda row: row[2])):
        for name, value in zip(names, row, strict=True):
            rows[place, COLUMNS.index(name)] = value
    times = np.array([21 * MS, 22 * MS, 52 * MS], dtype=np.int64)
    histograms = GenAiHistograms()
    histograms.add(from_rows(rows, times))
    histograms.add(from_rows(rows, times))
    found = {(spec, labels): counts for spec, labels, counts in histograms}
    good, bad = found[DURATION, ()], found[DURATION, (("error.type", "500"),)]
    assert (good.count, good.total, good.low) == (2, 0.32, 0.16)
    assert good.buckets.tolist()[:6] == [0, 0, 0, 0, 2, 0]  # 0.16 s is on the boundary of its bucket
    assert (bad.count, bad.high) == (2, 0.01)
    assert (found[FIRST_CHUNK, ()].count, found[FIRST_CHUNK, ()].high) == (2, 0.02)
    assert (found[PER_CHUNK, ()].count, found[PER_CHUNK, ()].high) == (4, 0.03)
    assert found[USAGE, (("gen_ai.token.type", "output"),)].total == 10
    assert found[USAGE, (("gen_ai.token.type", "input"),)].total == 32
