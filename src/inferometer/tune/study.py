"""A whole search as one value and one file, with everything that a report needs."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

from inferometer.base.answer_file import Answer
from inferometer.base.frozen import frozen
from inferometer.base.units import INFERENCES
from inferometer.stats.estimate import Estimate
from inferometer.stats.verdict import INCONCLUSIVE, MATTERS_PERCENT, NOT_SHOWN, SHOWN, Ruling, rule
from inferometer.tune.keeping import any_keeps, keeps
from inferometer.tune.scoring import Goal, RankedVariant, gain_of_runs, rank
from inferometer.tune.trial import Status, Trial
from inferometer.tune.variant import ModelVariant, default_name


@frozen
class TimeAccount:
    """Where the time of a command went, in seconds; on several servers, the mean of them."""

    loading_s: float  # loading configurations, or starting servers
    warming_s: float
    measuring_s: float
    searching_s: float  # everything else: deciding, starting and ending the command
    servers: int = 1

    @property
    def total_s(self) -> float:
        return self.loading_s + self.warming_s + self.measuring_s + self.searching_s


@frozen
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
    account: TimeAccount | None = None
    rate_unit: str = INFERENCES  # of throughput

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

    def command_line(self, name: str) -> str:
        """Return the command line of a configuration of a launched server, with placeholders for ports."""
        lines = self.server.get("lines")
        found = lines.get(name) if isinstance(lines, Mapping) else None
        return found if isinstance(found, str) else ""

    def call_lines(self, name: str) -> tuple[str, ...]:
        """Return the commands that set the values of a configuration on the running server."""
        calls = self.server.get("calls")
        found = calls.get(name) if isinstance(calls, Mapping) else None
        return tuple(map(str, found)) if isinstance(found, list) else ()

    def startup_s(self, name: str) -> float | None:
        """Return how long a configuration of a launched server took until it was warm, in the slowest start; None if
        unknown."""
        return max(
            (trial.startup_s for trial in self.measured if trial.name == name and trial.startup_s),
            default=None,
        )

    def variant(self, name: str) -> ModelVariant:
        found = next((variant for variant in self.variants if variant.name == name), None)
        if found is None:
            raise LookupError(f"no configuration named '{name}'")
        return found


def accounted(study: Study, total_s: float) -> Study:
    """Return the study with the account of a command that took `total_s`. Trials in the journal come from earlier
    commands."""
    own = [trial for trial in study.trials if not trial.is_recalled]
    servers = len({trial.server for trial in own}) or 1
    loading_s, warming_s, measuring_s = (
        sum(getattr(trial, name) for trial in own) / servers
        for name in ("loading_s", "warming_s", "measuring_s")
    )
    rest_s = max(0.0, total_s - loading_s - warming_s - measuring_s)
    return replace(study, account=TimeAccount(loading_s, warming_s, measuring_s, rest_s, servers))


@frozen
class MissedGain:
    """The gain over the default in percent that another variant may still have, although its figures are no better."""

    name: str
    gain: Estimate


@frozen
class Recommendation:
    """The best variant, and its gain over the default in percent with an interval (None if no measured default meets
    the constraints)."""

    best: RankedVariant
    gain: Estimate | None
    has_default: bool = True  # the default was measured
    is_repeated: bool = True  # the compared trials were measured more than once
    slo: Ruling = SHOWN  # the best variant meets the SLO; if none does, not shown
    default_slo: Ruling = SHOWN  # the default meets the SLO
    limited: tuple[
        str, ...
    ] = ()  # compared configurations whose figures reflect this client rather than the server
    disturbed: tuple[
        str, ...
    ] = ()  # compared configurations measured beside other programs, unlike the others
    missed: MissedGain | None = None  # if the default is the best: the largest gain that is not ruled out

    @property
    def does_pass(self) -> bool:
        return self.best.does_pass

    @property
    def gain_percent(self) -> float | None:
        return None if self.gain is None else self.gain.value

    @property
    def ruling(self) -> Ruling:
        """Whether the gain over the default is shown. It is inconclusive if it comes from a single run, if this client
        was at its limit for either side, if other programs ran beside only one side, or if it is undecided whether the
        SLO is met. Without a default it is not shown. If the default is the best, the gain of every other variant must
        be ruled out."""
        if self.slo == INCONCLUSIVE:
            return INCONCLUSIVE
        if self.gain is None:
            return INCONCLUSIVE if self.default_slo == INCONCLUSIVE else NOT_SHOWN
        if self.is_spoilt:
            return INCONCLUSIVE
        if self.missed is not None:
            is_ruled_out = rule(self.missed.gain, matters=MATTERS_PERCENT).ruling == NOT_SHOWN
            return NOT_SHOWN if is_ruled_out else INCONCLUSIVE
        found = rule(self.gain, matters=MATTERS_PERCENT).ruling
        return INCONCLUSIVE if found == SHOWN and not self.is_repeated else found

    @property
    def is_supported(self) -> bool:
        """Whether the intervals support the choice of the best variant."""
        return self.does_pass and self.ruling != INCONCLUSIVE

    @property
    def is_sure(self) -> bool:
        """Whether the whole interval of the gain is above zero, and it is a gain of the server."""
        return (
            not self.is_spoilt and self.gain is not None and self.gain.low is not None and self.gain.low > 0
        )

    @property
    def is_spoilt(self) -> bool:
        """Whether the difference may come from this client or from other programs."""
        return bool(self.limited or self.disturbed)


def recommend(study: Study) -> Recommendation | None:
    """Return the recommendation; None if nothing was measured."""
    ranked = study.ranked
    if not ranked:
        return None
    best = ranked[0]
    base = next((row for row in ranked if row.name == study.default_name), None)
    is_repeated = _is_repeated(study, best.best)
    found = Recommendation(
        best,
        None,
        has_default=base is not None,
        is_repeated=is_repeated,
        slo=keeps(study.goals, best.best) if best.does_pass else any_keeps(study.goals, ranked),
        default_slo=SHOWN if base is None else keeps(study.goals, base.best),
    )
    if base is None or not base.does_pass:
        return found
    if best.name == base.name:
        # With such a client, others may give more than they seemed to.
        limited = _limited(ranked) if len(ranked) > 1 else ()
        disturbed = () if base.best.is_host_busy else _disturbed(ranked)
        missed = _maybe_missed(study, base, ranked)
        return replace(
            found, gain=Estimate(0.0, 0.0, 0.0), limited=limited, disturbed=disturbed, missed=missed
        )
    return replace(
        found,
        gain=gain_of_runs(study.goals, study.trials, best.best, base.best),
        is_repeated=is_repeated and _is_repeated(study, base.best),
        limited=_limited((best, base)),
        disturbed=_disturbed((best, base)),
    )


def _maybe_missed(study: Study, base: RankedVariant, ranked: Sequence[RankedVariant]) -> MissedGain | None:
    """Return the largest gain that the intervals leave to another variant which may meet the SLO; None if there is
    none."""
    rows = [
        MissedGain(row.name, gain_of_runs(study.goals, study.trials, row.best, base.best))
        for row in ranked
        if row.name != base.name and keeps(study.goals, row.best) != NOT_SHOWN
    ]
    return max(rows, key=lambda row: math.inf if row.gain.high is None else row.gain.high, default=None)


def _limited(rows: Iterable[RankedVariant]) -> tuple[str, ...]:
    return tuple(row.name for row in rows if row.best.is_client_limited)


def _disturbed(rows: Collection[RankedVariant]) -> tuple[str, ...]:
    """Return the configurations measured beside other programs; none if all were, since the comparison is then fair."""
    found = tuple(row.name for row in rows if row.best.is_host_busy)
    return found if len(found) < len(rows) else ()


def _is_repeated(study: Study, trial: Trial) -> bool:
    return sum(row.setting == trial.setting for row in study.measured) > 1
