"""Readers of options and YAML keys, with their error messages.

A reader takes the dotted path of the value and the value itself, from YAML or the command line.
"""

import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.stats.figures import BY_TAG, OLD_LATENCY
from inferometer.tune import scoring

Read = Callable[[str, Any], Any]

MOST_VALUES = 100_000


def wrong(path: str, value: object, allowed: str) -> UsageError:
    return UsageError(f"{path} is {value!r}", remedy=f"it must be {allowed}")


def whole(least: int) -> Read:
    """Return a reader of integers from `least` on."""

    def read(path: str, value: Any) -> int:
        found = _int(value)
        if found is None or found < least:
            raise wrong(path, value, f"a whole number from {least} up")
        return found

    return read


def _int(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    try:
        return int(value)
    except ValueError:
        return None


def number(*, above: bool = False) -> Read:
    """Return a reader of numbers of at least 0, or only `above` 0."""

    def read(path: str, value: Any) -> float:
        found = maybe_number(value)
        if found is None or not 0 <= found < float("inf") or (above and found == 0):
            raise wrong(path, value, "a number above 0" if above else "a number from 0 up")
        return found

    return read


def maybe_number(value: Any) -> float | None:
    """Return a number, even if quoted (YAML reads 1e3 as text); None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def flag(path: str, value: Any) -> bool:
    """Read a switch, also as a number or in quotes."""
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise wrong(path, value, "true or false")


def text(path: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == "":
        raise wrong(path, value, "a text")
    return str(value)


def maybe_empty(path: str, value: Any) -> str:
    return "" if value == "" else text(path, value)


def path_of(path: str, value: Any) -> Path:
    return Path(text(path, value))


def choice(*values: str) -> Read:
    def read(path: str, value: Any) -> str:
        if value not in values:
            raise wrong(path, value, f"one of {', '.join(values)}")
        return str(value)

    return read


def texts(path: str, value: Any) -> tuple[str, ...]:
    """Read names with commas, or a list of scalars."""
    if isinstance(value, str):
        return tuple(part for word in value.split(",") if (part := word.strip()))
    if isinstance(value, list):
        return tuple(text(f"{path}[{place}]", item) for place, item in enumerate(value))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (str(value),)
    raise wrong(path, value, "a list of names, or names separated by commas")


def some_texts(path: str, value: Any) -> tuple[str, ...]:
    found = texts(path, value)
    if not found:
        raise wrong(path, value, "at least one name")
    return found


_INTS = "whole numbers above 0: one, several separated by commas, a list, start:end[:step], or {start, stop, step}"


def ints(path: str, value: Any) -> tuple[int, ...]:
    """Read a list of integers in any notation; the end of a range is included."""
    if isinstance(value, Mapping):
        return _range_of(path, value)
    if isinstance(value, str) and ":" in value:
        return _span(path, value)
    rows = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    found = [_int(row) for row in rows]
    numbers = tuple(row for row in found if row is not None)
    if not found or len(numbers) < len(found) or min(numbers) < 1:
        raise wrong(path, value, _INTS)
    return numbers


def _range_of(path: str, value: Mapping[Any, Any]) -> tuple[int, ...]:
    keys = ("start", "stop", "step")
    found = only(keys, path, value, "a key of a range", "those are start, stop and step")
    for key in ("start", "stop"):
        if key not in found:
            raise UsageError(f"{path} has no {key}", remedy="a range needs start and stop")
    return _counted(path, dict(found), [_int(found.get(key, 1)) for key in keys])


def _span(path: str, value: str) -> tuple[int, ...]:
    parts = [_int(word) for word in value.split(":")]
    if len(parts) > 3:
        raise wrong(path, value, _INTS)
    return _counted(path, value, [*parts, 1][:3])


def _counted(path: str, value: object, parts: list[int | None]) -> tuple[int, ...]:
    start, stop, step = parts
    if start is None or stop is None or step is None or start < 1 or step < 1:
        raise wrong(path, value, "a range of whole numbers above 0")
    if start > stop:
        raise UsageError(
            f"{path} is {value!r}: the start, {start}, is above the stop, {stop}",
            remedy="swap them",
        )
    if (stop - start) // step > MOST_VALUES:
        raise wrong(path, value, f"a range of at most {MOST_VALUES} numbers")
    return tuple(range(start, stop + 1, step))


def mapping(path: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise wrong(path, value, "a mapping of names to values")
    for key in value:
        if not isinstance(key, str):
            raise wrong(f"{path}.{key}", key, "a name")
    return value


def only(names: Collection[str], path: str, value: Any, noun: str, remedy: str) -> Mapping[str, Any]:
    """Read a mapping with only these names."""
    found = mapping(path, value)
    for name in found:
        if name not in names:
            raise UsageError(f"{path}.{name} is not {noun}", remedy=remedy)
    return found


def texts_by_name(path: str, value: Any) -> Mapping[str, str]:
    found = mapping(path, value)
    return {name: _scalar_text(f"{path}.{name}", row) for name, row in found.items()}


def _scalar_text(path: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or not isinstance(value, (str, int, float)):
        raise wrong(path, value, "a text or a number")
    return str(value)


def gpu_names(path: str, value: Any) -> tuple[str, ...] | None:
    """Read GPU names; None means all."""
    found = texts(path, value)
    return None if found == ("all",) else tuple(row for row in found if row != "[]")


# --- objectives and constraints


Weights = tuple[tuple[str, float], ...]


def weights(path: str, value: Any) -> Weights:
    """Read `objectives`: a list of metrics, or weights by metric."""
    if isinstance(value, Mapping):
        return scoring.objectives({tag: _weight(f"{path}.{tag}", row) for tag, row in value.items()}, path)
    return scoring.objectives(texts(path, value), path)


def _weight(path: str, value: Any) -> float:
    found = maybe_number(value)
    if found is None or not math.isfinite(found):
        raise wrong(path, value, "a number above 0")
    return found


def limits(path: str, value: Any) -> tuple[scoring.Constraint, ...]:
    """Read `constraints`: the lowest and highest value by metric."""
    return scoring.constraints({tag: _bounds(row) for tag, row in mapping(path, value).items()}, path)


def _bounds(row: Any) -> Any:
    """Convert quoted numbers; other values stay, for the error message."""
    if not isinstance(row, Mapping):
        return row
    return {name: row[name] if (found := maybe_number(row[name])) is None else found for name in row}


def weighting_at_top(path: str, value: Any) -> None:
    raise UsageError(
        f"{path} is set at the top level, but applies to a single model",
        remedy="write it under profile_models.<model>",
    )


# --- plots in detailed reports


_LOADS = ("batch_size", "concurrency", "request_rate")
_PARAMETERS = {
    f"{name}_range": name for name in ("concurrency", "request_rate")
}  # as perf_analyzer calls them


@frozen
class Plot:
    """A plot of one metric over another, with a line per variant."""

    name: str
    title: str
    x: str
    y: str
    monotonic: bool = False  # only points above all earlier ones


def plot_list(path: str, value: Any) -> tuple[Plot, ...]:
    """Read plots by name, or a list of such mappings."""
    rows = [(path, value)]
    if isinstance(value, list):
        rows = [(f"{path}[{place}]", row) for place, row in enumerate(value)]
    return tuple(
        _plot(f"{where}.{name}", name, plot)
        for where, row in rows
        for name, plot in mapping(where, row).items()
    )


def _axis(value: Any) -> str:
    """Return the metric or load of an axis; a load may be called as in `perf_analyzer_flags`."""
    word = str(value).replace("-", "_")
    return _PARAMETERS.get(word, word)


def _plot(path: str, name: str, value: Any) -> Plot:
    keys = ("title", "x_axis", "y_axis", "monotonic")
    found = only(keys, path, value, "a key of a plot", f"those are {', '.join(keys)}")
    if "/" in name or name.startswith("."):
        raise UsageError(f"{path} cannot be the name of a file", remedy="use letters, digits, - and _")
    x, y = (_axis(found.get(key)) for key in ("x_axis", "y_axis"))
    for key, tag in (("x_axis", x), ("y_axis", y)):
        if tag not in BY_TAG and tag not in (*_LOADS, OLD_LATENCY):
            allowed = ", ".join([*BY_TAG, *_LOADS])
            raise UsageError(f"{path}.{key} is {found.get(key)!r}", remedy=f"it must be one of {allowed}")
    return Plot(
        name,
        text(f"{path}.title", found.get("title", name)),
        x,
        y,
        flag(f"{path}.monotonic", found.get("monotonic", False)),
    )


def named_variants(path: str, value: Any) -> Mapping[str, tuple[Plot, ...] | None]:
    """Read `report_model_configs`: names, or names with their own plots."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(some_texts(path, value))
    found: dict[str, tuple[Plot, ...] | None] = {}
    for name, own in value.items():
        where = f"{path}.{name}"
        only(("plots",), where, own or {}, "a key of a report", "that is plots")
        found[str(name)] = plot_list(f"{where}.plots", own["plots"]) if own else None
    return found
