"""Server figures of the models that work, weighted by calls, with nothing counted twice."""

from types import ModuleType

import pytest

from inferometer.dialects.perf_analyzer.report import server_figures
from inferometer.report.documents.breakdown import server_pieces, steps


def test_member_called_twice_counts_twice(build: ModuleType) -> None:
    step = build.model("step", build.counters(200, 50, 10, (5, 20, 5)))
    top = build.ensemble("ens", build.counters(100, 120), step)
    row = server_figures(top, cached=False)
    assert (row.queue, row.compute, row.overhead) == (20, 60, 40)


def test_member_called_for_one_in_four_counts_a_quarter(build: ModuleType) -> None:
    step = build.model("step", build.counters(25, 80, 40, (0, 40, 0)))
    top = build.ensemble("ens", build.counters(100, 30), step)
    row = server_figures(top, cached=False)
    assert (row.queue, row.compute, row.overhead) == (10, 10, 10)


def test_call_that_falls_outside_the_window_does_not_lose_a_microsecond(build: ModuleType) -> None:
    step = build.model("step", build.counters(3468, 100, 26.5, (0, 70.5, 0)))
    top = build.ensemble("ens", build.counters(3469, 100), step)
    row = server_figures(top, cached=False)
    assert (row.queue, row.compute) == (26, 70)


def test_bls_model_shows_its_own_times_once(build: ModuleType) -> None:
    member = build.model("addsub", build.counters(200, 300, 50, (50, 150, 50)))
    top = build.model("bls", build.counters(100, 1000, 100, (10, 850, 20)), member)
    row = server_figures(top, cached=False)
    assert (row.queue, row.compute, row.overhead) == (100, 880, 20)


def test_bls_model_inside_an_ensemble_is_one_step(build: ModuleType) -> None:
    inner = build.model("addsub", build.counters(100, 300, 50, (50, 150, 50)))
    bls = build.model("bls", build.counters(100, 400, 20, (10, 350, 10)), inner)
    top = build.ensemble("ens", build.counters(100, 420), bls)
    row = server_figures(top, cached=False)
    assert (row.queue, row.compute, row.overhead) == (20, 370, 30)
    assert [row.name for row in steps(top)] == ["bls"]


def test_model_in_two_places_is_counted_once(build: ModuleType) -> None:
    step = build.model("step", build.counters(200, 50, 10, (5, 20, 5)))
    inner = build.ensemble("inner", build.counters(100, 55), step)
    top = build.ensemble("ens", build.counters(100, 120), inner, step)
    assert server_figures(top, cached=False).compute == 60


def test_overhead_is_never_below_zero(build: ModuleType) -> None:
    step = build.model("step", build.counters(100, 50, 10, (50, 20, 5)))
    assert server_figures(step, cached=False).overhead == 0


def test_idle_model_has_zeros_and_no_pieces(build: ModuleType) -> None:
    idle = build.model("idle", build.counters(0, 0))
    assert server_figures(idle, cached=True).latency == 0
    assert server_pieces(idle) == {}


@pytest.mark.parametrize("kind", ["plain", "ensemble", "bls"])
def test_pieces_add_up_to_the_server_time(kind: str, build: ModuleType) -> None:
    step = build.model("step", build.counters(200, 50, 10, (5, 20, 5)))
    top = {
        "plain": step,
        "ensemble": build.ensemble("ens", build.counters(100, 120), step),
        "bls": build.model("bls", build.counters(100, 300, 30, (10, 200, 10)), step),
    }[kind]
    total = top.counters.success_ns / top.counters.success_count
    assert sum(server_pieces(top).values()) == total
