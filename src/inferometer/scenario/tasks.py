"""Preparation of task classes: their graphs, the data of their prompts, and the requests of their calls."""

import re
from dataclasses import replace
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.dataset.build import build
from inferometer.dataset.dataset import Dataset, read_bytes
from inferometer.dataset.prompts import texts_of
from inferometer.dataset.tokens import open_tokenizer
from inferometer.measure.prepare import OWN_HABITS, Setup, prepare
from inferometer.model.spec import ModelSpec
from inferometer.model.task import DATA, ONCE, Place, Retry, TaskGraph, TaskNode, expanded, limited
from inferometer.model.unique import MARK, Unique
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.scenario.classes import PlannedClass, found_file
from inferometer.scenario.task_spec import TaskSpec
from inferometer.services.kind import KINDS, Tasked
from inferometer.services.task_plan import DataRow, TaskCode, TaskPlan, TaskTexts, inside
from inferometer.services.traffic import Traffic
from inferometer.stats.tasks import TaskBook


@frozen
class FirstTask:
    """The first call of a class's first task, for previews."""

    row: PlannedClass
    folder: Path | None

    @property
    def options(self) -> Options:
        return self.row.options

    def prepared(self, *, is_dry: bool) -> Setup:
        """Return a setup that sends only that call."""
        setup = prepare_tasks(self.row, self.folder, is_dry=is_dry)
        plan = setup.traffic.tasks
        assert plan is not None
        if plan.code is not None:
            from inferometer.load.python_tasks import first_request

            request = first_request(plan)
        else:
            node = plan.graphs[0].roots[0]
            request = TaskTexts(plan, 0, 0).request(node, plan.graphs[0].nodes[node])
        return replace(setup, traffic=setup.traffic._replace(requests=(request,), tasks=None))


def prepare_tasks(row: PlannedClass, folder: Path | None, *, is_dry: bool = False) -> Setup:
    """Prepare a class as `prepare` does, and generate its requests from tasks instead of from individual prompts."""
    spec = row.spec.task
    assert spec is not None
    kept: list[Dataset] = []

    def made_data(model: ModelSpec, options: Options) -> Dataset:
        kept.append(build(model, options.data, output_tokens=options.output_tokens))
        return kept[0]

    options = replace(row.options, is_dry=is_dry)
    setup = prepare(options, command="measure", habits=OWN_HABITS._replace(made_data=made_data))
    if not isinstance(setup.service, Tasked) or setup.traffic.wiring.reader is None:
        raise UsageError(
            f"{row.place}.task: tasks require a server that generates text, but this one is "
            f"{KINDS[options.service_kind].title}",
            remedy="give a server with a chat endpoint, with `kind: openai`",
        )
    kinds, graphs, findings = _graphs(row, spec, options, folder)
    has_data = any(map(uses_data, graphs)) or (spec.python is not None and has_texts(kept[0]))
    rows = data_rows(kept[0]) if has_data else (DataRow(b""),)
    steps = spec.task_steps
    keys = {(node.system, node.max_tokens) for graph in graphs for node in graph.nodes}
    if spec.python is not None:
        keys = {(step.system, step.max_tokens) for step in steps}
    frames = {key: setup.service.task_frame(setup.model, *key) for key in keys}
    plan = TaskPlan(
        graphs, kinds, frames, rows, kept[0].unique, options.data.seed, f"the task of '{row.name}'"
    )
    if spec.python is not None:
        from inferometer.scenario.visit_code import open_task

        plan = plan._replace(
            code=TaskCode(
                open_task(f"{row.place}.task.python", spec.python, folder),
                tuple(frames[step.system, step.max_tokens] for step in steps),
                tuple(step.retry for step in steps),
                spec.max_turns,
            ),
            origin=f"the task {spec.python}",
        )
    return _whole(setup, plan, row, spec.answers, findings)


def _graphs(
    row: PlannedClass, spec: TaskSpec, options: Options, folder: Path | None
) -> tuple[tuple[str, ...], tuple[TaskGraph, ...], tuple[str, ...]]:
    """Return the names of the steps, the graphs, and findings about a recording."""
    if spec.replay is None:
        steps = spec.task_steps
        if spec.python is not None:
            return tuple(step.name for step in steps), (), ()
        return tuple(step.name for step in steps), (expanded(steps, most_turns=spec.max_turns),), ()
    from inferometer.dataset.task_recordings import RecordingRules, read_recording

    path = found_file(f"{row.place}.task.replay", spec.replay, folder)
    rules = RecordingRules(
        open_tokenizer(options.data.tokenizer), spec.answers, spec.turn_lengths, options.data.seed
    )
    found = read_recording(path, read_bytes(path), rules)
    retry = ONCE if spec.retry is None else spec.retry.retry
    graphs = tuple(
        limited(
            replace(graph, nodes=tuple(_usual(node, retry, spec.system) for node in graph.nodes)),
            spec.max_turns,
        )
        for graph in found.graphs
    )
    return found.kinds, graphs, found.findings


def _usual(node: TaskNode, retry: Retry, system: str) -> TaskNode:
    """Return a recorded call with the settings of the task."""
    return replace(node, retry=retry, system=node.system or system)


def _whole(setup: Setup, plan: TaskPlan, row: PlannedClass, answers: str, findings: tuple[str, ...]) -> Setup:
    reader = replace(setup.traffic.wiring.reader, keeps_message=True)  # type: ignore[type-var]
    wiring = setup.traffic.wiring._replace(reader=reader, unique=None, conversations=None, has_ids=False)
    book = TaskBook(plan.graphs, plan.kinds, answers)
    asked = tuple(_asked(plan, kind) for kind in range(len(plan.kinds)))
    return replace(
        setup,
        options=replace(setup.options, workers=row.spec.workers),
        traffic=Traffic(wiring, (b"",) * len(plan.kinds), asked_tokens=asked, tasks=plan),
        level_settings=replace(setup.level_settings, asked_tokens=asked, follows_work=False, tasks=book),
        result=replace(
            setup.result,
            server={**setup.result.server, "findings": [*setup.result.server["findings"], *findings]},
        ),
        prompts=None,
    )


def _asked(plan: TaskPlan, kind: int) -> int:
    """Return the limit of tokens of a step; 0 if its calls have none, or different ones."""
    if plan.code is not None:
        key = next(key for key, frame in plan.frames.items() if frame is plan.code.frames[kind])
        return key[1]
    limits = {node.max_tokens for graph in plan.graphs for node in graph.nodes if node.kind == kind}
    return limits.pop() if len(limits) == 1 else 0


def uses_data(graph: TaskGraph) -> bool:
    """Return whether a call of the task carries a row of the data."""
    return any(
        part == Place(DATA) for node in graph.nodes for message in node.messages for part in message.parts
    )


def has_texts(dataset: Dataset) -> bool:
    return any(text for stream in dataset.streams for step in stream for text in texts_of(step))


def data_rows(dataset: Dataset) -> tuple[DataRow, ...]:
    """Return the text of every step of the data."""
    texts = ["\n".join(texts_of(step)) for stream in dataset.streams for step in stream]
    if not any(texts):
        raise UsageError(
            "the data has no prompts for {{data}}",
            remedy=f"give {option_name('--prompts')}, {option_name('--prompt-tokens')} or "
            f"{option_name('--data')}",
        )
    return tuple(_row(text, dataset.unique) for text in texts)


def _row(text: str, unique: Unique | None) -> DataRow:
    place = None if unique is None else re.search(f"{MARK}{{{unique.width},}}", text)
    if unique is None or place is None:
        return DataRow(inside(text))
    digits = (place.end() - place.start()) // unique.width
    return DataRow(inside(text[: place.start()]), digits, inside(text[place.end() :]))
