"""Choice of the shape of an input, and the error if there is none."""

import math
import shlex
from collections.abc import Mapping, Sequence

from inferometer.base.errors import UsageError
from inferometer.model.numbers import DATATYPES
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.names import option_name

Shape = tuple[int, ...]


def format_shape(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def fits(shape: Shape, spec: TensorSpec) -> bool:
    """Return whether the model accepts the shape: same rank, and the same size in fixed dimensions."""
    return len(shape) == len(spec.shape) and all(
        mine == theirs or theirs < 0 for mine, theirs in zip(shape, spec.shape, strict=True)
    )


def require_input(model: ModelSpec, name: str, option: str) -> TensorSpec:
    """Return the input that an option names."""
    inputs = {spec.name: spec for spec in model.inputs}
    if name not in inputs:
        known = ", ".join(f"'{known}'" for known in inputs)
        raise UsageError(
            f"{option} names '{name}', but model '{model.name}' has no such input",
            remedy=f"its inputs are {known}" if known else "the model has no inputs",
        )
    return inputs[name]


def maybe_shape(spec: TensorSpec, shapes: Mapping[str, Shape]) -> Shape | None:
    """Return the shape that is known without data: the given shape, or the model's shape if it is fixed."""
    return shapes.get(spec.name) if spec.is_dynamic else spec.shape


def maybe_filled(spec: TensorSpec, elements: int) -> Shape | None:
    """Return the model's shape with its variable dimension fitted to that many elements, if this is unambiguous."""
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
    """Return the shape of flat data: the known shape or, for outputs, which are only compared, a shape that fits."""
    shape = maybe_shape(spec, shapes)
    if shape is None and is_input:
        raise dynamic_shape_error(spec, elements=elements, place=place)
    shape = maybe_filled(spec, elements) if shape is None else shape
    return (elements,) if shape is None else shape


def dynamic_shape_error(spec: TensorSpec, *, elements: int | None = None, place: str = "") -> UsageError:
    """Return the error for a missing variable shape, with a working example.

    `elements` is the size of the data, if any; without data, the example is a file, which would provide both.
    """
    example = shlex.quote(f"{spec.name}:{','.join(map(str, _example(spec.shape, elements)))}")
    file = shlex.quote(f"{spec.name}=@FILE")
    return UsageError(
        f"input {spec.name} contains dynamic shape, provide shapes to send along with the request{place}: "
        f"the model's shape for it is {format_shape(spec.shape)}",
        remedy=f"send your own file with {option_name('--input')} {file}, or generated data with "
        f"{option_name('--shape')} {example}"
        if elements is None
        else f"for example with {option_name('--shape')} {example}, or as 'shape' in a JSON file",
        classic_remedy=f"generate data with {option_name('--shape')} {example}, or send your own with "
        f"{option_name('--data')} FILE"
        if elements is None
        else None,
    )


def _example(shape: Shape, elements: int | None) -> Shape:
    """Return an example shape: 1 for variable dimensions, and the last one fitted to the elements if their number is
    known."""
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
