"""Fit a text server to measured loads. Pure.

A fit sees what a saved run holds: times to the first token, times per output token and latencies at a few loads, the
lengths of prompts and answers, and, if they were read, the engine's own metrics (slots, KV cache, prefix cache).

The parameters of a step are found by least squares (Levenberg-Marquardt): each measured load is simulated with the
current parameters, and the logarithms of measured over simulated figures are weighted by the uncertainty of the
measurement. Weak priors keep parameters that the loads do not determine near plausible values. The curvature at the
solution says how far the parameters may be off: `plausible` holds the fit moved by one standard deviation along each
independent direction, so the uncertainty of any prediction is the root of the sum of its squared changes.

Step times that grow with the running answers, with their context and with the prompts that are read all grow with the
load, so loads alone barely distinguish them. The last requests of a run, which are saved individually, do so if they
ran alone: first tokens come later with longer prompts, and steps take longer with more context.

Without metrics, the number of slots shows in the loads that wait: throughput x time in service (Little's law) stops
growing there.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, plain_number
from inferometer.diagnose.text_engine import PrefillMode, TextEngine
from inferometer.diagnose.text_lengths import Pair, mean_lengths, measured_pairs, reduced
from inferometer.diagnose.text_load import TIME_FIGURES, TPOT, TTFT, TextLoad, simulate_text
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result
from inferometer.stats.text_figures import Lane, TokenFigures

PARAMETERS = ("fixed_s", "answer_s", "context_s", "prompt_s", "outside_s")
_FITTED = ("mean", TTFT, "ttft p50", "ttft p99", TPOT, "tpot p99")
_NOT_BETTER = {"mean": 0.01, TTFT: 0.03, "ttft p50": 0.03, "ttft p99": 0.06, TPOT: 0.01, "tpot p99": 0.04}
"""Minimum standard deviations of a logarithm that a fit assumes, because a simulation is not exact."""
UNSURE = {
    "mean": 0.02, "p50": 0.03, "p90": 0.05, "p99": 0.08, TTFT: 0.06, "ttft p50": 0.05, "ttft p99": 0.12,
    TPOT: 0.01, "tpot p50": 0.01, "tpot p99": 0.05,
}  # fmt: skip
"""Standard deviations of a logarithm for a measurement of `_USUAL` requests whose interval is unknown."""
_USUAL = 100
_NORMAL = 1.96
_REQUESTS = 250  # simulated requests of a load while fitting
_MOST_BLOCKS = 4
_ITERATIONS = 6
_FEW_ITERATIONS = 3  # of a fit that is only a start, or is compared with others
_ENOUGH = 2e-3  # relative gain below which the fit has converged
_WAITS = 0.9  # share of the load in service below which requests wait for a slot
_CLEARLY = 0.8  # ratio of misfits that counts as a real improvement
_SAME = 0.2  # relative difference between mean lengths that may be chance
_POOR = 1.5  # misfit per figure from which other ways of reading prompts are tried
_WAYS: tuple[tuple[PrefillMode, int], ...] = (
    ("chunked", 512),
    ("chunked", 8192),
    ("whole", 2048),
    ("apart", 8192),
)
_WAITING = 0.5  # mean number of waiting requests from which all slots are taken
_FEWEST_LANES = 8  # individual requests for a slope
_VARIED = 0.1  # coefficient of variation of their lengths
_EXACT = 0.01  # error of a slope that is assumed at least, relative to the time per token
_FULL = 0.9  # peak use from which the KV cache is the limit

Vector = NDArray[np.float64]


@frozen
class TokenSlope:
    """Growth of a time in seconds per token, with its standard error."""

    figure: str  # TTFT, by tokens of the prompt; or TPOT, by tokens of context
    value: float
    error: float

    def miss(self, engine: TextEngine) -> float:
        """Return the deviation of an engine from this growth in standard errors."""
        of_step = engine.context_s
        found = of_step + engine.prompt_s * (1 - engine.cached) if self.figure == TTFT else of_step
        return (found - self.value) / self.error


@frozen
class TextObservation:
    """A measured load of a text server; times in nanoseconds."""

    load: TextLoad
    seconds: float
    count: int
    figures: Mapping[str, float]
    noise: Mapping[str, float]  # standard deviations of logarithms
    requests_per_s: float
    tokens_per_s: float
    slots: int | None = None  # slots and KV cache as reported by the engine's metrics
    kv_tokens: int | None = None
    cached: float = 0.0  # share of the prompt tokens
    knows_prompts: bool = True
    knows_spread: bool = True  # of the lengths; otherwise only their means
    server: str | None = None
    slopes: tuple["TokenSlope", ...] = ()  # at one request in flight


@frozen
class FittedText:
    """A fitted server and the engines one standard deviation away from it."""

    engine: TextEngine
    plausible: tuple[TextEngine, ...]
    misfit: float  # mean squared residual in standard deviations
    notes: tuple[str, ...] = ()


# --- what a level shows


def is_text_run(result: Result) -> bool:
    """Return whether the run measured a server whose answers are counted in tokens."""
    found = [level.measurement for level in result.levels]
    return any(row is not None and row.tokens is not None and row.tokens.output > 0 for row in found)


def maybe_text_observation(level: Level, *, is_random: bool) -> TextObservation | None:
    """Return the figures of a level of a text server; None if it has no counted answers."""
    found = level.measurement
    if found is None or not found.request_count or found.tokens is None or not found.tokens.output:
        return None
    tokens, llm = found.tokens, None if found.metrics is None else found.metrics.llm
    figures, noise = _figures(found)
    prompts, answers = _lengths(tokens, found.request_count)
    cached = tokens.cached / tokens.prompt if tokens.cached and tokens.prompt else 0.0
    if not cached and llm is not None:
        cached = llm.prefix_share or 0.0
    slots = None
    if llm is not None:
        is_waiting = (llm.waiting_mean or 0.0) > _WAITING
        is_full = (llm.kv_cache_max or 0.0) > _FULL
        slots = llm.slots
        if slots is None and is_waiting and not is_full and llm.running_max:
            slots = round(llm.running_max)
    return TextObservation(
        load=TextLoad(
            level.mode,
            float(level.value),
            measured_pairs(prompts, answers),
            is_random,
        ),
        seconds=found.duration_ns / NS_PER_S,
        count=found.request_count,
        figures=figures,
        noise=noise,
        requests_per_s=found.infer_per_s.value / found.batch,
        tokens_per_s=tokens.output_per_s if tokens.output_interval is None else tokens.output_interval.value,
        slots=slots,
        kv_tokens=None if llm is None else llm.kv_tokens,
        cached=min(cached, 0.99),
        knows_prompts=prompts is not None,
        knows_spread=answers.min_ns is not None or bool(answers.percentiles),
        server=None if llm is None else llm.server,
        slopes=tuple(_slopes(found.lanes)) if level.mode == "concurrency" and level.value == 1 else (),
    )


def _lengths(tokens: TokenFigures, count: int) -> tuple[Distribution | None, Distribution]:
    """Return the lengths of prompts and answers; another tool's file may state only totals."""

    def known(total: float, lengths: Distribution) -> Distribution:
        return lengths if lengths.count else Distribution(count, round(total / count), None, None, None, ())

    prompts = known(tokens.prompt, tokens.per_prompt) if tokens.prompt > 0 else None
    return prompts, known(tokens.output, tokens.per_answer)


def _slopes(lanes: Sequence[Lane]) -> Iterator[TokenSlope]:
    """Yield how times grow with tokens, from requests that were alone on the server."""
    rows = [lane for lane in lanes if lane.output_tokens > 1 and lane.prompt_tokens > 0 and lane.first_ns > 0]
    prompts = np.array([lane.prompt_tokens for lane in rows], dtype=np.float64)
    outputs = np.array([lane.output_tokens for lane in rows], dtype=np.float64)
    first = np.array([lane.first_ns - lane.sent_ns for lane in rows]) / NS_PER_S
    steps = np.array([lane.end_ns - lane.first_ns for lane in rows]) / NS_PER_S / np.maximum(outputs - 1, 1)
    for figure, tokens, times in ((TTFT, prompts, first), (TPOT, prompts + outputs / 2, steps)):
        if len(rows) < _FEWEST_LANES or tokens.std() < _VARIED * tokens.mean():
            continue
        value = float(np.cov(tokens, times)[0, 1] / tokens.var(ddof=1))
        left = times - times.mean() - value * (tokens - tokens.mean())
        error = math.sqrt(float(left @ left) / (len(rows) - 2)) / (tokens.std() * math.sqrt(len(rows)))
        yield TokenSlope(figure, max(value, 0.0), max(error, _EXACT * float(times.mean() / tokens.mean())))


def _figures(found: Measurement) -> tuple[dict[str, float], dict[str, float]]:
    known = dict(found.latency_intervals)
    figures: dict[str, float] = {}
    noise: dict[str, float] = {}
    sources: list[tuple[str, Distribution | None]] = [
        ("", found.latency),
        (TTFT, None if found.streaming is None else found.streaming.first),
        (TPOT, None if found.tokens is None else found.tokens.between),
    ]
    for prefix, times in sources:
        if times is None or not times.count or not times.mean_ns:
            continue
        percents = {f"p{plain_number(p)}": float(ns) for p, ns in times.percentiles}
        for name, value in {"mean": float(times.mean_ns), **percents}.items():
            label = prefix if prefix and name == "mean" else f"{prefix} {name}".strip()
            if label not in TIME_FIGURES or value <= 0:
                continue
            figures[label] = value
            noise[label] = _noise(label, times.interval(name) if prefix else known.get(name), times.count)
    return figures, noise


def _noise(name: str, found: Estimate | None, count: int) -> float:
    limits = None if found is None else found.limits
    if limits is None or limits[0] <= 0:
        return UNSURE[name] * math.sqrt(_USUAL / max(count, 1))
    return math.log(limits[1] / limits[0]) / 2 / _NORMAL


# --- the fit


def fit_text(rows: Sequence[TextObservation]) -> FittedText:
    """Fit the engine to measured loads."""
    last = rows[-1]
    slots = next((row.slots for row in reversed(rows) if row.slots is not None), None)
    kv = next((row.kv_tokens for row in reversed(rows) if row.kv_tokens is not None), None)
    start = replace(_first_guess(rows), slots=slots, kv_tokens=kv, cached=last.cached)
    notes: list[str] = []
    seen = None if slots is not None else _seen_slots(rows)
    if seen is not None:
        start = replace(start, slots=seen)
    found = _Fit(rows, start, _ITERATIONS if seen is None else _FEW_ITERATIONS).solved()
    if seen is not None:
        found = _with_best_slots(rows, found)
        notes.append(
            f"about {found.engine.slots} requests run at once, as inferred from times and throughput: read the "
            "engine's metrics (--metrics-url) to know whether slots or the KV cache limit them"
        )
    elif slots is None:
        most = max(row.load.value for row in rows if row.load.mode == "concurrency") if _closed(rows) else 0
        notes.append(
            "no measured load waited for a slot, so the number of slots is assumed to be unlimited; measure a load "
            f"above {plain_number(most)} in flight, or set MODEL.slots"
            if most
            else "no measured load waited for a slot, so the number of slots is assumed to be unlimited"
        )
    if found.misfit > _POOR:
        found = _with_best_way(rows, found)
    return FittedText(found.engine, found.plausible(), found.misfit, tuple(notes))


def usual_pairs(rows: Sequence[TextObservation]) -> tuple[Pair, ...]:
    """Return the lengths of the last load and of all loads with similar lengths."""
    last = mean_lengths(rows[-1].load.pairs)
    found: list[Pair] = []
    for row in rows:
        means = mean_lengths(row.load.pairs)
        if all(abs(one / other - 1) < _SAME for one, other in zip(means, last, strict=True)):
            count = len(row.load.pairs)
            found += [row.load.pairs[number % count] for number in range(row.count)]
    return reduced(found)


def _closed(rows: Sequence[TextObservation]) -> list[TextObservation]:
    return [row for row in rows if row.load.mode == "concurrency"]


def _first_guess(rows: Sequence[TextObservation]) -> TextEngine:
    """Return rough parameters from the lightest load."""
    light = min(rows, key=lambda row: row.figures.get(TPOT, row.figures["mean"]))
    prompt, output = mean_lengths(light.load.pairs)
    step_s = light.figures.get(TPOT, light.figures["mean"] / max(output, 1.0)) / NS_PER_S
    first_s = light.figures.get(TTFT, light.figures["mean"] / max(output, 1.0)) / NS_PER_S
    read_s = max(first_s - step_s, 0.05 * first_s)
    return TextEngine(
        fixed_s=0.9 * step_s,
        answer_s=0.02 * step_s,
        context_s=0.0,
        prompt_s=0.8 * read_s / max(prompt * (1 - light.cached), 1.0),
        outside_s=0.2 * read_s,
        prefill_tokens=2048,
        prefill="chunked",
    )


def _seen_slots(rows: Sequence[TextObservation]) -> int | None:
    """Return the requests in service at the highest concurrency if others wait; None if none do, or if unknown."""
    closed = [row for row in _closed(rows) if TTFT in row.figures]
    if len(closed) < 2:
        return None
    light = min(closed, key=lambda row: row.load.value)
    top = max(closed, key=lambda row: row.load.value)
    waits_s = max(0.0, top.figures.get("ttft p50", top.figures[TTFT]) - 3 * light.figures[TTFT]) / NS_PER_S
    inside = top.load.value - top.requests_per_s * waits_s
    return max(1, round(inside)) if inside < _WAITS * top.load.value else None


class _Fit:
    """Parameters, their scales and priors, and the residuals of the measured loads."""

    def __init__(
        self, rows: Sequence[TextObservation], start: TextEngine, iterations: int = _ITERATIONS
    ) -> None:
        self._rows = rows
        self._start = start
        self._iterations = iterations
        guess = np.array([getattr(start, name) for name in PARAMETERS])
        step_s = start.step_s(1, 0)
        first_s = start.prompt_s * mean_lengths(rows[0].load.pairs)[0] + start.outside_s
        self._scale: Vector = np.array(
            [step_s, step_s / 30, step_s / 20_000, max(start.prompt_s, 1e-9), max(first_s / 4, 1e-5)]
        )
        # Standard deviations of the priors, in units of the scale.
        self._prior: Vector = np.array([3.0, 10.0, 4.0, 2.0, 3.0])
        self._guess = guess
        self.engine = start
        self.misfit = math.inf
        self._root: Vector = np.zeros((len(PARAMETERS), len(PARAMETERS)))

    def solved(self) -> "_Fit":
        found = self._guess.copy()
        residuals = self._residuals(found)
        damping = 0.01
        slope = self._slope(found, residuals)
        for _ in range(self._iterations):
            better = None
            for _ in range(3):
                square = slope.T @ slope
                step = np.linalg.solve(square + damping * np.diag(np.diag(square)), -slope.T @ residuals)
                tried = np.maximum(found + step * self._scale, 0.0)
                tried[0] = max(tried[0], 1e-7)
                after = self._residuals(tried)
                if after @ after < residuals @ residuals:
                    better = tried, after
                    damping = max(damping / 5, 1e-4)
                    break
                damping *= 8
            if better is None:
                break
            gain = 1 - (better[1] @ better[1]) / (residuals @ residuals)
            found, residuals = better
            slope = self._slope(found, residuals)
            if gain < _ENOUGH:
                break
        count = max(1, len(residuals) - len(PARAMETERS))
        self.misfit = float(residuals[: -len(PARAMETERS)] @ residuals[: -len(PARAMETERS)]) / count
        self.engine = self._with(found)
        covariance = np.linalg.inv(slope.T @ slope) * max(1.0, self.misfit)
        values, vectors = np.linalg.eigh(covariance)
        self._root = vectors * np.sqrt(np.maximum(values, 0.0)) * self._scale[:, None]
        return self

    def plausible(self) -> tuple[TextEngine, ...]:
        base = np.array([getattr(self.engine, name) for name in PARAMETERS])
        rows = []
        for direction in self._root.T:
            # Of both ends, the one further inside the possible values.
            ends = (base + direction, base - direction)
            rows.append(max(ends, key=lambda end: float((end / self._scale).min())))
        return tuple(self._with(np.maximum(row, 0.0)) for row in rows)

    def _with(self, values: Vector) -> TextEngine:
        fixed, answer, context, prompt, outside = values.tolist()
        return replace(
            self._start,
            fixed_s=fixed,
            answer_s=answer,
            context_s=context,
            prompt_s=prompt,
            outside_s=outside,
        )

    def _slope(self, found: Vector, residuals: Vector) -> Vector:
        columns = []
        for place, scale in enumerate(self._scale.tolist()):
            step = max(0.05 * found[place], 0.05 * scale)
            moved = found.copy()
            moved[place] += step
            columns.append((self._residuals(moved) - residuals) / (step / scale))
        return np.array(columns).T

    def _residuals(self, values: Vector) -> Vector:
        engine = self._with(values)
        found = [value for row in self._rows for value in _misses(engine, row)]
        return np.array([*found, *((values - self._guess) / self._scale / self._prior).tolist()])


def _misses(engine: TextEngine, row: TextObservation) -> list[float]:
    """Return the weighted logarithms of simulated over measured figures."""
    simulated = simulate_observed(engine, row, requests=_REQUESTS)
    figures = [
        math.log(max(simulated.get(name, 0.0), 1.0) / row.figures[name])
        / math.hypot(row.noise[name], _NOT_BETTER[name])
        for name in _FITTED
        if name in row.figures
    ]
    return [*figures, *(slope.miss(observed_engine(engine, row)) for slope in row.slopes)]


def simulate_observed(engine: TextEngine, row: TextObservation, *, requests: int) -> Mapping[str, float]:
    """Return the figures of a measured load as simulated."""
    blocks = min(_MOST_BLOCKS, max(1, round(requests / max(row.count, 1))))
    engine = observed_engine(engine, row)
    return simulate_text(engine, row.load, row.seconds, blocks=blocks, seed=1, most=requests).figures()


def observed_engine(engine: TextEngine, row: TextObservation) -> TextEngine:
    """Return the engine with the settings that it had when this load was measured."""
    return replace(
        engine,
        cached=row.cached,
        slots=engine.slots if row.slots is None else row.slots,
        kv_tokens=engine.kv_tokens if row.kv_tokens is None else row.kv_tokens,
    )


def _with_best_slots(rows: Sequence[TextObservation], found: _Fit) -> _Fit:
    """Choose the number of slots that explains the loads best, first near the guess, then next to the best one."""
    best = found.engine.slots or 1
    for reach in (0.2, 0.05):
        step = max(1, round(best * reach / 4))
        tried = sorted({max(1, best + step * place) for place in range(-4, 5)})
        best = min(tried, key=lambda slots: _total(rows, replace(found.engine, slots=slots)))
        if step == 1:
            break
    return _Fit(rows, replace(found.engine, slots=best)).solved()


def _with_best_way(rows: Sequence[TextObservation], found: _Fit) -> _Fit:
    """Choose how prompts are read, if that explains the loads clearly better."""
    best = found
    for prefill, tokens in _WAYS:
        start = replace(found.engine, prefill=prefill, prefill_tokens=tokens)
        other = _Fit(rows, start, _FEW_ITERATIONS).solved()
        if other.misfit < (_CLEARLY if best is found else 1.0) * best.misfit:
            best = other
    return best if best is found else _Fit(rows, best.engine).solved()


def _total(rows: Sequence[TextObservation], engine: TextEngine) -> float:
    return sum(value**2 for row in rows for value in _misses(engine, row))
