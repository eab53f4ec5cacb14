"""A scenario as it is written: classes of traffic, and the phases they go through. Checked, with the path of a mistake.

    server: localhost:8000
    classes:
      detector: {model: detector, rate: 30, slo: p99<50ms}
      classifier: {model: classifier, concurrency: 2}
    phases:
      - {name: warm-up, for: 5s, load: 0.5}
      - {name: ramp, for: 20s, load: 0.5..2}
      - {name: peak, for: 30s, load: 2}

A class has one load of its own: concurrency, rate, shape, replay or sessions. The `load` of a phase multiplies rates
and concurrencies; shapes and traces go on through the phases as they are.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from inferometer.base.confined import check_path
from inferometer.base.errors import UsageError
from inferometer.base.reading import CONFIG, read_text
from inferometer.base.text import nearest
from inferometer.base.units import NS_PER_S, parse_duration_ns
from inferometer.base.yaml_text import YamlError, load_yaml
from inferometer.model.flow import VISIT, references, with_references

MOST_MISTAKES = 20  # that are shown
LOADS = ("concurrency", "rate", "shape", "replay", "sessions")
WARM_UP = "warm-up"
_NOT_OF_VISITS = ("model", "data", "batch", "replay", "sessions")
_EXAMPLE = "see `inferometer help scenarios`, or --schema"

Scalar = str | int | float | bool


def _seconds(value: Any) -> float:
    """Of a time as people write it; a number is seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return parse_duration_ns(str(value), "for") / NS_PER_S
    except (UsageError, OverflowError) as error:
        raise ValueError(f"'{value}' is no time; write it like 30s or 5m") from error


def _factors(value: Any) -> tuple[float, float]:
    """`2`, or `0.5..2` for a ramp."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return (float(value[0]), float(value[1]))
    first, dots, last = str(value).partition("..")
    try:
        found = (float(first), float(last if dots else first))
    except ValueError:
        raise ValueError(f"'{value}' is no factor; write 2, or 0.5..2 for a ramp") from None
    if not all(0 <= factor < 1e6 for factor in found):
        raise ValueError(f"'{value}' is no factor from 0 on")
    return found


Seconds = Annotated[
    float,
    BeforeValidator(_seconds, json_schema_input_type=str | float),
    Field(gt=0, le=366 * 24 * 3600, description="A time such as 30s or 5m; a number is seconds."),
]
Factors = Annotated[
    tuple[float, float],
    BeforeValidator(_factors, json_schema_input_type=str | float),
    Field(description="Times the load of the classes: 2, or 0.5..2 for a ramp."),
]


def _at(where: str, said: str) -> PydanticCustomError:
    """A mistake further down than where it is found."""
    return PydanticCustomError("at", "{said}", {"at": where, "said": said})


def _with_references(value: Any) -> Any:
    """Checked, and left as it is written."""
    with_references(value)
    return value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StepSpec(_Strict):
    """A step of a flow: a call, and how long the user thinks after its answer."""

    call: Annotated[str, Field(min_length=1, description="Model to call.")]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,60}$")] | None = Field(
        None, description="What later steps call it; without one, the name of the model."
    )
    inputs: Annotated[dict[str, Any], BeforeValidator(_with_references)] = Field(
        default_factory=dict,
        description="Values by input; $STEP.OUTPUT is that of an earlier answer, $visit the number of the visit.",
    )
    body: Annotated[Any, BeforeValidator(_with_references)] = Field(
        None, description="JSON to send to servers that have no inputs, with references like those of inputs."
    )
    think: Annotated[float, BeforeValidator(_seconds, json_schema_input_type=str | float), Field(ge=0)] = (
        Field(0.0, description="How long the user thinks after the answer, such as 200ms.")
    )

    @property
    def title(self) -> str:
        return self.call if self.name is None else self.name


class ClassSpec(_Strict):
    """One class of traffic: what it sends where, how often, and what was promised to it."""

    model: str = Field("", description="Model; without one, that of the command line.")
    server: str | None = Field(
        None, description="Address; without one, that of the scenario or the command line."
    )
    protocol: Literal["http", "grpc"] | None = None
    kind: str | None = Field(None, description="Kind of server, as with --service-kind.")
    data: str | list[str] | None = Field(None, description="What to send, as with --data.")
    flow: Annotated[list[StepSpec], Field(min_length=1, max_length=100)] | None = Field(
        None, description="Steps of a visit, instead of a model and data; the load is that of visits."
    )
    visit: str | None = Field(
        None, description="A visit written in Python, as FILE.py:FUNCTION, instead of a flow."
    )
    steps: dict[str, str] | list[str] | None = Field(
        None, description="Of a visit in Python: the model of each step, by its name; or the models alone."
    )
    batch: Annotated[int, Field(ge=1)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="Requests in flight."
    )
    rate: Annotated[float, Field(gt=0, le=1e7)] | None = Field(None, description="Requests per second.")
    arrivals: Literal["constant", "poisson"] = Field(
        "constant", description="Gaps between requests at a rate."
    )
    shape: str | None = Field(
        None, description="How the rate changes over the whole scenario, as with --shape-load."
    )
    replay: str | None = Field(None, description="A trace to replay from the start of the scenario on.")
    speed: Annotated[float, Field(gt=0)] = Field(1.0, description="How fast the trace is replayed.")
    sessions: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Chat sessions of the data in parallel, with their pauses; played again when all were.",
    )
    slo: str | None = Field(None, description="What was promised to this class, such as p99<50ms.")
    workers: Annotated[int, Field(ge=1, le=64)] = Field(1, description="Processes that send this class.")
    options: dict[str, Scalar | list[Scalar]] = Field(
        default_factory=dict, description="Other options of `inferometer measure` by their long names."
    )

    @model_validator(mode="after")
    def _one_load(self) -> "ClassSpec":
        given = [name for name in LOADS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"has {' and '.join(given)}; a class has one load")
        if self.arrivals == "poisson" and given and self.rate is None:
            raise ValueError(f"arrivals are for a rate, and the class has {given[0]}")
        if self.speed != 1 and self.replay is None:
            raise ValueError("speed is for replay, which the class does not have")
        return self

    @field_validator("flow", mode="after")
    @classmethod
    def _earlier_steps(cls, flow: list[StepSpec] | None) -> list[StepSpec] | None:
        """Names are used once, and values are those of steps before."""
        names: list[str] = []
        for number, step in enumerate(flow or ()):
            if step.title in names or step.title == VISIT:
                said = f"'{step.title}' is taken; give this step another name"
                raise _at(f"{number}.name", said)
            for field in ("inputs", "body"):
                for where, reference in references(with_references(getattr(step, field)), field):
                    if reference.step not in (VISIT, *names):
                        known = f"those before it are {', '.join(names)}" if names else "it is the first one"
                        said = f"{reference} is of no step before '{step.title}': {known}"
                        raise _at(f"{number}.{where}", said)
            names.append(step.title)
        return flow

    @model_validator(mode="after")
    def _one_source(self) -> "ClassSpec":
        if self.flow is not None and self.visit is not None:
            raise ValueError("has a flow and a visit; give one of them")
        if (self.visit is None) != (self.steps is None):
            raise ValueError(
                "has visit or steps, and each needs the other: steps are the models that it calls"
            )
        if self.visit is not None and not re.fullmatch(r".+:[A-Za-z_][A-Za-z0-9_.]*", self.visit):
            raise _at("visit", f"'{self.visit}' is no function; write FILE.py:FUNCTION")
        if self.has_visits:
            other = next((name for name in _NOT_OF_VISITS if getattr(self, name)), None)
            if other is not None:
                raise ValueError(f"has {other}, which visits do not have")
        return self

    @property
    def has_visits(self) -> bool:
        return self.flow is not None or self.visit is not None

    @property
    def models_by_step(self) -> dict[str, str]:
        """Of visits: the model of each step."""
        if self.flow is not None:
            return {step.title: step.call for step in self.flow}
        steps = self.steps or {}
        return dict(steps) if isinstance(steps, Mapping) else {model: model for model in steps}

    @property
    def names_model(self) -> bool:
        return bool(self.model) or self.has_visits

    @property
    def load(self) -> str:
        """Which of the loads it has; empty when it is left to the command line."""
        return next((name for name in LOADS if getattr(self, name) is not None), "")


class ChangeSpec(_Strict):
    """What a phase changes for one class: a factor of its own, or another rate or concurrency."""

    load: Factors | None = None
    rate: Annotated[float, Field(gt=0, le=1e7)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=100_000)] | None = None

    @model_validator(mode="after")
    def _one_change(self) -> "ChangeSpec":
        given = [name for name in ("load", "rate", "concurrency") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("gives one of load, rate and concurrency")
        return self


class PhaseSpec(_Strict):
    """A time with a name, in which the load stays the same or goes evenly from one value to another."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    seconds: Seconds = Field(alias="for")
    load: Factors = (1.0, 1.0)
    counted: bool | None = Field(
        None, description="Whether it is reported; a phase called warm-up is not, by default."
    )
    classes: dict[str, ChangeSpec] = Field(
        default_factory=dict, description="What is different for one class."
    )
    command: str | None = Field(None, description="A shell command to start when the phase begins.")

    @property
    def is_counted(self) -> bool:
        return self.name != WARM_UP if self.counted is None else self.counted


class Scenario(_Strict):
    """Classes of traffic and the phases that they go through together."""

    name: str = ""
    about: str = Field("", description="What it is for, in a sentence.")
    server: str | None = Field(None, description="Address of the classes that name none.")
    classes: Annotated[dict[str, ClassSpec], Field(min_length=1, max_length=100)]
    phases: Annotated[list[PhaseSpec], Field(min_length=1, max_length=1000)] = Field(
        default_factory=lambda: [PhaseSpec.model_validate({"name": "steady", "for": "10s"})]
    )

    @model_validator(mode="after")
    def _names(self) -> "Scenario":
        names = [phase.name for phase in self.phases]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two phases are called '{twice}'")
        if not any(phase.is_counted for phase in self.phases):
            raise ValueError("no phase is counted")
        for number, phase in enumerate(self.phases):
            for name, change in phase.classes.items():
                if name not in self.classes:
                    raise ValueError(f"phases.{number}.classes names '{name}', which is no class")
                load = self.classes[name].load
                if load not in ("", "rate", "concurrency") or (
                    load and change.load is None and getattr(change, load) is None
                ):
                    raise ValueError(
                        f"phases.{number}.classes.{name} changes what the class does not have: it has {load}"
                    )
        return self

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)


# --- reading


def parse_scenario(text: str, origin: str) -> Scenario:
    """The scenario in a text of YAML; a mistake is named by its path."""
    try:
        document = load_yaml(text)
    except YamlError as error:
        place = origin if error.line is None else f"{origin}:{error.line}"
        raise UsageError(f"{place}: this is not YAML: {error.reason}", remedy="correct the file") from error
    return checked_scenario(document, origin)


def read_scenario(path: Path) -> Scenario:
    check_path(path)
    remedy = "give a file, or one of those that --scenario list shows"
    text = read_text(path, CONFIG, "the scenario", remedy=remedy)
    found = parse_scenario(text, str(path))
    return found if found.name else found.model_copy(update={"name": path.stem})


def checked_scenario(document: Any, origin: str) -> Scenario:
    """Of what YAML made of a text, or of what Python code gives."""
    if not isinstance(document, Mapping):
        raise UsageError(f"{origin} holds no scenario", remedy=_EXAMPLE)
    try:
        return Scenario.model_validate(document)
    except ValidationError as error:
        raise _all_mistakes(error, origin) from error


def _all_mistakes(error: ValidationError, origin: str) -> UsageError:
    """One sentence for every mistake, each with its remedy; a single one keeps the remedy apart."""
    rows = [(_place(row), row) for row in error.errors()]
    unknown = {where: close for where, row in rows if (close := _close_key(row, where))}
    meant = {f"{where.rpartition('.')[0]}.{close}".lstrip(".") for where, close in unknown.items()}
    # A key that is missing because it is misspelt is one mistake.
    kept = [(where, row) for where, row in rows if row["type"] != "missing" or where not in meant]
    if len(kept) == 1:
        ((where, row),) = kept
        return UsageError(f"{origin}: {_sentence(where, row)}", remedy=_remedy(row, where))
    lines = []
    for where, row in kept[:MOST_MISTAKES]:
        remedy = _remedy(row, where)
        lines.append(_sentence(where, row) + ("" if remedy == _EXAMPLE else f" ({remedy})"))
    if len(kept) > MOST_MISTAKES:
        lines.append(f"and {len(kept) - MOST_MISTAKES} more")
    return UsageError(f"{origin} has {len(kept)} mistakes: {'; '.join(lines)}", remedy=_EXAMPLE)


def _place(found: Any) -> str:
    place = (*found["loc"], *found.get("ctx", {}).get("at", "").split("."))
    return ".".join(str(part) for part in place if part != "")


def _close_key(found: Any, where: str) -> str:
    """The key that an unknown one is likely to mean."""
    if found["type"] != "extra_forbidden":
        return ""
    models: tuple[type[BaseModel], ...] = (Scenario, ClassSpec, StepSpec, PhaseSpec, ChangeSpec)
    known = [field.alias or name for model in models for name, field in model.model_fields.items()]
    return nearest(where.rpartition(".")[2], known)


def _sentence(where: str, found: Any) -> str:
    said = str(found["msg"]).removeprefix("Value error, ")
    if found["type"] == "extra_forbidden":
        return f"{where} is not known"
    if found["type"] == "missing":
        return f"{where} is missing"
    return f"{where}: {said}" if where else said


def _remedy(found: Any, where: str) -> str:
    if found["type"] != "extra_forbidden":
        return _EXAMPLE
    close = _close_key(found, where)
    if close:
        return f"did you mean '{close}'?"
    return "other options of measure stand under `options`" if ".classes." in f".{where}" else _EXAMPLE


def scenario_schema() -> dict[str, Any]:
    """What a file looks like, as JSON Schema."""
    schema = Scenario.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
