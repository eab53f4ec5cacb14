"""What was asked for, what ran, on which machine and against which server."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inferometer.report.document import Column, Depth, Facts, Section, Table
from inferometer.report.format import quantity
from inferometer.stats.result import Result

GIB = 1024**3
ABSENT = "-"
_TEXT = (
    Column("Setting", is_number=False),
    Column("Asked", is_number=False),
    Column("Effective", is_number=False),
)
_HOST = ("name", "processor", "cores", "memory_bytes", "system", "python")
_SERVER = ("url", "name", "version", "extensions")


def settings_section(result: Result) -> Section | None:
    """Asked and effective, side by side."""
    asked, effective = dict(_flat(result.asked)), dict(_flat(dataclasses.asdict(result.effective)))
    names = sorted({*asked, *effective})
    if not names:
        return None
    rows = tuple(
        (name, asked.get(name, ""), effective.get(name, ""))
        for name in names
        if {asked.get(name, ABSENT), effective.get(name, ABSENT)} != {ABSENT}
    )
    table = Table(f"All {len(rows)} settings", _TEXT, rows, Depth.DETAIL)
    return Section("settings", "Settings", "", (table,), is_detail=True)


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in document.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}".replace("_", " "), text_of(value)


def text_of(value: object) -> str:
    """A setting as people write it."""
    if value is None or value in ("", (), [], {}):
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(text_of(item) for item in value)
    return str(value)


def host_section(result: Result) -> Section | None:
    """The machine the tool ran on, the server, and the model."""
    tables = tuple(
        Facts(name, rows)
        for name, rows in (
            ("Client host", tuple(_host(result.host))),
            ("Server", tuple(_server(result.server))),
            ("Model", tuple(_model(result.model))),
        )
        if rows
    )
    return Section("host", "Host and server", "", tables, is_detail=True) if tables else None


def _host(host: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _named(host, _HOST):
        if name == "memory_bytes" and isinstance(host[name], int):
            yield "Memory", f"{quantity(host[name] / GIB)} GiB"
        else:
            yield _title(name), text_of(host[name])


def _server(server: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _named(server, _SERVER):
        yield _title(name), text_of(server[name])


def _named(facts: Mapping[str, Any], first: tuple[str, ...]) -> list[str]:
    """The names that are there, the important ones first: a file keeps no order."""
    return [name for name in first if name in facts] + sorted(set(facts) - set(first))


def _title(name: str) -> str:
    return "Address" if name == "url" else name.replace("_", " ").capitalize()


def _model(model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("name", "version", "max_batch_size"):
        if model.get(name) not in (None, ""):
            yield _title(name), text_of(model[name])
    for name in ("inputs", "outputs"):
        tensors = [_tensor(row) for row in _objects(model.get(name))]
        if tensors:
            yield name.capitalize(), ", ".join(tensors)
    yield from _kind(model)


def _tensor(row: Mapping[str, Any]) -> str:
    shape = row.get("shape")
    sizes = shape if isinstance(shape, Sequence) else ()
    dims = "×".join("?" if size == -1 else str(size) for size in sizes)
    return f"{row.get('name', '')} {row.get('datatype', '')} {dims}".strip()


def _kind(model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    names = {
        "is_ensemble": "ensemble",
        "is_decoupled": "decoupled",
        "any_sequence": "sequences",
        "any_cache": "cache",
    }
    found = [words for key, words in names.items() if model.get(key)]
    if found:
        yield "Kind", ", ".join(found)
    members = [str(row.get("name", "")) for row in _objects(model.get("composing"))]
    if members:
        yield "Composing models", ", ".join(members)
    for instances in _instances(model):
        yield "Instances", instances


def _objects(value: object) -> tuple[Mapping[str, Any], ...]:
    """The objects in a list; a file may hold anything else there."""
    found = value if isinstance(value, Sequence) else ()
    return tuple(row for row in found if isinstance(row, Mapping))


def _instances(model: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for row in (model, *_objects(model.get("composing"))):
        config = row.get("config")
        groups = _objects(config.get("instance_group")) if isinstance(config, Mapping) else ()
        counts = [group.get("count") for group in groups]
        total = sum(count for count in counts if isinstance(count, int))
        if total:
            rows.append(f"{text_of(row.get('name'))} {total}")
    if rows:
        yield ", ".join(rows)
