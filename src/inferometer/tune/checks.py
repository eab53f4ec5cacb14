"""What is refused before a server is started: every mistake that files and settings show by themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer.base.errors import MissingError, PeerError, UsageError
from inferometer.dataset.build import build
from inferometer.measure.checks import check_model
from inferometer.measure.points import read_intervals
from inferometer.model.spec import ModelSpec
from inferometer.options.options import Options
from inferometer.services.discovery import describe_model
from inferometer.tune import model_config
from inferometer.tune.model_config import Fields
from inferometer.tune.prepare import are_whole, choose, groups, make_problem, own_config
from inferometer.tune.search.optuna_search import require_optuna
from inferometer.tune.search.quick import knobs
from inferometer.tune.settings import ModelSettings, TuneSettings
from inferometer.tune.variant import VariantNames
from inferometer.wire.grpc import encode_headers
from inferometer.wire.http1 import encode_request


def check_settings(settings: TuneSettings, *, sends: bool) -> None:
    """`sends` where our own engine is the load generator; another one checks its options itself."""
    _check_models(settings)
    _check_search(settings)
    if sends:
        _check_sent(settings)


def _check_models(settings: TuneSettings) -> None:
    """Models that are not in the repository."""
    folders = settings.launch.repositories
    if settings.launch.mode == "remote" or not folders:
        return
    called = [member.name for model in settings.models if model.is_bls for member in model.members]
    for name in (*(model.name for model in settings.models), *called):
        if model_config.find_model(folders, name) is None:
            known = sorted(path.name for folder in folders for path in folder.iterdir() if path.is_dir())
            raise UsageError(
                f"the model '{name}' is not in the model repository '{folders[0]}'",
                remedy=f"it has {', '.join(known) or 'no models'}",
            )


def _check_search(settings: TuneSettings) -> None:
    """A search that cannot be made: the package is missing, an ensemble calls another one, counts do not fit."""
    if settings.search.method == "optuna":
        require_optuna()
    if settings.launch.mode == "remote" or not are_whole(settings):
        return
    for group in groups(settings):
        problem = make_problem(settings, group, lambda name: own_config(settings, name) or {}, has_gpus=False)
        name, _ = choose(settings.search.method, problem, VariantNames())
        if name == "quick":
            knobs(problem)


def _check_sent(settings: TuneSettings) -> None:
    """Data and headers that cannot be sent, as far as the models' own files describe their inputs."""
    if settings.search.intervals is not None:
        read_intervals(settings.search.intervals)
    for model in settings.models:
        try:
            _check_options(settings, model)
        except UsageError as error:
            raise UsageError(f"{model.name}: {error.message}", remedy=error.remedy) from error


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


# --- models as the files of a repository describe them, before any server was asked


def described(folders: Sequence[Path], options: Options) -> ModelSpec | None:
    """None where the files leave something to the server."""
    try:
        return describe_model(_Files(folders), options.model, options.version, options.bls_composing_models)
    except PeerError:
        return None


@dataclass(frozen=True, slots=True)
class _Files:
    """Answers the control calls of a server out of files."""

    folders: Sequence[Path]

    def config(self, name: str, version: str) -> Fields:
        found = model_config.read_model(self.folders, name)
        if found is None:
            raise MissingError(f"'{name}' has no configuration here")
        if not found.get("input") or not found.get("output"):
            raise MissingError(f"the configuration of '{name}' leaves tensors to the server")
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
    """As a server lists it in its metadata, where every tensor has its batch dimension."""
    datatype = str(row["data_type"]).removeprefix("TYPE_")
    dims = [int(dim) for dim in row.get("dims", ())]
    has_batch = is_batched and not row.get("is_shape_tensor")
    return {
        "name": row["name"],
        "datatype": "BYTES" if datatype == "STRING" else datatype,
        "shape": [-1, *dims] if has_batch else dims,
    }
