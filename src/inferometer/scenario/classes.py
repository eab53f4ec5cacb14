"""Options of each class of a scenario: its own settings override those of the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferometer.base.confined import check_path
from inferometer.base.errors import InferometerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.slo import parse_slo
from inferometer.measure.checks import make
from inferometer.measure.mix import WeightedModel
from inferometer.options.mixing import SCENARIO_REFUSED
from inferometer.options.names import option_name, with_names
from inferometer.options.options import AUTO, Options, value_of
from inferometer.options.values import GENERATED, Range
from inferometer.options.words import split_addresses
from inferometer.scenario.class_options import OF_RUN, read_options, written
from inferometer.scenario.spec import ClassSpec, Scenario
from inferometer.scenario.spec_parts import raise_all
from inferometer.services.address import read_addresses

RATE = 20.0  # default for classes without a load
_CREDENTIALS = frozenset(("headers", "api_key_env", "api_key_file", "tls.certificate_file", "tls.key_file"))


@frozen
class PlannedClass:
    """A class with the options of its measurement."""

    name: str
    spec: ClassSpec
    options: Options
    place: str = ""  # its path in the scenario
    steps: tuple[tuple[str, Options], ...] = ()  # steps of a visit: name, and options of the model


def planned_classes(
    scenario: Scenario, base: Options, models: Sequence[WeightedModel], *, folder: Path | None = None
) -> tuple[PlannedClass, ...]:
    """Return all classes. One without a model is repeated for each model of the command line, which also sets its
    load. Files are also looked up next to the scenario file."""
    for name, remedy in SCENARIO_REFUSED.items():
        if name in base.given:
            raise UsageError(
                f"{written(name)} is not supported with {option_name('--scenario')}",
                remedy=with_names(remedy),
            )
    found: list[PlannedClass] = []
    errors: list[InferometerError] = []
    for name, spec in scenario.classes.items():
        try:
            for label, one in _with_models(name, spec, base, models):
                found.append(_planned(label, f"classes.{name}", one, scenario, base, folder))
        except UsageError as error:
            errors.append(error)
    raise_all(errors)
    _check_loads(scenario, base)
    if models and all(spec.names_model for spec in scenario.classes.values()):
        raise UsageError(
            f"every class of the scenario names its model, but '{models[0].model}' is given too",
            remedy="leave it out, or remove the model from a class",
        )
    names = [row.name for row in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two classes are named '{twice}'", remedy="rename one of them")
    return tuple(found)


def _planned(
    name: str, place: str, spec: ClassSpec, scenario: Scenario, base: Options, folder: Path | None
) -> PlannedClass:
    if not spec.has_visits:
        return PlannedClass(name, spec, _options(place, spec, scenario, base, folder), place)
    steps = tuple(
        (step, _options(place, spec.model_copy(update={"model": model}), scenario, base, folder))
        for step, model in spec.models_by_step.items()
    )
    return PlannedClass(name, spec, steps[0][1], place, steps)


def _check_loads(scenario: Scenario, base: Options) -> None:
    """Check that the command line gives a single load, and that a class without a model uses it."""
    for field in ("concurrency", "request_rate"):
        span = getattr(base, field)
        if span is None or field not in base.given:
            continue
        if span.listed or span.end not in (None, span.start):
            raise UsageError(
                f"{written(field)} gives several levels, but the phases determine how the load changes",
                remedy="give a single value",
            )
        if all(spec.names_model for spec in scenario.classes.values()):
            raise UsageError(
                f"{written(field)} sets the load of classes that name no model, but all of these name one",
                remedy="change the load in the scenario",
            )


def _with_models(
    name: str, spec: ClassSpec, base: Options, models: Sequence[WeightedModel]
) -> list[tuple[str, ClassSpec]]:
    if spec.names_model or not models:
        return [(name, spec)]
    total = sum(row.weight for row in models)
    rows = []
    for row in models:
        part = row.weight / total
        changes: dict[str, Any] = {"model": row.model}
        if base.concurrency is not None:
            changes |= {"concurrency": max(1, round(base.concurrency.start * part)), "rate": None}
            changes["arrivals"] = "constant"
        else:
            whole = base.request_rate.start if base.request_rate is not None else spec.rate
            if whole is not None or not spec.load:
                changes["rate"] = (RATE if whole is None else whole) * part
        rows.append((row.model if len(models) > 1 else name, spec.model_copy(update=changes)))
    return rows


def _options(place: str, spec: ClassSpec, scenario: Scenario, base: Options, folder: Path | None) -> Options:
    given = {name: value_of(base, name) for name in base.given if name not in OF_RUN}
    if not base.tls.verify_host:
        given["tls.verify_host"] = False
    server = spec.server or base.url or scenario.server
    if server is None:
        raise UsageError(
            f"{place} has no server",
            remedy="set it there, as `server:` of the scenario, or on the command line",
        )
    if not _is_entrusted(server, scenario, base):
        given = {name: value for name, value in given.items() if name not in _CREDENTIALS}
    addresses = len(split_addresses(server))
    if addresses == 1:
        given.pop("balance", None)  # that of the command line is for classes with several addresses
    given |= read_options(spec.options)[0]
    if (spec.has_visits or spec.task is not None) and (addresses > 1 or "balance" in given):
        raise UsageError(
            f"{place}: {'visits' if spec.task is None else 'tasks'} use one address, but "
            + (f"{addresses} are given" if addresses > 1 else f"{option_name('balance')} is for several"),
            remedy="give each address a class of its own",
        )
    given |= {"url": server, "model": spec.model or given.get("model", "")}
    given["service_kind"] = spec.kind or given.get("service_kind", AUTO)
    given |= {
        field: value
        for field, value in (("protocol", spec.protocol), ("batch", spec.batch))
        if value is not None
    }
    if spec.data is not None:
        sources = [spec.data] if isinstance(spec.data, str) else spec.data
        given["data.sources"] = tuple(
            source if source in GENERATED else found_file(f"{place}.data", source, folder)
            for source in sources
        )
    if spec.has_visits and given["service_kind"] == "torchserve":
        given.setdefault("bodies", ("{}",))  # it has no metadata; visits provide the bodies
    if spec.has_visits and given["service_kind"] == "http":
        given |= {"model": "", "path": spec.model}  # no models: a step calls a path
    if spec.task is not None:
        given.setdefault("streaming", spec.task.streaming)
    given |= _load(place, spec, folder)
    defaults = {
        "request_timeout_s": base.request_timeout_s,
        "sequence_ids": base.sequence_ids,
        "duration_s": scenario.seconds,
    }
    try:
        if spec.slo is not None:
            given["slo"] = parse_slo(spec.slo, has_tasks=spec.task is not None)
        return make(given, defaults={name: value for name, value in defaults.items() if value is not None})
    except UsageError as error:
        error.at(place)
        raise


def _is_entrusted(server: str, scenario: Scenario, base: Options) -> bool:
    """Whether credentials of the command line may be sent to this server.

    They are for the server of the command line; without one, for the server of the scenario, or else for the only
    server of its classes."""
    own = base.url or scenario.server
    if own is not None:
        return _origins(server) <= _origins(own)
    if base.given.isdisjoint(_CREDENTIALS):
        return True
    if len({_origins(spec.server) for spec in scenario.classes.values() if spec.server is not None}) > 1:
        raise UsageError(
            "the classes of the scenario use several servers, so it is unclear which one the credentials are for",
            remedy=f"give the server with {option_name('-u')}, or set headers under `options:` of a class",
        )
    return True


def _origins(server: str) -> frozenset[tuple[str, int | None, bool]]:
    """Return the hosts and ports that an address names; several addresses share the scheme of the first."""
    found = read_addresses(server)
    is_tls = found[0].scheme in ("https", "grpcs")
    return frozenset((one.host.lower(), one.port, is_tls) for one in found)


def _load(place: str, spec: ClassSpec, folder: Path | None) -> dict[str, Any]:
    """Return the load as options of a measurement."""
    if spec.shape is not None:
        return {"shape_load": spec.shape}
    if spec.replay is not None:
        speed = {"speed": spec.speed} if spec.speed != 1 else {}
        return {"replay": found_file(f"{place}.replay", spec.replay, folder), **speed}
    if spec.sessions is not None:
        return {"session_concurrency": spec.sessions}
    if spec.concurrency is not None:
        return {"concurrency": Range(spec.concurrency)}
    arrivals = {} if spec.arrivals == "constant" else {"request_distribution": spec.arrivals}
    burstiness = {} if spec.burstiness == 1 else {"burstiness": spec.burstiness}
    return {"request_rate": Range(RATE if spec.rate is None else spec.rate), **arrivals, **burstiness}


def found_file(place: str, name: str, folder: Path | None) -> str:
    """Return the path of a file that a scenario names, which may be next to the scenario."""
    beside = None if folder is None else folder / name
    path = str(beside) if beside is not None and not Path(name).exists() and beside.exists() else name
    check_path(path)
    if not Path(path).exists():
        raise UsageError(f"{place}: file '{name}' does not exist", remedy="check the name")
    return path
