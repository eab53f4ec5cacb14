"""Try the suggestions out: load the first, measure, keep it if it is better, predict again.

Whatever happens, also to a run that is killed, the server has its original configurations again afterwards, unless
what was found is to be kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from inferometer.base.clock import monotonic_ns
from inferometer.base.errors import PeerError, UsageError
from inferometer.base.units import NS_PER_S
from inferometer.base.writing import write_file, writing
from inferometer.diagnose.bottleneck import Evidence, conclude
from inferometer.diagnose.diagnosis import COMMAND, Change, ChangeTrial, Diagnosis, Suggestion
from inferometer.diagnose.observation import Observation
from inferometer.diagnose.run import DiagnoseRequest, Examination, diagnose, examine, measure_once, watch_host
from inferometer.measure.checks import changed
from inferometer.measure.prepare import prepare
from inferometer.options.values import Range
from inferometer.services.discovery import ModelControl
from inferometer.services.undo import Guard, Undo
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher

ENOUGH = 0.05  # predicted gain below which nothing more is tried
BETTER = 0.02  # measured gain from which a change is kept

_NOT_EXPLICIT = ("explicit model load", "polling is enabled", "not allowed")

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApplySettings:
    """How far to go."""

    budget_s: float
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The diagnosis with its trials, the configurations that won, and what ended the trials early, if anything did."""

    diagnosis: Diagnosis
    configs: Mapping[str, Config] = field(default_factory=dict)
    error: PeerError | None = None


def diagnose_model(asked: DiagnoseRequest, settings: ApplySettings | None, watcher: Watcher) -> Outcome:
    """Examine, diagnose, and with settings for it try the suggestions out."""
    examined = examine(asked, watcher)
    trials = _Trials(examined, watcher)
    if settings is None or watcher.is_interrupted():
        return Outcome(trials.diagnosis)
    end_ns = monotonic_ns() + round(settings.budget_s * NS_PER_S)
    service = examined.setup.service
    if not isinstance(service, ModelControl):
        raise UsageError(
            f"servers of kind {examined.setup.options.service_kind} cannot load a model with another configuration",
            remedy="leave out --apply, and change the configuration yourself",
        )
    server = Reconfiguration(service)
    won: Mapping[str, Config] = {}
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
    return Outcome(replace(trials.diagnosis, is_restored=server.is_restored), won, error)


class _Trials:
    """The diagnosis with its trials as they are made: the evidence grows, and so the next prediction gets better."""

    def __init__(self, examined: Examination, watcher: Watcher) -> None:
        self.diagnosis, self._found = diagnose(examined)
        self._examined = examined
        self._watcher = watcher
        self._evidence = examined.evidence
        self._tried: set[tuple[str, str, str]] = set()

    def next(self) -> Suggestion | None:
        return next(
            (
                row
                for row in self._found.suggestions
                if row.change.can_apply and row.gain > ENOUGH and _key(row) not in self._tried
            ),
            None,
        )

    def attempt(self, suggestion: Suggestion, server: "Reconfiguration") -> None:
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
        row, result = self._measure(suggestion.concurrency)
        place = len(self.diagnosis.results)
        self.diagnosis = replace(self.diagnosis, results=(*self.diagnosis.results, result))
        if row is None:
            self._note(ChangeTrial(suggestion, 0.0, 0.0, 0.0, False, place, "no request ended well"))
            server.change(name, before)
            return
        gain = row.throughput / self._evidence.sweep[-1].throughput - 1
        is_kept = gain > BETTER and not self._watcher.is_interrupted()  # half a measurement proves nothing
        self._note(ChangeTrial(suggestion, row.throughput, row.latency_s * NS_PER_S, gain, is_kept, place))
        if not is_kept:
            server.change(name, before)
        self._learn(row, is_kept)

    def _measure(self, concurrency: int) -> tuple[Observation | None, Result]:
        options = changed(self._examined.asked.options, concurrency=Range(concurrency))
        setup = prepare(options, command=COMMAND)
        return measure_once(setup, watch_host(setup, self._watcher), concurrency)

    def _note(self, trial: ChangeTrial) -> None:
        self.diagnosis = replace(self.diagnosis, trials=(*self.diagnosis.trials, trial))
        self._watcher.tried(trial)

    def _learn(self, row: Observation, is_kept: bool) -> None:
        seen = self._evidence
        self._evidence = (
            Evidence((*seen.sweep, row), seen.extra) if is_kept else Evidence(seen.sweep, (*seen.extra, row))
        )
        self._found = conclude(self._evidence, self._examined.circumstances)
        if self.diagnosis.best is not None:
            self.diagnosis = replace(self.diagnosis, after=self._found.verdict)


def _key(suggestion: Suggestion) -> tuple[str, str, str]:
    change = suggestion.change
    return change.model, change.kind, change.after


# --- other configurations for models of a running server, and the way back


class Reconfiguration:
    """While this is open models may be changed; when it is left they are as they were, unless `keep` is set."""

    def __init__(self, control: ModelControl) -> None:
        self._control = control
        self._originals: dict[str, Config] = {}
        self._current: dict[str, Config] = {}
        self._guard = Guard()
        self.keep = False
        self.is_restored: bool | None = None  # None as long as nothing was changed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if not self.keep:
                self.restore()
        finally:
            self._guard.close(is_needed=not (self.keep or self.is_restored))

    @property
    def changed(self) -> dict[str, Config]:
        """The models that are not as they were, with their configurations."""
        return {
            name: config
            for name, config in self._current.items()
            if config != self._originals.get(name, config)
        }

    def config(self, name: str) -> Config:
        return self._control.config(name, "")

    def change(self, name: str, config: Config) -> None:
        """Load a model with another configuration; one that is refused leaves it as it was before the call."""
        before = self.config(name)
        if name not in self._originals:
            self._originals[name] = before
            self._guard.add(Undo(partial(_put_back, self._control, name, dict(before)), timeout_s=0))
        self.is_restored = False
        try:
            self._control.load_model(name, config)
        except PeerError as error:
            self._load_again(name, before)
            raise _explained(name, error) from error
        self._current[name] = self.config(name)

    def restore(self) -> None:
        """Every changed model as it was, the last changed first. All are tried; the first failure is told."""
        failures = []
        for name in reversed(list(self._originals)):
            try:
                _put_back(self._control, name, self._originals[name])
            except PeerError as error:
                failures.append(error)
        if failures:
            raise PeerError(
                f"the original configuration could not be put back: {failures[0].message}",
                remedy="load the model again by hand, without a configuration of its own",
            ) from failures[0]
        if self._originals:
            self.is_restored = True
        self._current.clear()

    def _load_again(self, name: str, config: Config) -> None:
        try:
            _put_back(self._control, name, config)
        except PeerError:
            return  # what the server refused matters more; it is tried again at the end


def _put_back(control: ModelControl, name: str, original: Config) -> None:
    """By its configuration as the server gave it: the file in the repository may have changed meanwhile."""
    if control.config(name, "") == original:
        return
    control.load_model(name, original)
    if control.config(name, "") != original:
        control.load_model(name)
    if control.config(name, "") != original:
        raise PeerError(f"after loading '{name}' again its configuration differs from the original one")


def _explained(name: str, error: PeerError) -> PeerError:
    if any(words in error.message for words in _NOT_EXPLICIT):
        return PeerError(
            f"the server does not let its models be changed: {error.message}",
            remedy="start it with --model-control-mode explicit, or leave out --apply",
        )
    return PeerError(f"'{name}' could not be loaded: {error.message}", remedy=error.remedy)


# --- a suggestion's settings in a model's configuration, and the configuration as a file


def changed_config(config: Config, change: Change) -> dict[str, Any]:
    """The configuration with the change in it; everything else stays."""
    settings = dict(change.settings)
    groups = settings.pop("instance_group", None)
    made = {**config, **settings}
    if groups is not None:
        made["instance_group"] = [_group(config, groups[0])]
    return made


def _group(config: Config, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The first group with another count. On several GPUs a group's count is per GPU."""
    groups = config.get("instance_group") or [{}]
    first = groups[0]
    places = len(first.get("gpus", ())) if first.get("kind") == "KIND_GPU" else 1
    return {**wanted, **first, "count": max(1, round(int(wanted["count"]) / max(1, places)))}


def config_text(config: Config) -> str:
    """As `config.pbtxt`, written by the official message."""
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.text_format import MessageToString

    from inferometer.services.kserve import load_messages

    message = type(load_messages().ModelConfigResponse().config)()
    try:
        ParseDict(dict(config), message, ignore_unknown_fields=True)
    except (ParseError, SystemError) as error:  # a list in place of a member of an enum is the latter
        raise PeerError(
            f"the server's configuration of '{config.get('name')}' cannot be written: {error}"
        ) from error
    return MessageToString(message)


def write_configs(configs: Mapping[str, Config], folder: Path) -> tuple[Path, ...]:
    """`FOLDER/MODEL/config.pbtxt` for each model."""
    written = []
    for name, config in configs.items():
        path = folder / name / "config.pbtxt"
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, config_text(config))
        written.append(path)
    return tuple(written)
