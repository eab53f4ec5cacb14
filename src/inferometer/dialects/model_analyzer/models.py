"""`profile_models` and the like: names, or names with settings of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer.flags import docker_args, load_flags, server_flags
from inferometer.dialects.model_analyzer.llm import genai_flags
from inferometer.dialects.model_analyzer.values import (
    Read,
    flag,
    ints,
    limits,
    mapping,
    text,
    texts_by_name,
    weights,
    whole,
    wrong,
)
from inferometer.tune import model_config
from inferometer.tune.space import message_choices


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model and the settings given for it alone; `where` is its dotted path."""

    name: str
    where: str
    own: Mapping[str, Any] = field(default_factory=dict)

    def get(self, key: str, otherwise: Any) -> Any:
        """A key the model does not have is taken whole from the top level."""
        return self.own.get(key, otherwise)

    def path(self, key: str) -> str:
        """The dotted path of a key, where `get` took it from."""
        return f"{self.where}.{key}" if key in self.own else key


def _parameters(path: str, value: Any) -> Mapping[str, tuple[int, ...]]:
    found = mapping(path, value)
    for name in found:
        if name not in ("batch_sizes", "concurrency", "request_rate"):
            raise UsageError(
                f"{path}.{name} is not a parameter of the load",
                remedy="those are batch_sizes, concurrency and request_rate",
            )
    return {name: ints(f"{path}.{name}", row) for name, row in found.items() if row is not None}


def _swept(path: str, value: Any) -> Mapping[str, Any]:
    message_choices(model_config.message().DESCRIPTOR, mapping(path, value), path)
    found: Mapping[str, Any] = value
    return found


MODEL_KEYS: Mapping[str, Read] = {
    "cpu_only": flag,
    "parameters": _parameters,
    "objectives": weights,
    "constraints": limits,
    "weighting": whole(1),
    "model_config_parameters": _swept,
    "perf_analyzer_flags": load_flags,
    "genai_perf_flags": genai_flags,
    "triton_server_flags": server_flags,
    "triton_server_environment": texts_by_name,
    "triton_docker_args": docker_args,
}


def models(path: str, value: Any) -> tuple[ModelEntry, ...]:
    """Comma text, a list of names and one-entry mappings, or a mapping of names to settings."""
    if isinstance(value, str):
        rows = [_model(path, name.strip(), None) for name in value.split(",") if name.strip()]
    elif isinstance(value, Mapping):
        rows = [_model(path, name, row) for name, row in value.items()]
    elif isinstance(value, list):
        rows = [model for place, item in enumerate(value) for model in _item(path, place, item)]
    else:
        raise wrong(path, value, "names with commas, a list of names, or a mapping of names to settings")
    seen: set[str] = set()
    for row in rows:
        if row.name in seen:
            raise UsageError(f"{path} names '{row.name}' twice", remedy="name every model once")
        seen.add(row.name)
    return tuple(rows)


def _item(path: str, place: int, item: Any) -> list[ModelEntry]:
    if isinstance(item, Mapping):
        return [_model(path, name, row) for name, row in item.items()]
    return [_model(path, text(f"{path}[{place}]", item), None)]


def _model(path: str, name: Any, own: Any) -> ModelEntry:
    where = f"{path}.{text(path, name)}"
    if own is None:
        return ModelEntry(str(name), where)
    found = {}
    for key, value in mapping(where, own).items():
        read = MODEL_KEYS.get(key)
        if read is None:
            raise UsageError(
                f"{where}.{key} is not a setting of a model", remedy=f"those are {', '.join(MODEL_KEYS)}"
            )
        if value is not None:
            found[key] = read(f"{where}.{key}", value)
    return ModelEntry(str(name), where, found)
