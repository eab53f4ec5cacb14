"""Models with weights, as written by users."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.measure.mix import WeightedModel, weighted


def test_weights_are_read_where_there_are_several_models():
    assert weighted(["a:3", "b", "org/c-3.1:8b"]) == (
        WeightedModel("a", 3.0),
        WeightedModel("b", 1.0),
        WeightedModel("org/c-3.1:8b", 1.0),
    )
    assert weighted(["a:3"]) == (WeightedModel("a:3"),)
    assert weighted([]) == ()


@pytest.mark.parametrize("words", [["a:0", "b"], ["a:-1", "b"], ["a:nan", "b"], ["a:1", "a:2"], [":2", "b"]])
def test_invalid_weights_are_rejected(words):
    with pytest.raises(UsageError, match=r"weight|twice"):
        weighted(words)
