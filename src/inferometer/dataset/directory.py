"""A directory with one file for each input, and for outputs that must come back; the file's name is the tensor's.

Numbers are raw little-endian bytes of a batch-1 tensor, row-major; BYTES are text with one element per line.
"""

import math
from collections.abc import Mapping
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.dataset.dataset import Dataset, Step
from inferometer.dataset.lines import read_bytes, split_lines
from inferometer.dataset.shapes import (
    Shape,
    dynamic_shape_error,
    format_shape,
    maybe_filled,
    maybe_shape,
    require_known_datatypes,
)
from inferometer.model.numbers import DATATYPES, encode
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec


def read_directory(model: ModelSpec, directory: str, shapes: Mapping[str, Shape]) -> Dataset:
    """One stream of one step. Outputs without a file are not checked."""
    names = _names(directory)
    _require_known(model, directory, names)
    for spec in model.inputs:
        if spec.name not in names and not spec.optional:
            raise UsageError(
                f"missing tensor {spec.name} in {directory}: expected a file for each of "
                f"{', '.join(spec.name for spec in model.inputs)}, found {', '.join(names) or 'none'}"
            )
    step = tuple(
        _input(spec, Path(directory, spec.name), shapes) for spec in model.inputs if spec.name in names
    )
    checked = [spec for spec in model.outputs if spec.name in names]
    require_known_datatypes(model.name, "output", checked)
    outputs: Step = tuple(_output(spec, Path(directory, spec.name)) for spec in checked)
    return Dataset("directory", ((step,),), expected=((outputs,),) if outputs else None)


def _names(directory: str) -> list[str]:
    try:
        return sorted(path.name for path in Path(directory).iterdir())
    except OSError as error:
        raise UsageError(f"cannot read the directory {directory}: {error.strerror or error}") from None


def _require_known(model: ModelSpec, directory: str, names: list[str]) -> None:
    known = [spec.name for spec in (*model.inputs, *model.outputs)]
    for name in names:
        if name not in known:
            raise UsageError(
                f"Provided data file '{name}' does not correspond to a valid model input or output.",
                remedy=f"take it out of {directory}, or name it after one of {', '.join(known)}",
            )


def _input(spec: TensorSpec, path: Path, shapes: Mapping[str, Shape]) -> Tensor:
    data, elements = _data(spec, path)
    shape = maybe_shape(spec, shapes)
    if shape is None:
        raise dynamic_shape_error(spec, elements=elements, place=f" in {path}")
    return _tensor(spec, f"input {spec.name}", shape, path, data, elements)


def _output(spec: TensorSpec, path: Path) -> Tensor:
    data, elements = _data(spec, path)
    shape = maybe_filled(spec, elements)
    return _tensor(spec, f"output {spec.name}", (elements,) if shape is None else shape, path, data, elements)


def _data(spec: TensorSpec, path: Path) -> tuple[bytes, int]:
    """The bytes that travel, and how many whole elements they are."""
    data = read_bytes(path)
    if spec.datatype == "BYTES":
        lines = split_lines(data)
        return encode("BYTES", lines), len(lines)
    return data, len(data) // DATATYPES[spec.datatype].size


def _tensor(spec: TensorSpec, label: str, shape: Shape, path: Path, data: bytes, elements: int) -> Tensor:
    expected = math.prod(shape)
    where = f"file {path}, for which the model takes {spec.datatype} of shape {format_shape(shape)}"
    if spec.datatype == "BYTES" and elements != expected:
        raise UsageError(
            f"provided data for {label} has {elements} elements, expect {expected}: {where}",
            remedy="write one element per line",
        )
    if spec.datatype != "BYTES" and len(data) != expected * DATATYPES[spec.datatype].size:
        raise UsageError(
            f"provided data for {label} has byte size {len(data)}, "
            f"expect {expected * DATATYPES[spec.datatype].size}: {where}"
        )
    return Tensor(spec.name, spec.datatype, shape, data)
