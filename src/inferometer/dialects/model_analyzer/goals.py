"""Objectives and constraints as the classic tool's YAML has them."""

import math
from collections.abc import Mapping
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer.values import mapping, maybe_number, texts, wrong
from inferometer.tune import scoring
from inferometer.tune.scoring import Constraint

Weights = tuple[tuple[str, float], ...]


def objectives(path: str, value: Any) -> Weights:
    """A list of metrics, or weights by metric."""
    if isinstance(value, Mapping):
        return scoring.objectives({tag: _weight(f"{path}.{tag}", row) for tag, row in value.items()}, path)
    return scoring.objectives(texts(path, value), path)


def _weight(path: str, value: Any) -> float:
    found = maybe_number(value)
    if found is None or not math.isfinite(found):
        raise wrong(path, value, "a number above 0")
    return found


def constraints(path: str, value: Any) -> tuple[Constraint, ...]:
    return scoring.constraints({tag: _bounds(row) for tag, row in mapping(path, value).items()}, path)


def _bounds(row: Any) -> Any:
    """With numbers in quotes as numbers; what is no number stays, to be named."""
    if not isinstance(row, Mapping):
        return row
    return {name: row[name] if (found := maybe_number(row[name])) is None else found for name in row}


def weighting_at_top(path: str, value: Any) -> None:
    raise UsageError(
        f"{path} stands at the top level, but it belongs to a model",
        remedy="write it below profile_models.<model>",
    )
