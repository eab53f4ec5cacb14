"""Parsing of the loads, mixes and settings of a twin."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.options.values import Range
from inferometer.twin.loads import AskedLoads, loads_of, setting_of, values_of
from inferometer.twin.twin import StepSetting
from tests.support.twins import sample_twin

TWIN = sample_twin("a")


def parts(*models: str, **asked: object) -> list[list[tuple[str, float]]]:
    found = loads_of(TWIN, AskedLoads(models, **asked))  # type: ignore[arg-type]
    return [[(part.model, part.value) for part in load.parts] for load in found]


def test_weights_split_requests_in_flight_into_whole_numbers() -> None:
    assert parts("a:3", "other:1", concurrency=(8,)) == [[("a", 6), ("other", 2)]]
    assert parts("a:3", "other:1", concurrency=(7,)) == [[("a", 5), ("other", 2)]]
    assert parts("a", "other", concurrency=(2, 3)) == [[("a", 1), ("other", 1)], [("a", 2), ("other", 1)]]


def test_weights_split_a_rate() -> None:
    assert parts("a:3", "other:1", rates=(40.0,)) == [[("a", 30), ("other", 10)]]


def test_without_models_each_runs_alone() -> None:
    assert parts(concurrency=(4,)) == [[("a", 4)], [("other", 4)]]


def test_without_a_load_it_goes_to_twice_the_highest_measured() -> None:
    assert [row[0][1] for row in parts("a")] == [1, 2, 4, 8, 16]


def test_a_setting_applies_to_models_with_the_step() -> None:
    found = loads_of(TWIN, AskedLoads((), (4.0,), settings=(StepSetting("other", "instances", 2.0),)))
    assert [[row.text for row in load.settings] for load in found] == [[], ["other.instances=2"]]


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        (("a:0",), "the weight '0' is not a number above 0"),
        (("a:x",), "the weight 'x' is not a number above 0"),
        (("a", "a:2"), "'a' is given twice"),
        (("a:9", "other:1"), "'other' would get none of 2 requests in flight"),
    ],
)
def test_impossible_mixes_are_rejected(models: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        parts(*models, concurrency=(2,))
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("a.instances=2", StepSetting("a", "instances", 2.0)),
        ("a.b.batching=on", StepSetting("a.b", "batching", 1.0)),
        ("a.batching=off", StepSetting("a", "batching", 0.0)),
        ("a.delay_us=500", StepSetting("a", "delay_us", 500.0)),
    ],
)
def test_settings_round_trip(word: str, found: StepSetting) -> None:
    assert setting_of(word) == found
    assert found.text == word


@pytest.mark.parametrize(
    "word",
    ["a", "a.instances", "a.instances=0", "a.instances=1.5", "a.batching=2", "a.colour=1", "a.max_batch=x"],
)
def test_invalid_settings_are_rejected(word: str) -> None:
    with pytest.raises(UsageError, match=word) as caught:
        setting_of(word)
    assert caught.value.remedy


def test_ranges_become_levels() -> None:
    assert values_of("-c", None) == ()
    assert values_of("-c", Range(4)) == (4,)
    assert values_of("-c", Range(1, 7, 3)) == (1, 4, 7)
    assert values_of("-c", Range.of([1, 2, 16])) == (1, 2, 16)
    with pytest.raises(UsageError, match="has no end"):
        values_of("-c", Range(1, 0))
    with pytest.raises(UsageError, match="levels"):
        values_of("-c", Range(1, 10_000))
