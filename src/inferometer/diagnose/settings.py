"""A suggestion's settings in a model's configuration, and the configuration as a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferometer.base.errors import PeerError
from inferometer.base.writing import write_file, writing
from inferometer.diagnose.diagnosis import Change

Config = Mapping[str, Any]


def changed_config(config: Config, change: Change) -> dict[str, Any]:
    """The configuration with the change in it; everything else stays."""
    settings = dict(change.settings)
    groups = settings.pop("instance_group", None)
    made = {**config, **settings}
    if groups is not None:
        made["instance_group"] = [_group(config, groups[0])]
    return made


def _group(config: Config, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The first group with another count. On several GPUs a group's count is per GPU."""
    groups = config.get("instance_group") or [{}]
    first = groups[0]
    places = len(first.get("gpus", ())) if first.get("kind") == "KIND_GPU" else 1
    return {**wanted, **first, "count": max(1, round(int(wanted["count"]) / max(1, places)))}


def config_text(config: Config) -> str:
    """As `config.pbtxt`, written by the official message."""
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.text_format import MessageToString

    from inferometer.services.kserve import load_messages

    message = type(load_messages().ModelConfigResponse().config)()
    try:
        ParseDict(dict(config), message, ignore_unknown_fields=True)
    except (ParseError, SystemError) as error:  # a list in place of a member of an enum is the latter
        raise PeerError(
            f"the server's configuration of '{config.get('name')}' cannot be written: {error}"
        ) from error
    return MessageToString(message)


def write_configs(configs: Mapping[str, Config], folder: Path) -> tuple[Path, ...]:
    """`FOLDER/MODEL/config.pbtxt` for each model."""
    written = []
    for name, config in configs.items():
        path = folder / name / "config.pbtxt"
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, config_text(config))
        written.append(path)
    return tuple(written)
