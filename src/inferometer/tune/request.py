"""The settings of a search from the options of `inferometer tune`, which have one model and one SLO."""

from collections.abc import Mapping
from dataclasses import replace

from inferometer.base.errors import UsageError
from inferometer.measure.address import url_of, with_scheme, written_address
from inferometer.measure.checks import with_api_key
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.options.tuning import TUNE_LAUNCHED_ONLY, TuneOptions
from inferometer.server.repository import example_repository
from inferometer.services.address import maybe_server_path
from inferometer.stats.figures import BY_TAG
from inferometer.tune.goals import parse_constraints, parse_objectives
from inferometer.tune.scoring import Goal
from inferometer.tune.served import served_settings
from inferometer.tune.settings import (
    Addresses,
    ClusterSettings,
    LaunchSettings,
    ModelSettings,
    SearchSettings,
    ServerAccess,
    TuneSettings,
)
from inferometer.tune.space import SearchBounds

RESERVE_S = 1.0  # part of a budget for stopping the server and writing the report


def settings_of(request: TuneOptions, options: Options, *, started_s: float = 0.0) -> TuneSettings:
    """Create the settings of a search; `options` are those of its measurements. `started_s` is the time already used
    from the budget; stopping takes about as long."""
    budget_s = _budget_s(request, started_s)
    if request.is_launched:
        return served_settings(request, options, budget_s)
    _refuse_launched_only(request, options)
    cluster = _cluster_of(request, options)
    options = replace(with_api_key(options), ray=None)  # each server generates its own load
    control = ServerAccess(options.protocol, options.headers, options.tls, options.grpc_tls)
    if request.url is not None and request.launch_mode != "local":
        raise UsageError(
            f"the launch mode {request.launch_mode} uses no server, but {option_name('--url')} names one",
            remedy="give only one of them",
        )
    if request.url is not None:
        url, options = _written(request.url, options)
        control = ServerAccess(options.protocol, options.headers, options.tls, options.grpc_tls)
        addresses = Addresses(http=url, grpc=url, metrics_url="")
        launch = LaunchSettings(mode="remote", addresses=addresses, control=control)
    else:
        launch = LaunchSettings(
            mode=request.launch_mode,
            repositories=request.model_repository or (example_repository(),),
            install_path=request.install_path,
            control=control,
        )
    constraints, objectives = parse_constraints(request.slo), parse_objectives(request.objective)
    wanted = [*(row.tag for row in constraints), *(tag for tag, _ in objectives)]
    must_know_gpus = any(BY_TAG[tag].of_gpu for tag in wanted)
    percentile = 99 if any(row.tag.endswith("p99") for row in constraints) else None
    model = ModelSettings(
        Goal(options.model, objectives, constraints),
        options=replace(
            options,
            duration_s=None,
            asynchronous=True,
            percentile=percentile,
            collect_metrics=options.collect_metrics or must_know_gpus,
        ),
        batches=(options.batch or 1,),
    )
    return TuneSettings(
        models=(model,),
        launch=launch,
        search=SearchSettings(
            request.search,
            SearchBounds(request.instances, request.batch, request.load, delays_us=request.delays),
            budget_s=budget_s,
            seed=request.seed,
            ends_at_limit=True,
        ),
        journal=request.journal,
        must_know_gpus=must_know_gpus,
        cluster=cluster,
    )


def _budget_s(request: TuneOptions, started_s: float) -> float | None:
    if request.budget_s is None:
        return None
    return max(1.0, request.budget_s - started_s - max(RESERVE_S, started_s))


_SERVED_ONLY: Mapping[str, str] = {
    "vary": "--vary",
    "where": "--where",
    "serve_env": "--serve-env",
    "serve_file": "--serve-file",
    "serve_set": "--serve-set",
    "serve_logs": "--serve-logs",
    "ready": "--ready",
    "start_timeout_s": "--start-timeout",
}


def _refuse_launched_only(request: TuneOptions, options: Options) -> None:
    """Reject options that apply only to a server started by --serve."""
    plain = TuneOptions()
    for field, name in _SERVED_ONLY.items():
        if getattr(request, field) != getattr(plain, field):
            raise UsageError(
                f"{option_name(name)} applies only to a server that {option_name('--serve')} starts",
                remedy=f"add {option_name('--serve')}",
            )
    for field in TUNE_LAUNCHED_ONLY:
        if field in options.given:
            raise UsageError(
                f"{option_name(field)} is not supported for models on Triton, whose configurations are tuned",
                remedy=f"leave it out, or start another kind of server with {option_name('--serve')}",
            )


def _cluster_of(request: TuneOptions, options: Options) -> ClusterSettings | None:
    """Return the cluster, if any, and reject conflicting options."""
    if options.ray is None and request.servers is None:
        return None
    if options.ray is None:
        raise UsageError(
            f"{option_name('--servers')} {request.servers} starts servers on a Ray cluster, but "
            f"{option_name('--ray')} is missing",
            remedy=f"give the cluster's address with {option_name('--ray')}, or {option_name('--ray')} "
            "local for this machine",
        )
    if request.servers is None:
        raise UsageError(
            f"{option_name('--ray')} {options.ray} starts servers on a Ray cluster, but "
            f"{option_name('--servers')} is missing",
            remedy=f"give {option_name('--servers')} N: each gets a GPU, or an equal share of the cores",
        )
    others = {
        option_name("-u", str(request.url)): request.url is not None,
        option_name("--triton-launch-mode", request.launch_mode): request.launch_mode != "local",
        option_name("--search", request.search): request.search != "smart",
    }
    for words, is_given in others.items():
        if is_given:
            raise UsageError(
                f"{option_name('--servers')} starts its own servers and runs the smart search on them in "
                "parallel, which "
                f"{words} does not support",
                remedy="leave one of them out",
            )
    return ClusterSettings(options.ray, request.servers)


def _written(url: str, options: Options) -> tuple[str, Options]:
    """Return the address in normal form, and the options implied by its scheme."""
    options = replace(options, url=url)
    written = written_address(options)
    options = with_scheme(options, written)
    known = maybe_server_path(written.path.rstrip("/"))
    path = written.path.rstrip("/") if known is None else known.prefix
    return url_of(options, written, path), replace(options, url=None)
