"""Predict loads with a twin. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

from inferometer.base.errors import UsageError
from inferometer.base.text import nearest as nearest_name
from inferometer.diagnose.pipeline import Cores, Pipeline, with_station
from inferometer.twin.errors import Guess, band, limited_to, nearest, spot
from inferometer.twin.sharing import is_short, sharing
from inferometer.twin.simulate import MeasuredAs, PartPlan, SimulatedFigures, simulate
from inferometer.twin.text import forecast_text
from inferometer.twin.twin import (
    BATCHING,
    COMMAND,
    CONFIDENCE,
    DELAY_US,
    FIGURES,
    INSTANCES,
    LATENCIES,
    MAX_BATCH,
    TEXT_SETTINGS,
    THROUGHPUT,
    Anchor,
    Basis,
    LoadForecast,
    LoadPart,
    StepSetting,
    Twin,
    TwinLoad,
    TwinModel,
)

_US_PER_S = 1_000_000
_FEWEST = 400  # fewest requests of a predicted load: enough for a p99
_SURE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # half-width of an interval in standard deviations
_LARGEST = 64  # batch size, if batching is switched on without a maximum


def predict_twin(twin: Twin, loads: Sequence[TwinLoad]) -> Twin:
    """Return the twin with forecasts of these loads, which replace its previous forecasts."""
    forecasts = tuple(row for load in loads for row in forecast(twin, load))
    return replace(twin, command=f"{COMMAND} predict", forecasts=forecasts)


def forecast(twin: Twin, load: TwinLoad, measured: MeasuredAs | None = None) -> tuple[LoadForecast, ...]:
    """Forecast each model in the load, measured as given; by default for as long as the runs of the fit, or until there
    are enough requests for percentiles."""
    models = modelled(twin, load)
    if any(model.text is not None for model in models):
        return (forecast_text(twin, load, measured),)
    pipelines = _shared([_changed(model.pipeline(), load.settings) for model in models])
    _check_settings(pipelines, load.settings)
    plans = [PartPlan(pipeline, part) for pipeline, part in zip(pipelines, load.parts, strict=True)]
    measured = measured or MeasuredAs(max(model.measured_s for model in models), fewest=_FEWEST)
    simulated = simulate(plans, measured)
    flying = [
        part.value if part.mode == "concurrency" else row.in_flight
        for part, row in zip(load.parts, simulated, strict=True)
    ]
    shared = sharing(plans, simulated, measured)
    slower = _slower(twin, plans, simulated, measured)
    found = []
    for plan, row, own, beside, by_service in zip(plans, simulated, flying, shared, slower, strict=True):
        part, due_per_s = plan.load, plan.load.value * plan.pipeline.items
        place = spot(load, part.model, own, sum(flying) - own)
        mine = [anchor for anchor in twin.anchors if anchor.model == part.model]
        noise = _usual_noise(mine)
        bands = {
            name: band(
                Guess(
                    name,
                    value,
                    max(row.chance[name], noise.get(name, 0.0)),
                    row.is_overloaded,
                    math.hypot(beside.unsure.get(name, 0.0), by_service.get(name, 0.0)),
                ),
                place,
                twin.anchors,
                twin.errors[part.model][name],
            )
            for name, value in beside.figures.items()
            if name == THROUGHPUT or not row.is_overloaded
        }
        if row.is_overloaded and THROUGHPUT in bands:
            bands[THROUGHPUT] = limited_to(due_per_s, bands[THROUGHPUT])
        found.append(
            LoadForecast(
                load=load,
                model=part.model,
                basis=_basis(load, part, mine),
                distance=nearest(place, mine),
                bands=bands,
                in_flight=own,
                is_overloaded=row.is_overloaded,
                may_keep_up=row.is_overloaded and THROUGHPUT in bands and bands[THROUGHPUT].high >= due_per_s,
            )
        )
    return tuple(found)


def _slower(
    twin: Twin, plans: Sequence[PartPlan], simulated: Sequence[SimulatedFigures], measured: MeasuredAs
) -> list[Mapping[str, float]]:
    """Return the change in the logarithms of each part's latencies if service times are longer by the possible error
    of the fit.

    At a rate the wait grows with 1 / (1 - utilisation), so near saturation a small error in the service time is a large
    error in the latency. A 2 % longer service time is equivalent to 2 % faster arrivals, in other units.
    """
    if all(plan.load.mode == "concurrency" for plan in plans):
        return [{} for _ in plans]
    longer = 1 + max(_service_error(twin, plan.load.model) for plan in plans) * _SURE
    sooner = [
        replace(plan, load=replace(plan.load, value=plan.load.value * longer))
        if plan.load.mode == "request_rate"
        else plan
        for plan in plans
    ]
    shorter = replace(measured, seconds=measured.seconds / longer, skipped_s=measured.skipped_s / longer)
    return [
        {
            name: abs(math.log(late.figures[name] * longer / row.figures[name]))
            for name in LATENCIES
            if row.figures.get(name) and late.figures.get(name)
        }
        if plan.load.mode == "request_rate"
        else {}
        for plan, row, late in zip(plans, simulated, simulate(sooner, shorter), strict=True)
    ]


def _service_error(twin: Twin, model: str) -> float:
    """Return the possible error of the fitted service times: the unexplained part and the random variation of the
    runs."""
    anchors = [row for row in twin.anchors if row.model == model]
    noise = _usual_noise(anchors).get(THROUGHPUT, 0.0) / math.sqrt(max(len(anchors), 1))
    return math.hypot(twin.errors[model][THROUGHPUT].base, noise)


def _usual_noise(anchors: Sequence[Anchor]) -> Mapping[str, float]:
    """Return the median random variation of each figure over the runs of the fit."""
    found = {}
    for name in FIGURES:
        values = sorted(row.noise[name] for row in anchors if name in row.noise)
        if values:
            found[name] = values[len(values) // 2]
    return found


def modelled(twin: Twin, load: TwinLoad) -> list[TwinModel]:
    """Return the models of a load; raise if the load cannot be predicted."""
    models = [_model(twin, part) for part in load.parts]
    if len(models) > 1 and any(model.text is not None for model in models):
        names = " and ".join(model.name for model in models)
        raise UsageError(
            f"{names} together cannot be predicted: one of them generates text, and the fit does not cover "
            "what it shares with others",
            remedy="predict each model by itself",
        )
    return models


def _model(twin: Twin, part: LoadPart) -> TwinModel:
    model = twin.model(part.model)
    if model is None:
        known = [row.name for row in twin.models]
        close = nearest_name(part.model, known)
        raise UsageError(
            f"'{part.model}' is not in the twin; its models are {', '.join(known)}",
            remedy=f"did you mean '{close}'?" if close else "fit the twin to a run of that model as well",
        )
    return model


def _basis(load: TwinLoad, part: LoadPart, anchors: Sequence[Anchor]) -> Basis:
    alike = [row.load.parts[0] for row in anchors if row.load.settings == load.settings]
    alike = [row for row in alike if (row.mode, row.arrivals) == (part.mode, part.arrivals)]
    if len(load.parts) > 1 or not alike:
        return "extrapolated"
    if part in alike:
        return "measured"
    values = [row.value for row in alike]
    return "interpolated" if min(values) <= part.value <= max(values) else "extrapolated"


# --- changed settings


def _shared(pipelines: Sequence[Pipeline]) -> list[Pipeline]:
    """Put the pipelines on one machine, with the fewest cores that any of them observed.

    The slowdown on busy cores is specific to a model; if its runs do not show it, the largest slowdown among the others
    is assumed. Models with very short requests are ignored here, since they say little about the cores.
    """
    count = min(row.cores.count for row in pipelines)
    least = min((row.cores.scaling for row in pipelines if not is_short(row)), default=1.0)
    turn = max(row.devices.turn for row in pipelines)
    devices = replace(pipelines[0].devices, turn=turn, count=max(row.devices.count for row in pipelines))
    return [
        replace(
            row, cores=Cores(count, row.cores.scaling if row.cores.scaling < 1 else least), devices=devices
        )
        for row in pipelines
    ]


def _changed(pipeline: Pipeline, settings: Sequence[StepSetting]) -> Pipeline:
    for row in settings:
        if row.name == INSTANCES:
            pipeline = with_station(pipeline, row.model, instances=int(row.value))
        elif row.name == MAX_BATCH:
            pipeline = with_station(pipeline, row.model, max_batch=int(row.value))
        elif row.name == BATCHING:
            pipeline = with_station(pipeline, row.model, is_batching=bool(row.value))
        elif row.name == DELAY_US:
            pipeline = with_station(pipeline, row.model, delay_s=row.value / _US_PER_S)
    return pipeline


def _check_settings(pipelines: Sequence[Pipeline], settings: Sequence[StepSetting]) -> None:
    stations = {station.name: station for pipeline in pipelines for station in pipeline.walk()}
    for row in settings:
        if row.model not in stations:
            close = nearest_name(row.model, stations)
            raise UsageError(
                f"{row.text}: '{row.model}' is not used by this load, only {', '.join(stations)}",
                remedy=f"did you mean '{close}'?" if close else "name one of these",
            )
        if row.name in TEXT_SETTINGS:
            raise UsageError(
                f"{row.text}: '{row.model}' does not generate text",
                remedy="its settings are instances, batching, max_batch and delay_us",
            )
        if row.name == BATCHING and row.value and stations[row.model].max_batch < 2:
            raise UsageError(
                f"{row.text}: '{row.model}' does not batch: its max_batch_size is {stations[row.model].max_batch}",
                remedy=f"set {row.model}.max_batch={_LARGEST // 8} as well",
            )
