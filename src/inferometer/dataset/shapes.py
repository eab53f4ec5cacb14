"""Which shape an input is sent with, and what to say when there is none."""

import math
import shlex
from collections.abc import Mapping, Sequence

from inferometer.base.errors import UsageError
from inferometer.model.numbers import DATATYPES
from inferometer.model.spec import ModelSpec, TensorSpec

Shape = tuple[int, ...]


def format_shape(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def fits(shape: Shape, spec: TensorSpec) -> bool:
    """Whether the model takes the shape: same rank, and the same size where the model fixes one."""
    return len(shape) == len(spec.shape) and all(
        mine == theirs or theirs < 0 for mine, theirs in zip(shape, spec.shape, strict=True)
    )


def require_input(model: ModelSpec, name: str, option: str) -> TensorSpec:
    """The input of that name, which an option gives."""
    inputs = {spec.name: spec for spec in model.inputs}
    if name not in inputs:
        known = ", ".join(f"'{known}'" for known in inputs)
        raise UsageError(
            f"{option} names '{name}', but model '{model.name}' has no such input",
            remedy=f"its inputs are {known}" if known else "the model has no inputs",
        )
    return inputs[name]


def maybe_shape(spec: TensorSpec, shapes: Mapping[str, Shape]) -> Shape | None:
    """The shape known without looking at data: the one given, or the model's own if it is fixed."""
    return shapes.get(spec.name) if spec.is_dynamic else spec.shape


def maybe_filled(spec: TensorSpec, elements: int) -> Shape | None:
    """The model's shape with its variable dimension as large as that many elements need, if there is one way."""
    fixed = math.prod(dim for dim in spec.shape if dim >= 0)
    variable = sum(dim < 0 for dim in spec.shape)
    if variable == 0 or elements == fixed:
        return tuple(1 if dim < 0 else dim for dim in spec.shape)
    if variable > 1 or fixed == 0 or elements % fixed:
        return None
    return tuple(elements // fixed if dim < 0 else dim for dim in spec.shape)


def data_shape(
    spec: TensorSpec, elements: int, shapes: Mapping[str, Shape], *, is_input: bool, place: str
) -> Shape:
    """Of data that has no shape of its own: the known one, or for outputs, which are only compared, one it fills."""
    shape = maybe_shape(spec, shapes)
    if shape is None and is_input:
        raise dynamic_shape_error(spec, elements=elements, place=place)
    shape = maybe_filled(spec, elements) if shape is None else shape
    return (elements,) if shape is None else shape


def dynamic_shape_error(spec: TensorSpec, *, elements: int | None = None, place: str = "") -> UsageError:
    """The error for a variable shape nobody filled in, with a line that would work.

    `elements` is the size of the data that is there; without any, a file would bring both.
    """
    example = shlex.quote(f"{spec.name}:{','.join(map(str, _example(spec.shape, elements)))}")
    file = shlex.quote(f"{spec.name}=@FILE")
    return UsageError(
        f"input {spec.name} contains dynamic shape, provide shapes to send along with the request{place}: "
        f"the model's shape for it is {format_shape(spec.shape)}",
        remedy=f"send your own file with --input {file}, or generated data with --shape {example}"
        if elements is None
        else f"for example with --shape {example}, or as 'shape' in a JSON file",
    )


def _example(shape: Shape, elements: int | None) -> Shape:
    """Ones for the variable dimensions; the last of them takes all elements if their number is known."""
    example = [1 if dim < 0 else dim for dim in shape]
    last = max(index for index, dim in enumerate(shape) if dim < 0)
    fixed = math.prod(example)
    if elements and fixed and elements % fixed == 0:
        example[last] = elements // fixed
    return tuple(example)


def require_known_datatypes(model: str, noun: str, specs: Sequence[TensorSpec]) -> None:
    for spec in specs:
        if spec.datatype not in DATATYPES:
            raise UsageError(
                f"{noun} '{spec.name}' of model '{model}' has datatype '{spec.datatype}', which is not supported",
                remedy=f"supported are {', '.join(DATATYPES)}",
            )
