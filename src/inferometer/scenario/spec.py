"""Scenario files: traffic classes and the phases they go through. Errors are reported with their path in the file.

    server: localhost:8000
    classes:
      detector: {model: detector, rate: 30, slo: p99<50ms}
      classifier: {model: classifier, concurrency: 2}
    phases:
      - {name: warm-up, for: 5s, load: 0.5}
      - {name: ramp, for: 20s, load: 0.5..2}
      - {name: peak, for: 30s, load: 2}

Each class has one load: concurrency, rate, shape, replay or sessions. The `load` of a phase multiplies rates and
concurrencies; shapes and traces continue through the phases unchanged.

With `mlperf`, a scenario has one class and no phases: the rules of MLPerf's loadgen determine when it ends, and whether
the run is VALID.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from inferometer.base.confined import check_path
from inferometer.base.errors import UsageError
from inferometer.base.reading import CONFIG, read_text
from inferometer.base.slo import parse_slo
from inferometer.base.text import nearest
from inferometer.base.yaml_text import YamlError, load_yaml
from inferometer.load.loadgen_arrivals import SEED
from inferometer.load.plan import parse_shape
from inferometer.model.flow import VISIT, references, with_references
from inferometer.options.names import option_name
from inferometer.options.options import SERVICE_KINDS
from inferometer.scenario.class_options import Scalar, read_options
from inferometer.scenario.spec_parts import SEVERAL, Strict, all_located, located, parsed_by, seconds
from inferometer.scenario.task_spec import TaskSpec
from inferometer.services.address import read_addresses

MOST_MISTAKES = 20  # shown at most
_MOST_ROUNDS = 10  # of validation, each without the mistakes that were found before
LOADS = ("concurrency", "rate", "shape", "replay", "sessions")
WARM_UP = re.compile(r"warm[-_ ]?up", re.IGNORECASE)
_NOT_OF_VISITS = ("model", "data", "batch", "replay", "sessions")
_NOT_OF_TASKS = ("flow", "visit", "batch", "replay", "sessions")
_EXAMPLE = "see `inferometer help scenarios`, or --schema"
_OTHER_NAMES = {
    "class": "classes",
    **dict.fromkeys(("duration", "length", "seconds", "time"), "for"),
    **dict.fromkeys(("url", "address", "host"), "server"),
    **dict.fromkeys(("request-rate", "rps", "qps"), "rate"),
    **dict.fromkeys(("users", "vus", "in-flight"), "concurrency"),
    **dict.fromkeys(("service-kind", "backend"), "kind"),
    **dict.fromkeys(("think-time", "pause"), "think"),
    "input-data": "data",
}
"""Keys by what users call them elsewhere."""
_SHAPES = {
    **dict.fromkeys(("dict_type", "model_type"), "must have keys with values"),
    "list_type": "must be a list",
    "string_type": "must be text",
}
"""Mistakes in the form of a part, in words."""


def _factors(value: Any) -> tuple[float, float]:
    """Parse `2`, or `0.5..2` for a ramp."""
    if isinstance(value, list | tuple) and len(value) == 2:
        value = f"{value[0]}..{value[1]}"
    first, dots, last = str(value).partition("..")
    try:
        found = (float(first), float(last if dots else first))
    except ValueError:
        raise ValueError(f"'{value}' is not a factor; write 2, or 0.5..2 for a ramp") from None
    if not all(0 <= factor < 1e6 for factor in found):
        raise ValueError(f"'{value}' is not a factor of 0 or more")
    return found


Server = Annotated[str, parsed_by(read_addresses)]
Seconds = Annotated[
    float,
    BeforeValidator(seconds, json_schema_input_type=str | float),
    Field(gt=0, le=366 * 24 * 3600, description="A time such as 30s or 5m; a plain number means seconds."),
]
Factors = Annotated[
    tuple[float, float],
    BeforeValidator(_factors, json_schema_input_type=str | float),
    Field(description="Factor for the load of the classes: 2, or 0.5..2 for a ramp."),
]


def _with_references(value: Any) -> Any:
    """Check the references in a value and return it unchanged."""
    with_references(value)
    return value


class StepSpec(Strict):
    """A step of a flow: a call, and the user's think time after its answer."""

    call: Annotated[str, Field(min_length=1, description="Model to call.")]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,60}$")] | None = Field(
        None, description="Name for references by later steps (default: the model's name)."
    )
    inputs: Annotated[dict[str, Any], BeforeValidator(_with_references)] = Field(
        default_factory=dict,
        description="Values by input; $STEP.OUTPUT refers to an earlier answer, $visit to the number of the visit.",
    )
    body: Annotated[Any, BeforeValidator(_with_references)] = Field(
        None, description="JSON to send to servers without named inputs, with references as in inputs."
    )
    think: Annotated[float, BeforeValidator(seconds, json_schema_input_type=str | float), Field(ge=0)] = (
        Field(0.0, description="Think time of the user after the answer, such as 200ms.")
    )

    @property
    def title(self) -> str:
        return self.call if self.name is None else self.name


class ClassSpec(Strict):
    """A traffic class: its requests, server, load and SLO."""

    model: str = Field("", description="Model (default: that of the command line).")
    server: Server | None = Field(
        None,
        description="Address, or several separated by commas (default: that of the scenario or the command line).",
    )
    protocol: Literal["http", "grpc"] | None = None
    kind: str | None = Field(None, description="Kind of server, as with --service-kind.")
    data: str | list[str] | None = Field(None, description="Input data, as with --data.")
    flow: Annotated[list[StepSpec], Field(min_length=1, max_length=100)] | None = Field(
        None, description="Steps of a visit, instead of a model and data; the load then counts visits."
    )
    visit: str | None = Field(
        None, description="Visit written in Python, as FILE.py:FUNCTION, instead of a flow."
    )
    steps: dict[str, str] | list[str] | None = Field(
        None, description="For a visit in Python: the models by name of the step, or a list of models."
    )
    task: TaskSpec | None = Field(
        None, description="Calls of a task to a text server, as agents make them; the load then counts tasks."
    )
    batch: Annotated[int, Field(ge=1)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="Requests in flight."
    )
    rate: Annotated[float, Field(gt=0, le=1e7)] | None = Field(None, description="Requests per second.")
    arrivals: Literal["constant", "poisson", "gamma", "weibull"] = Field(
        "constant", description="Gaps between requests at a rate."
    )
    burstiness: Annotated[float, Field(ge=0.01, le=1e6)] = Field(
        1.0, description="Shape of gamma or Weibull gaps, as with --burstiness."
    )
    shape: Annotated[str, parsed_by(parse_shape)] | None = Field(
        None, description="Rate over the whole scenario, as with --shape-load."
    )
    replay: str | None = Field(None, description="Trace to replay from the start of the scenario.")
    speed: Annotated[float, Field(gt=0)] = Field(1.0, description="Replay speed of the trace.")
    sessions: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Chat sessions of the data in parallel, with their pauses; repeated after the last.",
    )
    slo: str | None = Field(None, description="SLO of this class, such as p99<50ms.")
    workers: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="Processes that generate the load of this class."
    )
    options: dict[str, Scalar | list[Scalar]] = Field(
        default_factory=dict, description="Other options of `inferometer measure` by their long names."
    )

    @field_validator("kind", mode="after")
    @classmethod
    def _known_kind(cls, kind: str | None) -> str | None:
        if kind is not None and kind not in SERVICE_KINDS:
            raise located("", f"'{kind}' is not a kind of server", f"give one of {', '.join(SERVICE_KINDS)}")
        return kind

    @field_validator("slo", mode="after")
    @classmethod
    def _valid_slo(cls, slo: str | None, info: ValidationInfo) -> str | None:
        # A task that is invalid is a task too.
        has_tasks = info.data.get("task", True) is not None
        try:
            _ = None if slo is None else parse_slo(slo, has_tasks=has_tasks)
        except UsageError as error:
            raise located("", error.message, error.remedy) from error
        return slo

    @field_validator("options", mode="after")
    @classmethod
    def _known_options(cls, options: dict[str, Scalar | list[Scalar]]) -> dict[str, Scalar | list[Scalar]]:
        _, errors = read_options(options)
        if errors:
            raise all_located([(name, error.message, error.remedy) for name, error in errors])
        return options

    @model_validator(mode="after")
    def _one_load(self) -> "ClassSpec":
        given = [name for name in LOADS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"has {' and '.join(given)}, but a class has only one load")
        if self.arrivals != "constant" and given and self.rate is None:
            raise ValueError(f"arrivals require a rate, but the class has {given[0]}")
        if self.burstiness != 1 and self.arrivals not in ("gamma", "weibull"):
            raise ValueError(f"burstiness requires gamma or weibull arrivals, but they are {self.arrivals}")
        if self.speed != 1 and self.replay is None:
            raise ValueError("speed requires replay, which the class does not have")
        return self

    @field_validator("flow", mode="after")
    @classmethod
    def _earlier_steps(cls, flow: list[StepSpec] | None) -> list[StepSpec] | None:
        """Check that names are unique and references name earlier steps."""
        names: list[str] = []
        found: list[tuple[str, str]] = []
        for number, step in enumerate(flow or ()):
            if step.title in names or step.title == VISIT:
                found.append((f"{number}.name", f"'{step.title}' is taken; give this step another name"))
            for field in ("inputs", "body"):
                for where, reference in references(with_references(getattr(step, field)), field):
                    if reference.step not in (VISIT, *names):
                        known = (
                            f"the earlier steps are {', '.join(names)}" if names else "it is the first step"
                        )
                        said = f"{reference} does not refer to a step before '{step.title}': {known}"
                        found.append((f"{number}.{where}", said))
            names.append(step.title)
        if found:
            raise all_located(found)
        return flow

    @model_validator(mode="after")
    def _one_source(self) -> "ClassSpec":
        if self.flow is not None and self.visit is not None:
            raise ValueError("has a flow and a visit; give only one of them")
        if (self.visit is None) != (self.steps is None):
            raise ValueError(
                "visit and steps must be given together: steps are the models that the visit calls"
            )
        if self.visit is not None and not re.fullmatch(r".+:[A-Za-z_][A-Za-z0-9_.]*", self.visit):
            raise located("visit", f"'{self.visit}' is not a function; write FILE.py:FUNCTION")
        if self.task is not None:
            other = next((name for name in _NOT_OF_TASKS if getattr(self, name)), None)
            if other is not None:
                raise ValueError(f"has task and {other}; give only one of them")
        if self.has_visits:
            other = next((name for name in _NOT_OF_VISITS if getattr(self, name)), None)
            if other is not None:
                raise ValueError(f"has {other}, which visits do not support")
        return self

    @property
    def has_visits(self) -> bool:
        return self.flow is not None or self.visit is not None

    @property
    def models_by_step(self) -> dict[str, str]:
        """The model of each step of a visit."""
        if self.flow is not None:
            return {step.title: step.call for step in self.flow}
        steps = self.steps or {}
        return dict(steps) if isinstance(steps, Mapping) else {model: model for model in steps}

    @property
    def names_model(self) -> bool:
        return bool(self.model) or self.has_visits

    @property
    def load(self) -> str:
        """The name of its load; empty if the command line sets it."""
        return next((name for name in LOADS if getattr(self, name) is not None), "")


class ChangeSpec(Strict):
    """Change of one class in a phase: its own factor, or another rate or concurrency."""

    load: Factors | None = None
    rate: Annotated[float, Field(gt=0, le=1e7)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=100_000)] | None = None

    @model_validator(mode="after")
    def _one_change(self) -> "ChangeSpec":
        given = [name for name in ("load", "rate", "concurrency") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("needs exactly one of load, rate and concurrency")
        return self


class PhaseSpec(Strict):
    """A named period with a constant or linearly changing load."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    seconds: Seconds = Field(alias="for")
    load: Factors = (1.0, 1.0)
    counted: bool | None = Field(
        None, description="Whether the phase is reported (default: yes, unless its name is warm-up)."
    )
    classes: dict[str, ChangeSpec] = Field(
        default_factory=dict, description="Changes for individual classes."
    )
    command: str | None = Field(None, description="Shell command to start when the phase begins.")

    @property
    def is_counted(self) -> bool:
        return WARM_UP.fullmatch(self.name) is None if self.counted is None else self.counted


class MlperfSpec(Strict):
    """Rules of MLPerf's loadgen, which decide when the run ends and whether it is VALID."""

    scenario: Literal["server", "offline", "single-stream", "multi-stream"]
    min_duration: Seconds = Field(
        600.0, alias="min-duration", description="Minimum duration; -d overrides it."
    )
    min_queries: Annotated[int, Field(ge=1, le=1_000_000_000)] = Field(
        100, alias="min-queries", description="Minimum queries, or samples offline; -n overrides it."
    )
    percentile: Annotated[float, Field(gt=0, lt=100)] = Field(
        99.0, description="Percentile of the result, unless the SLO names one."
    )
    slo: str | None = Field(
        None, description="Target, such as p99<10ms or ttft p99<2s, tpot p99<200ms; --slo overrides it."
    )
    seed: Annotated[int, Field(ge=0, lt=2**64)] = Field(
        SEED, description="Seed of the arrivals, schedule_rng_seed in loadgen."
    )


class Scenario(Strict):
    """Traffic classes and the phases that they go through together."""

    name: str = ""
    about: str = Field("", description="Purpose of the scenario, in one sentence.")
    server: Server | None = Field(None, description="Address for classes that name none.")
    classes: Annotated[dict[str, ClassSpec], Field(min_length=1, max_length=100)]
    phases: Annotated[list[PhaseSpec], Field(min_length=1, max_length=1000)] = Field(
        default_factory=lambda: [PhaseSpec.model_validate({"name": "steady", "for": "10s"})]
    )
    mlperf: MlperfSpec | None = Field(
        None, description="Rules of MLPerf's loadgen instead of phases, for one class."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "Scenario":
        found = [*self._mlperf_mistakes(), *self._phase_mistakes()]
        if found:
            raise all_located([("", said) for said in found])
        return self

    def _mlperf_mistakes(self) -> Iterator[str]:
        if self.mlperf is None:
            return
        if "phases" in self.model_fields_set:
            yield "has phases and mlperf, but the rules of mlperf determine when a run ends"
        (name, spec), *others = self.classes.items()
        if others:
            yield f"has {len(self.classes)} classes and mlperf, which measures one"
            return
        wanted = "rate" if self.mlperf.scenario == "server" else "concurrency"
        is_plain = not spec.has_visits and spec.task is None
        if not is_plain or spec.slo is not None or spec.load not in ("", wanted):
            yield (
                f"classes.{name} needs a model and a {wanted} for mlperf {self.mlperf.scenario}, without visits; "
                "the SLO is mlperf.slo"
            )

    def _phase_mistakes(self) -> Iterator[str]:
        names = [phase.name for phase in self.phases]
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                yield f"two phases are named '{name}'"
        if not any(phase.is_counted for phase in self.phases):
            yield "no phase is counted"
        for number, phase in enumerate(self.phases):
            for name, change in phase.classes.items():
                where = f"phases.{number}.classes"
                if name not in self.classes:
                    yield f"{where} names '{name}', which is not a class"
                    continue
                load = self.classes[name].load
                if load not in ("", "rate", "concurrency") or (
                    load and change.load is None and getattr(change, load) is None
                ):
                    yield f"{where}.{name} changes a load that the class does not have: it has {load}"

    @property
    def seconds(self) -> float:
        if self.mlperf is not None:
            return self.mlperf.min_duration
        return sum(phase.seconds for phase in self.phases)


# --- reading


def parse_scenario(text: str, origin: str) -> Scenario:
    """Parse a scenario from YAML; errors give the path of the mistake."""
    try:
        document = load_yaml(text, has_unique_keys=True)
    except YamlError as error:
        place = origin if error.line is None else f"{origin}:{error.line}"
        raise UsageError(f"{place}: this is not YAML: {error.reason}", remedy="correct the file") from error
    return checked_scenario(document, origin)


def read_scenario(path: Path) -> Scenario:
    check_path(path)
    remedy = f"give a file, or a name from {option_name('--scenario')} list"
    text = read_text(path, CONFIG, "the scenario", remedy=remedy)
    found = parse_scenario(text, str(path))
    return found if found.name else found.model_copy(update={"name": path.stem})


def checked_scenario(document: Any, origin: str) -> Scenario:
    """Validate a scenario from parsed YAML or from Python."""
    if not isinstance(document, Mapping):
        raise UsageError(f"{origin} does not contain a scenario", remedy=_EXAMPLE)
    try:
        return Scenario.model_validate(document)
    except ValidationError as error:
        raise _all_mistakes(document, error, origin) from error


def _all_mistakes(document: Any, error: ValidationError, origin: str) -> UsageError:
    """Return one error for all mistakes, each with its remedy."""
    rows = [*_mistakes(error), *_hidden_mistakes(document, error)]
    kept = list({(where, row["msg"]): (where, row) for where, row in rows}.values())
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


def _mistakes(error: ValidationError) -> list[tuple[str, Any]]:
    """Return the mistakes of an error with their places."""
    rows = [(_place(row), row) for found in error.errors() for row in _each_mistake(found)]
    unknown = {where: close for where, row in rows if (close := _close_key(row, where))}
    meant = {f"{where.rpartition('.')[0]}.{close}".lstrip(".") for where, close in unknown.items()}
    # A misspelt required key is one mistake, not two.
    return [(where, row) for where, row in rows if row["type"] != "missing" or where not in meant]


def _hidden_mistakes(document: Any, error: ValidationError) -> Iterator[tuple[str, Any]]:
    """Yield the mistakes that show only after all others are removed, since checks across a part run only if the whole
    part is valid."""
    left = copy.deepcopy(document)
    removed: set[tuple[Any, ...]] = set()
    for _ in range(_MOST_ROUNDS):
        before = copy.deepcopy(left)
        for found in error.errors():
            removed.update(_remove(left, found))
        if left == before:
            return
        try:
            Scenario.model_validate(left)
        except ValidationError as after:
            error = after
        else:
            return
        for where, row in _mistakes(error):
            words = set(re.findall(r"[\w-]+", row["msg"]))
            if not any(path[-1] in words and path[:-1] == row["loc"][: len(path) - 1] for path in removed):
                yield where, row


def _remove(document: Any, found: Any) -> Iterator[tuple[Any, ...]]:
    """Remove the part that has this mistake, or correct the name of its key; yield the paths of removed values."""
    path = found["loc"]
    section, name, key = (*path[:3], None, None, None)[:3]
    part = _part(document, path[:2])
    if found["type"] == "extra_forbidden" and isinstance(holder := _part(document, path[:-1]), dict):
        value = holder.pop(path[-1], None)
        close = _close_key(found, ".".join(map(str, path)))
        if close:
            holder.setdefault(close, value)
    elif section not in ("classes", "phases"):
        document.pop(section, None)
        yield path[:1]
    elif len(path) == 1:
        if section == "phases":
            document.pop(section, None)
    elif not isinstance(part, dict):
        whole = document.get(section)
        if isinstance(whole, list) or (isinstance(whole, dict) and name in whole):
            part = whole[name] = {}
    elif key is None:  # a mistake across the part
        keys = [word for word in re.findall(r"[\w-]+", found["msg"]) if word in part] or list(part)
        for word in keys:
            part.pop(word, None)
            yield (section, name, word)
    elif key == "classes" and isinstance(part.get(key), dict) and len(path) > 3:
        part[key].pop(path[3], None)
    else:
        part.pop(key, None)
        yield path[:3]
    if section == "phases" and isinstance(part, dict):
        part.setdefault("name", f"phase {name}")
        part.setdefault("for", 1)


def _part(document: Any, path: Sequence[Any]) -> Any:
    """Return a part of a document; None if there is none."""
    for key in path:
        try:
            document = document[key]
        except (LookupError, TypeError):
            return None
    return document


def _each_mistake(found: Any) -> list[Any]:
    """Return the mistakes of one error, which may have several."""
    if found["type"] != SEVERAL:
        return [found]
    return [
        {**found, "type": "at", "ctx": {"at": at, "remedy": "".join(remedy)}, "msg": said}
        for at, said, *remedy in found["ctx"]["found"]
    ]


def _place(found: Any) -> str:
    place = (*found["loc"], *found.get("ctx", {}).get("at", "").split("."))
    return ".".join(str(part) for part in place if part != "")


def _close_key(found: Any, where: str) -> str:
    """Return the key of the same section that is nearest to an unknown one."""
    if found["type"] != "extra_forbidden":
        return ""
    known = [
        field.alias or name
        for model in _models_at(found["loc"][:-1])
        for name, field in model.model_fields.items()
    ]
    key = where.rpartition(".")[2]
    meant = _OTHER_NAMES.get(key.lower().replace("_", "-"), "")
    return meant if meant in known else nearest(key, known)


def _models_at(path: Sequence[Any]) -> list[type[BaseModel]]:
    """Return the models that a part of a scenario may have."""
    found: list[Any] = [Scenario]
    for key in path:
        found = [below for kind in found for below in _below(kind, key)]
    return [kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _below(kind: Any, key: Any) -> Iterator[Any]:
    """Yield the types of the part with this key in a part of this type."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if key == (field.alias or name):
                yield from _plain(field.annotation)
    elif get_origin(kind) in (list, dict):
        yield from _plain(get_args(kind)[-1])


def _plain(kind: Any) -> Iterator[Any]:
    """Yield the alternatives of a type, without annotations."""
    if get_origin(kind) is Annotated:
        yield from _plain(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for each in get_args(kind):
            yield from _plain(each)
    else:
        yield kind


def _sentence(where: str, found: Any) -> str:
    said = str(found["msg"]).removeprefix("Value error, ")
    if found["type"] == "extra_forbidden":
        return f"{where} is not a known key"
    if found["type"] == "missing":
        return f"{where} is missing"
    if found["type"] in _SHAPES:
        return f"{where} {_SHAPES[found['type']]}"
    return f"{where}: {said}" if where else said


def _remedy(found: Any, where: str) -> str:
    if found["type"] != "extra_forbidden":
        return str(found.get("ctx", {}).get("remedy") or _EXAMPLE)
    close = _close_key(found, where)
    if close:
        return f"did you mean '{close}'?"
    return "other options of measure go under `options`" if where.startswith("classes.") else _EXAMPLE


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files."""
    schema = Scenario.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
