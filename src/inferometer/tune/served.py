"""The settings of a search over the command line of a server: `--serve`, `--vary`, `--where`, or a preset."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.measure.checks import changed, with_api_key
from inferometer.options.names import option_name
from inferometer.options.options import AUTO, Options
from inferometer.options.tuning import TUNE_MODEL_ONLY, TuneOptions
from inferometer.options.values import Range
from inferometer.options.varying import Vary, parse_vary
from inferometer.server.launcher import ServerCommand
from inferometer.server.presets import PRESETS, Preset
from inferometer.server.serving import ServeRequest, command_of, preset_of
from inferometer.services.kind import KINDS
from inferometer.stats.figures import BY_TAG, GOODPUT_RATE, TOKEN_TAGS, TOKENS
from inferometer.tune.condition import Condition, parse_condition
from inferometer.tune.goals import maybe_slo, parse_constraints, parse_objectives
from inferometer.tune.scoring import LISTED_WEIGHT, Goal
from inferometer.tune.settings import (
    COMMAND,
    KnobSettings,
    LaunchSettings,
    ModelSettings,
    SearchSettings,
    TuneSettings,
)
from inferometer.tune.space import SearchBounds


def served_settings(request: TuneOptions, options: Options, budget_s: float | None) -> TuneSettings:
    """Create the settings of a search that restarts a server with other values."""
    _refuse_model_only(request, options)
    preset = _preset_of(request)
    command = _command_of(request, preset)
    knobs = _knobs_of(request, preset, command)
    options, is_text = _options_of(request, with_api_key(options), preset)
    goal = _goal_of(request, options, command, is_text=is_text)
    wanted = {row.tag for row in goal.constraints} | {tag for tag, _ in goal.objectives}
    loads, by_rate = _loads_of(options)
    must_know_gpus = any(BY_TAG[tag].of_gpu for tag in wanted)
    model = ModelSettings(
        goal,
        options=replace(
            changed(options, concurrency=None, request_rate=None),
            duration_s=None,
            collect_metrics=options.collect_metrics or must_know_gpus,
            percentile=99 if any(tag == "perf_latency_p99" for tag in wanted) else None,
        ),
        batches=(options.batch or 1,),
        loads=loads,
        knobs=knobs,
    )
    return TuneSettings(
        models=(model,),
        launch=LaunchSettings(mode=COMMAND, command=command),
        search=SearchSettings(
            request.search,
            SearchBounds(concurrency=request.load),
            by_rate=by_rate,
            budget_s=budget_s,
            seed=request.seed,
            ends_at_limit=True,
        ),
        journal=request.journal,
        must_know_gpus=must_know_gpus,
    )


def _refuse_model_only(request: TuneOptions, options: Options) -> None:
    """Reject options that apply only to models on Triton."""
    plain = TuneOptions()
    for field, name in TUNE_MODEL_ONLY.items():
        if getattr(request, field) != getattr(plain, field):
            raise UsageError(
                f"{name} applies to models on Triton, but {option_name('--serve')} starts a server by its "
                "command line",
                remedy=f"leave one of them out; {option_name('--vary')} lists the values to try",
            )
    if options.ray is not None or request.servers is not None:
        raise UsageError(
            f"{option_name('--serve')} starts one server on this machine, but {option_name('--ray')} and "
            f"{option_name('--servers')} start several on a cluster",
            remedy="leave one of them out",
        )
    if request.search not in ("smart", "brute"):
        raise UsageError(
            f"{option_name('--search')} {request.search} supports only the settings of Triton models",
            remedy=f"use {option_name('--search', 'smart')} or {option_name('--search', 'brute')} with "
            f"{option_name('--serve')}",
        )


# --- the command


def _preset_of(request: TuneOptions) -> Preset | None:
    """Return the named preset, or the preset of the server that the command starts."""
    if request.serve is None:
        assert request.preset is not None
        return PRESETS[request.preset]
    return preset_of(request.serve, request.preset)


def _command_of(request: TuneOptions, preset: Preset | None) -> ServerCommand:
    wanted = ServeRequest(
        serve=request.serve,
        preset=request.preset,
        url=request.url,
        environment=request.serve_env,
        files=request.serve_file,
        calls=request.serve_set,
        ready=request.ready,
        start_s=request.start_timeout_s,
        logs=request.serve_logs or request.journal.with_name(f"{request.journal.stem}-logs"),
    )
    return command_of(wanted, preset)


# --- what is varied


def _knobs_of(request: TuneOptions, preset: Preset | None, command: ServerCommand) -> KnobSettings:
    used = command.used
    rows = {row.name: row for row in (parse_vary(option_name("--vary"), word) for word in request.vary)}
    if len(rows) < len(request.vary):
        raise UsageError(
            f"{option_name('--vary')} names a placeholder twice",
            remedy=f"list all its values in one {option_name('--vary')}",
        )
    usual = {} if preset is None else preset.knobs
    for name in used:
        if name not in rows and name in usual:
            rows[name] = Vary(name, usual[name].values)
    for name in rows:
        if name not in used:
            raise UsageError(
                f"{option_name('--vary')} {name} is not used",
                remedy=f"write {{{name}}} in the command, {option_name('--serve-env')}, "
                f"{option_name('--serve-set')} or a template",
            )
    missing = [name for name in used if name not in rows]
    if missing:
        raise UsageError(
            f"{option_name('--serve')} has {{{missing[0]}}}, but its values are not given",
            remedy=f"add {option_name('--vary')} {missing[0]}=..., such as 1:16:x2 or 64,256; write {{{{ "
            "for a brace",
        )
    if not rows:
        raise UsageError(
            f"Nothing is varied: the only placeholders in {option_name('--serve')} are ports and files",
            remedy=f"write a placeholder such as {{slots}}, and {option_name('--vary')} slots=1:16:x2",
        )
    default = {
        name: knob.default for name, knob in usual.items() if name in rows and knob.default is not None
    }
    rows = dict(sorted(rows.items(), key=lambda pair: pair[0] in command.live))  # those vary fastest
    conditions = tuple(parse_condition(text, tuple(rows)) for text in request.where)
    if preset is not None:
        conditions += tuple(_usual_conditions(preset, rows))
    return KnobSettings(tuple(rows.values()), conditions, default, command.live)


def _usual_conditions(preset: Preset, rows: Mapping[str, Vary]) -> Iterator[Condition]:
    """Yield the conditions of a preset whose placeholders are all varied and numbers."""
    for text in preset.conditions:
        named = [name for name in preset.knobs if re.search(rf"\b{name}\b", text)]
        if all(name in rows and rows[name].is_numeric for name in named):
            yield parse_condition(text, tuple(rows))


# --- requests, goals, loads


def _options_of(request: TuneOptions, options: Options, preset: Preset | None) -> tuple[Options, bool]:
    """Return the options of the requests, with the kind of server that the preset or the SLO implies, and whether it
    generates text. Without the name of a model, the kind is detected, which also finds the only model."""
    kind = options.service_kind
    if kind == AUTO:
        kind = preset.kind if preset is not None else "openai" if _is_about_text(request) else AUTO
    if kind == "http" or "path" in options.given or "method" in options.given:
        kind = "http"
    is_text = kind == "openai"
    if kind != AUTO and KINDS[kind].needs_model and not options.model:
        kind = AUTO
    found = replace(
        options, service_kind=kind, url=None, slo=None if request.slo is None else maybe_slo(request.slo)
    )
    if is_text and not (options.no_streaming or "streaming" in options.given):
        found = changed(found, streaming=True)
    return found, is_text


def _is_about_text(request: TuneOptions) -> bool:
    tags = [row.tag for row in parse_constraints(request.slo)]
    tags += [tag for tag, _ in parse_objectives(request.objective, is_launched=True)]
    return any(tag in TOKEN_TAGS for tag in tags)


def _goal_of(request: TuneOptions, options: Options, command: ServerCommand, *, is_text: bool) -> Goal:
    objectives = parse_objectives(request.objective, is_launched=True)
    if request.objective is None and is_text:
        objectives = ((TOKENS, LISTED_WEIGHT),)
    if any(tag == GOODPUT_RATE for tag, _ in objectives) and options.slo is None:
        raise UsageError(
            f"{option_name('--objective')} goodput counts requests that meet an SLO, but "
            f"{option_name('--slo')} is missing",
            remedy=f"add one, such as {option_name('--slo')} 'ttft p99<500ms'",
        )
    return Goal(options.model or Path(command.words[0]).name, objectives, parse_constraints(request.slo))


def _loads_of(options: Options) -> tuple[tuple[float, ...] | None, bool]:
    """Return the loads of -c or -r, and whether they are rates; None if the search chooses them."""
    if options.request_rate is not None:
        return tuple(_levels(option_name("-r"), options.request_rate)), True
    if options.concurrency is not None:
        return tuple(_levels(option_name("-c"), options.concurrency)), False
    return None, False


def _levels(name: str, span: Range) -> Iterator[float]:
    if span.listed:
        yield from map(float, span.listed)
        return
    if span.end == 0:
        raise UsageError(f"{name} has no end", remedy="give the loads, such as 1,4,16")
    value = float(span.start)
    yield value
    while span.end is not None and (value := value + span.step) <= span.end:
        yield value
