"""Try the suggestions out: load the first, measure, keep it if it is better, predict again."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.diagnose.conclude import Conclusion, Evidence, conclude
from inferometer.diagnose.diagnosis import ChangeTrial, Diagnosis, Suggestion
from inferometer.diagnose.observation import Observation
from inferometer.diagnose.reconfigure import Reconfiguration, changed_config
from inferometer.diagnose.run import DiagnoseRequest, Examination, diagnose, examine, measure_once, watch_host
from inferometer.measure.checks import changed
from inferometer.measure.prepare import prepare
from inferometer.options.values import Range
from inferometer.services.discovery import ModelControl
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher

ENOUGH = 0.05  # predicted gain below which nothing more is tried
BETTER = 0.02  # measured gain from which a change is kept

Configs = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ApplySettings:
    """How far to go."""

    budget_s: float
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The diagnosis with its trials, the configurations that won, and what ended the trials early, if anything did."""

    diagnosis: Diagnosis
    configs: Configs = field(default_factory=dict)
    error: PeerError | None = None


def diagnose_model(asked: DiagnoseRequest, settings: ApplySettings | None, watcher: Watcher) -> Outcome:
    """Examine, diagnose, and with settings for it try the suggestions out."""
    examined = examine(asked, watcher)
    diagnosis, found = diagnose(examined)
    if settings is None or watcher.is_interrupted():
        return Outcome(diagnosis)
    return apply(examined, diagnosis, found, settings, watcher)


def apply(
    examined: Examination, diagnosis: Diagnosis, found: Conclusion, settings: ApplySettings, watcher: Watcher
) -> Outcome:
    """Whatever happens, the server has its original configuration again afterwards, unless it is to be kept."""
    end_ns = monotonic_ns() + round(settings.budget_s * NS_PER_S)
    trials = _Trials(examined, diagnosis, found, watcher)
    service = examined.setup.service
    if not isinstance(service, ModelControl):
        raise UsageError(
            f"servers of kind {examined.setup.options.service_kind} cannot load a model with another configuration",
            remedy="leave out --apply, and change the configuration yourself",
        )
    server = Reconfiguration(service)
    won: Configs = {}
    error = None
    try:
        with server:
            while monotonic_ns() < end_ns and not watcher.is_interrupted():
                suggestion = trials.next()
                if suggestion is None:
                    break
                trials.attempt(suggestion, server)
            won = server.changed
            server.keep = settings.keep
    except PeerError as found_error:
        error = found_error
    return Outcome(trials.outcome(server.is_restored), won, error)


class _Trials:
    """Trials as they are made. The evidence grows with each, and so the next prediction gets better."""

    def __init__(
        self, examined: Examination, diagnosis: Diagnosis, found: Conclusion, watcher: Watcher
    ) -> None:
        self._examined = examined
        self._diagnosis = diagnosis
        self._found = found
        self._watcher = watcher
        self._evidence = examined.evidence
        self._results: list[Result] = []
        self._trials: list[ChangeTrial] = []
        self._tried: set[tuple[str, str, str]] = set()
        self._best = examined.evidence.sweep[-1]

    def next(self) -> Suggestion | None:
        return next(
            (
                row
                for row in self._found.suggestions
                if row.change.can_apply and row.gain > ENOUGH and _key(row) not in self._tried
            ),
            None,
        )

    def attempt(self, suggestion: Suggestion, server: Reconfiguration) -> None:
        self._tried.add(_key(suggestion))
        name = suggestion.change.model
        before = server.config(name)
        self._watcher.said(f"Trying: {suggestion.text}")
        try:
            server.change(name, changed_config(before, suggestion.change))
        except PeerError as error:
            if "explicit" in error.remedy:
                raise
            self._note(ChangeTrial(suggestion, 0.0, 0.0, 0.0, False, None, error.message))
            return
        row, result = self._measure(suggestion)
        self._results.append(result)
        is_better = row is not None and row.throughput > self._best.throughput * (1 + BETTER)
        is_kept = is_better and not self._watcher.is_interrupted()  # half a measurement proves nothing
        self._note(self._trial(suggestion, row, is_kept))
        if not is_kept:
            server.change(name, before)
        if row is not None:
            self._learn(row, is_kept)

    def _measure(self, suggestion: Suggestion) -> tuple[Observation | None, Result]:
        asked = self._examined.asked
        options = changed(asked.options, concurrency=Range(suggestion.concurrency))
        setup = prepare(options, command=self._diagnosis.command)
        return measure_once(setup, watch_host(setup, self._watcher), suggestion.concurrency)

    def _trial(self, suggestion: Suggestion, row: Observation | None, is_kept: bool) -> ChangeTrial:
        place = len(self._diagnosis.results) + len(self._results) - 1
        if row is None:
            return ChangeTrial(suggestion, 0.0, 0.0, 0.0, False, place, "no request ended well")
        gain = row.throughput / self._best.throughput - 1
        return ChangeTrial(suggestion, row.throughput, row.latency_s * NS_PER_S, gain, is_kept, place)

    def _learn(self, row: Observation, is_kept: bool) -> None:
        seen = self._evidence
        if is_kept:
            self._best = row
            self._evidence = Evidence((*seen.sweep, row), seen.extra)
        else:
            self._evidence = Evidence(seen.sweep, (*seen.extra, row))
        self._found = conclude(self._evidence, self._examined.circumstances)

    def _note(self, trial: ChangeTrial) -> None:
        self._trials.append(trial)
        self._watcher.tried(trial)

    def outcome(self, is_restored: bool | None) -> Diagnosis:
        is_better = any(trial.is_kept for trial in self._trials)
        return replace(
            self._diagnosis,
            trials=tuple(self._trials),
            results=(*self._diagnosis.results, *self._results),
            after=self._found.verdict if is_better else None,
            is_restored=is_restored,
        )


def _key(suggestion: Suggestion) -> tuple[str, str, str]:
    change = suggestion.change
    return change.model, change.kind, change.after
