"""Tasks as sent to the workers: their graphs, and the conversion of a call's text to a request."""

import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from inferometer.model.python_task import PythonTask
from inferometer.model.task import TASK, Answers, Retry, TaskGraph, TaskMessage, TaskNode
from inferometer.model.unique import Unique


class Frame(NamedTuple):
    """A request with a gap for the messages, or, for APIs that take only text, inside the text of the prompt."""

    head: bytes  # up to the value of Content-Length
    rest: bytes  # of the head
    before: bytes  # the body up to the gap
    after: bytes
    is_chat: bool

    def request(self, pieces: "list[bytes]") -> bytes:
        """Return the request with these messages, encoded by `encoded_message`."""
        content = (b"," if self.is_chat else b"\\n").join(pieces)
        length = len(self.before) + len(content) + len(self.after)
        return b"".join((self.head, b"%d" % length, self.rest, self.before, content, self.after))

    def message(self, role: str, text: bytes) -> bytes:
        """Return a message; `text` is already encoded as the inside of a JSON string."""
        return b'{"role":"%s","content":"%s"}' % (role.encode(), text) if self.is_chat else text


class DataRow(NamedTuple):
    """A row of the data, encoded as the inside of a JSON string, with its place for a unique prefix."""

    before: bytes
    digits: int = 0  # words of the prefix; 0 without one
    after: bytes = b""


class TaskCode(NamedTuple):
    """A task written in Python, with the settings of its steps in order."""

    make: PythonTask
    frames: tuple[Frame, ...]
    retries: tuple[Retry, ...]
    most_turns: int | None = None


class TaskPlan(NamedTuple):
    """How to make tasks. Task n has graph n, unless tasks are written in Python, and row n of the data; both repeat
    after the last."""

    graphs: tuple[TaskGraph, ...]
    kinds: tuple[str, ...]  # names of the steps
    frames: Mapping[tuple[str, int], Frame]  # by system prompt and limit of tokens
    rows: tuple[DataRow, ...] = (DataRow(b""),)
    unique: Unique | None = None
    seed: int = 0
    origin: str = ""  # for messages
    code: TaskCode | None = None

    def graph(self, number: int) -> TaskGraph:
        return self.graphs[number % len(self.graphs)]


def inside(text: str) -> bytes:
    """Encode a text as the inside of a JSON string."""
    return encode_basestring(text)[1:-1].encode("utf-8", "surrogatepass")


def _encoded(frame: Frame, message: Mapping[str, Any]) -> bytes:
    if frame.is_chat:
        return json.dumps(message).encode()
    return inside(str(message.get("content") or ""))


class TaskTexts:
    """The conversations of one task: the messages of each call, and the answers so far."""

    __slots__ = ("_answers", "_pieces", "_plan", "_row", "_task")

    def __init__(self, plan: TaskPlan, number: int, start: int) -> None:
        """`start` is a number for the unique prefix of its data."""
        self._plan = plan
        self._task = b"%d" % (number + 1)
        row = plan.rows[number % len(plan.rows)]
        self._row = row.before
        if row.digits and plan.unique is not None:
            self._row += plan.unique.start(start, row.digits) + row.after
        self._answers: dict[int, bytes] = {}
        self._pieces: dict[int, list[bytes]] = {}  # messages of each call, including its own

    def request(self, number: int, node: TaskNode) -> bytes:
        """Return the request of a node; all that it waits for have been answered."""
        frame = self._plan.frames[node.system, node.max_tokens]
        pieces = self._pieces.get(number)
        if pieces is None:
            pieces = self._conversation(node.context, frame)
            pieces += [frame.message(each.role, self._text(each)) for each in node.messages]
            self._pieces[number] = pieces
        return frame.request(pieces)

    def written(
        self, number: int, frame: Frame, context: int, messages: Sequence[Mapping[str, Any]], prompt: str
    ) -> bytes:
        """Return the request of a call written in Python; `context` is the call that it continues, or -1."""
        pieces = self._conversation(context, frame)
        pieces += [_encoded(frame, message) for message in messages]
        if prompt or not pieces:
            pieces.append(frame.message("user", inside(prompt)))
        self._pieces[number] = pieces
        return frame.request(pieces)

    def _conversation(self, context: int, frame: Frame) -> list[bytes]:
        if context < 0:
            return []
        return [*self._pieces[context], frame.message("assistant", self._answers[context])]

    @property
    def data(self) -> str:
        return str(json.loads(b'"%s"' % self._row))

    def answered(self, number: int, text: str) -> None:
        self._answers[number] = inside(text)

    def _text(self, message: TaskMessage) -> bytes:
        found = []
        for part in message.parts:
            if isinstance(part, str):
                found.append(inside(part))
            elif isinstance(part, Answers):
                found.append(b"\\n".join([self._answers[number] for number in part.nodes]))
            else:
                found.append(self._task if part.name == TASK else self._row)
        return b"".join(found)
