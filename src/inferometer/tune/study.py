"""A whole search as one value and one file: everything a report about it needs."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from inferometer.base.documents import decode
from inferometer.base.errors import UsageError
from inferometer.base.validation import validated
from inferometer.base.writing import write_file
from inferometer.tune.scoring import Goal, RankedVariant, gain, rank
from inferometer.tune.trial import Status, Trial
from inferometer.tune.variant import ModelVariant, default_name

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Study:
    """Of one model, or of several that were loaded together (then `goals` has one entry each)."""

    schema: int
    tool: str
    mode: str  # online or offline
    search: str  # smart, brute, quick or optuna
    goals: tuple[Goal, ...]
    variants: tuple[ModelVariant, ...] = ()
    trials: tuple[Trial, ...] = ()
    server: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    host: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    gpus: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # name and memory by UUID
    idle: tuple[Trial, ...] = ()  # the server with no model loaded
    ended: str = ""  # why the search stopped
    seed: int = 0
    sent: str | None = None  # the fingerprint of what was sent; trials with another one are not of this study

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(goal.model for goal in self.goals)

    @property
    def name(self) -> str:
        return ",".join(self.models)

    @property
    def default_name(self) -> str:
        return ",".join(default_name(model) for model in self.models)

    @property
    def ranked(self) -> tuple[RankedVariant, ...]:
        return rank(self.goals, self.trials)

    @property
    def measured(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.is_measured)

    @property
    def not_done(self) -> tuple[Trial, ...]:
        """Failed and skipped ones, each with its reason."""
        return tuple(trial for trial in self.trials if trial.status is not Status.MEASURED)

    def variant(self, name: str) -> ModelVariant:
        return next(variant for variant in self.variants if variant.name == name)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The best variant, and by how much it beats the default (None: no default measured that keeps the constraints)."""

    best: RankedVariant
    gain_percent: float | None
    is_sure: bool  # it is a gain even with the intervals' ends against it
    does_pass: bool
    has_default: bool = True  # the default was measured


def recommend(study: Study) -> Recommendation | None:
    """None when nothing was measured."""
    ranked = study.ranked
    if not ranked:
        return None
    best = ranked[0]
    base = next((row for row in ranked if row.name == study.default_name), None)
    if base is None or not base.does_pass:
        return Recommendation(
            best, None, is_sure=False, does_pass=best.does_pass, has_default=base is not None
        )
    return Recommendation(
        best,
        gain(study.goals, best.best, base.best),
        is_sure=best.name != base.name and gain(study.goals, best.best, base.best, is_least=True) > 0,
        does_pass=best.does_pass,
    )


# --- the file


def to_json(study: Study) -> str:
    return json.dumps(dataclasses.asdict(study), indent=1, sort_keys=True, default=_plain) + "\n"


def plain(value: Any) -> Any:
    """Any of the tuner's values as JSON has it."""
    return json.loads(text_of(value))


def text_of(value: Any) -> str:
    """Any of the tuner's values as JSON, in one line."""
    return json.dumps(dataclasses.asdict(value), default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} does not belong in a study")


def from_plain(kind: type[Any], document: Any, origin: str) -> Any:
    """A value of `kind` out of what `plain` made of one."""
    from pydantic import ValidationError

    try:
        return validated(kind, document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"'{origin}' cannot be used: {where}: {first['msg']}", remedy="search again"
        ) from error


def from_json(text: str, origin: str) -> Study:
    try:
        document = decode(text)
    except ValueError as error:
        raise UsageError(f"'{origin}' is not JSON: {error}", remedy="search again") from error
    found = document.get("schema") if isinstance(document, dict) else None
    if found != SCHEMA:
        raise UsageError(
            f"'{origin}' has study schema {found}, and this version reads {SCHEMA}", remedy="search again"
        )
    study: Study = from_plain(Study, document, origin)
    return study


def write(study: Study, path: Path) -> None:
    """Whole or not at all."""
    write_file(path, to_json(study))
