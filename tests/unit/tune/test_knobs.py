"""Configurations of launched servers: conditions, coordinates, and what failures show."""

import re
from typing import Any

import numpy as np
import pytest

from inferometer.base.errors import UsageError
from inferometer.options.varying import Vary
from inferometer.tune.condition import parse_condition
from inferometer.tune.knobs import axes, coordinates, ruled_out, worded
from inferometer.tune.search.forecast import UNKNOWN_SCALES, Covariances, predict, start_chance
from inferometer.tune.space import launched

# --- conditions


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("slots*batch <= 256", True),
        ("slots*batch < 256", False),
        ("slots >= 4 and batch / slots == 16", True),
        ("not slots == 4", False),
        ("1 < slots < 8", True),
        ("slots % 3 == 1 or batch > 1000", True),
        ("dtype != 'float32'", True),
        ("-slots // 3 == -2", True),
    ],
)
def test_conditions(text, holds):
    names = ("slots", "batch", "dtype")
    assert parse_condition(text, names).holds({"slots": 4, "batch": 64, "dtype": "float16"}) is holds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slots*batch", "is not a condition"),
        ("slots <", "is not a condition"),
        ("other < 3", "names other, which is not varied"),
        ("slots.real < 3", "has 'slots.real', which is neither arithmetic nor a comparison"),
        ("f(slots) < 3", "has 'f(slots)', which is neither arithmetic nor a comparison"),
        ("slots**slots < 3", "which is neither arithmetic nor a comparison"),
        ("[slots] < 3", "has '[slots]', which is neither arithmetic nor a comparison"),
        ("slots < 3 " * 200, "is not a condition"),
    ],
)
def test_rejected_conditions(text, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        parse_condition(text, ("slots",))


@pytest.mark.parametrize("text", ["slots / 0 < 1", "'a' * slots == 'aaaa'", "slots < 'a'"])
def test_a_condition_that_fails_names_the_configuration(text):
    with pytest.raises(UsageError, match="cannot be evaluated for slots=4"):
        parse_condition(text, ("slots",)).holds({"slots": 4})


# --- the space


def space(*, where: tuple[str, ...] = (), default=None):
    rows = (Vary("slots", (1, 2, 4)), Vary("batch", (64, 256)))
    return launched(
        "s", rows, tuple(parse_condition(text, ("slots", "batch")) for text in where), default or {}
    )


def test_the_first_allowed_configuration_is_the_baseline():
    assert space().base == {"knobs": {"slots": 1, "batch": 64}}
    assert space(where=("slots*batch > 300",)).base == {"knobs": {"slots": 2, "batch": 256}}
    assert space(default={"batch": 256}).base == {"knobs": {"slots": 1, "batch": 256}}
    assert space(default={"batch": 100}).base == {"knobs": {"slots": 1, "batch": 64}}
    assert space(where=("batch < 100",), default={"batch": 256}).base == {"knobs": {"slots": 1, "batch": 64}}


def test_conditions_leave_out_points():
    found = space(where=("slots*batch <= 256",))
    assert len(list(found.points())) == 4
    with pytest.raises(UsageError, match="no combination of the values meets --where 'slots > 9'"):
        space(where=("slots > 9",))


def test_coordinates_are_doublings_shares_and_words():
    choices = {"slots": (1, 4, 16), "share": (0.5, 0.7, 0.9), "dtype": ("a", "b"), "one": (7,)}
    first, second, first_word, second_word = coordinates(
        {"slots": 4, "share": 0.7, "dtype": "b", "one": 7}, choices
    )
    assert (first, first_word) == (2.0, 0.0)
    assert second == pytest.approx(2.0)
    assert second_word > 1


def test_names_in_messages_become_values():
    knobs = {"slots": 4, "flag": ""}
    configs: dict[str, dict[str, Any]] = {"s_config_1": {"knobs": knobs}, "m_config_0": {"name": "m"}}
    text = "s_config_1 is left out; m_config_0 and s_config_12 are not"
    assert worded(text, configs) == "slots=4 flag='' is left out; m_config_0 and s_config_12 are not"


# --- failures

GRID = [{"slots": slots, "batch": batch} for slots in (1, 2, 4, 8) for batch in (64, 256)]


def place(slots: int, batch: int) -> int:
    return GRID.index({"slots": slots, "batch": batch})


@pytest.mark.parametrize(
    ("failed", "working", "out"),
    [
        ({(4, 64): True}, [(1, 64)], {(8, 64)}),  # more slots need more memory
        ({(2, 64): True}, [(1, 64)], {(4, 64), (8, 64)}),
        ({(4, 256): True}, [(1, 64)], {(8, 256)}),  # batch 64 may fit
        ({(2, 64): True}, [(8, 64)], {(1, 64)}),  # fewer of them failed
        ({(4, 64): True}, [], set()),  # no direction is known
        ({(4, 64): False}, [(1, 64)], set()),  # another reason, once
        ({(2, 64): False, (4, 64): False}, [(1, 64)], {(8, 64)}),  # and twice
        ({(2, 64): True}, [(1, 64), (8, 64)], set()),  # refuted
    ],
)
def test_what_a_failure_rules_out(failed, working, out):
    found = ruled_out(
        GRID, {place(*key): is_memory for key, is_memory in failed.items()}, [place(*key) for key in working]
    )
    assert {(GRID[number]["slots"], GRID[number]["batch"]) for number in found} == out


def test_other_words_are_not_ruled_out():
    rows = [{"slots": slots, "dtype": dtype} for dtype in ("a", "b") for slots in (1, 2, 4)]
    assert ruled_out(rows, {1: True}, [0]) == {2: 1}
    assert ruled_out(rows, {4: True}, [0]) == {}


def test_axes_are_the_columns_of_each_placeholder():
    choices = {"slots": (1, 2, 4), "fixed": (7,), "policy": ("fifo", "sorted", "fair"), "batch": (64, 256)}
    assert axes(choices) == ((0,), (1, 2, 3), (4,))
    values = {"slots": 4, "fixed": 7, "policy": "fair", "batch": 256}
    assert len(coordinates(values, choices)) == 5


def test_a_knob_that_was_varied_alone_is_forecast_for_all_values_of_the_others():
    """Slots and batch each double the rate; the corner where both are changed was not measured."""
    points = np.array([[0.0, 0.0, 3.0, 0.0], [6.0, 0.0, 3.0, 0.0], [0.0, 6.0, 3.0, 0.0]])
    corner = np.array([[6.0, 6.0, 3.0, 0.0]])
    rates = np.log([100.0, 200.0, 200.0])
    together, apart = (
        predict(Covariances(points, corner, scales=UNKNOWN_SCALES, axes=columns), rates, 0.25)[0][0]
        for columns in ((), ((0,), (1,)))
    )
    assert apart > together
    assert apart > np.log(200.0)


def test_neighbours_of_a_failed_start_are_expected_to_fail():
    places = np.array([[0.0, 0.0], [4.0, 6.0], [4.0, 5.0], [1.0, 0.0], [0.0, 6.0]])
    found = start_chance(places, working=places[:1], failed=places[1:2])
    assert found[3] > 0.8
    assert found[2] < 0.35
    assert found[2] < found[4] < found[3]
    assert start_chance(places, places[:1], places[:0]).min() == 1.0
