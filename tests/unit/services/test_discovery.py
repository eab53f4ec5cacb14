"""Descriptions of models of any size: queried once, and bounded."""

import itertools
from collections import Counter
from typing import Any

import pytest

from inferometer.base.errors import MissingError, PeerError
from inferometer.model import answers
from inferometer.model.answers import checked
from inferometer.observe.statistics import Counters, difference
from inferometer.services.discovery import DEEPEST, MOST_MODELS, MOST_TENSORS, describe_model

TENSOR = {"name": "A", "datatype": "INT32", "shape": [4]}


class Repository:
    """A server whose ensembles have these steps."""

    def __init__(self, steps: dict[str, list[str]], metadata: dict[str, Any] | None = None) -> None:
        self._steps = steps
        self._metadata = metadata or {"inputs": [TENSOR]}
        self.asked: Counter[str] = Counter()

    def metadata(self, name: str, version: str) -> Any:
        return self._metadata

    def config(self, name: str, version: str) -> Any:
        self.asked[name] += 1
        steps = [{"model_name": step, "model_version": -1} for step in self._steps.get(name, ())]
        return {
            "name": name,
            "max_batch_size": 0,
            **({"ensemble_scheduling": {"step": steps}} if steps else {}),
        }

    def models(self) -> list[str]:
        return [f"model{i}" for i in range(100_000)]


def layers(width: int, depth: int) -> dict[str, list[str]]:
    """Return ensembles in layers: every model of a layer contains all of the next one."""
    names = [["m"], *([f"{layer}.{i}" for i in range(width)] for layer in range(depth))]
    return {name: below for above, below in itertools.pairwise(names) for name in above}


def test_a_shared_member_model_is_queried_once():
    repository = Repository(layers(width=2, depth=6))
    assert sum(1 for _ in describe_model(repository, "m", "", ()).family()) == 2**7 - 1
    assert set(repository.asked.values()) == {1}


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        (layers(width=3, depth=DEEPEST), f"more than {MOST_MODELS:,} models"),
        ({"m": [f"part{i}" for i in range(100_000)]}, f"more than {MOST_MODELS:,} models"),
        (layers(width=1, depth=DEEPEST + 1), "which is an endless chain"),
        ({"m": ["a"], "a": ["b"], "b": ["a"]}, "a > b > a, which is an endless chain"),
        ({"m": ["m"]}, "which is an endless chain"),
    ],
)
def test_unbounded_ensembles_are_refused(steps, sentence):
    repository = Repository(steps)
    with pytest.raises(PeerError, match=sentence):
        describe_model(repository, "m", "", ())
    assert sum(repository.asked.values()) <= MOST_MODELS + 2


@pytest.mark.parametrize("noun", ["inputs", "outputs"])
def test_a_model_has_a_limited_number_of_tensors(noun):
    rows = [{**TENSOR, "name": f"T{i}"} for i in range(MOST_TENSORS)]
    assert describe_model(Repository({}, {noun: rows}), "m", "", ())
    with pytest.raises(PeerError, match=rf"16,385 {noun}"):
        describe_model(Repository({}, {noun: [*rows, TENSOR]}), "m", "", ())


def test_a_long_list_of_models_is_shortened():
    class Unknown(Repository):
        def metadata(self, name: str, version: str) -> Any:
            raise MissingError("unknown model")

    with pytest.raises(PeerError) as caught:
        describe_model(Unknown({}), "m", "", ())
    assert "and 99,980 more" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_names_that_are_too_long_are_refused_in_a_short_sentence():
    for name in ("x" * 1_000_000, "x" * 1025):
        with pytest.raises(PeerError, match="a text of up to 1,024 characters as 'inputs") as caught:
            checked({"inputs": [{**TENSOR, "name": name}]}, answers.METADATA, "the answer")
        assert len(str(caught.value)) < 300
    with pytest.raises(PeerError) as caught:
        checked({"y" * 1_000_000: {"inputs": 5}}, answers.SIGNATURES, "the answer")
    assert len(str(caught.value)) < 300


def test_counters_of_members_are_found_among_those_of_many_models():
    model = describe_model(Repository({"m": ["a", "b"]}), "m", "", ())
    rows = {(f"other{i}", "1"): Counters() for i in range(1000)} | {
        ("a", "1"): Counters(success_count=5),
        ("a", "2"): Counters(success_count=7),
    }
    found = difference(model, {}, rows)
    assert [(row.name, row.version, row.counters.success_count) for row in found.members] == [
        ("a", "2", 7),
        ("b", "", 0),
    ]
