"""APIs of servers that answer with text: the type of a row, and the meaning of replies.

An API is data and pure functions, in one file per vendor: its path, how a prompt or the messages of a chat become the
fields of a body (`Api`), and what an event of a stream or a complete reply contains (`ReplyForm`). `apis` lists all
rows; `text_reply` reads replies with them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from inferometer.base.frozen import frozen
from inferometer.base.text import encodable
from inferometer.wire.http1 import Head

Fields = dict[str, Any]
Document = Mapping[str, Any]

REASONING, ANSWER, TOOL = 1, 2, 4
"""Content of a part of an answer; one part may have several."""

MOST_TOKENS = 2**31


class Usage(NamedTuple):
    """Tokens as counted by the server, named as in a `Reply`; 0 if not reported."""

    tokens: int = 0
    prompt_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0

    def over(self, earlier: "Usage") -> "Usage":
        """Merge with an earlier report: later values replace earlier ones, which are kept if a report lacks them."""
        return Usage(*(new or old for new, old in zip(self, earlier, strict=True)))


class Delta(NamedTuple):
    """A part of an answer."""

    carries: int  # REASONING, ANSWER, TOOL or a sum of them; not 0
    text: str = ""  # of the answer, or else of the reasoning
    choice: Any = 0  # index of the choice that it belongs to


class EventMeaning(NamedTuple):
    """Content of an event of a stream."""

    deltas: Sequence[Delta] = ()
    usage: Usage | None = None
    is_end: bool = False
    error: str = ""


class WholeMeaning(NamedTuple):
    """Content of a complete reply."""

    usage: Usage = Usage()
    is_blank: bool = False  # an answer without content
    message: Document | None = None  # the answer as the next turn of a chat repeats it
    error: str = ""
    answer: str = ""  # text of the first choice; empty if the answer is not text


NOTHING = EventMeaning()


def no_usage(head: Head) -> Usage:
    return Usage()


@frozen
class ReplyForm:
    """How to read the replies of an API. Sent to the workers, so its functions must pickle."""

    title: str  # for messages
    event: Callable[[Document, bytes], EventMeaning]  # document and type of an event
    whole: Callable[[Any], WholeMeaning]
    texts: tuple[str, ...]  # fields with the text of an event
    accepts: tuple[type, ...] = (dict,)  # JSON types of a complete reply
    must_end: bool = False  # every complete stream says that it ends
    has_lines: bool = False  # a reply of any other content type than events is a stream of lines
    head: Callable[[Head], Usage] = no_usage  # usage in the headers of a reply


@frozen
class Api:
    """One endpoint of a server."""

    name: str  # for --endpoint, instead of the path
    path: str  # may contain {model}
    ask: Callable[[str], Fields]  # fields from a prompt
    form: ReplyForm
    chat: Callable[[Sequence[Any]], Fields] | None = None  # fields from messages, if supported
    rank: Callable[[str, Sequence[Any]], Fields] | None = (
        None  # fields from a query and documents, if supported
    )
    pattern: str = ""  # regular expression for the end of other paths of such an endpoint
    stream_path: str = ""  # of streams, if it differs
    limit: str = ""  # field for the maximum tokens of an answer, dotted; empty if answers have none
    default_limit: int = 0  # if the API requires one
    stream: Fields = field(default_factory=dict)  # fields that request a stream
    whole: Fields = field(default_factory=dict)  # fields that request a complete answer
    always: Fields = field(default_factory=dict)  # fields of every body
    turns: str = ""  # field with the messages of a conversation; empty if sessions are not supported
    names_model: bool = True  # bodies name the model
    headers: tuple[tuple[str, str], ...] = ()
    key_header: str = ""  # for the API key; empty: a bearer token
    models_path: str = ""  # path of the list of models; empty for v1/models
    host_kind: str = ""  # service kind that such a server looks like
    takes_sound: bool = False  # the request is an upload of a sound

    @property
    def can_stream(self) -> bool:
        return bool(self.stream or self.stream_path)


# --- readers that several APIs share


def count(counts: Any, name: str) -> int:
    """Return a number of tokens in a report; 0 if it is missing or impossible."""
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and 0 < value < MOST_TOKENS else 0


def part(document: Any, name: str) -> Document:
    """Return an object inside a document; empty if there is none."""
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def objects(document: Document, name: str) -> list[Document]:
    """Return the objects in a list inside a document."""
    found = document.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def texts_in(value: Any) -> str:
    """Return a text, or the texts among the parts of a message."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else []
    return "\n".join(
        found["text"] for found in parts if isinstance(found, dict) and isinstance(found.get("text"), str)
    )


def maybe_error(document: Document) -> str:
    """Return the text of an error inside a document; empty if there is none."""
    error = document.get("error")
    if not error:
        return ""
    message = error.get("message") if isinstance(error, dict) else error
    return encodable(str(message)) if message else json.dumps(error)


def put(fields: Fields, dotted: str, value: Any) -> None:
    """Set a field; `outer.inner` is a field of an object inside."""
    *outer, last = dotted.split(".")
    for key in outer:
        fields = fields.setdefault(key, {})
    fields[last] = value
