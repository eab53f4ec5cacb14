"""From what was asked to the tensors that will be sent."""

import os.path

from inferometer.base.errors import UsageError
from inferometer.dataset.batches import batch
from inferometer.dataset.dataset import Dataset
from inferometer.dataset.directory import read_directory
from inferometer.dataset.files import read_files
from inferometer.dataset.generate import generate
from inferometer.dataset.json_file import read_json
from inferometer.dataset.payloads import build_messages, build_payloads
from inferometer.dataset.shapes import check_given_shapes, require_known_datatypes
from inferometer.model.spec import ModelSpec
from inferometer.options.options import DataOptions
from inferometer.options.values import GENERATED

__all__ = ["DataOptions", "batch", "build"]


def build(model: ModelSpec, options: DataOptions, *, is_scheduled: bool = False) -> Dataset:
    """The dataset for the model; every mistake in options or files is a UsageError."""
    if is_scheduled:
        _require_json(options)
    if any(spec.datatype == "JSON" for spec in model.inputs):
        return build_payloads(options, is_scheduled=is_scheduled)
    if any(spec.datatype == "MESSAGE" for spec in model.inputs):
        return build_messages(options)
    require_known_datatypes(model.name, "input", model.inputs)
    check_given_shapes(model, options.shapes)
    generated = [source for source in options.sources if source in GENERATED]
    if not generated:
        return _given(model, options, is_scheduled=is_scheduled)
    if set(options.sources) != {generated[0]}:
        raise UsageError(
            f"--input-data {generated[0]} cannot be combined with other data, "
            f"but got {' and '.join(options.sources)}",
            remedy="give random, zero, or data files",
        )
    if options.files:
        return read_files(model, options, generated[0])
    return generate(model, options, generated[0])


def _require_json(options: DataOptions) -> None:
    for source in options.sources:
        if options.files or source in GENERATED or os.path.isdir(source):
            raise UsageError(
                "a fixed schedule stands in JSON data files, and other data was given",
                remedy="give --input-data FILE.json, with a timestamp in every step",
            )


def _given(model: ModelSpec, options: DataOptions, *, is_scheduled: bool) -> Dataset:
    if options.files:
        raise UsageError(
            f"--input {options.files[0][0]}={options.files[0][1]} cannot be combined with "
            f"--input-data {options.sources[0]}",
            remedy="give all data with --input, or all with --input-data",
        )
    directories = [source for source in options.sources if os.path.isdir(source)]
    if not directories:
        return read_json(model, options.sources, options.shapes, is_scheduled=is_scheduled)
    if len(options.sources) > 1:
        raise UsageError(
            f"--input-data {directories[0]} is a directory and cannot be combined with other data, "
            f"but got {' and '.join(options.sources)}",
            remedy="give one directory, or JSON files",
        )
    return read_directory(model, directories[0], options.shapes)
