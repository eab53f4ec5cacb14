"""A trial counts when the server is warm, and says so if it never is."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inferometer.base.units import NS_PER_S
from inferometer.measure.warming import Warming, is_warming
from inferometer.options.options import Options
from inferometer.tune.meter import COLD_WARM_UP_S, EngineMeter
from inferometer.tune.search.clock import SearchClock
from inferometer.tune.settings import PATIENCE_S, Effort, SearchSettings
from inferometer.tune.study import Study
from inferometer.tune.trial import ClientLoad, Trial, TrialPart

STEADY = [100.0, 101.0, 99.0, 100.0] * 5
RISING = [20.0 + 4 * number for number in range(20)]
COLD_START = [10.0] * 5 + STEADY[5:]


def level(rates: list[float]) -> Any:
    return SimpleNamespace(
        windows=tuple(
            SimpleNamespace(
                infer_per_s=rate,
                latency_ns=1e9 / rate,
                due_count=None,
                output_tokens=0,
                duration_ns=50_000_000,
                failed_count=0,
            )
            for rate in rates
        )
    )


@pytest.mark.parametrize(
    ("rates", "expected"),
    [(STEADY, False), (STEADY[::-1], False), (RISING, True), (COLD_START, True), (RISING[::-1], False)],
)
def test_a_level_that_began_slower_than_it_continued_was_not_warm(rates, expected):
    assert is_warming(level(rates).windows) is expected


def measured(monkeypatch, courses: list[list[float]], warming: Warming) -> tuple[EngineMeter, Any, str]:
    meter = EngineMeter({}, Effort(1.0, 0.05), {})
    meter._warmed_s = warming.seconds
    later = iter(courses[1:])
    monkeypatch.setattr(meter, "_levels", lambda *_: [level(next(later))])
    proposal: Any = None
    deployment: Any = None
    levels, more_s = meter._warm_levels([level(courses[0])], proposal, deployment, warming)
    assert more_s >= 0
    return meter, levels[0], meter._cold_note(warming, levels[0])


def test_a_measurement_of_a_warming_server_is_repeated(monkeypatch):
    meter, found, note = measured(monkeypatch, [COLD_START, RISING, STEADY, RISING], Warming(1.0, 50, True))
    assert [row.infer_per_s for row in found.windows] == STEADY
    assert note == ""
    assert meter._warm_up_s == PATIENCE_S


@pytest.mark.parametrize(
    ("course", "is_warm", "is_cold"), [(RISING, True, True), (STEADY, False, True), (STEADY, True, False)]
)
def test_a_server_that_is_never_warm_is_named_and_not_waited_for_again(monkeypatch, course, is_warm, is_cold):
    meter, _, note = measured(monkeypatch, [course], Warming(PATIENCE_S, 500, is_warm))
    assert ("still getting faster after a warm-up of 30" in note) is is_cold
    assert meter._warm_up_s == (COLD_WARM_UP_S if is_cold else PATIENCE_S)


def test_the_loads_of_a_server_share_its_warm_up(monkeypatch):
    meter = EngineMeter({}, Effort(1.0, 0.05), {})
    limits = []

    def warm(_instrument, _plan, limit_ns, first_ns):
        assert first_ns == PATIENCE_S * NS_PER_S
        limits.append(limit_ns / NS_PER_S)
        return Warming(min(limits[-1], 12.0), 50, is_warm=True)

    client = SimpleNamespace(setup=SimpleNamespace(options=Options()), instrument=None)
    monkeypatch.setattr("inferometer.tune.meter.warm_server", warm)
    monkeypatch.setattr(meter, "_client", lambda *_: client)
    for load in (1, 4, 16, 64):
        meter._warm("m", ClientLoad(concurrency=load), deployment=None)
    assert limits == [PATIENCE_S, PATIENCE_S - 12.0, PATIENCE_S - 24.0, COLD_WARM_UP_S]


def trial(number: int, name: str, **more: Any) -> Trial:
    return Trial(number, (TrialPart("server", name, ClientLoad(1)),), **more)


def test_the_start_up_time_of_a_configuration_is_that_of_its_slowest_start():
    rows = (
        trial(1, "a", startup_s=4.0),
        trial(2, "a"),
        trial(3, "b", startup_s=9.0),
        trial(4, "a", startup_s=6.0, repeat=1),
        trial(5, "c"),
    )
    study = Study("tool", "online", "smart", (), trials=rows)
    assert [study.startup_s(name) for name in "abc"] == [6.0, 9.0, None]


def test_warming_a_new_server_up_is_part_of_the_cost_of_a_start():
    clock = SearchClock(100.0)
    effort = Effort(1.0, 0.05)
    clock.add(trial(1, "a", cost_s=20.0, loading_s=5.0, warming_s=3.0), 1.0, effort, 0.0)
    clock.add(trial(2, "b", cost_s=9.5, loading_s=5.0, warming_s=3.0), 1.0, effort, 0.0)
    assert clock.loading_s(np.ones(1))[0] == pytest.approx(8.0)
    assert clock.measuring_s(effort, np.zeros(1))[0] == pytest.approx(1.5)


@pytest.mark.parametrize(("budget_s", "patience_s"), [(None, 30.0), (1000.0, 30.0), (60.0, 6.0), (10.0, 2.0)])
def test_slow_configurations_leave_time_for_others(budget_s, patience_s):
    settings = SearchSettings(budget_s=budget_s)
    assert settings.patience_s == patience_s
    clock = SearchClock(budget_s, most_waiting_s=settings.patience_s)
    assert clock.measuring_s(Effort(1.0, 0.05), np.full(1, 100.0))[0] == 1.0 + patience_s
