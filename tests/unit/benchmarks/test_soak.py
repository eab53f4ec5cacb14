"""What a soak finds wrong with ourselves."""

from dataclasses import replace

from benchmarks.soak import Part, problems

MIB = 2**20
STEADY = [Part(f"part {n}", {"controller": 50 * MIB, "worker 1": 30 * MIB}, 80.0, 1000, 0) for n in range(6)]


def test_an_unchanged_level_passes_after_any_start():
    assert problems(STEADY) == []
    assert problems([replace(STEADY[0], memory={"controller": 40 * MIB}), *STEADY[1:]]) == []


def test_memory_that_grows_is_named():
    grown = [*STEADY[:5], replace(STEADY[5], memory={"controller": 50 * MIB, "worker 1": 32 * MIB})]
    assert problems(grown) == ["the memory of the worker 1 grew from 30.0 to 32.0 MiB, more than 2%"]


def test_lag_that_drifts_and_requests_that_fail_are_named():
    late = [replace(part, lag_us=80.0 + 40 * number, failed=number) for number, part in enumerate(STEADY)]
    assert problems(late) == ["the lag of sends went from 100 to 260 us", "15 requests failed"]
    assert problems(STEADY[:2]) == ["too few parts to compare"]
