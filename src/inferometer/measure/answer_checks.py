"""Checks of answers, made from the options and from the expected answer to each request."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from inferometer.base.confined import check_command, check_path
from inferometer.base.errors import PeerError, UsageError
from inferometer.base.reading import CONFIG, DATA, read_file
from inferometer.base.text import decode_json
from inferometer.dataset.dataset import Step
from inferometer.model.numbers import encode, flat
from inferometer.model.spec import ModelSpec, Tensor
from inferometer.options.checking import (
    CHOICE,
    EXACT,
    PYTHON,
    REFERENCE,
    SCHEMA,
    answer_check,
    choices,
    function_parts,
    parts,
)
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.services.check_plan import Answer, AnswerCheck, AnswerChecks
from inferometer.services.kind import KINDS
from inferometer.services.traffic import ReplyReader, Wiring
from inferometer.stats.exported import Value, json_value
from inferometer.wire.http1 import Head

MOST_REFERENCES = 8  # different answers to one request that are kept
TEXT_KINDS = ("http", "torchserve")
"""Kinds whose answers are checked as the text of the reply, besides those that generate text."""


def make_checks(
    options: Options,
    model: ModelSpec,
    wiring: Wiring,
    steps: Sequence[Step],
    expected: Sequence[str | None] | Sequence[Sequence[Tensor]],
) -> AnswerChecks:
    """Return the checks; `expected` has the expected texts or outputs of each step, if any."""
    is_text = KINDS[options.service_kind].has_tokens or options.service_kind in TEXT_KINDS
    found = tuple(_checks(options))
    if AnswerCheck(EXACT) in found and not expected:
        raise UsageError(
            f"{option_name('--check')} exact compares answers with those expected by the data, but the "
            "data has none",
            remedy=f"give each prompt an 'expected' text in {option_name('--prompts')}, or write "
            f"{option_name('--check')} exact:TEXT"
            if is_text
            else f"add 'validation_data' to the file of {option_name('--data')}",
        )
    datatypes = {output.name: output.datatype for output in model.outputs}
    references: tuple[tuple[Answer, ...], ...] = ()
    for word in options.check:
        kind, path = parts(word)
        if kind == REFERENCE:
            reader = wiring.reader if is_text else None
            references = _references(str(path), steps, reader, {} if is_text else datatypes)
    return AnswerChecks(
        found,
        options.check_sample,
        is_text=is_text,
        datatypes=datatypes,
        expected=tuple(row if isinstance(row, str | None) else tuple(row) for row in expected),
        references=references,
        similarity=options.check_similarity,
        tolerance=options.validate_tolerance,
    )


def _checks(options: Options) -> Iterator[AnswerCheck]:
    if isinstance(options.check, str):  # from Python
        raise UsageError(
            f"check is '{options.check}', but must be a tuple of checks", remedy="put it into a tuple"
        )
    for word in options.check:
        kind, value = parts(answer_check.read(option_name("--check"), word))
        if kind == CHOICE:
            yield AnswerCheck(kind, choices(value or ""))
        elif kind == SCHEMA:
            yield AnswerCheck(kind, _schema(value or ""))
        else:
            yield AnswerCheck(kind, None if kind == REFERENCE else value)
    if options.check_python is not None:
        from inferometer.load.visit_file import VisitFile

        check_command(option_name("--check-python"), "a Python function")
        file, function = function_parts(options.check_python)
        found = VisitFile(file, function).carried()
        if not callable(found.load()):
            raise UsageError(f"'{function}' in {file} is not a function", remedy="write FILE.py:FUNCTION")
        yield AnswerCheck(PYTHON, found)


def _schema(path: str) -> Any:
    try:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for
    except ImportError as error:
        raise UsageError(
            f"{option_name('--check')} schema requires jsonschema: {error}",
            remedy="pip install 'inferometer[schema]'",
        ) from error
    check_path(path)
    try:
        document = decode_json(read_file(path, CONFIG, "the JSON Schema"))
    except ValueError as error:
        raise UsageError(f"the JSON Schema {path} is not JSON: {error}", remedy="correct the file") from None
    try:
        validator_for(document).check_schema(document)
    except (SchemaError, AttributeError, TypeError) as error:
        text = getattr(error, "message", str(error))
        raise UsageError(f"{path} is not a JSON Schema: {text}", remedy="correct the file") from None
    return document


# --- answers of a reference run


def _references(
    path: str, steps: Sequence[Step], reader: ReplyReader | None, datatypes: dict[str, str]
) -> tuple[tuple[Answer, ...], ...]:
    """Return the answers of the reference run to each of the steps, by the inputs of the requests."""
    known: dict[str, list[Answer]] = {}
    for inputs, outputs in _exported(path):
        answers = known.setdefault(_key(inputs), [])
        if len(answers) < MOST_REFERENCES:
            try:
                answer = _answer(outputs, reader, datatypes)
            except (PeerError, ValueError, TypeError, KeyError) as error:
                raise UsageError(
                    f"an answer in {path} cannot be read: {error}",
                    remedy="export the reference from the same kind of server",
                ) from None
            if answer not in answers:
                answers.append(answer)
    found = tuple(tuple(known.get(_key(_inputs(step)), ())) for step in steps)
    if not any(found):
        raise UsageError(
            f"none of the requests is in {path}, so no answer can be compared",
            remedy=f"export the reference with the same data, such as {option_name('--seed')} or "
            f"{option_name('--prompts')}",
        )
    return found


def _exported(path: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the inputs and the outputs of each request in an export."""
    check_path(path)
    try:
        document = decode_json(read_file(path, DATA, "the reference"))
        experiments = document["experiments"]
        requests = [request for experiment in experiments for request in experiment["requests"]]
        rows = [(request["request_inputs"], request["response_outputs"]) for request in requests]
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"the reference {path} is not an export of requests ({type(error).__name__}: {error})",
            remedy=f"write one with {option_name('--export')}, as JSON",
        ) from None
    for inputs, outputs in rows:
        if isinstance(inputs, dict) and isinstance(outputs, list):
            yield inputs, [row for row in outputs if isinstance(row, dict)]


def _inputs(step: Step) -> dict[str, Any]:
    values = (Value(tensor.name, tensor.datatype, tensor.data) for tensor in step)
    return {value.name: json.loads(json_value(value.datatype, value.data)) for value in values}


def _key(inputs: dict[str, Any]) -> str:
    return json.dumps(inputs, sort_keys=True)


def _answer(
    outputs: Sequence[dict[str, Any]], reader: ReplyReader | None, datatypes: dict[str, str]
) -> Answer:
    if not datatypes:
        text = "".join(str(value) for row in outputs for value in row.values() if value)
        return text if reader is None else _text_answer(text, reader)
    if len(outputs) != 1:
        raise ValueError(f"it has {len(outputs)} responses, and only single ones are compared")
    return {
        name: encode(datatypes[name], flat(value)) for name, value in outputs[0].items() if name in datatypes
    }


def _text_answer(text: str, reader: ReplyReader) -> str:
    """Return the answer in a reply of a text server: a stream of events, or a whole document."""
    is_stream = text.startswith(("data:", "event:"))
    lines = text.count("\n{") > 0
    kind = "text/event-stream" if is_stream else "application/x-ndjson" if lines else "application/json"
    body = reader.keeping().start(Head(200, "OK", (("content-type", kind),), len(text), True))
    body.receive(text.encode("utf-8", "replace"), 0)
    found = body.end()
    if found.status:
        raise PeerError(found.text)
    if found.answer is not None:
        return found.answer
    return b"".join(piece for _, piece in found.texts).decode("utf-8", "replace")
