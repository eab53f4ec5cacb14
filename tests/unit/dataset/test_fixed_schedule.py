"""Data files whose steps have send times."""

import json

import pytest

from inferometer.base.errors import UsageError
from inferometer.dataset.build import build
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.options import DataOptions

MODEL = ModelSpec("m", "1", (TensorSpec("A", "INT32", (1,)),), (), max_batch_size=8)


@pytest.fixture
def dataset(tmp_path):
    def read(*documents, is_scheduled=True):
        paths = []
        for number, document in enumerate(documents):
            path = tmp_path / f"{number}.json"
            path.write_text(json.dumps(document))
            paths.append(str(path))
        return build(MODEL, DataOptions(sources=tuple(paths)), is_scheduled=is_scheduled)

    return read


def step(time, value=1):
    return {"A": [value], "timestamp": time}


def test_every_step_has_a_time_and_files_follow_each_other(dataset):
    found = dataset({"data": [step([0]), step([2.5])]}, {"data": [step([7]), step(9)]})
    assert found.times_ms == (0, 2.5, 7, 9)
    assert len(found.streams[0]) == 4
    assert [tensor.name for tensor in found.streams[0][0]] == ["A"]


REFUSED = [
    ([{"A": [1]}], "missing tensor timestamp .* step id: 0"),
    ([step([0]), {"A": [1]}], "missing tensor timestamp .* step id: 1"),
    ([step([])], r"step id: 0\) for tensor 'timestamp' .*: expected milliseconds, 0 or more"),
    ([step([-1])], "expected milliseconds, 0 or more"),
    ([step(["1"])], "expected milliseconds, 0 or more"),
    ([step([1, 2])], "expected milliseconds, 0 or more"),
    ([step([True])], "expected milliseconds, 0 or more"),
    ([[step([1])]], "a fixed schedule needs one flat list of steps"),
]


@pytest.mark.parametrize(("data", "sentence"), REFUSED)
def test_steps_without_a_proper_time_are_refused(dataset, data, sentence):
    with pytest.raises(UsageError, match=sentence):
        dataset({"data": data})


def test_without_a_fixed_schedule_a_time_is_an_unknown_input(dataset):
    with pytest.raises(UsageError, match="'timestamp' is not found in the model configuration"):
        dataset({"data": [step([0])]}, is_scheduled=False)


@pytest.mark.parametrize("source", ["random", "zero", "."])
def test_other_data_has_no_schedule(source):
    with pytest.raises(UsageError, match="a fixed schedule requires JSON data files"):
        build(MODEL, DataOptions(sources=(source,)), is_scheduled=True)
