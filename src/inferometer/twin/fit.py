"""Fit a twin to saved runs: the pipelines of `diagnose`, the spread of their times, and their errors. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from inferometer.base.answer_file import validated
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, plain_number
from inferometer.diagnose.fit import cores_of, fit, fitted, lightest
from inferometer.diagnose.investigation import as_set_up
from inferometer.diagnose.observation import Observation, StepSetup, observation
from inferometer.diagnose.pipeline import Cores, Pipeline
from inferometer.diagnose.text_fit import is_text_run
from inferometer.model.spec import ModelSpec
from inferometer.options.names import option_name
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result
from inferometer.twin.errors import Guess, anchor_spot, band, error_models, nearest
from inferometer.twin.plain import as_observed, check_plain, plain_model, plain_notes
from inferometer.twin.service import steadied
from inferometer.twin.simulate import MeasuredAs, PartPlan, SimulatedFigures, simulate
from inferometer.twin.stated import check_stated, maybe_reason
from inferometer.twin.text import TEXT_ERRORS, TextRow, fit_text_model, text_rows
from inferometer.twin.twin import (
    BATCHING,
    COMMAND,
    DELAY_US,
    FIGURES,
    INSTANCES,
    ITEMS,
    LATENCIES,
    MAX_BATCH,
    THROUGHPUT,
    Anchor,
    LoadForecast,
    LoadPart,
    StepSetting,
    Twin,
    TwinLoad,
    TwinModel,
)

VALUES = 200  # in a spread
_FINE = 8
_WIDE = 0.1  # coefficient of variation from which the bins of a histogram are fine enough
_NORMAL = 1.96  # half-width of a 95 % interval in standard deviations
_UNSURE = {
    THROUGHPUT: 0.02,
    "mean": 0.03,
    "p50": 0.03,
    "p90": 0.06,
    "p99": 0.12,
}  # if the interval is unknown
_NO_STATISTICS = "the server provided no statistics"
_FEWEST = 100  # fewest requests for an estimate of the spread
_US_PER_S = 1_000_000
_ROUGHLY = 600  # simulated requests for a comparison of two fits
_CLEARLY = 0.8  # ratio of misfits that counts as a real improvement
_TOLERATED = 0.05
_STEADY, _MOST_VARIED = 0.01, 2.0


@frozen
class _Row:
    """A measured level with the observation that `diagnose` makes of it."""

    level: Level
    found: Measurement
    seen: Observation
    name: str
    part: LoadPart
    measured: MeasuredAs


def fit_twin(results: Sequence[Result], *, cores: float | None = None, origins: Sequence[str] = ()) -> Twin:
    """Fit the twin of all models in the results; each is configured as in its last result."""
    if not results:
        raise UsageError(
            "no run given to fit", remedy=f"give results saved with {option_name('--json')}, or run ids"
        )
    names = origins or run_names(results)
    check_stated(names, results)
    by_model: dict[str, list[_Row]] = {}
    text_by_model: dict[str, list[TextRow]] = {}
    asked: dict[str, Mapping[str, Any]] = {}
    sources: dict[str, str] = {}
    notes: list[str] = []
    for origin, result in zip(names, results, strict=True):
        if is_text_run(result):
            name = str(result.model.get("name", ""))
            text_by_model.setdefault(name, []).extend(text_rows(result, origin, notes))
            asked[name], sources[name] = _measured_by(result)
            continue
        rows = list(_rows(result, origin, notes))
        if rows:
            by_model.setdefault(rows[0].name, []).extend(rows)
            asked[rows[0].name], sources[rows[0].name] = _measured_by(result)
    text_by_model = {name: found for name, found in text_by_model.items() if found}
    if not by_model and not text_by_model:
        raise _nothing_to_fit(names, results, notes)
    models, anchors = [], []
    for name, found in by_model.items():
        model, rows = _fitted(name, found, cores, asked[name], notes)
        models.append(replace(model, source=sources[name]))
        anchors += [_anchor(row, model, rows[-1]) for row in rows]
    errors = error_models(anchors)
    for name, text in text_by_model.items():
        model, own = fit_text_model(name, text, asked[name], notes)
        models.append(replace(model, source=sources[name]))
        anchors += own
        errors |= error_models(own, TEXT_ERRORS)
    last = results[-1]
    twin = Twin(
        tool=last.tool,
        command=f"{COMMAND} fit",
        started_at=last.started_at,
        models=tuple(models),
        anchors=tuple(anchors),
        errors=errors,
        forecasts=(),
        notes=tuple(dict.fromkeys(notes)),
    )
    return replace(twin, forecasts=tuple(_left_out(twin, row) for row in anchors))


def _measured_by(result: Result) -> tuple[Mapping[str, Any], str]:
    """Return the options of a run, or the name of the other tool that measured it."""
    return ({}, result.source) if result.source else (result.asked, "")


def run_names(results: Sequence[Result]) -> list[str]:
    """Return names for results that have none."""
    return [f"run {number}" for number in range(1, len(results) + 1)]


def _nothing_to_fit(names: Sequence[str], results: Sequence[Result], notes: Sequence[str]) -> UsageError:
    """Return an error with the reason why no level of the results is usable, and the measurement to make instead."""
    runs = ", ".join(dict.fromkeys(names))
    if notes:
        return UsageError(notes[0], remedy="measure loads that the server and this machine can keep up with")
    found = [level.measurement for result in results for level in result.levels]
    if any(row is not None and row.request_count for row in found):
        return UsageError(
            f"{runs}: no load is a plain concurrency or rate",
            remedy=f"measure the model with {option_name('-c')} or {option_name('-r')}",
        )
    return UsageError(f"{runs}: no request succeeded", remedy="run `inferometer view` to see the failures")


# --- measured data


def _rows(result: Result, origin: str, notes: list[str]) -> Iterator[_Row]:
    spec = spec_of(result, origin)
    if result.effective.think_time is not None:
        return  # users are simulated without think times
    for level in result.levels:
        seen = observation(level, spec)
        if level.measurement is None or seen is None or level.mode not in ("concurrency", "request_rate"):
            continue
        if (reason := maybe_reason(result, level)) is not None:
            notes.append(f"{origin}: the load {plain_number(level.value)} is left out because {reason}")
            continue
        yield _Row(
            level, level.measurement, seen, spec.name, load_part(result, level), measured_as(result, level)
        )


def spec_of(result: Result, origin: str = "a run") -> ModelSpec:
    """Return the model as it was when measured."""
    document = {"name": "", "version": "", "inputs": (), "outputs": (), **result.model}
    return validated(ModelSpec, document, f"cannot read the model of '{origin}'", "measure again")


def load_part(result: Result, level: Level) -> LoadPart:
    """Return the load of a level."""
    name = str(result.model.get("name", ""))
    if level.mode == "concurrency":
        return LoadPart(name, "concurrency", float(level.value))
    effective = result.effective
    return LoadPart(
        name,
        "request_rate",
        float(level.value),
        effective.distribution,
        burstiness=effective.burstiness,
    )


def measured_as(result: Result, level: Level) -> MeasuredAs:
    """Return how a level was measured, including its arrivals. Warm-up requests follow a separate schedule."""
    seconds = 1.0 if level.measurement is None else level.measurement.duration_ns / NS_PER_S
    seed = 0 if result.source else int((result.asked.get("data") or {}).get("seed", 0))
    skipped_s = 0.0 if level.start is None else level.start.duration_ns / NS_PER_S
    return MeasuredAs(seconds, seed, skipped_s)


def measured_figures(found: Measurement) -> dict[str, float]:
    """Return the figures of a measurement that a twin predicts."""
    latency = found.latency
    percents = {f"p{plain_number(p)}": float(ns) for p, ns in latency.percentiles}
    named = {"mean": float(latency.mean_ns), **percents}
    return {THROUGHPUT: found.infer_per_s.value, **{name: named[name] for name in LATENCIES if name in named}}


def _noise(found: Measurement, guessed: SimulatedFigures) -> dict[str, float]:
    """Return the uncertainty of the measured figures as standard deviations of logarithms."""
    known = {THROUGHPUT: found.infer_per_s, **dict(found.latency_intervals)}
    return {name: _unsure(name, known.get(name), guessed.chance.get(name, 0.0)) for name in FIGURES}


def _unsure(name: str, found: Estimate | None, chance: float) -> float:
    limits = None if found is None else found.limits
    if limits is None or limits[0] <= 0:
        return max(chance, _UNSURE[name])
    return math.log(limits[1] / limits[0]) / 2 / _NORMAL


# --- the pipeline


def _fitted(
    name: str, rows: Sequence[_Row], cores: float | None, asked: Mapping[str, Any], notes: list[str]
) -> tuple[TwinModel, list[_Row]]:
    """Return the model and the rows that it was fitted to: those with statistics, if there are any."""
    known = [row for row in rows if row.seen.steps]
    if known:
        notes += [
            f"{name}: the load {plain_number(row.level.value)} is left out: {_NO_STATISTICS}"
            for row in rows
            if not row.seen.steps
        ]
        model = _model(name, known, cores, asked)
        notes += _blind_spots(model, known)
        return model, known
    closed = [row for row in rows if row.level.mode == "concurrency"]
    seen = [row.seen for row in closed]
    check_plain(name, seen, are_closed=bool(closed))
    light = min(closed, key=lambda row: row.level.value)
    empty = replace(_made(name, Pipeline(()), rows, light.found.latency, asked), is_plain=True)
    model = plain_model(
        empty, seen, lambda tried: _misfit(tried, [_as_observed(tried, row) for row in closed])
    )
    notes += [*plain_notes(model, seen), *_few(name, rows)]
    return model, [_as_observed(model, row) for row in rows]


def _as_observed(model: TwinModel, row: _Row) -> _Row:
    return replace(row, seen=as_observed(model, row.seen))


def _made(
    name: str, pipeline: Pipeline, rows: Sequence[_Row], latency: Distribution, asked: Mapping[str, Any]
) -> TwinModel:
    """Return a model with this pipeline, whose times vary like these latencies."""
    durations = sorted(row.found.duration_ns / NS_PER_S for row in rows)
    return TwinModel(
        name=name,
        stations=pipeline.stations,
        outside_s=pipeline.outside_s,
        outside_cpu_s=pipeline.outside_cpu_s,
        items=rows[-1].seen.items,
        spread=spread_of(latency),
        variation=_variation(pipeline, latency),
        cores=None if math.isinf(pipeline.cores.count) else pipeline.cores.count,
        scaling=pipeline.cores.scaling,
        gpus=pipeline.devices.count,
        turn=pipeline.devices.turn,
        measured_s=durations[len(durations) // 2],
        asked=asked,
    )


def _model(name: str, rows: Sequence[_Row], cores: float | None, asked: Mapping[str, Any]) -> TwinModel:
    closed = [row.seen for row in rows if row.level.mode == "concurrency"]
    # Client-side batches also show the cost of a batch; the last row is the model's current configuration.
    last = rows[-1].seen
    seen = closed or [row.seen for row in rows]
    seen = [
        *(row for row in seen if row.items != last.items),
        *(row for row in seen if row.items == last.items),
    ]
    machine = cores
    if machine is None:
        machine = next((cores_of(row.seen.host) for row in rows if row.seen.host is not None), None)
    pipeline = fitted(seen, machine) if closed else fit(seen, Cores() if machine is None else Cores(machine))
    light = lightest([row for row in seen if row.items == last.items])
    pipeline = steadied(pipeline, light, [(row.seen, row.found.duration_ns / NS_PER_S) for row in rows])
    latency = next(row.found.latency for row in rows if row.seen is light)
    made = _made(name, pipeline, rows, latency, asked)
    # A slow request may be slow in all steps or in one of them: choose the alternative that fits better.
    apart = replace(made, spread=())
    return apart if _misfit(apart, rows) < _CLEARLY * _misfit(made, rows) else made


def _misfit(model: TwinModel, rows: Sequence[_Row]) -> float:
    """Return how poorly the model explains loads under which requests queue."""
    total = 0.0
    for row in rows:
        if row.level.mode != "concurrency" or row.level.value < 2:
            continue
        plan = PartPlan(as_set_up(model.pipeline(), row.seen), row.part)
        (guessed,) = simulate([plan], row.measured, requests=_ROUGHLY)
        measured = measured_figures(row.found)
        noise = _noise(row.found, guessed)
        for name in (THROUGHPUT, "p99"):
            if measured.get(name) and guessed.figures.get(name):
                error = math.log(measured[name] / guessed.figures[name])
                total += error**2 / (noise[name] ** 2 + _TOLERATED**2)
    return total


def _variation(pipeline: Pipeline, latency: Distribution) -> float:
    """Return the variation of each step for which all steps together vary as much as the latency."""
    times = [station.calls * station.service_s(pipeline.items) for station in pipeline.stations]
    squares = math.sqrt(sum(time**2 for time in times))
    if not squares or not latency.mean_ns or latency.std_ns is None:
        return pipeline.variation
    return min(_MOST_VARIED, max(_STEADY, latency.std_ns / NS_PER_S / squares))


def spread_of(latency: Distribution) -> tuple[float, ...]:
    """Return equally likely multiples of the mean, as seen in the times of requests that did not queue."""
    if latency.count < 2 or not latency.mean_ns or latency.min_ns is None or latency.max_ns is None:
        return ()
    knots = [(0.0, float(latency.min_ns))]
    if latency.histogram and (latency.std_ns or 0) > _WIDE * latency.mean_ns and latency.count >= _FEWEST:
        total, below = sum(count for _, count in latency.histogram), 0
        for bound, count in latency.histogram:
            below += count
            knots.append((below / total, float(min(bound, latency.max_ns))))
    else:
        knots += [(p / 100, float(ns)) for p, ns in latency.percentiles if 0 < p < 100]
        knots.append((1.0, float(latency.max_ns)))
    # Each value is the mean of its part, so that the last one represents the whole tail.
    parts = [_quantile(knots, (number + 0.5) / VALUES / _FINE) for number in range(VALUES * _FINE)]
    values = [sum(parts[place : place + _FINE]) / _FINE for place in range(0, len(parts), _FINE)]
    mean = sum(values) / VALUES
    return tuple(round(value / mean, 6) for value in values) if mean > 0 else ()


def _quantile(knots: Sequence[tuple[float, float]], share: float) -> float:
    for (left, low), (right, high) in pairwise(knots):
        if share <= right:
            return low if right <= left else low + (high - low) * (share - left) / (right - left)
    return knots[-1][1]


def settings_between(
    setups: Mapping[str, StepSetup], now: Mapping[str, StepSetup]
) -> tuple[StepSetting, ...]:
    """Return the settings in which the first setups differ from the second."""
    found = []
    for name, setup in setups.items():
        other = now.get(name, setup)
        pairs = (
            (INSTANCES, setup.instances, other.instances),
            (BATCHING, setup.is_batching, other.is_batching),
            (MAX_BATCH, setup.max_batch, other.max_batch),
            (DELAY_US, setup.delay_s * _US_PER_S, other.delay_s * _US_PER_S),
        )
        found += [StepSetting(name, what, float(was)) for what, was, to in pairs if was != to]
    return tuple(found)


def _settings(row: Observation, last: Observation) -> tuple[StepSetting, ...]:
    setups, now = ({step.name: step.setup for step, _, _ in seen.walk()} for seen in (row, last))
    found = settings_between(setups, now)
    if row.items != last.items:
        found += (StepSetting(row.steps[0].name, ITEMS, float(row.items)),)
    return found


def _anchor(row: _Row, model: TwinModel, last: _Row) -> Anchor:
    pipeline: Pipeline = as_set_up(model.pipeline(), row.seen)
    (guessed,) = simulate([PartPlan(pipeline, row.part)], row.measured)
    measured = measured_figures(row.found)
    residuals = {
        name: math.log(value / guessed.figures[name])
        for name, value in measured.items()
        if value > 0 and guessed.figures.get(name, 0) > 0 and not guessed.is_overloaded
    }
    noise = _noise(row.found, guessed)
    is_closed = row.level.mode == "concurrency"
    little = measured[THROUGHPUT] / row.seen.items * row.seen.latency_s
    return Anchor(
        model=model.name,
        load=TwinLoad((row.part,), _settings(row.seen, last.seen)),
        in_flight=float(row.level.value) if is_closed else little,
        residuals=residuals,
        noise={name: noise[name] for name in residuals},
        measured=measured,
    )


def _left_out(twin: Twin, row: Anchor) -> LoadForecast:
    """Forecast a measured load from the other measured loads."""
    others = tuple(other for other in twin.anchors if other is not row)
    place = anchor_spot(row)
    mine = [other for other in others if other.model == row.model]
    bands = {}
    for name, residual in row.residuals.items():
        guess = Guess(name, row.measured[name] / math.exp(residual), row.noise[name])
        bands[name] = band(guess, place, others, twin.errors[row.model][name])
    return LoadForecast(
        load=row.load,
        model=row.model,
        basis="measured",
        distance=nearest(place, mine),
        bands=bands,
        in_flight=row.in_flight,
        is_overloaded=not row.residuals,
        measured=row.measured,
    )


def _blind_spots(model: TwinModel, rows: Sequence[_Row]) -> Iterator[str]:
    if model.cores is None:
        yield (
            f"{model.name}: the number of cores of the server is unknown and assumed to be sufficient; "
            "set it with --cores"
        )
    yield from _few(model.name, rows)
    if all(row.level.mode != "concurrency" for row in rows):
        yield f"{model.name}: no concurrency was measured, so the scaling is not fitted"


def _few(name: str, rows: Sequence[_Row]) -> Iterator[str]:
    few = sum(row.found.request_count < _FEWEST for row in rows)
    if few:
        yield (
            f"{name}: {few} of {len(rows)} loads had fewer than {_FEWEST} requests, so their p99 is close to the "
            "maximum; measure for longer"
        )
