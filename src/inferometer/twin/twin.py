"""A fitted twin as one value and one file: what it was made of, how wrong it was, and what it predicts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from inferometer.base.answer_file import Answer
from inferometer.base.units import plain_number
from inferometer.diagnose.pipeline import Cores, Devices, Pipeline, Station

COMMAND = "twin"
CONFIDENCE = 0.9  # of every interval of a forecast

THROUGHPUT = "throughput"  # infer/s
LATENCIES = ("mean", "p50", "p90", "p99")  # ns
FIGURES = (THROUGHPUT, *LATENCIES)

INSTANCES, BATCHING, MAX_BATCH, DELAY_US = "instances", "batching", "max_batch", "delay_us"
SETTINGS = (INSTANCES, BATCHING, MAX_BATCH, DELAY_US)
ITEMS = "items"  # inferences in a request: only of measured loads

Basis = Literal["measured", "interpolated", "extrapolated"]
LoadMode = Literal["concurrency", "request_rate"]


@dataclass(frozen=True, slots=True)
class StepSetting:
    """A setting of a model that a load is to be predicted with, in place of the one it had last."""

    model: str
    name: str  # one of SETTINGS, or ITEMS
    value: float  # of batching 0 or 1

    @property
    def text(self) -> str:
        shown = ("off", "on")[bool(self.value)] if self.name == BATCHING else f"{plain_number(self.value)}"
        return f"{self.model}.{self.name}={shown}"


@dataclass(frozen=True, slots=True)
class LoadPart:
    """The load of one model."""

    model: str
    mode: LoadMode
    value: float
    arrivals: str = "constant"  # or poisson; of rates only

    @property
    def text(self) -> str:
        if self.mode == "concurrency":
            return f"concurrency {plain_number(self.value)}"
        return f"{plain_number(self.value)} requests/s" + (", random" if self.arrivals == "poisson" else "")


@dataclass(frozen=True, slots=True)
class TwinLoad:
    """What runs at the same time, and what is set otherwise than in the twin."""

    parts: tuple[LoadPart, ...]
    settings: tuple[StepSetting, ...] = ()


@dataclass(frozen=True, slots=True)
class Band:
    """A predicted figure with its 90 % interval."""

    value: float
    low: float
    high: float

    def covers(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class LoadForecast:
    """What is expected of one model under a load, beside what was measured there, if it was."""

    load: TwinLoad
    model: str
    basis: Basis
    distance: float  # from the nearest measured load; 1 is about e times the load, or one thing set otherwise
    bands: Mapping[
        str, Band
    ]  # by name of the figure; without latencies where more is asked for than is served
    in_flight: float
    is_overloaded: bool = False
    measured: Mapping[str, float] | None = None

    @property
    def part(self) -> LoadPart:
        return next(part for part in self.load.parts if part.model == self.model)

    def error(self, figure: str) -> float | None:
        """Predicted over measured, less 1; None where one of the two is missing."""
        found = (self.measured or {}).get(figure)
        band = self.bands.get(figure)
        return band.value / found - 1 if band is not None and found else None

    def is_covered(self, figure: str) -> bool | None:
        found = (self.measured or {}).get(figure)
        band = self.bands.get(figure)
        return None if band is None or not found else band.covers(found)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A measured load, and how far the plain simulation was off there: logarithms of measured over simulated."""

    model: str
    load: TwinLoad
    in_flight: float
    residuals: Mapping[str, float]
    noise: Mapping[str, float]  # standard deviations of them: how sure the measured figures are
    measured: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ErrorModel:
    """How wrong the simulation is, as standard deviations of logarithms."""

    base: float  # at the measured loads
    per_distance: float  # more for each unit of distance


@dataclass(frozen=True, slots=True)
class TwinModel:
    """One model as it was fitted, set up as it was last measured."""

    name: str
    stations: tuple[Station, ...]
    outside_s: float
    outside_cpu_s: float
    items: int  # inferences in a request
    spread: tuple[float, ...]  # of a request's times over their mean, the same in all steps; or else
    variation: float  # of the times in each step by itself: standard deviation over mean
    cores: float | None  # for us, of the server's machine; None where nobody knows
    scaling: float
    gpus: int
    turn: float
    measured_s: float  # how long a load was measured
    asked: Mapping[str, Any]  # the options it was measured with

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


@dataclass(frozen=True, slots=True)
class Twin(Answer):
    """`forecasts` are of the measured loads after a fit, else of what was asked for."""

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
                raise ValueError(f"a forecast of '{row.model}', which is not in the twin or not in the load")
        for model in known:
            missing = [name for name in FIGURES if name not in self.errors.get(model, ())]
            if missing:
                raise ValueError(f"nothing says how wrong {missing[0]} of '{model}' is")

    def model(self, name: str) -> TwinModel | None:
        return next((model for model in self.models if model.name == name), None)
