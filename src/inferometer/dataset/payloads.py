"""Requests with a JSON body: given as a whole, or built from prompts in a file or from generated prompts.

A step holds one of the tensors `payload` (the body itself, compact JSON), `messages` (a chat, JSON) and `prompt`
(text), or `query` (text) with `documents` (a list, JSON). With messages and prompts it may also hold `max_tokens`, the
maximum tokens of the answer. With a payload the data may have `session_id`, and `delay`: the milliseconds between the
answer and the next turn of its session.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from inferometer.base.confined import check_command
from inferometer.base.errors import UsageError
from inferometer.base.text import encode_json
from inferometer.base.threads import users_environment
from inferometer.dataset.chat_rows import Reading, read_requests
from inferometer.dataset.dataset import (
    AS_JSON,
    MALFORMED,
    UNPARSED,
    Dataset,
    Step,
    add_streams,
    parse_json,
    read_bytes,
)
from inferometer.dataset.prompts import make_prompts, with_lengths, with_unique_starts
from inferometer.dataset.rows import is_rows
from inferometer.dataset.tokens import open_tokenizer
from inferometer.model.spec import Tensor
from inferometer.options.names import option_name
from inferometer.options.options import DataOptions
from inferometer.options.values import GENERATED

_LONGEST_MS = 1e15
_EXAMPLE = 'write {"data": [{"payload": [{"model": "..."}]}]}'


def build_payloads(
    options: DataOptions,
    *,
    is_scheduled: bool = False,
    has_sessions: bool = False,
    output_tokens: int | str | None = None,
) -> Dataset:
    """Return one stream of steps, or the streams of the data file."""
    files = [source for source in options.sources if source not in GENERATED]
    sources = {
        option_name("data.sources"): files or None,
        option_name("--prompts"): options.prompts,
        option_name("--prompt-tokens"): options.prompt_tokens,
    }
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{given[0]} cannot be combined with {given[1]}", remedy="give one of them")
    if not files and options.prompts is None:
        return make_prompts(options, output_tokens)
    counts = options.tokenizer is not None and output_tokens is None
    reading = Reading(
        options.prompt_column, has_sessions, open_tokenizer(options.tokenizer).count if counts else None
    )
    if files:
        dataset = read_payloads(files, reading, is_scheduled=is_scheduled)
    else:
        found = read_requests(str(options.prompts), read_bytes(str(options.prompts)), reading)
        steps = with_lengths(found.steps, output_tokens, options.seed)
        dataset = Dataset("files", (steps,), findings=found.findings)
    return with_unique_starts(dataset, options) if options.unique_prompts else dataset


# --- files of payloads


def read_payloads(paths: list[str], reading: Reading, *, is_scheduled: bool = False) -> Dataset:
    """Read the steps from files of payloads or of rows."""
    streams: list[list[Step]] = []
    findings: list[str] = []
    for path in paths:
        if Path(path).is_dir():
            raise UsageError(
                f"{option_name('data.sources')} {path} is a directory", remedy="give a JSON file of payloads"
            )
        data = read_bytes(path)
        if not is_scheduled and is_rows(path, data):
            found = read_requests(path, data, reading)
            add_streams(streams, [list(found.steps)], is_nested=False)
            findings += found.findings
            continue
        read, is_nested = parse_payloads(path, data)
        add_streams(streams, read, is_nested=is_nested)
    whole = tuple(map(tuple, streams))
    times_ms = tuple(map(_time_ms, whole[0])) if is_scheduled else None
    return Dataset("json", whole, times_ms=times_ms, findings=tuple(findings))


def parse_payloads(path: str, data: bytes) -> tuple[list[list[Step]], bool]:
    """Parse the streams of a payload document, and whether it is nested."""
    rows = _rows(path, data)
    is_nested = all(isinstance(row, list) for row in rows)
    parts = rows if is_nested else [rows]
    streams = [
        [_step(path, stream, number, row) for number, row in enumerate(part)]
        for stream, part in enumerate(parts)
    ]
    return streams, is_nested


def _time_ms(step: Step) -> float:
    said = [tensor.data for tensor in step if tensor.name == "timestamp"]
    if not said:
        raise UsageError("missing tensor timestamp: with a fixed schedule every step needs one")
    return float(said[0])


def _rows(path: str, data: bytes) -> list[Any]:
    document = parse_json(data, UNPARSED.format(path), remedy=AS_JSON)
    if not isinstance(document, dict) or "data" not in document:
        raise UsageError(
            f"The json file doesn't contain data field: {path}",
            remedy=_EXAMPLE,
        )
    rows = document["data"]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, type(rows[0])) for row in rows):
        raise UsageError(
            f"{MALFORMED} {path}: 'data' must be a list of steps or a list of lists of steps",
            remedy=_EXAMPLE,
        )
    if any(row == [] for row in rows):
        raise UsageError(f"{MALFORMED} {path}: a stream of 'data' is empty", remedy="give at least one step")
    return rows


def _step(path: str, stream: int, number: int, row: Any) -> Step:
    where = f"(stream {stream}, step {number} of {path})"
    if not isinstance(row, dict):
        raise UsageError(f"{MALFORMED} A step is not an object {where}")
    payload = row.get("payload")
    if not isinstance(payload, list) or len(payload) != 1 or not isinstance(payload[0], dict):
        raise UsageError(
            f"{MALFORMED} 'payload' must be a list with exactly one object {where}",
            remedy='write {"payload": [{"model": "...", "messages": [...]}]}',
        )
    tensors = [Tensor("payload", "JSON", (1,), encode_json(payload[0]))]
    for key, value in row.items():
        if key not in ("payload", "session_id", "delay", "timestamp", "model"):
            raise UsageError(
                f"The input '{key}' is not an input of an OpenAI-style request {where}",
                remedy="a step has 'payload', and may have 'session_id', 'delay' and 'timestamp'",
            )
        if key in ("session_id", "delay", "timestamp"):
            said = str(_single(key, value, where)).encode("utf-8", "replace")
            tensors.append(Tensor(key, "JSON", (1,), said))
    return tuple(tensors)


def _single(key: str, value: Any, where: str) -> str | int | float:
    """Return the value of a one-element list."""
    found = value[0] if isinstance(value, list) and len(value) == 1 else value
    if key == "session_id":
        what, is_right = "a name", type(found) in (str, int)
    else:
        least = 0 if key == "delay" else -_LONGEST_MS
        what = "a number of milliseconds"
        is_right = type(found) in (int, float) and least <= found < _LONGEST_MS
    if not is_right:
        raise UsageError(f"{MALFORMED} '{key}' must be a list with {what} {where}")
    return found  # type: ignore[no-any-return]


# --- calls of a gRPC method
#
# Each is one message written as JSON, or a list of them for a method that takes a stream:
#
#     {"data": [{"name": "a"}, {"name": "b"}]}              two calls of one message
#     {"data": [[{"chunk": "a"}, {"chunk": "b"}]]}          one call of two messages
#     {"data": [{"message_generator": "make-messages 3"}]}  one call of the messages that a command writes
#
# The output of a command is read as by the classic tool: each message after its length, four bytes in native byte
# order. A message of a step is the tensor `message`, of datatype JSON or, from a command, BYTES.

GENERATOR = "message_generator"
GENERATOR_S = 60
LENGTH = 4  # bytes
_SHAPE = 'write {"data": [{...}, {...}]} with a message or a list of messages in each place'


def build_messages(options: DataOptions) -> Dataset:
    """Read the calls from the given files. Without files, the dataset is a single empty call."""
    files = [source for source in options.sources if source not in GENERATED]
    if not files:
        return Dataset("random", (((),),))
    return Dataset("json", (tuple(step for path in files for step in _read(Path(path))),))


def _read(path: Path) -> list[Step]:
    document = parse_json(read_bytes(path), f"{path} is not JSON: ", remedy=_SHAPE)
    rows = document.get("data") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows:
        raise UsageError(f"{path} has no list of calls under 'data'", remedy=_SHAPE)
    others = sorted(set(document) - {"data"})
    if others:
        raise UsageError(f"{path} has '{others[0]}', which is not supported for a gRPC method", remedy=_SHAPE)
    return [_call(path, number, row) for number, row in enumerate(rows)]


def _call(path: Path, number: int, row: Any) -> Step:
    where = f"call {number} of {path}"
    messages = row if isinstance(row, list) else [row]
    if not messages or not all(isinstance(message, dict) for message in messages):
        raise UsageError(f"{where} is neither a message nor a list of messages", remedy=_SHAPE)
    if set(messages[0]) == {GENERATOR} and len(messages) == 1:
        return _generated(messages[0][GENERATOR], where)
    return tuple(Tensor("message", "JSON", (1,), encode_json(message)) for message in messages)


def _generated(command: Any, where: str) -> Step:
    """Run a command given as a string or, as the classic tool allows, as a list with one string."""
    text = command[0] if isinstance(command, list) and len(command) == 1 else command
    if not isinstance(text, str):
        raise UsageError(f"{where}: '{GENERATOR}' is not a command", remedy="give one string")
    check_command(where)
    try:
        done = subprocess.run(
            text,
            shell=True,
            stdout=subprocess.PIPE,
            timeout=GENERATOR_S,
            check=False,
            env=users_environment(),
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{where}: the command did not finish within {GENERATOR_S} s: {text}") from error
    if done.returncode:
        raise UsageError(f"{where}: the command ended with exit code {done.returncode}: {text}")
    return tuple(Tensor("message", "BYTES", (1,), message) for message in _split(done.stdout, where))


def _split(data: bytes, where: str) -> list[bytes]:
    messages = []
    at = 0
    while at < len(data):
        start = at + LENGTH
        at = start + int.from_bytes(data[at:start], sys.byteorder)
        if at > len(data) or start > len(data):
            raise UsageError(
                f"{where}: the output of the command ends in the middle of a message",
                remedy="write the length before each message, as four bytes in native byte order",
            )
        messages.append(data[start:at])
    if not messages:
        raise UsageError(f"{where}: the command wrote no messages")
    return messages
