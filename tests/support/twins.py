"""A hand-made twin with forecasts, and a run to fit a twin to."""

from inferometer.base.units import NS_PER_MS
from inferometer.diagnose.pipeline import Station
from inferometer.stats.result import Result
from inferometer.twin.errors import error_models
from inferometer.twin.twin import (
    Anchor,
    Band,
    Basis,
    LoadForecast,
    LoadPart,
    StepSetting,
    Twin,
    TwinLoad,
    TwinModel,
)
from tests.support.known_servers import KnownServer, KnownStep, in_flight
from tests.support.queues import fixed

MS = NS_PER_MS


def known_result() -> Result:
    """A result with one step of 10 ms at two loads."""
    server = KnownServer("known", (KnownStep("known_model", fixed(10)),))
    return server.measured([in_flight(1), in_flight(2)], 2.0)


def _model(name: str, service_s: float) -> TwinModel:
    return TwinModel(
        name=name,
        stations=(Station(name, service_s / 2, service_s / 2, max_batch=8),),
        outside_s=0.001,
        outside_cpu_s=0.0005,
        items=1,
        spread=(0.9, 1.0, 1.1),
        variation=0.1,
        cores=4.0,
        scaling=0.9,
        gpus=1,
        turn=0.2,
        measured_s=2.0,
        asked={"model": name, "data": {"shapes": {"TEXT": [1]}}},
    )


def _figures(load: float) -> dict[str, float]:
    p50 = 11.0 * MS * load
    return {
        "throughput": 90.0 * load / (load + 0.2),
        "mean": p50,
        "p50": p50,
        "p90": 1.1 * p50,
        "p99": 1.3 * p50,
    }


def _anchor(model: str, load: int, off: float) -> Anchor:
    figures = _figures(load)
    part = LoadPart(model, "concurrency", float(load))
    names = dict.fromkeys(figures, off)
    return Anchor(model, TwinLoad((part,)), float(load), names, dict.fromkeys(figures, 0.01), figures)


def _forecast(load: TwinLoad, distance: float, *, is_measured: bool = False) -> LoadForecast:
    part = load.parts[0]
    figures = _figures(part.value)
    wide = 1.05 + 0.2 * distance
    bands = {name: Band(value, value / wide, value * wide) for name, value in figures.items()}
    basis: Basis = "interpolated" if distance < 0.4 and len(load.parts) == 1 else "extrapolated"
    measured = {name: value * 1.04 for name, value in figures.items()} if is_measured else None
    return LoadForecast(load, part.model, basis, distance, bands, part.value, measured=measured)


def sample_twin(name: str = "fake") -> Twin:
    """A twin of two models: one at several loads, together with the other, with another setting, and overloaded."""
    anchors = tuple(_anchor(model, load, 0.01 * load) for model in (name, "other") for load in (1, 2, 4, 8))
    loads = [TwinLoad((LoadPart(name, "concurrency", load),)) for load in (3.0, 6.0, 12.0, 16.0)]
    rows = [_forecast(load, 0.2 * place, is_measured=place < 2) for place, load in enumerate(loads, 1)]
    both = TwinLoad((LoadPart(name, "concurrency", 4.0), LoadPart("other", "concurrency", 2.0)))
    changed = TwinLoad((LoadPart(name, "concurrency", 8.0),), (StepSetting(name, "instances", 2.0),))
    much = TwinLoad((LoadPart(name, "request_rate", 500.0, "poisson"),))
    over = LoadForecast(much, name, "extrapolated", 2.0, {"throughput": Band(90.0, 70.0, 115.0)}, 400.0, True)
    return Twin(
        tool="inferometer 0.2",
        command="twin predict",
        started_at="2026-11-17T08:00:00+00:00",
        models=(_model(name, 0.010), _model("other", 0.020)),
        anchors=anchors,
        errors=error_models(anchors),
        forecasts=(*rows, _forecast(both, 1.1), _forecast(changed, 0.7), over),
        notes=("other: 2 of 4 loads had fewer than 100 requests, so their p99 is close to the maximum",),
    )
