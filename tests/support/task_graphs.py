"""Random tasks, and figures of tasks computed from a log of their calls in the simplest way."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from inferometer.base.drawn_times import DrawnTime
from inferometer.base.units import NS_PER_MS
from inferometer.model.task import TaskGraph, TaskStep, mistakes

MS = NS_PER_MS
PAUSES = (
    DrawnTime(),
    DrawnTime("fixed", 3 * MS),
    DrawnTime("uniform", 1 * MS, 6 * MS),
    DrawnTime("exponential", 3 * MS),
    DrawnTime("lognormal", 3 * MS, 0.5),
    DrawnTime("recorded", recorded=(MS, 5 * MS, 2 * MS)),
)


def random_steps(seed: int, *, depth: int = 12, width: int = 8, most: int = 120) -> tuple[TaskStep, ...]:
    """Steps with fan-out up to `width` and joins; every call says in its prompt which one it is."""
    draw = Random(seed)
    while True:
        steps: list[TaskStep] = []
        for number in range(draw.randint(2, depth)):
            names = [step.name for step in steps]
            name = f"s{number}"
            after = tuple(draw.sample(names, draw.randint(0, min(2, len(names)))))
            each = draw.choice(names) if names and draw.random() < 0.3 else ""
            context = draw.choice(names) if names and draw.random() < 0.3 else ""
            said = draw.choice(names) if names and draw.random() < 0.4 else ""
            steps.append(
                TaskStep(
                    name=name,
                    # Copies are numbered within their branch, which the answer of its first call names.
                    prompt=f"{{{{task}}}}/{name}/{{{{copy}}}} " + _answers(each, said),
                    after=after or (tuple(names[-1:]) if draw.random() < 0.7 else ()),
                    each=each,
                    context=context,
                    repeat=draw.choice((1, 1, 1, 2, draw.randint(1, width))),
                    turns=draw.choice((1, 1, 1, 2, 3)),
                    pause=draw.choice(PAUSES),
                )
            )
        if not mistakes(steps) and calls_of(steps) <= most:
            return tuple(steps)


def _answers(*names: str) -> str:
    return " ".join(f"{{{{{name}}}}}" for name in names if name)


def calls_of(steps: Sequence[TaskStep]) -> int:
    copies: dict[str, int] = {}
    for step in steps:
        copies[step.name] = step.repeat * copies.get(step.each, 1)
    return sum(copies[step.name] * step.turns for step in steps)


def as_yaml(steps: Sequence[TaskStep]) -> dict[str, Any]:
    """The steps as a scenario file has them."""
    found = {}
    for step in steps:
        pause: Any = f"{step.pause.first}ns"
        if step.pause.kind == "recorded":
            pause = [each / 1e9 for each in step.pause.recorded]
        elif step.pause.kind == "fixed":
            pause = step.pause.first / 1e9
        elif step.pause.kind == "exponential":
            pause = f"exponential({step.pause.first / 1e6}ms)"
        elif step.pause.kind == "uniform":
            pause = f"uniform({step.pause.first / 1e6}ms, {step.pause.second / 1e6}ms)"
        elif step.pause.kind == "lognormal":
            pause = f"lognormal({step.pause.first / 1e6}ms, {step.pause.second})"
        found[step.name] = {
            "prompt": step.prompt, "after": list(step.after), "for": step.each, "continue": step.context,
            "repeat": step.repeat, "turns": step.turns, "pause": pause,
        }  # fmt: skip
    return found


class LoggedCall(NamedTuple):
    """A successful call of a node."""

    due_ns: int
    sent_ns: int
    end_ns: int
    tokens: int = 0


class KnownFigures(NamedTuple):
    duration_ns: int
    calls: int
    tokens: int
    model_ns: int
    tool_ns: int
    wait_ns: int


def known_figures(graph: TaskGraph, due_ns: int, log: Mapping[int, LoggedCall]) -> KnownFigures:
    """The figures of a task without failures: of all chains of calls, the one that ends last in every part."""
    ready = {
        number: max((log[each].end_ns for each in node.after), default=due_ns)
        for number, node in enumerate(graph.nodes)
    }
    node = max(log, key=lambda number: log[number].end_ns)
    model = tool = wait = 0
    while True:
        call = log[node]
        model += call.end_ns - call.sent_ns
        tool += call.due_ns - ready[node]
        wait += call.sent_ns - call.due_ns
        before = graph.nodes[node].after
        if not before:
            break
        node = next(each for each in before if log[each].end_ns == ready[node])
    end_ns = max(call.end_ns for call in log.values())
    return KnownFigures(
        end_ns - due_ns, len(log), sum(call.tokens for call in log.values()), model, tool, wait
    )
