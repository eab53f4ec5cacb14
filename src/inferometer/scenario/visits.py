"""Preparation of visit classes: their steps are checked against the models, and flows are compiled."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import nearest
from inferometer.dataset.build import batch, build
from inferometer.dataset.dataset import Dataset
from inferometer.load.visits import VisitError, VisitRun
from inferometer.measure.prepare import OWN_HABITS, Setup, prepare
from inferometer.model.flow import FlowStep, FlowVisit, MakeVisit, Reference, references, with_references
from inferometer.model.numbers import encode
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.scenario.classes import PlannedClass
from inferometer.scenario.spec import ClassSpec, StepSpec
from inferometer.services.calls import TensorCalls, made_tensor
from inferometer.services.kind import KINDS, Visited
from inferometer.services.traffic import Traffic
from inferometer.services.visit_plan import StepCaller, VisitPlan


@frozen
class FirstVisit:
    """The first request of a class's first visit, for previews."""

    row: PlannedClass
    folder: Path | None

    @property
    def options(self) -> Options:
        return self.row.options

    def prepared(self, *, is_dry: bool) -> Setup:
        """Return a setup that sends only that request."""
        setup = prepare_visits(self.row, self.folder, is_dry=is_dry)
        visits = setup.traffic.visits
        assert visits is not None
        try:
            first = VisitRun(visits, 0).following(None)
        except VisitError as error:
            raise UsageError(f"{visits.origin} cannot start: {error}") from error
        traffic = setup.traffic._replace(requests=(first.request,), visits=None)
        return replace(setup.parts[max(first.step, 0)], traffic=traffic)


def prepare_visits(row: PlannedClass, folder: Path | None, *, is_dry: bool = False) -> Setup:
    """Prepare all steps, as `prepare` does; their setups become the parts."""
    spec = row.spec
    given = {step.title: None if step.body else frozenset(step.inputs) for step in spec.flow or ()}
    parts: list[Setup] = []
    callers: list[StepCaller] = []
    known: dict[tuple[str, frozenset[str] | None], tuple[Setup, StepCaller]] = {}
    for name, options in row.steps:
        key = (options.model or options.path or "", given.get(name))
        if key not in known:  # identical ones are prepared once
            sample = _Sample(given.get(name))
            habits = OWN_HABITS._replace(made_data=sample)
            setup = prepare(replace(options, is_dry=is_dry), command="measure", habits=habits)
            _check_model(f"{row.place}, step '{name}'", setup)
            known[key] = setup, _caller(setup, sample)
        setup, caller = known[key]
        callers.append(caller)
        parts.append(replace(setup, options=replace(setup.options, workers=spec.workers)))
    models = {
        name: caller.model if isinstance(caller, TensorCalls) else None
        for (name, _), caller in zip(row.steps, callers, strict=True)
    }
    if spec.flow is None:
        from inferometer.scenario.visit_code import open_visit

        make: MakeVisit = open_visit(f"{row.place}.visit", str(spec.visit), folder)
    else:
        make = compiled_flow(f"{row.place}.flow", spec.flow, models)
    return _whole(row, parts, VisitPlan(make, tuple(models), tuple(callers), _origin(row, spec)))


def _origin(row: PlannedClass, spec: ClassSpec) -> str:
    return f"the flow of '{row.name}'" if spec.visit is None else f"the visit {spec.visit}"


@dataclass(slots=True)
class _Sample:
    """Sample data of a step: inputs set by calls have the model's own size, all other inputs are generated as for any
    load."""

    given: frozenset[str] | None  # None: all without a fixed shape
    step: tuple[Tensor, ...] = ()
    rest: frozenset[str] = frozenset()  # optional inputs

    def __call__(self, model: ModelSpec, options: Options) -> Dataset:
        if not has_tensors(model):
            return build(model, options.data, output_tokens=options.output_tokens)
        given = [spec for spec in model.inputs if self._is_given(spec)]
        rest = tuple(spec for spec in model.inputs if not self._is_given(spec))
        made = build(replace(model, inputs=rest), options.data) if rest else Dataset("random", (((),),))
        tensors = {tensor.name: tensor for tensor in (*made.streams[0][0], *map(_blank, given))}
        step = tuple(tensors[spec.name] for spec in model.inputs if spec.name in tensors)
        dataset = Dataset(made.origin, ((step,),), findings=made.findings)
        self.step = batch(dataset, model, 1)[0]
        self.rest = frozenset(tensors) - {spec.name for spec in given}
        return dataset

    def _is_given(self, spec: TensorSpec) -> bool:
        return spec.is_dynamic if self.given is None else spec.name in self.given


def has_tensors(model: ModelSpec) -> bool:
    return bool(model.inputs) and all(spec.datatype not in ("JSON", "MESSAGE") for spec in model.inputs)


def _blank(spec: TensorSpec) -> Tensor:
    shape = tuple(1 if dim < 0 else dim for dim in spec.shape)
    zero: Any = {"BYTES": "", "BOOL": False}.get(spec.datatype, 0)
    return Tensor(spec.name, spec.datatype, shape, encode(spec.datatype, [zero] * math.prod(shape)))


def _check_model(where: str, setup: Setup) -> None:
    model, options = setup.model, setup.options
    if options.cancel_after_s is not None or (options.batch or 1) > 1:
        what = "a batch" if options.cancel_after_s is None else option_name("--cancel-after")
        raise UsageError(
            f"{where}: {what} applies to individual requests, not to visits", remedy="leave it out"
        )
    if not isinstance(setup.service, Visited) or setup.host is not None:
        title = KINDS[setup.options.service_kind].title
        raise UsageError(
            f"{where}: visits to {title} over {setup.options.protocol} are not supported",
            remedy="use a KServe v2 server such as Triton, or a server that takes JSON over HTTP",
        )
    if model.any_sequence or model.is_decoupled or setup.options.streaming:
        what = "takes sequences" if model.any_sequence else "answers with streams"
        raise UsageError(
            f"{where}: '{model.name}' {what}, which a step of a visit does not support",
            remedy="give it a separate class",
        )


def _caller(setup: Setup, sample: _Sample) -> StepCaller:
    assert isinstance(setup.service, Visited)
    found = setup.service.caller(setup.model, sample.step)
    if not isinstance(found, TensorCalls):
        return found
    return replace(found, rest={name: tensor for name, tensor in found.rest.items() if name in sample.rest})


def _whole(row: PlannedClass, parts: Sequence[Setup], visits: VisitPlan) -> Setup:
    first = parts[0]
    names = list(dict.fromkeys(part.model.name for part in parts))
    model = ModelSpec(" + ".join(names), "", (), (), composing=tuple(part.model for part in parts))
    wiring = first.traffic.wiring._replace(has_ids=False, reader=None, unique=None)
    described = {
        **first.result.model,
        "name": model.name,
        "steps": [dict(part.result.model) for part in parts],
    }
    return replace(
        first,
        model=model,
        traffic=Traffic(wiring, (b"",) * len(parts), visits=visits),
        level_settings=replace(
            first.level_settings, model=model, has_tokens=False, asked_tokens=(), follows_work=False
        ),
        result=replace(first.result, model=described),
        warnings=tuple(dict.fromkeys(warning for part in parts for warning in part.warnings)),
        parts=tuple(parts),
    )


# --- flows


Models = Mapping[str, ModelSpec | None]
"""Models by step; None if the server takes JSON, whose structure is unknown."""


def compiled_flow(place: str, flow: Sequence[StepSpec], models: Models) -> FlowVisit:
    """Compile a flow for the workers; errors give the path of a value that cannot fit."""
    steps = []
    for number, step in enumerate(flow):
        where, model = f"{place}.{number}", models[step.title]
        inputs, body = with_references(step.inputs), with_references(step.body)
        if model is None and inputs:
            raise UsageError(f"{where}.inputs: '{step.call}' takes JSON", remedy="give `body:` instead")
        if model is not None and body is not None:
            raise UsageError(f"{where}.body: '{step.call}' takes inputs", remedy="give `inputs:` instead")
        if isinstance(body, Mapping) and body.get("stream"):
            raise UsageError(f"{where}.body.stream: visits do not support streaming", remedy="leave it out")
        for name, value in inputs.items():
            assert model is not None
            spec = _input(f"{where}.inputs.{name}", model, name)
            inputs[name] = _checked(f"{where}.inputs.{name}", spec, value, models)
        steps.append(FlowStep(step.title, inputs, body, step.think))
    return FlowVisit(tuple(steps))


def _input(where: str, model: ModelSpec, name: str) -> TensorSpec:
    specs = {spec.name: spec for spec in model.inputs}
    if name not in specs:
        raise UsageError(
            f"{where}: '{model.name}' has no input of this name", remedy=_known("its inputs are", name, specs)
        )
    return specs[name]


def _known(words: str, name: str, specs: Mapping[str, TensorSpec]) -> str:
    close = nearest(name, list(specs))
    return f"did you mean '{close}'?" if close else f"{words} {', '.join(specs)}"


def _checked(where: str, spec: TensorSpec, value: Any, models: Models) -> Any:
    """Check a value; one without references is converted once."""
    found = list(references(value, where))
    for place, reference in found:
        model = models.get(reference.step)
        if model is not None:
            _check_reference(place, spec, reference, model, is_whole=value is reference)
    if found:
        return value
    try:
        return made_tensor(spec, value)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", remedy="give values that the model accepts") from error


def _check_reference(
    where: str, spec: TensorSpec, reference: Reference, model: ModelSpec, *, is_whole: bool
) -> None:
    outputs = {output.name: output for output in model.outputs}
    name = reference.path[0]
    if name not in outputs:
        raise UsageError(
            f"{where}: '{model.name}' has no output '{name}'", remedy=_known("its outputs are", name, outputs)
        )
    output = outputs[name]
    is_number = output.datatype not in ("BYTES", "BOOL") and spec.datatype not in ("BYTES", "BOOL")
    if output.datatype != spec.datatype and (is_whole or not is_number):
        raise UsageError(
            f"{where}: {reference} is {output.datatype}, but '{spec.name}' takes {spec.datatype}",
            remedy="use an output of the same datatype, or convert it in a visit written in Python",
        )
    if is_whole and len(reference.path) == 1 and not _may_fit(output.shape, spec.shape):
        got, wanted = (f"[{','.join(map(str, shape))}]" for shape in (output.shape, spec.shape))
        raise UsageError(
            f"{where}: {reference} has the shape {got}, but '{spec.name}' takes {wanted}",
            remedy="use an output that fits, or reshape it in a visit written in Python",
        )


def _may_fit(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether the shapes may match: equal fixed dimensions, or the same number of elements."""
    if len(shape) == len(wanted):
        pairs = zip(shape, wanted, strict=True)
        if all(one == other or one < 0 or other < 0 for one, other in pairs):
            return True
    if any(dim < 0 for dim in (*shape, *wanted)):
        return any(dim < 0 for dim in shape) or sum(dim < 0 for dim in wanted) == 1
    return math.prod(shape) == math.prod(wanted)
