"""Outputs of variants for the same inputs: fetched from the servers and compared."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferometer.base.errors import InferometerError
from inferometer.compare.comparison import OutputSimilarity
from inferometer.dataset.build import batch, build
from inferometer.dataset.dataset import Step
from inferometer.measure.prepare import Setup
from inferometer.model.numbers import ElementError, decode, encode_fractions, values
from inferometer.model.spec import Tensor
from inferometer.services.kind import Answering

FLOATS = ("FP16", "BF16", "FP32", "FP64")
_CLASS_NAMES = ("logit", "prob", "score", "class", "label", "softmax")
_SUM_SLACK = 0.01  # tolerance for the sum of a row's probabilities, needed for FP16

Reply = Mapping[str, Tensor]
"""The outputs of one request by name."""

Numbers = NDArray[np.float64]


class NotComparableError(Exception):
    """The outputs cannot be compared; the message explains why."""


def inputs(setup: Setup, count: int) -> Sequence[Step]:
    """Return the first requests of the dataset."""
    model = setup.model
    if model.any_sequence:
        raise NotComparableError("outputs of sequence models depend on earlier requests")
    if model.is_decoupled:
        raise NotComparableError("a decoupled model answers with streams")
    return batch(build(model, setup.options.data), model, setup.level_settings.batch)[:count]


def fetch(setup: Setup, steps: Sequence[Step]) -> list[Reply]:
    """Return the reply to each request, sent one at a time without other load."""
    service = setup.service
    if not isinstance(service, Answering):
        kind = setup.options.service_kind
        raise NotComparableError(f"servers of kind {kind} do not answer with tensors")
    try:
        requests = setup.service.traffic(setup.model, steps).requests
        replies: list[Reply] = [service.infer(request) for request in requests]
    except InferometerError as error:
        raise NotComparableError(
            f"the outputs of '{setup.model.name}' could not be fetched: {error}"
        ) from error
    if setup.model.max_batch_size and setup.level_settings.batch == 1:
        return [{name: _without_batch(tensor) for name, tensor in reply.items()} for reply in replies]
    return replies


def _without_batch(tensor: Tensor) -> Tensor:
    """Remove a batch dimension of 1, since a variant may be a model without batching."""
    return replace(tensor, shape=tensor.shape[1:]) if tensor.shape[:1] == (1,) else tensor


def as_inputs_of(setup: Setup, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Convert inputs to the shapes and float types of another variant."""
    own = inputs(setup, len(steps))
    if len(own) < len(steps):
        raise NotComparableError(f"'{setup.model.name}' has {len(own)} different requests, not {len(steps)}")
    return tuple(_converted(step, like) for step, like in zip(steps, own, strict=True))


def _converted(step: Step, like: Step) -> Step:
    given = {tensor.name: tensor for tensor in step}
    wanted = {tensor.name for tensor in like}
    if given.keys() != wanted:
        names = [", ".join(sorted(side)) for side in (given, wanted)]
        raise NotComparableError(f"the inputs have different names: {names[0]} and {names[1]}")
    return tuple(_as(given[tensor.name], tensor) for tensor in like)


def _as(given: Tensor, like: Tensor) -> Tensor:
    if given.elements != like.elements:
        shapes = ["x".join(map(str, tensor.shape)) for tensor in (given, like)]
        raise NotComparableError(f"input '{given.name}' has shape {shapes[0]} and {shapes[1]}")
    if given.datatype == like.datatype:
        return replace(like, data=given.data)
    if given.datatype not in FLOATS or like.datatype not in FLOATS:
        raise NotComparableError(f"input '{given.name}' is {given.datatype} and {like.datatype}")
    try:
        return replace(like, data=encode_fractions(like.datatype, values(given.datatype, given.data)))
    except ElementError as error:
        raise NotComparableError(f"input '{given.name}' in {like.datatype}: {error}") from error


# --- similarity


def similarities(base: Sequence[Reply], other: Sequence[Reply]) -> tuple[OutputSimilarity, ...]:
    """Return the similarity of every output of either variant; replies are paired by input."""
    names = dict.fromkeys(name for reply in (*base, *other) for name in reply)
    return tuple(_similarity(name, base, other) for name in sorted(names))


def _similarity(name: str, base: Sequence[Reply], other: Sequence[Reply]) -> OutputSimilarity:
    pairs = [
        (one[name], two[name]) for one, two in zip(base, other, strict=True) if name in one and name in two
    ]
    datatypes = (reply[name].datatype for reply in (*base, *other) if name in reply)
    problem = _problem(pairs, len(base), any(name in reply for reply in base))
    output = OutputSimilarity(name, " / ".join(dict.fromkeys(datatypes)), len(pairs), 0, problem=problem)
    if problem:
        return output
    is_text = any("BYTES" in (one.datatype, two.datatype) for one, two in pairs)
    try:
        return (_of_strings if is_text else _of_numbers)(output, pairs)
    except ValueError as error:
        return replace(output, problem=f"cannot be read: {error}")


def _problem(pairs: Sequence[tuple[Tensor, Tensor]], requests: int, is_in_base: bool) -> str:
    if not pairs:
        return "missing from the variant" if is_in_base else "missing from the baseline"
    if len(pairs) < requests:
        return f"missing from {requests - len(pairs)} of {requests} replies"
    for one, two in pairs:
        if one.shape != two.shape:
            return f"shape {_dims(one)} became {_dims(two)}"
        if (one.datatype == "BYTES") != (two.datatype == "BYTES"):
            return f"{one.datatype} became {two.datatype}"
    return ""


def _dims(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) if tensor.shape else "scalar"


def _of_strings(output: OutputSimilarity, pairs: Sequence[tuple[Tensor, Tensor]]) -> OutputSimilarity:
    elements = same = 0
    for one, two in pairs:
        left, right = decode("BYTES", one.data), decode("BYTES", two.data)
        if len(left) != len(right):
            return replace(output, problem=f"{len(left)} strings became {len(right)}")
        elements += len(left)
        same += sum(a == b for a, b in zip(left, right, strict=True))
    return replace(output, elements=elements, exact=same / elements if elements else None)


def _of_numbers(output: OutputSimilarity, pairs: Sequence[tuple[Tensor, Tensor]]) -> OutputSimilarity:
    left, right = (np.concatenate([_raw(pair[side]) for pair in pairs]) for side in (0, 1))
    if len(left) != len(right):
        return replace(output, problem=f"{len(left)} elements became {len(right)}")
    if not len(left):
        return output
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    a, b = left.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    is_float = any(tensor.datatype in FLOATS for pair in pairs for tensor in pair)
    found = replace(
        output,
        elements=len(left),
        exact=float(same.mean()),
        non_finite=int((~finite & ~same).sum()),
        top1=_top1(output.name, pairs) if is_float else None,
    )
    return _with_errors(found, a[finite], b[finite], is_float=is_float) if finite.any() else found


def _with_errors(found: OutputSimilarity, a: Numbers, b: Numbers, *, is_float: bool) -> OutputSimilarity:
    # Scale the largest value to about 1, so that squares neither overflow nor underflow; a power of two is exact.
    largest = max(float(np.abs(a).max()), float(np.abs(b).max()))
    scale = math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else 1.0
    a, b = a / scale, b / scale
    error = a - b
    base, other, wrong = (math.sqrt(float(part @ part)) for part in (a, b, error))
    is_signal = is_float and base > 0
    return replace(
        found,
        max_abs=_finite(float(np.abs(error).max()) * scale),
        mean_abs=_finite(float(np.abs(error).mean()) * scale),
        relative=wrong / base if is_signal else None,
        cosine=min(1.0, max(-1.0, float(a @ b) / base / other)) if is_signal and other > 0 else None,
        snr_db=20 * math.log10(base / wrong) if is_signal and wrong > 0 else None,
    )


def _finite(value: float) -> float | None:
    """Return the value, or None if it is infinite: the difference of two finite doubles can overflow."""
    return value if math.isfinite(value) else None


def _raw(tensor: Tensor) -> NDArray[Any]:
    return values(tensor.datatype, tensor.data)


def _top1(name: str, pairs: Sequence[tuple[Tensor, Tensor]]) -> float | None:
    """Return the share of rows with the same largest element, if the rows look like classes (by name or sum of 1)."""
    if any(not one.shape or one.shape[-1] < 2 for one, _ in pairs):
        return None
    rows = [
        tuple(_raw(tensor).astype(np.float64).reshape(-1, one.shape[-1]) for tensor in (one, two))
        for one, two in pairs
    ]
    is_named = any(word in name.lower() for word in _CLASS_NAMES)
    if not is_named and not all(map(_are_probabilities, (row for pair in rows for row in pair))):
        return None
    agree = [bool(same) for a, b in rows for same in a.argmax(axis=1) == b.argmax(axis=1)]
    return sum(agree) / len(agree) if agree else None


def _are_probabilities(rows: Numbers) -> bool:
    if not rows.size or not np.isfinite(rows).all():
        return False
    return bool((rows >= 0).all() and (np.abs(rows.sum(axis=1) - 1) < _SUM_SLACK).all())
