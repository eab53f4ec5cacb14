"""Plans of each class in each phase."""

from typing import Any

import pytest

from inferometer.base.units import NS_PER_S
from inferometer.load.plan import NEVER, Arrivals, Closed, Gaps, Poisson, Stairs, parse_shape
from inferometer.measure.points import Agenda
from inferometer.scenario.plans import ClassLoad, phase_points
from inferometer.scenario.spec import checked_scenario


def planned(phases, *loads, pace=1.0):
    classes: dict[str, dict[str, Any]] = {load.name: {} for load in loads}
    scenario = checked_scenario({"classes": classes, "phases": phases}, "it")
    return phase_points(scenario.phases, loads, pace=pace)


def plans(phases, load, **more):
    return [phase.point.plan.plans[0] for phase in planned(phases, load, **more)]


def due_s(plan, count):
    return [plan.schedule.due_ns(number) / NS_PER_S for number in range(count)]


def test_a_rate_is_multiplied_by_the_load_of_the_phase():
    low, high = plans(
        [{"name": "a", "for": 1, "load": 0.5}, {"name": "b", "for": 1, "load": 2}], ClassLoad("x", rate=10)
    )
    assert due_s(low, 5) == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])
    assert low.schedule.due_ns(5) == NEVER  # nothing is due once the phase is over
    assert due_s(high, 3) == pytest.approx([0.025, 0.075, 0.125])


def test_a_ramp_of_a_rate_has_the_requests_of_its_mean():
    (ramp,) = plans([{"name": "a", "for": 10, "load": "0..2"}], ClassLoad("x", rate=10))
    assert due_s(ramp, 100)[-1] == pytest.approx(10 - 0.025)
    assert ramp.schedule.due_ns(100) == NEVER


def test_a_ramp_of_concurrency_climbs_stairs():
    (ramp,) = plans([{"name": "a", "for": 10, "load": "0.5..2"}], ClassLoad("x", concurrency=4))
    assert isinstance(ramp, Stairs)
    assert [height for _, height in ramp.steps] == [2, 3, 4, 5, 6, 7, 8, 0]
    assert ramp.steps[-2][0] < 10 * NS_PER_S


@pytest.mark.parametrize("load", [1, "0.5..2"])
def test_a_closed_class_ends_with_its_phase(load):
    (plan,) = plans([{"name": "a", "for": 10, "load": load}], ClassLoad("x", concurrency=4))
    assert plan.at(10 * NS_PER_S - 1) > 0
    assert plan.at(10 * NS_PER_S) == 0


def test_half_of_one_request_in_flight_rounds_up_to_one():
    half, ramp = plans(
        [{"name": "a", "for": 1, "load": 0.4}, {"name": "b", "for": 1, "load": "0.5..2"}],
        ClassLoad("x", concurrency=1),
    )
    assert half == Stairs(((0, 1), (NS_PER_S, 0)))
    assert [height for _, height in ramp.steps] == [1, 2, 0]


def test_a_factor_of_zero_sends_nothing_and_classes_may_have_their_own():
    phases = [{"name": "a", "for": 1, "load": 0, "classes": {"y": {"rate": 7}}}]
    (phase,) = planned(phases, ClassLoad("x", rate=10), ClassLoad("y", rate=1))
    nothing, seven = phase.point.plan.plans
    assert nothing == Closed(0)
    assert due_s(seven, 2) == pytest.approx([1 / 14, 3 / 14])
    assert [row.value for row in phase.point.classes] == [0, 7]


def test_random_arrivals_differ_from_phase_to_phase():
    one, two = plans([{"name": "a", "for": 1}, {"name": "b", "for": 1}], ClassLoad("x", rate=10, gaps=Gaps()))
    assert isinstance(one.schedule, Poisson)
    assert one.schedule.seed != two.schedule.seed


def test_a_shape_continues_through_the_phases_at_their_pace():
    shape = parse_shape("hold 10 for 1s then hold 30 for 1s")
    load = ClassLoad("x", agenda=Agenda(shape, shape.count))
    one, two, three = plans([{"name": name, "for": 1} for name in "abc"], load)
    # A request due at a boundary belongs to the phase that begins there.
    assert [part.schedule.count for part in (one, two, three)] == [9, 30, 1]
    half = plans([{"name": "a", "for": 1}, {"name": "b", "for": 1}], load, pace=2)
    assert [part.schedule.count for part in half] == [4, 15]


def test_a_pace_shortens_phases_and_keeps_rates():
    one, two = planned([{"name": "a", "for": 10}, {"name": "b", "for": 30}], ClassLoad("x", rate=5), pace=10)
    assert (one.length_ns, two.start_ns, two.length_ns) == (NS_PER_S, NS_PER_S, 3 * NS_PER_S)
    assert two.point.asked_per_s == 5
    assert two.point.mode == "phase b"


def test_bursty_arrivals_of_a_class():
    bursty = Gaps("gamma", 0.5)
    (plan,) = plans([{"name": "a", "for": 1}], ClassLoad("x", rate=10, gaps=bursty))
    assert plan.schedule.gaps == bursty


def test_random_arrivals_end_with_their_phase():
    (plan,) = plans([{"name": "a", "for": 2, "load": 1}], ClassLoad("x", rate=50, gaps=Gaps()))
    due = Arrivals(plan).by(2 * NS_PER_S)
    assert 60 < due < 140
    assert Arrivals(plan).by(60 * NS_PER_S) == due
