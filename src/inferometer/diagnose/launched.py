"""Diagnose a server that is started by its command line, and try what would help by restarting it with another option.

    start -> diagnose -> suggestion -> option of the preset -> restart -> measure -> keep, or return to the previous one

The server is stopped at the end, whatever happens; a guard process stops it if this process is killed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from inferometer.base.deadline import End, ending
from inferometer.base.errors import PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.secrets import redacted
from inferometer.base.units import NS_PER_S, monotonic_ns, plain_number
from inferometer.diagnose.diagnosis import ChangeTrial, Diagnosis, Suggestion
from inferometer.diagnose.investigation import BETTER, ENOUGH, MOST_NOISE
from inferometer.diagnose.llm import conclude_llm
from inferometer.diagnose.llm_run import sweep_llm
from inferometer.diagnose.run import LATE_NS, DiagnoseRequest, Outcome, another_fits, diagnose_model
from inferometer.diagnose.serving import KV_CACHE, SLOTS, ServingLevel
from inferometer.options.diagnosing import DiagnoseOptions
from inferometer.options.names import option_name
from inferometer.options.options import AUTO, Options
from inferometer.server.launcher import LaunchedServer, ServerCommand, new_log
from inferometer.server.presets import Preset, option_value, with_option
from inferometer.server.serving import ServeRequest, command_of, preset_of
from inferometer.services.kind import KINDS
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher

_UNSURE = 0.05  # relative half-width of a throughput without an interval


@frozen
class Launch:
    """The command that starts the server, and its preset, if it is a known server."""

    command: ServerCommand
    preset: Preset | None = None


def launch_of(own: DiagnoseOptions) -> Launch:
    """Return the server of the options, which `diagnose` starts."""
    preset = None if own.serve is None else preset_of(own.serve, own.preset)
    wanted = ServeRequest(
        serve=own.serve,
        preset=own.preset,
        environment=own.serve_env,
        ready=own.ready,
        start_s=own.start_timeout_s,
        logs=own.serve_logs,
    )
    return Launch(command_of(wanted, preset), preset)


def diagnose_launched(asked: DiagnoseRequest, launch: Launch, watcher: Watcher) -> Outcome:
    """Start the server, diagnose it, try the suggestions if there is a budget, and stop it."""
    _check(asked, launch)
    running = _Running(launch.command)
    try:
        running.start(launch.command, "original")
        options = running.asking(asked.options, launch.preset)
        outcome = diagnose_model(replace(asked, options=options, budget_s=None), watcher)
        if asked.budget_s is None or watcher.is_interrupted():
            return outcome
        watcher.planned(None, asked.budget_s)
        return Outcome(_Attempts(asked, launch, watcher, running, outcome.diagnosis).done(asked.budget_s))
    finally:
        running.server.stop()


def _check(asked: DiagnoseRequest, launch: Launch) -> None:
    if launch.command.used:
        name = launch.command.used[0]
        raise UsageError(
            f"{option_name('--serve')} has {{{name}}}, but diagnose starts a server with fixed values",
            remedy="write its value; `inferometer tune --serve` searches over values",
        )
    if asked.keep:
        raise UsageError(
            f"{option_name('--keep')} does not apply to a server that {option_name('--serve')} starts, "
            "because it ends with the command",
            remedy="leave it out: the report has the command line of the best configuration",
        )


class _Running:
    """The server that is running now."""

    def __init__(self, command: ServerCommand) -> None:
        self.server = LaunchedServer(command)

    def start(self, command: ServerCommand, name: str) -> Path:
        """Stop the server that is running, if any, and start this one; return its log."""
        self.server.stop()
        self.server.command = command
        log = new_log(command.logs, name)
        self.server.start({}, log)
        return log

    def asking(self, options: Options, preset: Preset | None) -> Options:
        """Return the options of requests to this server; without the name of a model, its kind is detected."""
        kind = options.service_kind
        if kind == AUTO and preset is not None and (options.model or not KINDS[preset.kind].needs_model):
            kind = preset.kind
        return replace(options, url=self.server.address, service_kind=kind)


@dataclass(slots=True)
class _Attempts:
    """The trials so far, and the best command with its measured loads."""

    asked: DiagnoseRequest
    launch: Launch
    watcher: Watcher
    running: _Running
    diagnosis: Diagnosis
    trials: tuple[ChangeTrial, ...] = ()
    words: tuple[str, ...] = field(init=False)
    levels: tuple[ServingLevel, ...] = field(init=False)
    noise: float = field(init=False)

    def __post_init__(self) -> None:
        serving = self.diagnosis.serving
        self.words = self.launch.command.words
        self.levels = () if serving is None else serving.levels
        self.noise = _noise(self.diagnosis.results[-1])

    def done(self, budget_s: float) -> Diagnosis:
        """Try suggestions until none is left or the time is over."""
        end_ns, longest_ns = monotonic_ns() + round(budget_s * NS_PER_S), 0
        budget = End(f"the budget of {plain_number(budget_s)} s ran out", end_ns + LATE_NS)
        suggestions: Sequence[Suggestion] = self.diagnosis.suggestions
        with ending(budget):
            while not (self.watcher.is_interrupted() or budget.is_over()):
                found = next(self._possible(suggestions), None)
                begun_ns = monotonic_ns()
                if found is None or not another_fits(begun_ns, longest_ns, end_ns):
                    break
                suggestions = self._attempt(*found, suggestions)
                longest_ns = max(longest_ns, monotonic_ns() - begun_ns)
        notes = (*self.diagnosis.notes, *self._notes())
        return replace(self.diagnosis, trials=self.trials, notes=notes, is_stopped=True)

    def _possible(self, suggestions: Sequence[Suggestion]) -> Iterator[tuple[Suggestion, tuple[str, ...]]]:
        """Yield the suggestions for which the preset has an option, each with the changed command."""
        for row in suggestions:
            words = None if self.launch.preset is None else changed_words(self.words, self.launch.preset, row)
            is_new = not any(trial.rules_out(row.change) for trial in self.trials)
            if words is not None and row.gain > ENOUGH and is_new:
                yield row, words

    def _attempt(
        self, suggestion: Suggestion, words: tuple[str, ...], suggestions: Sequence[Suggestion]
    ) -> Sequence[Suggestion]:
        """Restart the server with the change and measure it; return what to try next."""
        self.watcher.said(f"Trying: {suggestion.text}")
        place = len(self.diagnosis.results)
        # The highest load so far, and that of the prediction.
        loads = sorted({self.levels[-1].concurrency, suggestion.concurrency})
        try:
            self.running.start(replace(self.launch.command, words=words), suggestion.change.kind)
            rows, result = sweep_llm(
                self.running.asking(self.asked.options, self.launch.preset), loads, self.watcher
            )
        except PeerError as error:
            self._note(ChangeTrial(suggestion, 0.0, 0.0, 0.0, False, None, error.message))
            return suggestions
        self.diagnosis = replace(self.diagnosis, results=(*self.diagnosis.results, result))
        if not rows:
            self._note(ChangeTrial(suggestion, 0.0, 0.0, 0.0, False, place, "no request succeeded"))
            return suggestions
        best, before = (max(part, key=lambda row: row.requests_per_s) for part in (rows, self.levels))
        gain, noise = best.requests_per_s / before.requests_per_s - 1, _noise(result)
        is_whole = not self.watcher.is_interrupted() and len(rows) == len(loads)
        is_kept = is_whole and gain > max(BETTER, min(math.hypot(noise, self.noise), MOST_NOISE))
        self._note(ChangeTrial(suggestion, best.requests_per_s, best.latency_ns, gain, is_kept, place))
        if not is_kept:
            return suggestions
        self.words, self.noise = words, noise
        light = [row for row in self.levels if row.concurrency < loads[0]]
        self.levels = (*light, *rows)
        found = conclude_llm(self.levels, self.diagnosis.model)
        self.diagnosis = replace(self.diagnosis, after=found.verdict)
        return found.suggestions

    def _note(self, trial: ChangeTrial) -> None:
        self.trials = (*self.trials, trial)
        self.watcher.tried(trial)

    def _notes(self) -> Iterator[str]:
        command = self.launch.command
        if any(trial.is_kept for trial in self.trials):
            yield f"Run it with: {redacted(replace(command, words=self.words).line({}))}"
        elif not self.trials:
            yield f"Nothing was tried: {_why_not(self.launch, self.diagnosis)}"
        yield f"The logs of the server are in {command.logs}"


def _why_not(launch: Launch, diagnosis: Diagnosis) -> str:
    if launch.preset is None:
        return "the command is not that of a known server, so its options are unknown (--preset names one)"
    if not diagnosis.suggestions:
        return "there is no suggestion with a predicted gain"
    return f"no known option of {launch.preset.title} makes the suggested change"


def changed_words(words: Sequence[str], preset: Preset, suggestion: Suggestion) -> tuple[str, ...] | None:
    """Return the command with the option for the suggested change; None if no option is known."""
    change = suggestion.change
    if change.kind == SLOTS and preset.at_once:
        return with_option(words, preset.knobs[preset.at_once], change.after)
    if change.kind == KV_CACHE and preset.memory:
        knob = preset.knobs[preset.memory]
        given = option_value(words, knob) or knob.default
        larger = [value for value in knob.values if given is not None and float(value) > float(given)]
        return with_option(words, knob, larger[0]) if larger else None
    return None


def _noise(result: Result) -> float:
    """Return the relative half-width of the throughput at the last load."""
    found = result.levels[-1].measurement if result.levels else None
    width = None if found is None else found.infer_per_s.relative_half_width
    return _UNSURE if width is None else width
