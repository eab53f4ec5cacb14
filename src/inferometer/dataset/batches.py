"""Requests of several samples, made from steps of one."""

import math
from collections.abc import Sequence
from dataclasses import replace

from inferometer.base.errors import UsageError
from inferometer.dataset.dataset import Dataset, Step
from inferometer.dataset.generate import pool_size
from inferometer.dataset.shapes import format_shape
from inferometer.model.spec import ModelSpec
from inferometer.model.tensor import Tensor


def batch(dataset: Dataset, model: ModelSpec, size: int) -> tuple[Step, ...]:
    """The different requests of stream 0, with the batch dimension in front if the model has one.

    A generated step fills the whole batch. Given steps follow one another: request k takes `size` of them
    from step k * size on, starting over at the end; after n / gcd(n, size) requests the cycle repeats.
    """
    steps = dataset.streams[0]
    if model.max_batch_size == 0:
        return steps
    unbatched = frozenset(spec.name for spec in model.inputs if spec.is_shape_tensor)
    if not dataset.is_given:
        kept = pool_size(len(steps), size * sum(len(tensor.data) for tensor in steps[0]))
        return tuple(_join(steps, (number,) * size, unbatched) for number in range(kept))
    count = len(steps)
    return tuple(
        _join(steps, tuple((request * size + offset) % count for offset in range(size)), unbatched)
        for request in range(count // math.gcd(count, size))
    )


def _join(steps: Sequence[Step], numbers: tuple[int, ...], unbatched: frozenset[str]) -> Step:
    """One request of the numbered steps."""
    first = numbers[0]
    for number in dict.fromkeys(numbers):
        _require_alike(steps[first], steps[number], (first, number), unbatched)
    return tuple(
        tensor
        if tensor.name in unbatched
        else replace(
            tensor,
            shape=(len(numbers), *tensor.shape),
            data=b"".join([steps[number][position].data for number in numbers]),
        )
        for position, tensor in enumerate(steps[first])
    )


def _require_alike(one: Step, other: Step, numbers: tuple[int, int], unbatched: frozenset[str]) -> None:
    names = [[tensor.name for tensor in step] for step in (one, other)]
    place = f"steps {numbers[0]} and {numbers[1]} of stream 0"
    if names[0] != names[1]:
        raise UsageError(
            "For batch sizes larger than 1, the same set of inputs must be specified for each batch. "
            "You cannot use different set of optional inputs for each individual batch: "
            f"{place} have {', '.join(names[0]) or 'none'} and {', '.join(names[1]) or 'none'}",
            remedy="give all steps the same inputs, or use -b 1",
        )
    for mine, theirs in zip(one, other, strict=True):
        _require_alike_tensors(mine, theirs, place, is_unbatched=mine.name in unbatched)


def _require_alike_tensors(mine: Tensor, theirs: Tensor, place: str, *, is_unbatched: bool) -> None:
    if mine.shape != theirs.shape:
        raise UsageError(
            f"can not batch tensors with different shapes together (input '{mine.name}' expected shape "
            f"{format_shape(mine.shape)} and received {format_shape(theirs.shape)} in {place})",
            remedy="give all steps the same shapes, or use -b 1",
        )
    if is_unbatched and mine.data != theirs.data:
        raise UsageError(
            f"can not batch shape tensors with different values together (input '{mine.name}' in {place})",
            remedy="give all steps the same values for it, or use -b 1",
        )
