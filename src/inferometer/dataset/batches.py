"""Requests of several samples, made from steps of one, and what must come back for them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from inferometer.base.errors import UsageError
from inferometer.dataset.dataset import Dataset, Step, Streams
from inferometer.dataset.generate import pool_size
from inferometer.dataset.shapes import format_shape
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec


@dataclass(frozen=True, slots=True)
class _Side:
    """The tensors of one direction: what they are called, and which of them have no batch dimension."""

    noun: str
    unbatched: frozenset[str]


def batch(dataset: Dataset, model: ModelSpec, size: int) -> tuple[Step, ...]:
    """The different requests of stream 0, with the batch dimension in front if the model has one.

    A generated step fills the whole batch. Given steps follow one another: request k takes `size` of them
    from step k * size on, starting over at the end; after n / gcd(n, size) requests the cycle repeats.
    """
    steps = dataset.streams[0]
    if model.max_batch_size == 0:
        return steps
    side = _side("input", model.inputs)
    return tuple(_join(steps, numbers, 0, side) for numbers in _members(dataset, size))


def batch_expected(dataset: Dataset, model: ModelSpec, size: int) -> tuple[Step, ...] | None:
    """What must come back for each request of `batch`, in the same order: outputs that all of its steps name."""
    if dataset.expected is None:
        return None
    steps = dataset.expected[0]
    if model.max_batch_size == 0:
        return steps
    side = _side("output", model.outputs)
    return tuple(
        _join(_with_common_tensors(steps, numbers), numbers, 0, side) for numbers in _members(dataset, size)
    )


def stream_steps(dataset: Dataset, model: ModelSpec) -> Streams:
    """The requests of all streams, one sample each: what sequences are made of."""
    return _singles(dataset.streams, model, _side("input", model.inputs))


def stream_expected(dataset: Dataset, model: ModelSpec) -> Streams | None:
    """What must come back for each request of `stream_steps`; an empty step is not checked."""
    if dataset.expected is None:
        return None
    return _singles(dataset.expected, model, _side("output", model.outputs))


def _side(noun: str, specs: Sequence[TensorSpec]) -> _Side:
    return _Side(noun, frozenset(spec.name for spec in specs if spec.is_shape_tensor))


def _members(dataset: Dataset, size: int) -> list[tuple[int, ...]]:
    """The numbers of the steps in each request."""
    steps = dataset.streams[0]
    count = len(steps)
    if not dataset.is_given:
        kept = pool_size(count, size * sum(len(tensor.data) for tensor in steps[0]))
        return [(number,) * size for number in range(kept)]
    return [
        tuple((request * size + offset) % count for offset in range(size))
        for request in range(count // math.gcd(count, size))
    ]


def _with_common_tensors(steps: Sequence[Step], numbers: tuple[int, ...]) -> dict[int, Step]:
    """The numbered steps, each with those tensors only that all of them have."""
    names = set.intersection(*({tensor.name for tensor in steps[number]} for number in numbers))
    return {number: tuple(tensor for tensor in steps[number] if tensor.name in names) for number in numbers}


def _singles(streams: Streams, model: ModelSpec, side: _Side) -> Streams:
    if model.max_batch_size == 0:
        return streams
    return tuple(
        tuple(_join(steps, (number,), stream, side) for number in range(len(steps)))
        for stream, steps in enumerate(streams)
    )


def _join(
    steps: Sequence[Step] | Mapping[int, Step], numbers: tuple[int, ...], stream: int, side: _Side
) -> Step:
    """One request of the numbered steps."""
    first = numbers[0]
    for number in dict.fromkeys(numbers):
        place = f"steps {first} and {number} of stream {stream}"
        _require_alike(steps[first], steps[number], place, side)
    return tuple(
        tensor
        if tensor.name in side.unbatched
        else replace(
            tensor,
            shape=(len(numbers), *tensor.shape),
            data=b"".join([steps[number][position].data for number in numbers]),
        )
        for position, tensor in enumerate(steps[first])
    )


def _require_alike(one: Step, other: Step, place: str, side: _Side) -> None:
    names = [[tensor.name for tensor in step] for step in (one, other)]
    if names[0] != names[1]:
        raise UsageError(
            "For batch sizes larger than 1, the same set of inputs must be specified for each batch. "
            "You cannot use different set of optional inputs for each individual batch: "
            f"{place} have {', '.join(names[0]) or 'none'} and {', '.join(names[1]) or 'none'}",
            remedy="give all steps the same inputs, or use -b 1",
        )
    for mine, theirs in zip(one, other, strict=True):
        _require_alike_tensors(mine, theirs, place, side)


def _require_alike_tensors(mine: Tensor, theirs: Tensor, place: str, side: _Side) -> None:
    if mine.shape != theirs.shape:
        raise UsageError(
            f"can not batch tensors with different shapes together ({side.noun} '{mine.name}' expected shape "
            f"{format_shape(mine.shape)} and received {format_shape(theirs.shape)} in {place})",
            remedy="give all steps the same shapes, or use -b 1",
        )
    if mine.name in side.unbatched and mine.data != theirs.data:
        raise UsageError(
            f"can not batch shape tensors with different values together ({side.noun} '{mine.name}' in {place})",
            remedy="give all steps the same values for it, or use -b 1",
        )
