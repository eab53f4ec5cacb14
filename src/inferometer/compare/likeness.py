"""Whether two saved results may be compared: same load, same payload, same class of machine."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from inferometer.stats.result import Result

_LOAD = {
    "mode": "kind of load",
    "distribution": "distribution of send times",
    "service_kind": "service kind",
    "protocol": "protocol",
    "shared_memory": "shared memory",
    "input_format": "format of inputs",
    "output_format": "format of outputs",
    "batch": "batch size",
    "asynchronous": "asynchronous sending",
    "percentile": "chosen percentile",
}
_PAYLOAD = {
    "sources": "input data",
    "files": "input files",
    "shapes": "shapes",
    "string_length": "length of strings",
    "string_data": "string data",
    "seed": "seed",
    "pool": "number of different requests",
}
_HOST = {"processor": "processor", "cores": "cores"}
_MEMORY_SLACK = 0.1  # memory is not the same to the byte on machines of one class


def unlike(base: Result, other: Result) -> tuple[str, ...]:
    """What differs, in words; nothing when they may be compared."""
    return (
        *_differing(asdict(base.effective), asdict(other.effective), _LOAD, "load"),
        *_differing(_data(base), _data(other), _PAYLOAD, "payload"),
        *_inputs(base, other),
        *_differing(base.host, other.host, _HOST, "host"),
        *_memory(base, other),
    )


def _differing(
    base: Mapping[str, Any], other: Mapping[str, Any], words: Mapping[str, str], what: str
) -> list[str]:
    return [
        f"{what}: {word} is {_shown(base[key])} and {_shown(other[key])}"
        for key, word in words.items()
        if key in base and key in other and base[key] != other[key]
    ]


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) if value else "nothing"
    return "none" if value is None else str(value)


def _data(result: Result) -> Mapping[str, Any]:
    found = result.asked.get("data", {})
    return found if isinstance(found, Mapping) else {}


def _inputs(base: Result, other: Result) -> list[str]:
    """Of models; datatypes may differ, as those of a variant in half precision do."""
    one, two = (_named(result) for result in (base, other))
    if one.keys() != two.keys():
        return [f"payload: inputs are {_shown(sorted(one))} and {_shown(sorted(two))}"]
    return [
        f"payload: input '{name}' has shape {_shown(one[name])} and {_shown(two[name])}"
        for name in one
        if one[name] != two[name]
    ]


def _named(result: Result) -> dict[str, Any]:
    rows = result.model.get("inputs", ())
    return {str(row["name"]): tuple(row["shape"]) for row in rows}


def _memory(base: Result, other: Result) -> list[str]:
    sizes: list[float] = [float(result.host.get("memory_bytes", 0)) for result in (base, other)]
    if min(sizes) <= 0 or max(sizes) / min(sizes) <= 1 + _MEMORY_SLACK:
        return []
    one, two = (size / 2**30 for size in sizes)
    return [f"host: memory is {one:.1f} GiB and {two:.1f} GiB"]
