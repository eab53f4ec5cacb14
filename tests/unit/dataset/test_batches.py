"""Batched requests."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.dataset.build import batch, batch_expected, stream_expected, stream_steps
from inferometer.dataset.dataset import Dataset, Step
from inferometer.model.numbers import decode, encode
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec

X, Y = TensorSpec("X", "INT32", (1,)), TensorSpec("Y", "INT32", (-1, -1), optional=True)
SHAPE = TensorSpec("S", "INT32", (1,), is_shape_tensor=True)


def model(*inputs: TensorSpec, max_batch_size: int = 8) -> ModelSpec:
    return ModelSpec("m", "", inputs, (TensorSpec("O", "INT32", (1,)),), max_batch_size=max_batch_size)


def tensor(name: str, *values: int, shape: tuple[int, ...] | None = None) -> Tensor:
    return Tensor(name, "INT32", (len(values),) if shape is None else shape, encode("INT32", values))


def dataset(*steps: Step, origin: str = "json") -> Dataset:
    return Dataset(origin, (steps, ((tensor("X", 99),),)))


def contents(requests):
    return [decode("INT32", request[0].data) for request in requests]


@pytest.mark.parametrize(
    ("steps", "size", "expected"),
    [
        pytest.param(3, 1, [[0], [1], [2]], id="size 1 keeps the steps"),
        pytest.param(4, 2, [[0, 1], [2, 3]], id="consecutive steps"),
        pytest.param(3, 2, [[0, 1], [2, 0], [1, 2]], id="the end wraps around"),
        pytest.param(2, 4, [[0, 1, 0, 1]], id="more than there are"),
        pytest.param(
            4, 6, [[0, 1, 2, 3, 0, 1], [2, 3, 0, 1, 2, 3]], id="a common divisor shortens the cycle"
        ),
        pytest.param(1, 3, [[0, 0, 0]], id="one step for all"),
    ],
)
def test_given_steps_follow_one_another(steps, size, expected):
    given = dataset(*[(tensor("X", number),) for number in range(steps)])
    requests = batch(given, model(X), size)
    assert contents(requests) == expected
    assert {request[0].shape for request in requests} == {(size, 1)}


@pytest.mark.parametrize("origin", ["random", "zero"])
def test_a_generated_step_fills_the_batch(origin):
    generated = dataset((tensor("X", 1, 2),), (tensor("X", 3, 4),), origin=origin)
    assert contents(batch(generated, model(X), 2)) == [[1, 2, 1, 2], [3, 4, 3, 4]]


def test_generated_batches_stay_within_the_pool():
    steps = [(Tensor("X", "UINT8", (1 << 20,), bytes([number]) * (1 << 20)),) for number in range(4)]
    assert len(batch(dataset(*steps, origin="random"), model(X), 32)) == 2
    assert len(batch(dataset(*steps), model(X), 3)) == 4


def test_models_without_batching_get_the_steps_unchanged():
    given = dataset((tensor("X", 1),), (tensor("X", 1, 2),))
    assert batch(given, model(X, max_batch_size=0), 1) == given.streams[0]


def test_steps_may_differ_without_batching():
    given = dataset((tensor("X", 1), tensor("Y", 1, 2, shape=(1, 2))), (tensor("X", 2),))
    assert [[t.shape for t in request] for request in batch(given, model(X, Y), 1)] == [
        [(1, 1), (1, 1, 2)],
        [(1, 1)],
    ]


def test_shape_tensors_carry_no_batch_dimension():
    given = dataset((tensor("S", 7), tensor("X", 1)), (tensor("S", 7), tensor("X", 2)))
    ((shape, value),) = batch(given, model(SHAPE, X), 2)
    assert shape == tensor("S", 7)
    assert value == tensor("X", 1, 2, shape=(2, 1))


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        pytest.param(
            (tensor("Y", 1, 2, 3, 4, shape=(2, 2)),),
            (tensor("Y", 1, 2, 3, 4, shape=(1, 4)),),
            "can not batch tensors with different shapes together (input 'Y' expected shape [2,2] "
            "and received [1,4] in steps 0 and 1 of stream 0); give all steps the same shapes, or use -b 1",
            id="different shapes",
        ),
        pytest.param(
            (tensor("X", 1),),
            (tensor("Y", 1),),
            "For batch sizes larger than 1, the same set of inputs must be specified for each batch. "
            "You cannot use different set of optional inputs for each individual batch: "
            "steps 0 and 1 of stream 0 have X and Y; "
            "give all steps the same inputs, or use -b 1",
            id="different optional inputs",
        ),
        pytest.param(
            (tensor("S", 7),),
            (tensor("S", 8),),
            "can not batch shape tensors with different values together "
            "(input 'S' in steps 0 and 1 of stream 0); give all steps the same values for it, or use -b 1",
            id="different shape tensors",
        ),
    ],
)
def test_incompatible_steps(first, second, text):
    with pytest.raises(UsageError) as caught:
        batch(dataset(first, second), model(SHAPE, X, Y), 2)
    assert str(caught.value) == text


def checked(*outputs: Step, inputs: int | None = None) -> Dataset:
    steps = tuple((tensor("X", number),) for number in range(inputs or len(outputs)))
    return Dataset("json", (steps,), expected=(outputs,))


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_expected_outputs_are_batched_as_the_inputs_are(size):
    given = checked(*[(tensor("O", number),) for number in range(4)])
    expected = batch_expected(given, model(X), size)
    assert contents(expected) == contents(batch(given, model(X), size))
    assert {request[0].shape for request in expected} == {(size, 1)}


def test_a_batch_with_a_step_that_is_not_checked_is_not_checked():
    given = checked((tensor("O", 0),), (tensor("O", 1),), (), (tensor("O", 3),))
    assert [len(step) for step in batch_expected(given, model(X), 2)] == [1, 0]


def test_a_batch_is_checked_for_the_outputs_that_all_its_steps_name():
    given = checked(
        (tensor("O", 0), tensor("P", 0)),
        (tensor("P", 1),),
        (tensor("O", 2),),
        (tensor("O", 3), tensor("P", 3)),
    )
    expected = batch_expected(given, model(X), 2)
    assert [[tensor.name for tensor in step] for step in expected] == [["P"], ["O"]]
    assert contents(expected) == [[0, 1], [2, 3]]


def test_nothing_is_expected_without_expected_outputs():
    given = dataset((tensor("X", 1),))
    assert batch_expected(given, model(X), 2) is None
    assert stream_expected(given, model(X)) is None


def test_expected_outputs_of_models_without_batching_are_unchanged():
    given = checked((tensor("O", 0),))
    assert batch_expected(given, model(X, max_batch_size=0), 1) == given.expected[0]


def test_expected_outputs_that_no_batch_can_have():
    given = checked((tensor("O", 0),), (tensor("O", 0, 1),))
    with pytest.raises(UsageError, match=r"\(output 'O' expected shape \[1\] and received \[2\]"):
        batch_expected(given, model(X), 2)


def test_sequences_get_all_streams_one_sample_each():
    given = Dataset(
        "json",
        (((tensor("X", 1),), (tensor("X", 2),)), ((tensor("X", 3),),)),
        expected=(((tensor("O", 4),), ()), ((tensor("O", 5),),)),
    )
    steps, expected = stream_steps(given, model(X)), stream_expected(given, model(X))
    assert [contents(stream) for stream in steps] == [[[1], [2]], [[3]]]
    assert steps[0][0][0].shape == (1, 1)
    assert expected == (
        ((tensor("O", 4, shape=(1, 1)),), ()),
        ((tensor("O", 5, shape=(1, 1)),),),
    )
    unbatched = model(X, max_batch_size=0)
    assert (stream_steps(given, unbatched), stream_expected(given, unbatched)) == (
        given.streams,
        given.expected,
    )
