"""What can be refused before a server is started: every mistake that files and settings show by themselves."""

from inferometer.base.errors import UsageError
from inferometer.dataset.build import build
from inferometer.measure.checks import check_model
from inferometer.measure.points import read_intervals
from inferometer.options.options import Options
from inferometer.tune import model_config
from inferometer.tune.local_models import described
from inferometer.tune.scoping import are_whole, groups, make_scope, own_config
from inferometer.tune.search.choose import choose
from inferometer.tune.search.points import knobs
from inferometer.tune.search.tpe import require_optuna
from inferometer.tune.settings import ModelSettings, Settings
from inferometer.tune.variant import Names
from inferometer.wire.grpc import encode_headers
from inferometer.wire.http1 import encode_request


def check_settings(settings: Settings, *, sends: bool) -> None:
    """`sends` where our own engine is the load generator; another one judges its options itself."""
    _check_models(settings)
    _check_search(settings)
    if sends:
        _check_sent(settings)


def _check_models(settings: Settings) -> None:
    """Names that are not in the repository are said at once, before anything is started."""
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


def _check_search(settings: Settings) -> None:
    """A search that cannot be made: the package is missing, an ensemble calls another one, counts do not fit."""
    if settings.search == "optuna":
        require_optuna()
    if settings.launch.mode == "remote" or not are_whole(settings):
        return
    for group in groups(settings):
        scope = make_scope(settings, group, lambda name: own_config(settings, name) or {}, has_gpus=False)
        name, _ = choose(settings.search, scope, Names())
        if name == "quick":
            knobs(scope)


def _check_sent(settings: Settings) -> None:
    """What cannot be sent is refused before anything is started, as far as the models' own files say what they take."""
    if settings.intervals is not None:
        read_intervals(settings.intervals)
    for model in settings.models:
        try:
            _check_options(settings, model)
        except UsageError as error:
            raise UsageError(f"{model.name}: {error.message}", remedy=error.remedy) from error


def _check_options(settings: Settings, model: ModelSettings) -> None:
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
