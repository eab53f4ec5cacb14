"""Create a search from settings: its space, its method, and the checks made before a server starts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from inferometer.base.errors import MissingError, PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.dataset.build import build
from inferometer.measure.checks import check_model
from inferometer.measure.points import read_intervals
from inferometer.model.spec import ModelSpec
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.services.discovery import describe_model
from inferometer.stats.figures import BY_TAG, Metric
from inferometer.tune import model_config
from inferometer.tune.deployment import Deployment
from inferometer.tune.model_config import Fields
from inferometer.tune.scoring import Goal
from inferometer.tune.search.brute import brute, listed
from inferometer.tune.search.optuna_search import optuna_search, require_optuna
from inferometer.tune.search.quick import knobs, quick
from inferometer.tune.search.search import ModelProblem, SearchProblem, SearchSteps
from inferometer.tune.settings import ModelSettings, TuneSettings
from inferometer.tune.space import Space, automatic, launched, manual
from inferometer.tune.trial import Trial
from inferometer.tune.variant import VariantNames
from inferometer.wire.grpc import encode_headers
from inferometer.wire.http1 import encode_request


def groups(settings: TuneSettings) -> Sequence[tuple[ModelSettings, ...]]:
    return [settings.models] if settings.together else [(model,) for model in settings.models]


def are_whole(settings: TuneSettings) -> bool:
    """Return whether every model to be loaded has its own complete configuration."""
    names = settings.names
    while names:
        found = model_config.read_model(settings.launch.repositories, name := names.pop())
        if found is None or not all(found.get(field) for field in ("input", "output")):
            return False
        is_ensemble = "ensemble_scheduling" in found
        if not is_ensemble and not (found.get("backend") or found.get("platform")):
            return False
        names += [member for member in model_config.members(found) if member != name]
    return True


def own_config(settings: TuneSettings, model: str) -> Fields | None:
    """Return the model's own file, if it is readable and lists its inputs."""
    found = model_config.read_model(settings.launch.repositories, model)
    if found is None or not (found.get("input") or found.get("ensemble_scheduling")):
        return None
    return {**found, "name": model}


def base_config(settings: TuneSettings, deployment: Deployment, model: str) -> Fields:
    """Return the model's own file, otherwise the configuration reported by the server."""
    found = own_config(settings, model)
    return deployment.base_config(model) if found is None else found


def make_problem(
    settings: TuneSettings, group: Sequence[ModelSettings], read: Callable[[str], Fields], has_gpus: bool
) -> SearchProblem:
    """Return the space and the goals of the search."""
    return SearchProblem(tuple(_task(settings, model, read, has_gpus) for model in group), settings.search)


def _task(
    settings: TuneSettings, model: ModelSettings, read: Callable[[str], Fields], has_gpus: bool
) -> ModelProblem:
    if model.knobs is not None:
        knobs = model.knobs
        space = launched(model.name, knobs.rows, knobs.conditions, knobs.default, knobs.live)
        return ModelProblem(space, model.goal, model.batches, model.loads)
    base = read(model.name)
    sees_gpus = has_gpus or settings.launch.mode == "remote"
    members = tuple(
        ModelProblem(_space(settings, member, read(member.name), sees_gpus), member.goal)
        for member in _members(settings, model, base, read)
    )
    space = _space(settings, model, base, sees_gpus)
    if members and not model.is_bls and model.swept is None:
        space = replace(space, parameters=())  # an ensemble has no instances of its own
    return ModelProblem(space, model.goal, model.batches, model.loads, members)


def _space(settings: TuneSettings, model: ModelSettings, base: Fields, has_gpus: bool) -> Space:
    cpu_only = _is_cpu_only(model, base, has_gpus)
    if model.swept is not None:
        return manual(model.name, base, model.swept, where=model.where, cpu_only=cpu_only)
    return automatic(model.name, base, settings.search.bounds, cpu_only=cpu_only)


def _members(
    settings: TuneSettings, model: ModelSettings, base: Fields, read: Callable[[str], Fields]
) -> Iterator[ModelSettings]:
    given = {member.name: member for member in model.members}
    for name in given if model.is_bls else model_config.members(base):
        if not model.is_bls and model_config.members(read(name)):
            raise UsageError(
                f"the ensemble '{model.name}' calls '{name}', which is an ensemble itself",
                remedy="tune the inner ensemble on its own",
            )
        member = given.get(name, ModelSettings(Goal(name)))
        yield replace(member, cpu_only=True) if name in settings.cpu_only_members else member


def _is_cpu_only(model: ModelSettings, base: Fields, has_gpus: bool) -> bool:
    """Return whether to run the model on the CPU only.

    By default, this is the case without a GPU, or if all instance groups of the model are configured for the CPU.
    """
    if model.cpu_only is not None:
        return model.cpu_only
    kinds = {str(group.get("kind", "KIND_AUTO")) for group in base.get("instance_group", ())}
    return not has_gpus or kinds == {"KIND_CPU"}


def choose(asked: str, problem: SearchProblem, names: VariantNames) -> tuple[str, SearchSteps[str]]:
    """Return the name of the search and its steps. Combinations of several models are never searched exhaustively.

    With the search disabled, only listed configurations are measured, by any method.
    """
    is_composed = len(problem.tasks) > 1 or any(task.members for task in problem.tasks)
    if not problem.settings.is_search_on:
        return "brute", (listed if is_composed else brute)(problem, names)
    name = "quick" if asked == "brute" and is_composed else asked
    if name == "smart":
        from inferometer.tune.search.smart import smart

        return name, smart(problem, names)
    searches = {"brute": brute, "quick": quick, "optuna": optuna_search}
    if name not in searches:
        raise UsageError(f"unknown search '{asked}'", remedy="use smart, brute, quick or optuna")
    return name, searches[name](problem, names)


def with_gpu_figures(steps: SearchSteps[str], goals: Sequence[Goal]) -> SearchSteps[str]:
    """Wrap a search: raise if the first measurement lacks a GPU figure that a goal needs."""
    return _with_figures(
        steps,
        [row for row in _needed(goals) if row.of_gpu],
        "cannot be limited: neither the server's metrics nor NVML report it",
        "install NVML support on the GPU's machine with pip install 'inferometer[gpu]', or give the address of "
        f"metrics that include nv_gpu_* with {option_name('--collect-metrics')} {option_name('--metrics-url')}",
    )


def with_all_figures(steps: SearchSteps[str], goals: Sequence[Goal]) -> SearchSteps[str]:
    """Wrap a search on a server of any kind: raise if the first measurement lacks a figure that a goal needs."""
    return _with_figures(
        steps,
        [row for row in _needed(goals) if not row.of_gpu],
        "is not measured on this server, so it can be neither an objective nor part of an SLO",
        f"figures of tokens need {option_name('--service-kind', 'openai')}, those of energy a machine that reports it",
    )


def _needed(goals: Sequence[Goal]) -> list[Metric]:
    tags = {row.tag for goal in goals for row in goal.constraints}
    tags |= {tag for goal in goals for tag, _ in goal.objectives}
    return [BY_TAG[tag] for tag in sorted(tags)]


def _with_figures(
    steps: SearchSteps[str], wanted: Sequence[Metric], problem: str, remedy: str
) -> SearchSteps[str]:
    answer: Trial | None = None
    while True:
        try:
            event = steps.send(answer)
        except StopIteration as stop:
            return str(stop.value)
        answer = yield event
        unknown = [
            row.title for row in wanted if answer and answer.is_measured and answer.value(row.tag) is None
        ]
        if unknown:
            raise UsageError(f"{' and '.join(unknown)} {problem}", remedy=remedy)


# --- checks before a server is started, based on files and settings alone


def check_settings(settings: TuneSettings, *, sends: bool) -> None:
    """Check the settings; `sends` if our own engine generates the load, since others check their options themselves."""
    _check_models(settings)
    _check_search(settings)
    if sends:
        _check_sent(settings)


def _check_models(settings: TuneSettings) -> None:
    """Reject unreadable repositories, and models that are not in them."""
    folders = settings.launch.repositories
    if settings.launch.mode == "remote" or not folders:
        return
    known = sorted(name for folder in folders for name in _models_in(folder))
    called = [member.name for model in settings.models if model.is_bls for member in model.members]
    for name in (*(model.name for model in settings.models), *called):
        if name not in known:
            raise UsageError(
                f"the model '{name}' is not in the model repository '{folders[0]}'",
                remedy=f"its models are {', '.join(known) or 'none'}",
            )


def _models_in(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir() if path.is_dir()]
    except OSError as error:
        raise UsageError(
            f"cannot read the model repository '{folder}': {error.strerror}",
            remedy=f"give a directory of models with {option_name('--model-repository')}",
        ) from error


def _check_search(settings: TuneSettings) -> None:
    """Reject impossible searches: missing package, nested ensembles, unsuitable instance counts."""
    if settings.search.method == "optuna":
        require_optuna()
    if settings.launch.mode == "remote" or (settings.launch.command is None and not are_whole(settings)):
        return
    for group in groups(settings):
        problem = make_problem(settings, group, lambda name: own_config(settings, name) or {}, has_gpus=False)
        name, _ = choose(settings.search.method, problem, VariantNames())
        if name == "quick":
            knobs(problem)


def _check_sent(settings: TuneSettings) -> None:
    """Reject data and headers that cannot be sent, for inputs that the models' own files describe."""
    if settings.search.intervals is not None:
        read_intervals(settings.search.intervals)
    for model in settings.models:
        try:
            _check_options(settings, model)
        except UsageError as error:
            error.at(model.name)
            raise


def _check_options(settings: TuneSettings, model: ModelSettings) -> None:
    options = model.options or Options(model=model.name)
    if options.protocol == "grpc":
        encode_headers(
            path="/inference.GRPCInferenceService/ModelInfer", authority="-", metadata=options.headers
        )
    else:
        encode_request("POST", "/", options.headers, 0)
    spec = None if options.service_kind != "triton" else described(settings.launch.repositories, options)
    if model.prompts is not None:
        model.prompts.texts()
    if spec is None:
        return
    check_model(options, spec)
    if model.prompts is not None:
        model.prompts.steps(model.name, [row.name for row in spec.inputs])
    else:
        build(spec, options.data, is_scheduled=options.fixed_schedule)


# --- models as described by the files of a repository, without a server


def described(folders: Sequence[Path], options: Options) -> ModelSpec | None:
    """Return the model described by the files; None if they are incomplete."""
    try:
        return describe_model(_Files(folders), options.model, options.version, options.bls_composing_models)
    except PeerError:
        return None


@frozen
class _Files:
    """Answers the control calls of a server from files."""

    folders: Sequence[Path]

    def config(self, name: str, version: str) -> Fields:
        found = model_config.read_model(self.folders, name)
        if found is None:
            raise MissingError(f"no configuration found for '{name}'")
        if not found.get("input") or not found.get("output"):
            raise MissingError(f"the configuration of '{name}' does not list its tensors")
        return found

    def metadata(self, name: str, version: str) -> Mapping[str, Any]:
        config = self.config(name, version)
        is_batched = model_config.max_batch_size(config) > 0
        return {
            f"{kind}s": [_tensor(row, is_batched=is_batched) for row in config[kind]]
            for kind in ("input", "output")
        }

    def models(self) -> Sequence[str]:
        return ()


def _tensor(row: Mapping[str, Any], *, is_batched: bool) -> Mapping[str, Any]:
    """Return a tensor as listed in a server's metadata, including the batch dimension."""
    datatype = str(row["data_type"]).removeprefix("TYPE_")
    dims = [int(dim) for dim in row.get("dims", ())]
    has_batch = is_batched and not row.get("is_shape_tensor")
    return {
        "name": row["name"],
        "datatype": "BYTES" if datatype == "STRING" else datatype,
        "shape": [-1, *dims] if has_batch else dims,
    }
