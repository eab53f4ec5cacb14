"""A model's configuration as a plain document of Triton's official ModelConfig message.

Reading and writing use the message itself, so everything that the server accepts is preserved. The document uses the
message's own field names; 64-bit numbers may be strings, as in the JSON form of every protobuf message.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.reading import DESCRIPTION, read_text

Fields = Mapping[str, Any]


def message() -> Any:
    """Return an empty ModelConfig."""
    from inferometer.services.kserve import load_messages

    return load_messages().model__config__pb2.ModelConfig()


def parse_text(text: str, origin: str) -> Fields:
    """Return the document of a `config.pbtxt`."""
    from google.protobuf import text_format

    config = message()
    try:
        text_format.Parse(text, config)
    except (text_format.ParseError, ValueError) as error:  # ValueError: a number that no field can hold
        raise UsageError(
            f"'{origin}' is not a model configuration: {error}", remedy="fix it, or leave it to the server"
        ) from error
    return document(config)


def read_file(path: Path) -> Fields:
    text = read_text(path, DESCRIPTION, "the model configuration", remedy="check the file")
    return parse_text(text, str(path))


def read_model(folders: Sequence[Path], model: str) -> Fields | None:
    """Return the model's own configuration; None if these repositories have none."""
    folder = find_model(folders, model)
    if folder is None or not (folder / "config.pbtxt").is_file():
        return None
    return read_file(folder / "config.pbtxt")


def find_model(folders: Sequence[Path], model: str) -> Path | None:
    """Return the folder of a model in the first of these repositories that has it."""
    return next((folder / model for folder in folders if (folder / model).is_dir()), None)


def document(config: Any) -> Fields:
    from google.protobuf import json_format

    found: Fields = json_format.MessageToDict(config, preserving_proto_field_name=True)
    return found


def from_document(fields: Fields, origin: str = "the configuration") -> Any:
    """Convert a document to a ModelConfig message."""
    from google.protobuf import json_format

    try:
        return json_format.ParseDict(dict(fields), message())
    except (json_format.ParseError, SystemError) as error:  # SystemError: a list in place of an enum value
        raise UsageError(f"{origin} is not a model configuration: {error}") from error


def to_text(fields: Fields) -> str:
    """Return the text of a `config.pbtxt`."""
    from google.protobuf import text_format

    return str(text_format.MessageToString(from_document(fields)))


def normal(fields: Fields) -> Fields:
    """Return the configuration in canonical form, so that equal configurations are equal documents."""
    return document(from_document(fields))


def key(fields: Fields) -> str:
    """Return a key that is equal for equal configurations in `normal` form, regardless of their names."""
    return json.dumps(
        {name: value for name, value in fields.items() if name != "name"},
        sort_keys=True,
        separators=(",", ":"),
    )


def merge(base: Fields, overrides: Fields) -> Fields:
    """Merge mappings key by key and replace everything else; None leaves the field unchanged."""
    merged = dict(base)
    for name, value in overrides.items():
        if value is None:
            continue
        old = merged.get(name)
        merged[name] = (
            merge(old if isinstance(old, Mapping) else {}, value) if isinstance(value, Mapping) else value
        )
    return merged


# --- properties used by the tuner


def max_batch_size(fields: Fields) -> int:
    """Return the maximum batch size; 0 if the model does not batch."""
    return int(fields.get("max_batch_size", 0))


def instance_counts(fields: Fields) -> tuple[tuple[str, int], ...]:
    """Return (CPU or GPU, count) per group; without groups there is one instance of the server's choice."""
    found = []
    for group in fields.get("instance_group", ()):
        kind = str(group.get("kind", "KIND_AUTO")).removeprefix("KIND_")
        gpus = len(group.get("gpus", ())) if kind == "GPU" else 0
        found.append((kind, int(group.get("count", 1) or 1) * max(1, gpus)))
    return tuple(found)


def total_instances(fields: Fields) -> int:
    return sum(count for _, count in instance_counts(fields)) or 1


def has_dynamic_batching(fields: Fields) -> bool:
    return "dynamic_batching" in fields


def is_sequence(fields: Fields) -> bool:
    return "sequence_batching" in fields


def members(fields: Fields) -> tuple[str, ...]:
    """Return the models that an ensemble calls, each once."""
    steps = fields.get("ensemble_scheduling", {}).get("step", ())
    return tuple(dict.fromkeys(str(step["model_name"]) for step in steps))


def queue_delay_us(fields: Fields) -> int:
    return int(fields.get("dynamic_batching", {}).get("max_queue_delay_microseconds", 0))
