"""Change the configuration of models on a running server, and restore it, even after a killed run."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from inferometer.base.errors import PeerError
from inferometer.base.writing import write_file, writing
from inferometer.diagnose.diagnosis import Change
from inferometer.options.names import option_name
from inferometer.services.discovery import ModelControl, are_fixed
from inferometer.services.originals import Originals

Config = Mapping[str, Any]


class FixedModelsError(PeerError):
    """The server does not allow changing its models."""


class Reconfiguration:
    """A context in which models may be changed; on exit they are restored, unless `keep` is set."""

    def __init__(self, control: ModelControl, originals: Originals) -> None:
        self._control = control
        self._originals = originals
        self._before: dict[str, Config] = {}
        self._current: dict[str, Config] = {}
        self.keep = False
        self.is_restored: bool | None = None  # None if nothing was changed

    def __enter__(self) -> Self:
        self._originals.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._originals.keep = self.keep
        self._originals.close()
        if self._before and not self.keep:
            self.is_restored = True

    @property
    def changed(self) -> dict[str, Config]:
        """The models whose configuration differs from the original, with their configurations."""
        return {name: config for name, config in self._current.items() if config != self._before[name]}

    def config(self, name: str) -> Config:
        return self._control.config(name, "")

    def change(self, name: str, config: Config) -> None:
        """Load a model with another configuration; if the server rejects it, restore the previous one."""
        before = self.config(name)
        self._originals.note([name])
        self._before.setdefault(name, before)
        self.is_restored = False
        try:
            self._control.load_model(name, config)
        except PeerError as error:
            with suppress(PeerError):  # the server's rejection matters more; restoring is retried at the end
                if self.config(name) != before:
                    self._control.load_model(name, before)
            raise _explained(name, error) from error
        self._current[name] = self.config(name)


def _explained(name: str, error: PeerError) -> PeerError:
    if are_fixed(error):
        return FixedModelsError(
            f"the server does not allow changing its models: {error.message}",
            remedy=f"start it with --model-control-mode explicit, or leave out {option_name('--apply')}",
        )
    return error.wrapped(f"cannot load '{name}': ", PeerError)


# --- applying a suggestion to a configuration, and writing configurations


def changed_config(config: Config, change: Change) -> dict[str, Any]:
    """Apply the change to the configuration, removing the fields that it sets to None."""
    made = {name: value for name, value in {**config, **change.settings}.items() if value is not None}
    if "instance_group" in change.settings:
        made["instance_group"] = [_group(config, change.settings["instance_group"][0])]
    return made


def _group(config: Config, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first group with another count. On several GPUs the count is per GPU."""
    groups = config.get("instance_group") or [{}]
    first = groups[0]
    places = len(first.get("gpus", ())) if first.get("kind") == "KIND_GPU" else 1
    return {**wanted, **first, "count": max(1, round(int(wanted["count"]) / max(1, places)))}


def config_text(config: Config) -> str:
    """Return the text of `config.pbtxt`, written by the official protobuf message."""
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.text_format import MessageToString

    from inferometer.services.kserve import load_messages

    message = type(load_messages().ModelConfigResponse().config)()
    try:
        ParseDict(dict(config), message, ignore_unknown_fields=True)
    except (ParseError, SystemError) as error:  # SystemError: a list in place of an enum value
        raise PeerError(
            f"cannot serialize the server's configuration of '{config.get('name')}': {error}"
        ) from error
    return MessageToString(message)


def write_configs(configs: Mapping[str, Config], folder: Path) -> tuple[Path, ...]:
    """Write `FOLDER/MODEL/config.pbtxt` for each model."""
    written = []
    for name, config in configs.items():
        path = folder / name / "config.pbtxt"
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, config_text(config))
        written.append(path)
    return tuple(written)
