"""Plots a user asks for in detailed reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer.values import flag, mapping, text
from inferometer.tune.metrics import BY_TAG, OLD_LATENCY

LOADS = ("batch_size", "concurrency", "request_rate")


@dataclass(frozen=True, slots=True)
class Plot:
    """One picture: a metric over another, a line per variant."""

    name: str
    title: str
    x: str
    y: str
    monotonic: bool = False  # only points above all earlier ones


def plots(path: str, value: Any) -> tuple[Plot, ...]:
    """By name, or a list of such mappings."""
    rows = [(path, value)]
    if isinstance(value, list):
        rows = [(f"{path}[{place}]", row) for place, row in enumerate(value)]
    return tuple(
        _plot(f"{where}.{name}", name, plot)
        for where, row in rows
        for name, plot in mapping(where, row).items()
    )


def _plot(path: str, name: str, value: Any) -> Plot:
    found: Mapping[str, Any] = mapping(path, value)
    for key in found:
        if key not in ("title", "x_axis", "y_axis", "monotonic"):
            raise UsageError(
                f"{path}.{key} is not a key of a plot", remedy="those are title, x_axis, y_axis, monotonic"
            )
    if "/" in name or name.startswith("."):
        raise UsageError(f"{path} cannot be the name of a file", remedy="use letters, digits, - and _")
    for key in ("x_axis", "y_axis"):
        tag = found.get(key)
        if tag not in BY_TAG and tag not in (*LOADS, OLD_LATENCY):
            allowed = ", ".join([*BY_TAG, *LOADS])
            raise UsageError(f"{path}.{key} is {tag!r}", remedy=f"it must be one of {allowed}")
    return Plot(
        name,
        text(f"{path}.title", found.get("title", name)),
        found["x_axis"],
        found["y_axis"],
        flag(f"{path}.monotonic", found.get("monotonic", False)),
    )


def named_variants(path: str, value: Any) -> Mapping[str, tuple[Plot, ...] | None]:
    """`report_model_configs`: names, or names with plots of their own."""
    from inferometer.dialects.model_analyzer.values import some_texts

    if not isinstance(value, Mapping):
        return dict.fromkeys(some_texts(path, value))
    found: dict[str, tuple[Plot, ...] | None] = {}
    for name, own in value.items():
        where = f"{path}.{name}"
        for key in mapping(where, own or {}):
            if key != "plots":
                raise UsageError(f"{where}.{key} is not a key of a report", remedy="that is plots")
        found[str(name)] = plots(f"{where}.plots", own["plots"]) if own else None
    return found
