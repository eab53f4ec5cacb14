"""Requests to send, expected replies, and the sequences made from them."""

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS
from inferometer.dataset.build import batch, batch_expected, stream_expected, stream_steps
from inferometer.dataset.dataset import EXPECTED, Dataset, Step, Streams
from inferometer.load.sequences import SequencePlan
from inferometer.model.spec import ModelSpec
from inferometer.options.names import option_name
from inferometer.options.options import Options

if TYPE_CHECKING:
    from inferometer.dataset.replay import Trace, TraceLine


class Requests(NamedTuple):
    """Steps, expected outputs and sequences; `numbers` lists the steps in the order of a trace."""

    steps: Sequence[Step]
    expected: Sequence[Step] | None = None
    sequences: SequencePlan | None = None
    numbers: tuple[int, ...] | None = None


def make_requests(options: Options, dataset: Dataset, model: ModelSpec, trace: "Trace | None") -> Requests:
    if options.session_concurrency is not None:
        steps = _flat(dataset.streams)
        return Requests(steps, sequences=session_plan(steps, options.session_concurrency))
    if model.any_sequence:
        return _of_sequences(options, dataset, model, trace)
    if dataset.origin == "trace":
        return Requests(dataset.streams[0], numbers=tuple(range(len(dataset.streams[0]))))
    size = options.batch or 1
    requests = Requests(batch(dataset, model, size), batch_expected(dataset, model, size))
    if trace is None or all(entry.is_plain for entry in trace.entries):
        return requests
    return _replayed(trace, options, dataset, model, requests)


def _of_sequences(options: Options, dataset: Dataset, model: ModelSpec, trace: "Trace | None") -> Requests:
    if trace is not None and (entry := next((line for line in trace.entries if not line.is_plain), None)):
        detail = "a sequence model takes its data in sequence order"
        raise trace.error(entry, detail, remedy="remove step, stream and data")
    streams, expected = stream_steps(dataset, model), stream_expected(dataset, model)
    ends = list(accumulate(len(stream) for stream in streams))
    first, end = options.sequence_ids or (1, None)
    plan = SequencePlan(
        streams=tuple(
            tuple(range(stop - len(stream), stop)) for stream, stop in zip(streams, ends, strict=True)
        ),
        is_given=dataset.origin == "json",
        length=options.sequence_length,
        variation=options.sequence_length_variation,
        first_id=max(first, 1),
        last_id=max(first, 1) + 2**32 - 2 if end is None else end - 1,
        lanes=options.sequences,
        is_serial=options.serial_sequences,
        seed=options.data.seed,
    )
    return Requests(_flat(streams), None if expected is None else _flat(expected), plan)


def _flat(streams: Streams) -> tuple[Step, ...]:
    return tuple(step for stream in streams for step in stream)


def without_expected(steps: Sequence[Step]) -> tuple[tuple[Step, ...], tuple[str | None, ...]]:
    """Split steps into the data to send and the expected text of each answer; without expected answers, there are no
    texts."""
    if not any(tensor.name == EXPECTED for step in steps for tensor in step):
        return tuple(steps), ()
    expected = tuple(
        next((tensor.data.decode("utf-8", "replace") for tensor in step if tensor.name == EXPECTED), None)
        for step in steps
    )
    return tuple(tuple(tensor for tensor in step if tensor.name != EXPECTED) for step in steps), expected


# --- requests chosen by a trace


def _replayed(
    trace: "Trace", options: Options, dataset: Dataset, model: ModelSpec, plain: Requests
) -> Requests:
    """Return the dataset's requests plus those in the trace, and the request of each line."""
    from inferometer.dataset.json_file import read_step
    from inferometer.dataset.trace_tokens import trace_place

    if any(entry.stream is not None for entry in trace.entries):
        expected = stream_expected(dataset, model)
        plain = Requests(_flat(stream_steps(dataset, model)), None if expected is None else _flat(expected))
    own: dict[bytes, int] = {}  # equal ones are stored once
    added: list[Step] = []
    numbers = []
    for turn, entry in enumerate(trace.entries):
        if (entry.data is not None or entry.stream is not None) and (options.batch or 1) > 1:
            raise trace.error(
                entry,
                f"data and streams require a batch size of 1, but {option_name('-b')} is {options.batch}",
                remedy=f"use {option_name('-b', '1')}",
            )
        if entry.data is None:
            numbers.append(_number(trace, entry, dataset, plain, turn))
            continue
        if entry.data not in own:
            own[entry.data] = len(plain.steps) + len(added)
            origin = trace_place(trace.path, entry.line)
            added.append(read_step(model, entry.data, origin, options.data.shapes))
        numbers.append(own[entry.data])
    return plain._replace(
        steps=(*plain.steps, *_flat(stream_steps(Dataset("json", (tuple(added),)), model))),
        expected=None if plain.expected is None else (*plain.expected, *((),) * len(added)),
        numbers=tuple(numbers),
    )


def _number(trace: "Trace", entry: "TraceLine", dataset: Dataset, plain: Requests, turn: int) -> int:
    """Return the request that the line names, otherwise the next one of the dataset."""
    if entry.is_plain:
        return turn % len(plain.steps)
    stream, step = entry.stream or 0, entry.step or 0
    if stream >= len(dataset.streams):
        raise _beyond(trace, entry, "stream", stream, len(dataset.streams))
    if entry.stream is None:
        if step >= len(plain.steps):
            raise _beyond(trace, entry, "step", step, len(plain.steps))
        return step
    if step >= len(dataset.streams[stream]):
        raise _beyond(trace, entry, f"step of stream {stream}", step, len(dataset.streams[stream]))
    return sum(len(steps) for steps in dataset.streams[:stream]) + step


def _beyond(trace: "Trace", entry: "TraceLine", noun: str, number: int, there_are: int) -> UsageError:
    return trace.error(
        entry, f"the {noun} is {number}, but the data has {there_are}", remedy="numbers start at 0"
    )


# --- sessions


def session_plan(steps: Sequence[Step], concurrency: int) -> SequencePlan:
    """Group turns with the same `session_id` into sessions, in file order."""
    sessions: dict[str, list[int]] = {}
    delays: list[int | None] = []
    for number, step in enumerate(steps):
        said = {tensor.name: tensor.data.decode() for tensor in step}
        if "session_id" not in said:
            raise UsageError(
                f"step {number} of the data has no 'session_id', which "
                f"{option_name('--session-concurrency')} requires",
                remedy='write {"session_id": ["a"], "delay": [0], "payload": [{...}]}',
            )
        sessions.setdefault(said["session_id"], []).append(number)
        delays.append(round(float(said["delay"]) * NS_PER_MS) if "delay" in said else None)
    for name, turns in sessions.items():
        for turn, number in enumerate(turns[:-1], start=1):
            if delays[number] is None:
                raise UsageError(
                    f"turn {turn} of session '{name}' has no 'delay' (step {number} of the data)",
                    remedy="give every turn except the last a delay in milliseconds, or 0",
                )
    if len(sessions) < concurrency:
        raise UsageError(
            f"{option_name('--session-concurrency')} is {concurrency}, but the data has {len(sessions)} "
            "sessions",
            remedy=f"provide at least {concurrency} sessions, or lower "
            f"{option_name('--session-concurrency')}",
        )
    return SequencePlan(
        streams=tuple(map(tuple, sessions.values())),
        is_given=True,
        is_once=True,
        delays_ns=tuple(delay or 0 for delay in delays),
    )
