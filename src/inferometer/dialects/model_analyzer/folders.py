"""The output model repository: a folder for every variant."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.writing import write_file, writing
from inferometer.tune import model_config
from inferometer.tune.variant import ModelVariant


def check_output(path: Path, *, overrides: bool) -> None:
    """Refuses what could not be made later; changes nothing."""
    if not path.absolute().parent.is_dir():
        raise UsageError(
            f"the folder '{path.absolute().parent}' of --output-model-repository-path does not exist",
            remedy="make it, or give another path",
        )
    if path.exists() and not path.is_dir():
        raise UsageError(f"--output-model-repository-path '{path}' is a file", remedy="give another path")
    if path.exists() and not overrides:
        raise UsageError(
            f"the output model repository '{path}' exists already",
            remedy="give --override-output-model-repository to replace it, or another --output-model-repository-path",
        )


def make_output(path: Path) -> None:
    """An empty folder in place of whatever was there."""
    with writing(path):
        if path.is_symlink():
            path = path.resolve()
        if path.exists():
            shutil.rmtree(path)
        path.mkdir()


@dataclass(slots=True)
class VariantFolders:
    """Writes each variant once: the first of a model as a copy of the model's folder, the others as links to it."""

    output: Path
    repositories: Sequence[Path] = ()
    are_models: bool = False  # each a model of its own, to be loaded from here; else they stand in for theirs
    _written: dict[str, str] = field(default_factory=dict)  # name -> key of the content
    _first: dict[str, Path] = field(default_factory=dict)  # by model

    def write(self, variant: ModelVariant) -> None:
        for member in variant.composing:
            self.write(member)
            self._write(member, member.model)  # what the members are now, under their own names
        self._write(variant, variant.name)

    def _write(self, variant: ModelVariant, name: str) -> None:
        if self._written.get(name) == variant.key:
            return
        folder = self.output / name
        config = {**variant.config, "name": name if self.are_models else variant.model}
        with writing(folder):
            folder.mkdir(exist_ok=True)
            if name not in self._written:
                self._fill(folder, variant.model)
            write_file(folder / "config.pbtxt", model_config.to_text(config))
        self._written[name] = variant.key

    def _fill(self, folder: Path, model: str) -> None:
        source = next((path / model for path in self.repositories if (path / model).is_dir()), None)
        if source is None:
            return  # somebody else's server: only configurations are known here
        first = self._first.get(model)
        for entry in source.iterdir():
            if entry.name == "config.pbtxt":
                continue
            if first is not None:
                (folder / entry.name).symlink_to((first / entry.name).resolve())
            elif entry.is_dir():
                shutil.copytree(entry, folder / entry.name)
            else:
                shutil.copy2(entry, folder / entry.name)
        self._first.setdefault(model, folder)
