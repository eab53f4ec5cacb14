"""The replies of variants to the same inputs."""

from collections.abc import Sequence
from dataclasses import replace

from inferometer.base.errors import InferometerError
from inferometer.compare.similarity import FLOATS, Reply
from inferometer.dataset.batches import batch
from inferometer.dataset.build import build
from inferometer.dataset.dataset import Step
from inferometer.measure.prepare import Setup
from inferometer.model.numbers import ElementError, encode_fractions, values
from inferometer.model.spec import Tensor
from inferometer.services.kind import Answering


class NotComparableError(Exception):
    """Why there are no outputs to compare, in words."""


def inputs(setup: Setup, count: int) -> tuple[Step, ...]:
    """The first requests of the dataset."""
    model = setup.model
    if model.any_sequence:
        raise NotComparableError("outputs of sequence models depend on what came before")
    if model.is_decoupled:
        raise NotComparableError("a decoupled model answers with streams")
    return batch(build(model, setup.options.data), model, setup.level_settings.batch)[:count]


def fetch(setup: Setup, steps: Sequence[Step]) -> list[Reply]:
    """What comes back for each; one at a time, with no other load on the server."""
    service = setup.service
    if not isinstance(service, Answering):
        kind = setup.options.service_kind
        raise NotComparableError(f"servers of kind {kind} do not answer with tensors")
    try:
        requests = setup.service.traffic(setup.model, steps).requests
        replies: list[Reply] = [service.infer(request) for request in requests]
    except InferometerError as error:
        raise NotComparableError(f"the outputs of '{setup.model.name}' could not be had: {error}") from error
    if setup.model.max_batch_size and setup.level_settings.batch == 1:
        return [{name: _without_batch(tensor) for name, tensor in reply.items()} for reply in replies]
    return replies


def _without_batch(tensor: Tensor) -> Tensor:
    """A model without batching, which a variant may be, has no such dimension."""
    return replace(tensor, shape=tensor.shape[1:]) if tensor.shape[:1] == (1,) else tensor


def as_inputs_of(setup: Setup, steps: Sequence[Step]) -> tuple[Step, ...]:
    """The same values as another variant's inputs: in its shapes, and rounded to its floats."""
    own = inputs(setup, len(steps))
    if len(own) < len(steps):
        raise NotComparableError(f"'{setup.model.name}' has {len(own)} different requests, not {len(steps)}")
    return tuple(_converted(step, like) for step, like in zip(steps, own, strict=True))


def _converted(step: Step, like: Step) -> Step:
    given = {tensor.name: tensor for tensor in step}
    wanted = {tensor.name for tensor in like}
    if given.keys() != wanted:
        names = [", ".join(sorted(side)) for side in (given, wanted)]
        raise NotComparableError(f"the inputs have other names: {names[0]}, and {names[1]}")
    return tuple(_as(given[tensor.name], tensor) for tensor in like)


def _as(given: Tensor, like: Tensor) -> Tensor:
    if given.elements != like.elements:
        shapes = ["x".join(map(str, tensor.shape)) for tensor in (given, like)]
        raise NotComparableError(f"input '{given.name}' has shape {shapes[0]}, and {shapes[1]}")
    if given.datatype == like.datatype:
        return replace(like, data=given.data)
    if given.datatype not in FLOATS or like.datatype not in FLOATS:
        raise NotComparableError(f"input '{given.name}' is {given.datatype}, and {like.datatype}")
    try:
        return replace(like, data=encode_fractions(like.datatype, values(given.datatype, given.data)))
    except ElementError as error:
        raise NotComparableError(f"input '{given.name}' in {like.datatype}: {error}") from error
