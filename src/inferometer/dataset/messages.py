"""Calls of a gRPC method: each is one message written as JSON, or a list of them for a method that takes a stream.

    {"data": [{"name": "a"}, {"name": "b"}]}              two calls of one message
    {"data": [[{"chunk": "a"}, {"chunk": "b"}]]}          one call of two messages
    {"data": [{"message_generator": "make-messages 3"}]}  one call of the messages that a command writes

What a command writes is read as the classic tool does: each message after its length, four bytes in this machine's
order. A message of a step is the tensor `message`, of datatype JSON or, as a command wrote it, BYTES.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.dataset.dataset import Dataset, Step
from inferometer.dataset.lines import read_bytes
from inferometer.dataset.payloads import compact
from inferometer.model.tensor import Tensor
from inferometer.options.options import GENERATED, DataOptions

GENERATOR = "message_generator"
GENERATOR_S = 60
LENGTH = 4  # bytes
_SHAPE = 'write {"data": [{...}, {...}]} with a message in each place, or a list of messages'


def build_messages(options: DataOptions) -> Dataset:
    """The calls in the files; without a file there is one call that nothing is said about."""
    files = [source for source in options.sources if source not in GENERATED]
    if not files:
        return Dataset("random", (((),),))
    return Dataset("json", (tuple(step for path in files for step in _read(Path(path))),))


def _read(path: Path) -> list[Step]:
    try:
        document = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}", remedy=_SHAPE) from None
    rows = document.get("data") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows:
        raise UsageError(f"{path} has no list of calls under 'data'", remedy=_SHAPE)
    others = sorted(set(document) - {"data"})
    if others:
        raise UsageError(f"{path} has '{others[0]}', which has no meaning for a gRPC method", remedy=_SHAPE)
    return [_call(path, number, row) for number, row in enumerate(rows)]


def _call(path: Path, number: int, row: Any) -> Step:
    where = f"call {number} of {path}"
    messages = row if isinstance(row, list) else [row]
    if not messages or not all(isinstance(message, dict) for message in messages):
        raise UsageError(f"{where} is neither a message nor a list of messages", remedy=_SHAPE)
    if set(messages[0]) == {GENERATOR} and len(messages) == 1:
        return _generated(messages[0][GENERATOR], where)
    return tuple(Tensor("message", "JSON", (1,), compact(message)) for message in messages)


def _generated(command: Any, where: str) -> Step:
    """The classic tool writes the command as a string or as a list with one."""
    text = command[0] if isinstance(command, list) and len(command) == 1 else command
    if not isinstance(text, str):
        raise UsageError(f"{where}: '{GENERATOR}' is not a command", remedy="give one string")
    try:
        done = subprocess.run(text, shell=True, stdout=subprocess.PIPE, timeout=GENERATOR_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{where}: the command did not end within {GENERATOR_S} s: {text}") from error
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
                f"{where}: what the command wrote ends within a message",
                remedy="write each message after its length, four bytes in this machine's order",
            )
        messages.append(data[start:at])
    if not messages:
        raise UsageError(f"{where}: the command wrote no message")
    return messages
