"""Tasks in scenario files: steps that wait for each other, or a recording to replay.

task:
  steps:
    plan: {prompt: "Plan how to answer: {{data}}", max-tokens: 200}
    search: {after: plan, repeat: 4, pause: lognormal(300ms, 0.5), prompt: "Search {{copy}} for: {{plan}}"}
    answer: {continue: plan, prompt: "Answer from these results: {{search}}"}

With `python`, a function makes the calls, and the steps only name them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from inferometer.base.drawn_times import NO_TIME, DrawnTime, parse_time, written_time
from inferometer.base.units import NS_PER_S
from inferometer.model.task import ONCE, Retry, TaskStep, mistakes
from inferometer.scenario.spec_parts import SEVERAL, Strict, all_located, located, seconds

_NAME = r"^[A-Za-z0-9_-]{1,60}$"
_OF_PYTHON = ("system", "max_tokens", "retry")  # keys of the steps of a task written in Python


def _roughly(value: Any) -> Iterator[TaskStep]:
    """Yield the steps of a task, even with invalid values, with their references to other steps."""
    steps = value.get("steps") if isinstance(value, Mapping) else None
    for name, step in (steps if isinstance(steps, Mapping) else {}).items():
        found: Mapping[str, Any] = step if isinstance(step, Mapping) else {}
        after = _listed(found.get("after", ()))
        yield TaskStep(
            str(name),
            str(found.get("prompt") or ""),
            after=tuple(map(str, after)) if isinstance(after, list | tuple) else (),
            each=str(found.get("for") or ""),
            context=str(found.get("continue") or ""),
        )


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Pause = Annotated[
    DrawnTime,
    BeforeValidator(parse_time),
    PlainSerializer(written_time),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "number"},
                {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
            ]
        }
    ),
]
Names = Annotated[list[str], BeforeValidator(_listed, json_schema_input_type=str | list[str])]


class RetrySpec(Strict):
    """How a failed call is repeated before its task fails."""

    attempts: Annotated[int, Field(ge=1, le=100)] = Field(2, description="Calls in total.")
    wait: Annotated[float, BeforeValidator(seconds, json_schema_input_type=str | float), Field(ge=0)] = Field(
        0.0, description="Time before the second attempt, such as 200ms."
    )
    factor: Annotated[float, Field(ge=1, le=100)] = Field(
        2.0, description="Each further wait is this many times as long."
    )

    @property
    def retry(self) -> Retry:
        return Retry(self.attempts, round(self.wait * NS_PER_S), self.factor)


class TaskStepSpec(Strict):
    """A step of a task: a call, or several alike."""

    prompt: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="Text of the user's message; {{data}}, {{task}}, {{copy}} and {{STEP}} are replaced. Required "
        "unless the task is written in Python, which gives the prompts itself.",
    )
    after: Names = Field(default_factory=list, description="Steps whose answers it waits for.")
    each: str = Field(
        "", alias="for", description="Make a copy for every copy of this step, and wait for it."
    )
    repeat: Annotated[int, Field(ge=1, le=1000)] = Field(1, description="Copies in parallel.")
    turns: Annotated[int, Field(ge=1, le=1000)] = Field(
        1, description="Calls in a row, each of which continues the conversation of the previous one."
    )
    context: str = Field(
        "", alias="continue", description="Step whose conversation it continues, and waits for."
    )
    system: str = Field("", description="System prompt (default: that of the conversation or the task).")
    pause: Pause = Field(
        NO_TIME, description="Time that a tool takes before the call.", json_schema_extra={"default": 0}
    )
    retry: RetrySpec | None = Field(
        None, description="How it is repeated if it fails (default: that of the task)."
    )
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        None, alias="max-tokens", description="Limit of the answer's tokens."
    )


class TaskSpec(Strict):
    """The calls of a task: its steps, or a recording of tasks."""

    steps: (
        Annotated[
            dict[Annotated[str, Field(pattern=_NAME)], TaskStepSpec], Field(min_length=1, max_length=200)
        ]
        | None
    ) = Field(None, description="Steps by name.")
    replay: str | None = Field(None, description="Recording to replay, instead of steps.")
    python: str | None = Field(
        None, description="Task written in Python, as FILE.py:FUNCTION; its steps have no prompts."
    )
    answers: Literal["live", "recorded"] = Field(
        "live",
        description="Which answers later calls of a replay carry: those of the server, or those of the recording.",
    )
    turn_lengths: Literal["auto", "cumulative", "delta"] = Field(
        "auto",
        alias="turn-lengths",
        description="What input_length counts in replayed sessions: the whole context, or what a turn adds.",
    )
    max_turns: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, alias="max-turns", description="Calls in a row after which a task ends."
    )
    system: str = Field("", description="System prompt of conversations that have none.")
    retry: RetrySpec | None = Field(None, description="How failed calls are repeated (default: not at all).")
    streaming: bool = Field(True, description="Stream the answers.")

    @model_validator(mode="after")
    def _one_source(self) -> "TaskSpec":
        if self.python is not None and self.steps is None:
            raise ValueError("python requires steps: the names that the function calls")
        if self.python is not None and not re.fullmatch(r".+:[A-Za-z_][A-Za-z0-9_.]*", self.python):
            raise located("python", f"'{self.python}' is not a function; write FILE.py:FUNCTION")
        if (self.steps is None) == (self.replay is None):
            raise ValueError("needs either steps or replay")
        if self.replay is None and self.answers != "live":
            raise ValueError("answers requires replay: steps carry the answers of the server")
        return self

    @model_validator(mode="after")
    def _prompts(self) -> "TaskSpec":
        found = []
        for name, step in (self.steps or {}).items():
            if self.python is None and step.prompt is None:
                found.append((f"steps.{name}.prompt", "required, unless the task is written in Python"))
            given = [key for key in step.model_fields_set if key not in _OF_PYTHON]
            if self.python is not None and given:
                key = TaskStepSpec.model_fields[given[0]].alias or given[0]
                found.append((f"steps.{name}.{key}", "set by the function of the task; leave it out"))
        if found:
            raise all_located(found)
        return self

    @model_validator(mode="after")
    def _right_steps(self) -> "TaskSpec":
        found = mistakes(self.task_steps)
        if found:
            raise all_located([(f"steps.{where}", said) for where, said in found])
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _all_mistakes(cls, value: Any, handler: ModelWrapValidatorHandler["TaskSpec"]) -> "TaskSpec":
        """Report mistakes in the names and the order of steps even if values are wrong too."""
        try:
            return handler(value)
        except ValidationError as error:
            rows = error.errors()
            others = [row for row in rows if row["type"] != SEVERAL]
            found = mistakes(tuple(_roughly(value))) if others else []
            if not found:
                raise
            of_graph = all_located([(f"steps.{where}", said) for where, said in found])
            kept = [
                InitErrorDetails(
                    type=PydanticCustomError(row["type"], "{said}", {"said": row["msg"]}),
                    loc=row["loc"],
                    input=row["input"],
                )
                for row in others
            ]
            raise ValidationError.from_exception_data(
                error.title, [*kept, InitErrorDetails(type=of_graph, input=value)]
            ) from error

    @property
    def task_steps(self) -> tuple[TaskStep, ...]:
        usual = ONCE if self.retry is None else self.retry.retry
        return tuple(
            TaskStep(
                name=name,
                prompt=step.prompt or "",
                after=tuple(step.after),
                each=step.each,
                repeat=step.repeat,
                turns=step.turns,
                context=step.context,
                system=step.system or ("" if step.context else self.system),
                pause=step.pause,
                retry=usual if step.retry is None else step.retry.retry,
                max_tokens=step.max_tokens or 0,
            )
            for name, step in (self.steps or {}).items()
        )
