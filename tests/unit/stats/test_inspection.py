"""The figures of a trace."""

from random import Random
from typing import Any

import numpy as np
import pytest

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.dataset.contents import Contents
from inferometer.options.stored import InspectOptions
from inferometer.stats.inspection import Inspection, burstiness, inspect_file, inspection, lengths_of


def inspected(*times_ns: int, **more: Any) -> Inspection:
    contents = Contents("Mooncake", "the trace", len(times_ns), times_ns, **more)
    return inspection(contents, name="t", tool="x")


def test_lengths_are_exact():
    found = lengths_of([*range(1, 100), 1000])
    assert (found.count, found.total, found.mean) == (100, 5950, 59.5)
    assert (found.p50, found.p90, found.p99, found.max) == (51, 90, 99, 1000)
    assert found.curve[0] == (0.0, 1)
    assert found.curve[-1] == (100.0, 1000)
    assert lengths_of([]) is None


def test_rate_and_bins_count_every_request_once():
    times = [number * 100 * NS_PER_MS for number in range(1001)]
    found = inspected(*times, inputs=(3,) * 1001, outputs=(2,) * 1001)
    assert (found.span_s, found.per_s) == (100.0, 10.0)
    assert sum(row.requests for row in found.bins) == 1001
    assert sum(row.input_tokens for row in found.bins) == 3003
    assert sum(row.output_tokens for row in found.bins) == 2002
    assert found.bin_s == 1.0
    assert {row.requests for row in found.bins[:-1]} == {10}
    assert found.peak_per_s == 10.0


def arrivals(kind: str, seed: int) -> list[int]:
    draw = Random(seed)
    if kind == "regular":
        gaps = [1.0] * 3000
    elif kind == "independent":
        gaps = [draw.expovariate(1.0) for _ in range(3000)]
    else:  # ten at a time
        gaps = [0.001 if number % 10 else draw.expovariate(0.1) for number in range(3000)]
    return [round(time * NS_PER_S) for time in np.cumsum(gaps)]


@pytest.mark.parametrize("seed", range(5))
def test_bursts_differ_from_independent_and_regular_arrivals(seed: int):
    regular, independent, bursts = (
        burstiness(np.array(arrivals(kind, seed))) for kind in ("regular", "independent", "bursts")
    )
    assert (regular.gap_variation, regular.dispersion) == (0, 0)
    assert abs(independent.dispersion - 1) <= independent.chance < 0.5
    assert abs(independent.gap_variation - 1) < 0.3
    assert bursts.dispersion > 1 + 10 * bursts.chance
    assert bursts.gap_variation > 5


@pytest.mark.parametrize("seed", range(5))
def test_rounded_times_do_not_make_independent_arrivals_bursts(seed: int):
    rounded = np.array(arrivals("independent", seed)) // (20 * NS_PER_S) * 20 * NS_PER_S
    found = burstiness(rounded)
    assert (found.tick_s, found.window_s) == (20.0, 20.0)
    assert found.together > 0.9
    assert found.gap_variation > 10  # which alone would suggest bursts
    assert abs(found.dispersion - 1) <= found.chance


def test_bins_are_whole_multiples_of_rounded_times():
    times = [number // 10 * 3 * NS_PER_S for number in range(5000)]
    found = inspected(*times)
    assert found.bin_s % 3 == 0
    assert {row.requests for row in found.bins[:-1]} == {found.bins[0].requests}


def test_few_requests_give_few_figures():
    one, two, same = inspected(5), inspected(0, NS_PER_S), inspected(7, 7, 7)
    assert (one.span_s, one.per_s, one.bins, one.burstiness) == (0.0, None, (), None)
    assert (two.per_s, two.burstiness) == (1.0, None)
    assert (same.span_s, same.burstiness) == (0.0, None)
    few = burstiness(np.array([0, 1, 5, 9]) * NS_PER_S)
    assert few.dispersion is None
    assert few.chance > 1


def test_without_times_there_is_no_rate():
    found = inspection(Contents("text", "words", 3, inputs=(1, 2, 3)), name="t", tool="x")
    assert (found.span_s, found.per_s, found.peak_per_s, found.bins) == (None, None, None, ())


def test_shares_and_sessions():
    found = inspected(0, 1, inputs=(10, 30), cacheable_tokens=10, sessions=(1, 5, 2))
    assert found.cacheable_share == 0.25
    assert (found.session_count, found.session_requests) == (3, (2, 5))
    assert inspected(0, 1, inputs=(10, 30)).cacheable_share is None


def test_shared_beginnings_of_texts_are_cacheable(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("a b c d\na b x\na b c d\ny\n")
    found = inspect_file(str(path), InspectOptions())
    assert (found.input.total, found.cacheable_tokens) == (12, 2 + 4)
