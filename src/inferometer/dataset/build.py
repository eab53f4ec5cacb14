"""Construction of the tensors to send from the options, and of the expected outputs.

options -> build -> Dataset, steps of one sample each -> batch -> requests of several samples
"""

import math
import os.path
from collections.abc import Mapping, Sequence
from dataclasses import replace

from inferometer.base.errors import UsageError
from inferometer.dataset.dataset import Dataset, Step, Streams
from inferometer.dataset.generate import generate_steps, pool_size
from inferometer.dataset.shapes import format_shape, require_input, require_known_datatypes
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.names import option_name
from inferometer.options.options import DataOptions
from inferometer.options.values import GENERATED


def build(
    model: ModelSpec,
    options: DataOptions,
    *,
    is_scheduled: bool = False,
    has_sessions: bool = False,
    output_tokens: int | str | None = None,
) -> Dataset:
    """Return the dataset for the model; raise UsageError for mistakes in options or files."""
    if is_scheduled:
        _require_json(options)
    if any(spec.datatype == "JSON" for spec in model.inputs):
        from inferometer.dataset.payloads import build_payloads

        return build_payloads(
            options, is_scheduled=is_scheduled, has_sessions=has_sessions, output_tokens=output_tokens
        )
    if any(spec.datatype == "MESSAGE" for spec in model.inputs):
        from inferometer.dataset.payloads import build_messages

        return build_messages(options)
    require_known_datatypes(model.name, "input", model.inputs)
    for name in options.shapes:  # the server checks the shape of a variable input
        require_input(model, name, option_name("--shape"))
    generated = [source for source in options.sources if source in GENERATED]
    if not generated:
        return _given(model, options, is_scheduled=is_scheduled)
    origin = generated[0]
    if set(options.sources) != {origin}:
        raise UsageError(
            f"{option_name('data.sources')} {origin} cannot be combined with other data, "
            f"but got {' and '.join(options.sources)}",
            remedy="give random, zero, or data files",
        )
    if options.files:
        from inferometer.dataset.files import read_files

        return read_files(model, options, origin)
    return Dataset(origin, (generate_steps(model.inputs, options, origin),))


def _require_json(options: DataOptions) -> None:
    for source in options.sources:
        if options.files or source in GENERATED or os.path.isdir(source):
            raise UsageError(
                "a fixed schedule requires JSON data files, but other data was given",
                remedy=f"give {option_name('data.sources')} FILE.json, with a timestamp in every step",
            )


def _given(model: ModelSpec, options: DataOptions, *, is_scheduled: bool) -> Dataset:
    if options.files:
        raise UsageError(
            f"{option_name('--input')} {options.files[0][0]}={options.files[0][1]} cannot be combined with "
            f"{option_name('data.sources')} {options.sources[0]}",
            remedy=f"give all data with {option_name('--input')}, or all with {option_name('data.sources')}",
        )
    directories = [source for source in options.sources if os.path.isdir(source)]
    if not directories:
        from inferometer.dataset.json_file import read_json

        return read_json(model, options.sources, options.shapes, is_scheduled=is_scheduled)
    if len(options.sources) > 1:
        raise UsageError(
            f"{option_name('data.sources')} {directories[0]} is a directory and cannot be combined with "
            f"other data, but got {' and '.join(options.sources)}",
            remedy="give one directory, or JSON files",
        )
    from inferometer.dataset.files import read_directory

    return read_directory(model, directories[0], options.shapes)


# --- batched requests, and their expected outputs


def batch(dataset: Dataset, model: ModelSpec, size: int) -> Sequence[Step]:
    """Return the different requests of stream 0, with the batch dimension first if the model has one.

    A generated step fills the whole batch. Given steps are used in order: request k takes `size` of them
    starting at step k * size and wrapping around at the end; after n / gcd(n, size) requests the cycle repeats.
    """
    steps = dataset.streams[0]
    if model.max_batch_size == 0:
        return steps
    return tuple(_join(steps, numbers, "input", model.inputs) for numbers in _members(dataset, size))


def batch_expected(dataset: Dataset, model: ModelSpec, size: int) -> Sequence[Step] | None:
    """Return the expected outputs of each request of `batch`, in the same order: the outputs that all steps of a
    request name."""
    if dataset.expected is None:
        return None
    steps = dataset.expected[0]
    if model.max_batch_size == 0:
        return steps
    return tuple(
        _join(_with_common_tensors(steps, numbers), numbers, "output", model.outputs)
        for numbers in _members(dataset, size)
    )


def stream_steps(dataset: Dataset, model: ModelSpec) -> Streams:
    """Return the requests of all streams, one sample each, for sequences."""
    return _singles(dataset.streams, model, "input", model.inputs)


def stream_expected(dataset: Dataset, model: ModelSpec) -> Streams | None:
    """Return the expected outputs of each request of `stream_steps`; an empty step is not checked."""
    if dataset.expected is None:
        return None
    return _singles(dataset.expected, model, "output", model.outputs)


def _members(dataset: Dataset, size: int) -> list[tuple[int, ...]]:
    """Return the numbers of the steps in each request."""
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
    """Return the numbered steps, each reduced to the tensors that all of them have."""
    names = set.intersection(*({tensor.name for tensor in steps[number]} for number in numbers))
    return {number: tuple(tensor for tensor in steps[number] if tensor.name in names) for number in numbers}


def _singles(streams: Streams, model: ModelSpec, noun: str, specs: Sequence[TensorSpec]) -> Streams:
    if model.max_batch_size == 0:
        return streams
    return tuple(tuple(_join([step], (0,), noun, specs) for step in steps) for steps in streams)


def _join(
    steps: Sequence[Step] | Mapping[int, Step],
    numbers: tuple[int, ...],
    noun: str,
    specs: Sequence[TensorSpec],
) -> Step:
    """Join the numbered steps of stream 0, which hold inputs or outputs, into one request; shape tensors have no
    batch."""
    first = numbers[0]
    unbatched = {spec.name for spec in specs if spec.is_shape_tensor}
    for number in dict.fromkeys(numbers):
        place = f"steps {first} and {number} of stream 0"
        _require_alike(steps[first], steps[number], place, noun, unbatched)
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


def _require_alike(one: Step, other: Step, place: str, noun: str, unbatched: set[str]) -> None:
    names = [[tensor.name for tensor in step] for step in (one, other)]
    if names[0] != names[1]:
        raise UsageError(
            "For batch sizes larger than 1, the same set of inputs must be specified for each batch. "
            "You cannot use different set of optional inputs for each individual batch: "
            f"{place} have {', '.join(names[0]) or 'none'} and {', '.join(names[1]) or 'none'}",
            remedy=f"give all steps the same inputs, or use {option_name('-b', '1')}",
        )
    for mine, theirs in zip(one, other, strict=True):
        if mine.shape != theirs.shape:
            raise UsageError(
                f"can not batch tensors with different shapes together ({noun} '{mine.name}' expected shape "
                f"{format_shape(mine.shape)} and received {format_shape(theirs.shape)} in {place})",
                remedy=f"give all steps the same shapes, or use {option_name('-b', '1')}",
            )
        if mine.name in unbatched and mine.data != theirs.data:
            raise UsageError(
                f"can not batch shape tensors with different values together ({noun} '{mine.name}' in {place})",
                remedy=f"give all steps the same values for it, or use {option_name('-b', '1')}",
            )
