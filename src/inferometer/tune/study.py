"""A whole search as one value and one file, with everything that a report needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from inferometer.base.answer_file import Answer
from inferometer.stats.measurement import Estimate
from inferometer.stats.verdict import INCONCLUSIVE, MATTERS_PERCENT, NOT_SHOWN, SHOWN, Ruling, rule
from inferometer.tune.scoring import Goal, RankedVariant, gain_of_runs, rank
from inferometer.tune.trial import Status, Trial
from inferometer.tune.variant import ModelVariant, default_name


@dataclass(frozen=True, slots=True)
class Study(Answer):
    """The study of one model, or of several that were loaded together (then `goals` has one entry each)."""

    kind: ClassVar[str] = "study"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "search again"

    tool: str
    mode: str  # online or offline
    search: str  # smart, brute, quick or optuna
    goals: tuple[Goal, ...]
    variants: tuple[ModelVariant, ...] = ()
    trials: tuple[Trial, ...] = ()
    server: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    gpus: Mapping[str, Any] = field(default_factory=dict)  # name and memory by UUID
    idle: tuple[Trial, ...] = ()  # the server with no model loaded
    ended: str = ""  # why the search stopped
    seed: int = 0
    sent: str | None = None  # fingerprint of the requests; other trials do not belong to this study

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
        """Failed and skipped trials, each with its reason."""
        return tuple(trial for trial in self.trials if trial.status is not Status.MEASURED)

    def loaded(self, names: str) -> tuple[ModelVariant, ...]:
        """Return every model of a joined name with its members: the configurations that belong together."""
        return tuple(part for name in names.split(",") for part in self.variant(name).with_members)

    def variant(self, name: str) -> ModelVariant:
        found = next((variant for variant in self.variants if variant.name == name), None)
        if found is None:
            raise LookupError(f"no configuration named '{name}'")
        return found


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The best variant, and its gain over the default in percent with an interval (None if no measured default meets
    the constraints)."""

    best: RankedVariant
    gain: Estimate | None
    has_default: bool = True  # the default was measured
    is_repeated: bool = True  # the compared trials were measured more than once

    @property
    def does_pass(self) -> bool:
        return self.best.does_pass

    @property
    def gain_percent(self) -> float | None:
        return None if self.gain is None else self.gain.value

    @property
    def ruling(self) -> Ruling:
        """Whether the gain over the default is shown. A gain of a single run is inconclusive; without a default it is
        not shown."""
        if self.gain is None:
            return NOT_SHOWN
        found = rule(self.gain, matters=MATTERS_PERCENT).ruling
        return INCONCLUSIVE if found == SHOWN and not self.is_repeated else found

    @property
    def is_sure(self) -> bool:
        """Whether the whole interval of the gain is above zero."""
        return self.gain is not None and self.gain.low is not None and self.gain.low > 0


def recommend(study: Study) -> Recommendation | None:
    """Return the recommendation; None if nothing was measured."""
    ranked = study.ranked
    if not ranked:
        return None
    best = ranked[0]
    base = next((row for row in ranked if row.name == study.default_name), None)
    is_repeated = _is_repeated(study, best.best)
    if base is None or not base.does_pass:
        return Recommendation(best, None, has_default=base is not None, is_repeated=is_repeated)
    if best.name == base.name:
        return Recommendation(best, Estimate(0.0, 0.0, 0.0), is_repeated=is_repeated)
    is_repeated = is_repeated and _is_repeated(study, base.best)
    return Recommendation(
        best, gain_of_runs(study.goals, study.trials, best.best, base.best), is_repeated=is_repeated
    )


def _is_repeated(study: Study, trial: Trial) -> bool:
    return sum(row.setting == trial.setting for row in study.measured) > 1
