"""Check a twin against the server: forecasts next to measurements of the same loads."""

import math
import threading
from collections.abc import Sequence
from dataclasses import fields, replace

from inferometer.base.answer_file import validated
from inferometer.base.errors import InferometerError, PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.secrets import MASK
from inferometer.diagnose.observation import StepSetup, step_setup
from inferometer.measure.checks import changed
from inferometer.measure.prepare import OWN_HABITS, prepare
from inferometer.measure.run import run
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.options.values import Range
from inferometer.stats.estimate import Distribution
from inferometer.stats.measurement import Measurement
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher
from inferometer.twin.fit import (
    load_part,
    measured_as,
    measured_figures,
    run_names,
    settings_between,
    spec_of,
)
from inferometer.twin.predict import forecast, modelled
from inferometer.twin.simulate import MeasuredAs
from inferometer.twin.stated import check_stated, maybe_missing
from inferometer.twin.text import TextRow, maybe_text_row, measured_text_figures, text_settings
from inferometer.twin.twin import (
    COMMAND,
    FIRST_P99,
    THROUGHPUT,
    LoadForecast,
    LoadPart,
    StepSetting,
    Twin,
    TwinLoad,
    TwinModel,
)

_EXACT = 1e-6  # a precision that is never reached, so that every load is measured for its full duration
_LEFT_OUT = (
    *("given", "is_lenient", "is_dry", "headers", "tls", "api_key_env", "api_key_file"),
    *("concurrency", "request_rate", "request_distribution", "burstiness", "request_intervals"),
    *("request_count", "slo"),
    *("sweep", "binary_search", "latency_limit_ms", "percentile", "profile_export", "quiet", "verbose"),
    *("csv", "json", "html", "markdown", "junit", "verbose_csv", "duration_s", "precision", "time_limit_s"),
)
_FIELDS = frozenset(field.name for field in fields(Options)) - frozenset(_LEFT_OUT)


@frozen
class CheckRequest:
    """The loads to measure, or saved `results` to compare with instead."""

    loads: tuple[TwinLoad, ...] = ()
    url: str | None = None
    duration_s: float | None = None
    results: tuple[Result, ...] = ()
    origins: tuple[str, ...] = ()  # names of the results


def check_twin(twin: Twin, asked: CheckRequest, watcher: Watcher) -> Twin:
    """Return the twin with forecasts next to the measured figures."""
    forecasts: list[LoadForecast] = []
    check_stated(asked.origins or run_names(asked.results), asked.results)
    for result in asked.results:
        forecasts += checked_result(twin, result)
    if not asked.results:
        planned = [(load, _all_options(twin, load, asked)) for load in asked.loads]  # errors precede any load
        watcher.planned(len(planned), None)
        for load, options in planned:
            if watcher.is_interrupted():
                break
            forecasts += _checked(twin, load, options, watcher)
    return replace(twin, command=f"{COMMAND} check", forecasts=tuple(forecasts))


def checked_result(twin: Twin, result: Result) -> list[LoadForecast]:
    """Forecast each load of a saved run, with its measured figures."""
    found = []
    for level in result.levels:
        if level.measurement is None or level.mode not in ("concurrency", "request_rate"):
            continue
        if maybe_missing(result, level) is not None:
            continue
        text = maybe_text_row(result, level)
        if text is not None and _is_text(twin, text.part):
            found.append(replace(checked_text(twin, text), ends=measured_ends(level.measurement)))
            continue
        load = TwinLoad((load_part(result, level),), settings_of(twin, [result]))
        (row,) = forecast(twin, load, measured_as(result, level))
        measured = level.measurement
        found.append(replace(row, measured=measured_figures(measured), ends=measured_ends(measured)))
    return found


def measured_ends(found: Measurement) -> dict[str, tuple[float, float]]:
    """Return the 95 % intervals of the figures that a twin predicts, where known."""
    known = {THROUGHPUT: found.infer_per_s, **dict(found.latency_intervals)}
    ends = {name: estimate.limits for name, estimate in known.items() if estimate.limits is not None}
    if found.streaming is not None:
        ends |= {FIRST_P99: rank_ends(found.streaming.first, 99)}
    return ends


def rank_ends(times: Distribution, p: float) -> tuple[float, float]:
    """Return an interval of a percentile from its ranks, outwards to the nearest percentiles that are known."""
    part = p / 100
    half = 1.96 * math.sqrt(part * (1 - part) / max(times.count, 1))
    below = [ns for other, ns in times.percentiles if other / 100 <= part - half]
    above = [ns for other, ns in times.percentiles if other / 100 >= part + half]
    return float(max(below, default=times.min_ns or 0)), float(min(above, default=times.max_ns or math.inf))


def _is_text(twin: Twin, part: LoadPart) -> bool:
    model = twin.model(part.model)
    return model is not None and model.text is not None


def checked_text(twin: Twin, row: TextRow) -> LoadForecast:
    """Forecast a measured load of a text server, with its measured figures, lengths and settings."""
    model = twin.model(row.part.model)
    assert model is not None
    assert model.text is not None
    load = TwinLoad((row.part,), text_settings(row.part.model, row.seen, model.text.engine))
    (found,) = forecast(twin, load, MeasuredAs(row.seen.seconds))
    return replace(found, measured=measured_text_figures(row))


def settings_of(twin: Twin, results: Sequence[Result]) -> tuple[StepSetting, ...]:
    """Return the settings in which the server of the results differs from the twin."""
    setups: dict[str, StepSetup] = {}
    for result in results:
        setups |= {row.name: step_setup(row.config) for row in spec_of(result).family() if row.config}
    now = {
        row.name: StepSetup(
            instances=row.instances,
            max_batch=setups[row.name].max_batch if row.max_batch == 1 else row.max_batch,
            is_batching=row.is_batching,
            delay_s=row.delay_s,
        )
        for model in twin.models
        for row in model.pipeline().walk()
        if row.name in setups and not model.is_plain
    }
    return settings_between({name: setups[name] for name in now}, now)


# --- measuring


def _checked(twin: Twin, load: TwinLoad, options: Sequence[Options], watcher: Watcher) -> list[LoadForecast]:
    # Progress of concurrent measurements would be interleaved: for a mix, only ask the watcher for interruptions.
    told = watcher if len(load.parts) == 1 else _Quiet(watcher)
    results = measure_together(options, told)
    return checked_together(twin, load, results)


class _Quiet(Watcher):
    """A silent watcher that only passes on interruptions."""

    def __init__(self, inner: Watcher) -> None:
        self._inner = inner

    def is_interrupted(self) -> bool:
        return self._inner.is_interrupted()


def checked_together(twin: Twin, load: TwinLoad, results: Sequence[Result]) -> list[LoadForecast]:
    """Forecast each model of a load, next to results measured at the same time."""
    measured = [_last(part, result) for part, result in zip(load.parts, results, strict=True)]
    row = maybe_text_row(results[0], results[0].levels[-1])
    if row is not None and _is_text(twin, row.part):
        return [replace(checked_text(twin, row), ends=measured_ends(measured[0]))]
    load = replace(load, settings=settings_of(twin, results))
    rows = forecast(twin, load, measured_as(results[0], results[0].levels[-1]))
    return [
        replace(row, measured=measured_figures(found), ends=measured_ends(found))
        for row, found in zip(rows, measured, strict=True)
    ]


def _last(part: LoadPart, result: Result) -> Measurement:
    found = result.levels[-1].measurement if result.levels else None
    if found is None or not found.request_count:
        raise PeerError(
            f"no request to '{part.model}' succeeded at {part.text}, so there is nothing to check",
            remedy=f"run `inferometer measure -m {part.model}` to see the failures",
        )
    return found


def _all_options(twin: Twin, load: TwinLoad, asked: CheckRequest) -> list[Options]:
    """Return the options of each part of a load; raise if it cannot be predicted or measured."""
    models = modelled(twin, load)
    return [_options(model, part, asked) for model, part in zip(models, load.parts, strict=True)]


def _options(model: TwinModel, part: LoadPart, asked: CheckRequest) -> Options:
    """Return the options of the fitted run with this load."""
    options = _as_measured(model)
    span = Range(part.value)
    is_closed = part.mode == "concurrency"
    return changed(
        options,
        url=asked.url or options.url,
        duration_s=asked.duration_s or max(model.measured_s, 1.0),
        precision=_EXACT,
        **({"concurrency": Range(int(part.value))} if is_closed else {"request_rate": span}),
        **({} if is_closed or part.arrivals == "constant" else {"request_distribution": part.arrivals}),
        **({} if part.burstiness == 1 else {"burstiness": part.burstiness}),
    )


def _as_measured(model: TwinModel) -> Options:
    if model.source:
        raise UsageError(
            f"'{model.name}' was measured by {model.source}, whose settings are not those of a measurement here",
            remedy=f"measure it with {option_name('--json')}, or with {model.source}, then check the saved result",
        )
    if model.asked.get("headers"):
        raise UsageError(
            f"'{model.name}' was measured with headers, whose values are not saved",
            remedy=f"measure it with {option_name('--json')}, then check the saved result",
        )
    document = {name: value for name, value in model.asked.items() if name in _FIELDS}
    masked = [name for name, value in document.items() if MASK in str(value)]
    if masked:
        raise UsageError(
            f"'{model.name}' was measured with a secret in '{masked[0]}', which is not saved",
            remedy=f"measure it with {option_name('--json')}, then check the saved result",
        )
    options = validated(
        Options,
        document,
        f"cannot read from the twin how '{model.name}' was measured",
        f"measure it with {option_name('--json')}, then check the saved result",
    )
    plain = Options()
    chosen = ("data", "sequence_ids")  # compared by field below; drawn at random
    given = {name for name in document if getattr(options, name) != getattr(plain, name)}.difference(chosen)
    given |= {
        f"data.{field.name}"
        for field in fields(plain.data)
        if getattr(options.data, field.name) != getattr(plain.data, field.name)
    }
    return replace(options, given=frozenset(given))


def measure_together(asked: Sequence[Options], watcher: Watcher) -> list[Result]:
    """Measure all loads at the same time."""
    if len(asked) == 1:
        return [_measured(asked[0], watcher)]
    found: dict[int, Result] = {}
    failed: list[BaseException] = []

    def work(place: int, options: Options) -> None:
        try:
            found[place] = _measured(options, watcher)
        except InferometerError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=row) for row in enumerate(asked)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return [found[place] for place in range(len(asked))]


def _measured(options: Options, watcher: Watcher) -> Result:
    setup = prepare(options, command="measure", habits=OWN_HABITS)
    results = list(run(setup, watcher))
    return results[-1] if results else setup.result
