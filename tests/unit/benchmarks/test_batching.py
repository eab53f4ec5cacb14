"""Errors of tools are those against a simulated server; the real one draws the lengths of its answers."""

import pytest

from benchmarks.bar import SMOKE
from benchmarks.batching import TRUTH_S, BatchingRun, batching_server, measure
from benchmarks.streams import OURS, Figures
from tests.support.batching import stationary


def test_errors_are_relative_to_the_stationary_server() -> None:
    true = stationary("32..96", 8, TRUTH_S)
    first = (true.first_p50_ns / 1e6 + 2, true.first_p90_ns / 1e6 - 3)
    run = BatchingRun(Figures(first, true.tokens_per_s * 0.9, (20.0, 20.0)), 8)
    assert run.tokens_error == pytest.approx(10)
    assert run.ttft_error_ms == pytest.approx(2)
    assert run.sample("tokens_error").info["tokens/s"] == pytest.approx(true.tokens_per_s * 0.9)


@pytest.mark.slow
def test_our_tool_takes_answers_whose_lengths_the_server_chooses() -> None:
    with batching_server() as address:
        run = measure(OURS, address, 8, SMOKE)
    assert run.said.tokens_per_s > 0
    assert run.said.ttft_ms[0] > 20
