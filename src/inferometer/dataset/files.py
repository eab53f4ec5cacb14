"""Inputs given one by one on the command line: `NAME=@FILE` and `NAME=value,value`.

Each input gets a list of tensors; request k takes the k-th of every list. A list of one is used in all of them,
and inputs that are not named get generated data.
"""

import glob
import os
import shlex
from collections.abc import Iterator, Mapping

from inferometer.base.errors import UsageError
from inferometer.dataset.dataset import Dataset, Step
from inferometer.dataset.formats import Wanted, read_literal, reader_for
from inferometer.dataset.generate import generate_steps
from inferometer.dataset.shapes import Shape, maybe_shape
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.model.tensor import Tensor
from inferometer.options.options import DataOptions


def read_files(model: ModelSpec, options: DataOptions, origin: str) -> Dataset:
    """One stream of the given tensors, with random or zero data beside them."""
    given = _steps(_lists(model, options))
    named = {tensor.name for tensor in given[0]}
    rest = tuple(spec for spec in model.inputs if spec.name not in named)
    generated = generate_steps(rest, options, origin, given=given)
    order = {spec.name: position for position, spec in enumerate(model.inputs)}
    return Dataset(
        "files",
        (
            tuple(
                tuple(sorted((*given[number % len(given)], *step), key=lambda tensor: order[tensor.name]))
                for number, step in enumerate(generated)
            ),
        ),
    )


def _lists(model: ModelSpec, options: DataOptions) -> dict[str, list[Tensor]]:
    specs = {spec.name: spec for spec in model.inputs}
    lists: dict[str, list[Tensor]] = {}
    for name, source in options.files:
        if name not in specs:
            known = ", ".join(f"'{known}'" for known in specs)
            raise UsageError(
                f"--input names '{name}', but model '{model.name}' has no such input",
                remedy=f"its inputs are {known}" if known else "the model has no inputs",
            )
        lists.setdefault(name, []).extend(_tensors(specs[name], source, options.shapes))
    return lists


def _steps(lists: Mapping[str, list[Tensor]]) -> tuple[Step, ...]:
    lengths = {name: len(tensors) for name, tensors in lists.items()}
    count = max(lengths.values())
    if not set(lengths.values()) <= {1, count}:
        found = ", ".join(f"{length} for '{name}'" for name, length in lengths.items())
        raise UsageError(
            f"--input gives different numbers of requests: {found}",
            remedy="give each input equally many files or lines, or one for all requests",
        )
    return tuple(
        tuple(tensors[number % len(tensors)] for tensors in lists.values()) for number in range(count)
    )


def _tensors(spec: TensorSpec, source: str, shapes: Mapping[str, Shape]) -> Iterator[Tensor]:
    shape = maybe_shape(spec, shapes)
    if source.startswith("@"):
        for path in _paths(spec, source[1:]):
            yield from reader_for(path)(Wanted(spec, path, shape))
        return
    if os.path.isfile(source):
        raise UsageError(
            f"--input {spec.name}={source} is a value, but there is also a file of that name",
            remedy=f"to send the file, write --input {shlex.quote(f'{spec.name}=@{source}')}",
        )
    yield read_literal(Wanted(spec, source, shape))


def _paths(spec: TensorSpec, pattern: str) -> list[str]:
    """The file of that name, or all that match the pattern, in the order of their names."""
    path = os.path.expanduser(pattern)
    if os.path.isfile(path):
        return [path]
    found = sorted(match for match in glob.glob(path, recursive=True) if os.path.isfile(match))
    if found:
        return found
    if os.path.isdir(path):
        remedy = f"to send each file in it, write --input {shlex.quote(f'{spec.name}=@{pattern}/*')}"
        raise UsageError(f"--input {spec.name}=@{pattern} is a directory", remedy=remedy)
    raise UsageError(
        f"--input {spec.name}=@{pattern}: there is no such file",
        remedy="after '@' comes the path of a file, or a pattern such as 'photos/*.jpg'",
    )
