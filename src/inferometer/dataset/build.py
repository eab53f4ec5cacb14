"""From what was asked to the tensors that will be sent."""

from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.dataset.batches import batch
from inferometer.dataset.dataset import Dataset
from inferometer.dataset.generate import generate
from inferometer.dataset.json_file import read_json
from inferometer.dataset.options import GENERATED, DataOptions
from inferometer.dataset.shapes import check_given_shapes
from inferometer.model.datatypes import DATATYPES
from inferometer.model.spec import ModelSpec

__all__ = ["DataOptions", "batch", "build"]


def build(model: ModelSpec, options: DataOptions) -> Dataset:
    """The dataset for the model; every mistake in options or files is a UsageError."""
    _require_known_datatypes(model)
    check_given_shapes(model, options.shapes)
    generated = [source for source in options.sources if source in GENERATED]
    if not generated:
        _require_files(options.sources)
        return read_json(model, options.sources, options.shapes)
    if set(options.sources) != {generated[0]}:
        raise UsageError(
            f"--input-data {generated[0]} cannot be combined with other data, "
            f"but got {' and '.join(options.sources)}",
            remedy="give random, zero, or data files",
        )
    return generate(model, options, generated[0])


def _require_known_datatypes(model: ModelSpec) -> None:
    for spec in model.inputs:
        if spec.datatype not in DATATYPES:
            raise UsageError(
                f"input '{spec.name}' of model '{model.name}' has datatype '{spec.datatype}', "
                "which is not supported",
                remedy=f"supported are {', '.join(DATATYPES)}",
            )


def _require_files(sources: tuple[str, ...]) -> None:
    for source in sources:
        if Path(source).is_dir():
            raise UsageError(
                f"--input-data {source} is a directory, which is not supported yet",
                remedy="give random, zero, or a JSON file",
            )
