"""Models as the files of a repository describe them, before any server was asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer.base.errors import MissingError, PeerError
from inferometer.model.spec import ModelSpec
from inferometer.options.options import Options
from inferometer.services.discovery import describe_model
from inferometer.tune import model_config
from inferometer.tune.model_config import Fields


def described(folders: Sequence[Path], options: Options) -> ModelSpec | None:
    """None where the files leave something to the server."""
    try:
        return describe_model(_Files(folders), options.model, options.version, options.bls_composing_models)
    except PeerError:
        return None


@dataclass(frozen=True, slots=True)
class _Files:
    """Answers the control calls of a server out of files."""

    folders: Sequence[Path]

    def config(self, name: str, version: str) -> Fields:
        folder = model_config.find_model(self.folders, name)
        if folder is None or not (folder / "config.pbtxt").is_file():
            raise MissingError(f"'{name}' has no configuration here")
        found = model_config.read_file(folder / "config.pbtxt")
        if not found.get("input") or not found.get("output"):
            raise MissingError(f"the configuration of '{name}' leaves tensors to the server")
        return found

    def metadata(self, name: str, version: str) -> Mapping[str, Any]:
        config = self.config(name, version)
        is_batched = model_config.max_batch_size(config) > 0
        return {
            f"{kind}s": [_tensor(row, is_batched=is_batched) for row in config[kind]]
            for kind in ("input", "output")
        }

    def models(self) -> Sequence[str]:
        return ()


def _tensor(row: Mapping[str, Any], *, is_batched: bool) -> Mapping[str, Any]:
    """As a server lists it in its metadata, where every tensor has its batch dimension."""
    datatype = str(row["data_type"]).removeprefix("TYPE_")
    dims = [int(dim) for dim in row.get("dims", ())]
    has_batch = is_batched and not row.get("is_shape_tensor")
    return {
        "name": row["name"],
        "datatype": "BYTES" if datatype == "STRING" else datatype,
        "shape": [-1, *dims] if has_batch else dims,
    }
