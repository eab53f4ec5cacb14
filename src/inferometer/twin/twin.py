"""A fitted twin as one value and one file: its inputs, its errors and its forecasts."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal

from inferometer.base.answer_file import Answer
from inferometer.base.frozen import frozen
from inferometer.base.units import plain_number
from inferometer.diagnose.pipeline import Cores, Devices, Pipeline, Station
from inferometer.diagnose.text_engine import TextEngine
from inferometer.diagnose.text_lengths import Pair, mean_lengths
from inferometer.diagnose.text_load import TIME_FIGURES
from inferometer.options.effective import common_unit, rate_unit
from inferometer.stats.estimate import Estimate
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN, Ruling, rule

COMMAND = "twin"
CONFIDENCE = 0.9  # level of every forecast interval

THROUGHPUT = "throughput"  # infer/s
LATENCIES = ("mean", "p50", "p90", "p99")  # ns
FIGURES = (THROUGHPUT, *LATENCIES)
TOKENS = "tokens"  # output tokens per second
TEXT_FIGURES = (THROUGHPUT, TOKENS, *TIME_FIGURES)  # of servers that generate text
WITHIN = {THROUGHPUT: 0.15, "p99": 0.30}  # largest error of a good prediction
FIRST_P99 = "ttft p99"
WITHIN_TEXT = {"mean": 0.15, FIRST_P99: 0.25}  # the same for servers that generate text

INSTANCES, BATCHING, MAX_BATCH, DELAY_US = "instances", "batching", "max_batch", "delay_us"
SLOTS, KV_TOKENS, PREFILL_TOKENS = "slots", "kv_tokens", "prefill_tokens"
TEXT_SETTINGS = (SLOTS, KV_TOKENS, PREFILL_TOKENS)
SETTINGS = (INSTANCES, BATCHING, MAX_BATCH, DELAY_US, *TEXT_SETTINGS)
ITEMS = "items"  # inferences per request; only in measured loads

Basis = Literal["measured", "interpolated", "extrapolated"]
LoadMode = Literal["concurrency", "request_rate"]


@frozen
class StepSetting:
    """A setting of a model that replaces its last measured value in a prediction."""

    model: str
    name: str  # one of SETTINGS, or ITEMS
    value: float  # for batching, 0 or 1

    @property
    def text(self) -> str:
        shown = ("off", "on")[bool(self.value)] if self.name == BATCHING else f"{plain_number(self.value)}"
        return f"{self.model}.{self.name}={shown}"


@frozen
class TextLengths:
    """Equally likely pairs of prompt and answer lengths, in tokens."""

    pairs: tuple[Pair, ...]

    @property
    def text(self) -> str:
        prompt, output = mean_lengths(self.pairs)
        return f"{prompt:.0f} + {output:.0f} tokens"


@frozen
class LoadPart:
    """The load of one model."""

    model: str
    mode: LoadMode
    value: float
    arrivals: str = "constant"  # or poisson, gamma or weibull; only for rates
    lengths: TextLengths | None = None  # only for servers that generate text
    burstiness: float = 1.0  # of gamma and weibull

    @property
    def text(self) -> str:
        lengths = "" if self.lengths is None else f", {self.lengths.text}"
        if self.mode == "concurrency":
            return f"concurrency {plain_number(self.value)}{lengths}"
        arrivals = "" if self.arrivals == "constant" else ", random"
        return f"{plain_number(self.value)} requests/s{arrivals}{lengths}"


@frozen
class TwinLoad:
    """The load of each model at the same time, and the settings that differ from the twin."""

    parts: tuple[LoadPart, ...]
    settings: tuple[StepSetting, ...] = ()


@frozen
class Band:
    """A predicted figure with its 90 % interval."""

    value: float
    low: float
    high: float

    def covers(self, value: float) -> bool:
        return self.low <= value <= self.high


@frozen
class LoadForecast:
    """The forecast for one model under a load, with the measured figures if available."""

    load: TwinLoad
    model: str
    basis: Basis
    distance: float  # to the nearest measured load; 1 is about e times the load, or one changed setting
    bands: Mapping[str, Band]  # by figure; without latencies if the load exceeds the capacity
    in_flight: float
    is_overloaded: bool = False
    may_keep_up: bool = False  # although it is overloaded: the interval of the throughput reaches the rate
    measured: Mapping[str, float] | None = None
    ends: Mapping[str, tuple[float, float]] = field(
        default_factory=dict
    )  # 95 % intervals of the measured figures

    @property
    def part(self) -> LoadPart:
        return next(part for part in self.load.parts if part.model == self.model)

    def error(self, figure: str) -> float | None:
        """Return the ratio of predicted to measured, minus 1; None if either is missing."""
        found = (self.measured or {}).get(figure)
        band = self.bands.get(figure)
        return band.value / found - 1 if band is not None and found else None

    def error_percent(self, figure: str) -> Estimate | None:
        """Return the error in percent, with the interval that the uncertainty of the measurement gives it."""
        error, ends = self.error(figure), self.ends.get(figure)
        if error is None:
            return None
        if ends is None or ends[0] <= 0:
            return Estimate(100 * error)
        low, high = (100 * (self.bands[figure].value / end - 1) for end in reversed(ends))
        return Estimate(100 * error, min(low, 100 * error), max(high, 100 * error))

    def misses(self, figure: str, most: float) -> Ruling | None:
        """Rule whether the prediction is off by more than this share; None without a prediction or a measurement."""
        percent = self.error_percent(figure)
        if percent is None:
            return None
        above, below = (
            rule(percent, limit=sign * 100 * most, is_above=sign > 0).ruling for sign in (1.0, -1.0)
        )
        if SHOWN in (above, below):
            return SHOWN
        return NOT_SHOWN if above == below == NOT_SHOWN else INCONCLUSIVE

    def is_covered(self, figure: str) -> bool | None:
        found = (self.measured or {}).get(figure)
        band = self.bands.get(figure)
        return None if band is None or not found else band.covers(found)


@frozen
class Anchor:
    """A measured load with the residuals of the plain simulation: logarithms of measured over simulated."""

    model: str
    load: TwinLoad
    in_flight: float
    residuals: Mapping[str, float]
    noise: Mapping[str, float]  # standard deviations of the residuals, from the measured figures
    measured: Mapping[str, float]


@frozen
class ErrorModel:
    """The error of the simulation, as standard deviations of logarithms."""

    base: float  # at the measured loads
    per_distance: float  # increase per unit of distance


@frozen
class TextModel:
    """A fitted server that generates text."""

    engine: TextEngine
    plausible: tuple[TextEngine, ...]  # one standard deviation of the fit away, each in its own direction
    lengths: TextLengths  # as last measured
    knows_prompts: bool  # whether the server reported the lengths of prompts
    has_streams: bool  # whether first tokens were observed
    server: str | None = None  # kind of engine, if its metrics were read


@frozen
class TwinModel:
    """One fitted model, configured as when last measured. With `text`, it has no stations."""

    name: str
    stations: tuple[Station, ...]
    outside_s: float
    outside_cpu_s: float
    items: int  # inferences per request
    spread: tuple[float, ...]  # times of a request relative to the mean, the same in all steps; if empty,
    variation: float  # the coefficient of variation of each step on its own
    cores: float | None  # cores of the server's machine that were available; None if unknown
    scaling: float
    gpus: int
    turn: float
    measured_s: float  # duration of a measured load
    asked: Mapping[str, Any]  # the options it was measured with
    text: TextModel | None = None
    is_plain: bool = False  # fitted to latencies alone, whatever the server's configuration says
    source: str = ""  # the other tool that measured it; `asked` is then empty

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the predicted figures."""
        return FIGURES if self.text is None else TEXT_FIGURES

    @property
    def rate_unit(self) -> str:
        """The unit of throughput."""
        return rate_unit("openai" if self.text is not None else str(self.asked.get("service_kind", "")))

    def pipeline(self) -> Pipeline:
        return Pipeline(
            stations=self.stations,
            outside_s=self.outside_s,
            outside_cpu_s=self.outside_cpu_s,
            cores=Cores(scaling=self.scaling) if self.cores is None else Cores(self.cores, self.scaling),
            items=self.items,
            devices=Devices(self.gpus, self.turn),
            spread=self.spread,
            variation=self.variation,
        )


@frozen
class Twin(Answer):
    """A twin; `forecasts` cover the measured loads after a fit, and the requested loads otherwise."""

    kind: ClassVar[str] = "twin"
    schema: ClassVar[int] = 1
    remedy: ClassVar[str] = "fit it again with `inferometer twin fit`"

    tool: str
    command: str  # twin fit, twin predict or twin check
    started_at: str
    models: tuple[TwinModel, ...]
    anchors: tuple[Anchor, ...]
    errors: Mapping[str, Mapping[str, ErrorModel]]  # by model and figure
    forecasts: tuple[LoadForecast, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = {model.name for model in self.models}
        for row in self.forecasts:
            if row.model not in known or all(part.model != row.model for part in row.load.parts):
                raise ValueError(f"forecast of '{row.model}', which is not in the twin or not in the load")
        for model in self.models:
            missing = [name for name in model.figures if name not in self.errors.get(model.name, ())]
            if missing:
                raise ValueError(f"no error model for {missing[0]} of '{model.name}'")

    @property
    def rate_unit(self) -> str:
        """The unit of throughput of all models together."""
        return common_unit(model.rate_unit for model in self.models)

    def model(self, name: str) -> TwinModel | None:
        return next((model for model in self.models if model.name == name), None)

    @property
    def within(self) -> Mapping[str, float]:
        """The judged figures, each with the largest error of a good prediction."""
        return WITHIN_TEXT if any(model.text is not None for model in self.models) else WITHIN

    @property
    def is_check(self) -> bool:
        """Whether it is the answer of a check, whose ruling counts."""
        return self.command == f"{COMMAND} check"

    @property
    def ruling(self) -> Ruling:
        """Rule whether any prediction is off by more than that; one inconclusive figure leaves it open."""
        found = [row.misses(name, most) for row in self.forecasts for name, most in self.within.items()]
        known = [row for row in found if row is not None]
        return min(known, key=(SHOWN, INCONCLUSIVE, NOT_SHOWN).index, default=INCONCLUSIVE)
