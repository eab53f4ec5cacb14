"""Twins of servers that generate text: fit and forecast with the continuous-batching station. Pure."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import plain_number
from inferometer.diagnose.text_engine import TextEngine
from inferometer.diagnose.text_fit import (
    TextObservation,
    fit_text,
    maybe_text_observation,
    observed_engine,
    usual_pairs,
)
from inferometer.diagnose.text_lengths import mean_lengths
from inferometer.diagnose.text_load import (
    MOST_OF_BLOCK,
    TPOT,
    TTFT,
    SimulatedText,
    TextLoad,
    response_guess_s,
    simulate_text,
)
from inferometer.stats.estimate import Estimate
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result
from inferometer.twin.errors import Guess, LeastErrors, band, limited_to, nearest, spot
from inferometer.twin.simulate import MeasuredAs
from inferometer.twin.stated import maybe_reason
from inferometer.twin.twin import (
    CONFIDENCE,
    KV_TOKENS,
    PREFILL_TOKENS,
    SLOTS,
    TEXT_FIGURES,
    TEXT_SETTINGS,
    THROUGHPUT,
    TOKENS,
    Anchor,
    Basis,
    ErrorModel,
    LoadForecast,
    LoadPart,
    StepSetting,
    TextLengths,
    TextModel,
    Twin,
    TwinLoad,
    TwinModel,
)

TEXT_ERRORS: LeastErrors = {
    name: ErrorModel(0.01, 0.01)
    if name.startswith(TTFT) or name.endswith("p99")
    else ErrorModel(0.004, 0.004)
    for name in TEXT_FIGURES
}
_BLOCKS = 8  # simulated measurements of a predicted load
_MOST_AT_RANDOM = 2500  # requests of a simulated measurement with random arrivals, and
_BLOCKS_AT_RANDOM = 64  # their number: rare queues decide a p99, and come and go
_FEWEST = 400  # fewest requests of a predicted load: enough for a p99
_FEW = 100  # requests from which a p99 is not close to the maximum
_NORMAL = 1.96
_SURE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # half-width of an interval in standard deviations
_UNSURE = 0.02  # throughput without an interval
_ALIKE = 0.03  # relative difference between mean lengths that is ignored
_STREAMED = (TTFT, TPOT)


@frozen
class TextRow:
    """A measured load of a text server."""

    seen: TextObservation
    part: LoadPart
    rates: Mapping[str, Estimate]


def text_rows(result: Result, origin: str, notes: list[str]) -> Iterator[TextRow]:
    """Yield the loads of a run that a fit can use."""
    for level in result.levels:
        if (reason := maybe_reason(result, level)) is not None:
            notes.append(f"{origin}: the load {plain_number(level.value)} is left out because {reason}")
            continue
        row = maybe_text_row(result, level)
        if row is None:
            continue
        yield row


def maybe_text_row(result: Result, level: Level) -> TextRow | None:
    """Return a level as a fit uses it; None if it is not a plain load with counted answers."""
    arrivals = result.effective.distribution
    seen = maybe_text_observation(level, is_random=arrivals == "poisson")
    found = level.measurement
    is_bursty = level.mode == "request_rate" and arrivals in ("gamma", "weibull")
    has_pauses = result.effective.think_time is not None
    # Only constant and Poisson arrivals are simulated, and users without think times.
    if seen is None or found is None or is_bursty or has_pauses:
        return None
    name, lengths = str(result.model.get("name", "")), TextLengths(seen.load.pairs)
    if level.mode == "concurrency":
        part = LoadPart(name, "concurrency", float(level.value), lengths=lengths)
    elif level.mode == "request_rate":
        part = LoadPart(name, "request_rate", float(level.value), arrivals, lengths)
    else:
        return None
    rates = {THROUGHPUT: found.infer_per_s}
    if found.tokens is not None and found.tokens.output_interval is not None:
        rates[TOKENS] = found.tokens.output_interval
    return TextRow(seen, part, rates)


# --- the fit


def fit_text_model(
    name: str, rows: Sequence[TextRow], asked: Mapping[str, Any], notes: list[str]
) -> tuple[TwinModel, list[Anchor]]:
    """Fit one model to its loads; return it with the errors at these loads."""
    found = fit_text([row.seen for row in rows])
    last = rows[-1].seen
    durations = sorted(row.seen.seconds for row in rows)
    model = TwinModel(
        name=name,
        stations=(),
        outside_s=found.engine.outside_s,
        outside_cpu_s=0.0,
        items=1,
        spread=(),
        variation=0.0,
        cores=None,
        scaling=1.0,
        gpus=0,
        turn=0.0,
        measured_s=durations[len(durations) // 2],
        asked=asked,
        text=TextModel(
            engine=found.engine,
            plausible=found.plausible,
            lengths=TextLengths(usual_pairs([row.seen for row in rows])),
            knows_prompts=last.knows_prompts,
            has_streams=any(TTFT in row.seen.figures for row in rows),
            server=last.server,
        ),
    )
    notes += [f"{name or 'the server'}: {note}" for note in (*found.notes, *_blind_spots(rows))]
    return model, [_anchor(row, model, found.engine) for row in rows]


def _blind_spots(rows: Sequence[TextRow]) -> Iterator[str]:
    few = sum(row.seen.count < _FEW for row in rows)
    if few:
        yield (
            f"{few} of {len(rows)} loads had fewer than {_FEW} requests, so their p99 is close to the maximum; "
            "measure for longer"
        )
    if len(rows) < 3:
        yield f"only {len(rows)} loads were measured; three or four, from 1 in flight to saturation, determine a step"
    if not any(TTFT in row.seen.figures for row in rows):
        yield "answers were not streamed, so times to the first token are not predicted; measure with --streaming"
    elif not all(row.seen.knows_spread for row in rows):
        yield (
            "only the mean lengths of prompts and answers are stated, so all are assumed to have them, and other "
            "lengths are uncertain"
        )
    elif len({pair[0] for row in rows for pair in row.seen.load.pairs}) == 1:
        yield (
            "all prompts had the same length, so other lengths are uncertain; measure with "
            "--prompt-tokens 'uniform(50, 500)'"
        )


def _anchor(row: TextRow, model: TwinModel, engine: TextEngine) -> Anchor:
    seen = row.seen
    simulated = simulate_text(observed_engine(engine, seen), seen.load, seen.seconds, blocks=_BLOCKS, seed=1)
    figures, chance = text_figures(simulated)
    measured = measured_text_figures(row)
    residuals = {
        name: math.log(value / figures[name])
        for name, value in measured.items()
        if value > 0 and figures.get(name, 0) > 0 and not simulated.is_overloaded
    }
    noise = {name: _noise(name, row, chance.get(name, 0.0)) for name in residuals}
    is_closed = row.part.mode == "concurrency"
    in_flight = row.part.value if is_closed else seen.requests_per_s * seen.figures["mean"] / 1e9
    return Anchor(
        model=model.name,
        load=TwinLoad((row.part,), text_settings(model.name, seen, engine)),
        in_flight=in_flight,
        residuals=residuals,
        noise=noise,
        measured=measured,
    )


def text_settings(name: str, seen: TextObservation, engine: TextEngine) -> tuple[StepSetting, ...]:
    """Return the settings in which the server of a load differs from the engine."""
    pairs = ((SLOTS, seen.slots, engine.slots), (KV_TOKENS, seen.kv_tokens, engine.kv_tokens))
    return tuple(
        StepSetting(name, what, float(was)) for what, was, now in pairs if was is not None and was != now
    )


def measured_text_figures(row: TextRow) -> dict[str, float]:
    """Return the measured figures that a twin predicts."""
    return {THROUGHPUT: row.seen.requests_per_s, TOKENS: row.seen.tokens_per_s, **row.seen.figures}


def text_figures(simulated: SimulatedText) -> tuple[dict[str, float], dict[str, float]]:
    """Return simulated figures and the standard deviations of their logarithms between measurements."""
    figures = {
        THROUGHPUT: simulated.requests_per_s,
        TOKENS: simulated.tokens_per_s(),
        **simulated.figures(),
    }
    counts = [len(block) for block in simulated.blocks if block]
    mean = sum(counts) / max(len(counts), 1)
    by_count = math.sqrt(sum((count - mean) ** 2 for count in counts) / max(len(counts) - 1, 1))
    rate = by_count / max(mean, 1.0) * math.sqrt(simulated.shrink)
    return figures, {THROUGHPUT: rate, TOKENS: rate, **simulated.chance()}


def _noise(name: str, row: TextRow, chance: float) -> float:
    if name in row.seen.noise:
        return max(chance, row.seen.noise[name]) if row.seen.count < _FEW else chance or row.seen.noise[name]
    limits = row.rates[name].limits if name in row.rates else None
    if limits is None or limits[0] <= 0:
        return max(chance, _UNSURE)
    return math.log(limits[1] / limits[0]) / 2 / _NORMAL


# --- the forecast


def forecast_text(twin: Twin, load: TwinLoad, measured: MeasuredAs | None = None) -> LoadForecast:
    """Forecast a load of one text server, measured as given."""
    part, model = load.parts[0], twin.model(load.parts[0].model)
    assert model is not None
    assert model.text is not None
    text = model.text
    lengths = text.lengths if part.lengths is None else part.lengths
    part = replace(part, lengths=lengths)
    load = replace(load, parts=(part,))
    engines = [_changed(engine, load.settings, part) for engine in (text.engine, *text.plausible)]
    wanted = TextLoad(part.mode, part.value, lengths.pairs, part.arrivals == "poisson")
    seconds = _seconds(engines[0], wanted, model) if measured is None else measured.seconds
    is_random = wanted.is_random and part.mode == "request_rate"
    most = _MOST_AT_RANDOM if is_random else MOST_OF_BLOCK
    short, *others = (
        simulate_text(engine, wanted, seconds, blocks=_BLOCKS, seed=1, most=most) for engine in engines
    )
    plain = short
    if is_random:
        plain = simulate_text(engines[0], wanted, seconds, blocks=_BLOCKS_AT_RANDOM, seed=2, most=most)
    figures, chance = text_figures(plain)
    if is_random:
        by_chance = 1 / math.sqrt(max(part.value * seconds, 1.0))
        chance |= {name: max(chance[name], by_chance) for name in (THROUGHPUT, TOKENS)}
    spread = _spread(text_figures(short)[0], chance, others)
    in_flight = (
        part.value if part.mode == "concurrency" else plain.requests_per_s * figures.get("mean", 0.0) / 1e9
    )
    place = spot(load, part.model, in_flight)
    mine = [anchor for anchor in twin.anchors if anchor.model == part.model]
    bands = {
        name: band(_guess(name, value, chance, spread, plain), place, mine, twin.errors[part.model][name])
        for name, value in figures.items()
        if value > 0
        and (name in (THROUGHPUT, TOKENS) or not plain.is_overloaded)
        and (text.has_streams or not name.startswith(_STREAMED))
    }
    if plain.is_overloaded and THROUGHPUT in bands:
        bands[THROUGHPUT] = limited_to(part.value, bands[THROUGHPUT])
    return LoadForecast(
        load=load,
        model=part.model,
        basis=_basis(load, part, mine),
        distance=nearest(place, mine),
        bands=bands,
        in_flight=in_flight,
        is_overloaded=plain.is_overloaded,
        may_keep_up=plain.is_overloaded and THROUGHPUT in bands and bands[THROUGHPUT].high >= part.value,
    )


def _guess(
    name: str,
    value: float,
    chance: Mapping[str, float],
    spread: Mapping[str, float],
    simulated: SimulatedText,
) -> Guess:
    """Return a simulated figure; the deviations due to chance and to the parameters are known, not estimated."""
    deviation = math.hypot(chance.get(name, 0.0), spread.get(name, 0.0))
    if name == THROUGHPUT:
        return Guess(name, value, deviation, simulated.is_overloaded)
    return Guess(name, value, 0.0, simulated.is_overloaded, _SURE * deviation)


def _seconds(engine: TextEngine, load: TextLoad, model: TwinModel) -> float:
    """Return the duration of the predicted measurement: that of the fitted runs, or longer if they are too short for
    enough requests."""
    is_closed = load.mode == "concurrency"
    per_s = load.value / response_guess_s(engine, load) if is_closed else load.value
    return max(model.measured_s, _FEWEST / per_s)


def _spread(
    figures: Mapping[str, float], chance: Mapping[str, float], others: Sequence[SimulatedText]
) -> dict[str, float]:
    """Return the standard deviation of each figure's logarithm due to the uncertainty of the parameters.

    The other engines are simulated with the same random numbers, but events may still happen in another order: the
    chance difference between two simulations does not count.
    """
    found = dict.fromkeys(figures, 0.0)
    for other in others:
        moved, _ = text_figures(other)
        for name, value in figures.items():
            if value > 0 and moved.get(name, 0.0) > 0:
                by_chance = 2 * chance.get(name, 0.0) ** 2 / _BLOCKS
                found[name] += max(0.0, math.log(moved[name] / value) ** 2 - by_chance)
    return {name: math.sqrt(value) for name, value in found.items()}


def _changed(engine: TextEngine, settings: Sequence[StepSetting], part: LoadPart) -> TextEngine:
    for row in settings:
        if row.model != part.model or row.name not in TEXT_SETTINGS:
            raise UsageError(
                f"{row.text}: '{part.model}' generates text and has no such setting",
                remedy=f"its settings are {', '.join(f'{part.model}.{name}' for name in TEXT_SETTINGS)}",
            )
        engine = _SET[row.name](engine, int(row.value))
    longest = max(sum(pair) for pair in part.lengths.pairs) if part.lengths is not None else 0
    if engine.kv_tokens is not None and engine.kv_tokens < longest:
        raise UsageError(
            f"a KV cache of {engine.kv_tokens:,} tokens does not hold the longest request of {longest:,} tokens",
            remedy=f"set {part.model}.kv_tokens to more",
        )
    return engine


_SET: Mapping[str, Callable[[TextEngine, int], TextEngine]] = {
    SLOTS: lambda engine, value: replace(engine, slots=value),
    KV_TOKENS: lambda engine, value: replace(engine, kv_tokens=value),
    PREFILL_TOKENS: lambda engine, value: replace(engine, prefill_tokens=value),
}


def _basis(load: TwinLoad, part: LoadPart, anchors: Sequence[Anchor]) -> Basis:
    alike = [row.load.parts[0] for row in anchors if row.load.settings == load.settings]
    alike = [row for row in alike if (row.mode, row.arrivals) == (part.mode, part.arrivals)]
    if not alike:
        return "extrapolated"
    mine = _means(part)
    rows = [_means(row) for row in alike]
    if any(all(abs(a / b - 1) <= _ALIKE for a, b in zip(mine, row, strict=True)) for row in rows):
        return "measured"
    columns = zip(mine, *rows, strict=True)
    is_inside = all(
        min(values) * (1 - _ALIKE) <= value <= max(values) * (1 + _ALIKE) for value, *values in columns
    )
    return "interpolated" if is_inside else "extrapolated"


def _means(part: LoadPart) -> tuple[float, float, float]:
    lengths = (1.0, 1.0) if part.lengths is None else mean_lengths(part.lengths.pairs)
    return (part.value, *lengths)
