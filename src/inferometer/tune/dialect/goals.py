"""Objectives and constraints as the classic tool's YAML has them."""

from collections.abc import Mapping
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.tune import goal
from inferometer.tune.dialect.values import mapping, texts, wrong
from inferometer.tune.goal import Constraint

Weights = tuple[tuple[str, float], ...]


def objectives(path: str, value: Any) -> Weights:
    """A list of metrics, or weights by metric."""
    if isinstance(value, Mapping):
        for tag, weight in value.items():
            if isinstance(weight, bool) or not isinstance(weight, (int, float)):
                raise wrong(f"{path}.{tag}", weight, "a number above 0")
        return goal.objectives(value, path)
    return goal.objectives(texts(path, value), path)


def constraints(path: str, value: Any) -> tuple[Constraint, ...]:
    return goal.constraints(mapping(path, value), path)


def weighting_at_top(path: str, value: Any) -> None:
    raise UsageError(
        f"{path} stands at the top level, but it belongs to a model",
        remedy="write it below profile_models.<model>",
    )
