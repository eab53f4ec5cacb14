"""Kinds of servers that the fault server emulates: the call of a request, its step, and the usual reply."""

import json
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from tests.support.openai import DONE, END, ROLE, delta, usage
from tests.support.servers import FakeModel, reply
from tests.torture.http1_wire import Request

Asked_contra = TypeVar("Asked_contra", contravariant=True)
EXTENSIONS = ("binary_tensor_data", "model_configuration", "statistics", "system_shared_memory")


@dataclass(slots=True)
class Counters:
    """Counters of the server's statistics."""

    good: int = 0
    bad: int = 0


class Backend(Protocol[Asked_contra]):
    """One kind of server; it receives requests over HTTP/1.1, and calls over gRPC."""

    counters: Counters

    def call(self, asked: Asked_contra, /) -> str:
        """The name of a control call; empty for an inference."""

    def step(self, asked: Asked_contra, /) -> int: ...

    def inference(self, asked: Asked_contra, /) -> bytes:
        """The usual reply."""

    def control(self, asked: Asked_contra, name: str, /) -> bytes: ...


def json_reply(document: Any, status: int = 200) -> bytes:
    return reply(json.dumps(document).encode(), status, {"Content-Type": "application/json"})


def statistics(model: FakeModel, counters: Counters) -> dict[str, Any]:
    good, bad = counters.good, counters.bad
    times = ("queue", "compute_input", "compute_infer", "compute_output", "success")
    row = {
        "name": model.name,
        "version": "1",
        "inference_count": good,
        "execution_count": good,
        "inference_stats": {
            **{name: {"count": good, "ns": good * 1000} for name in times},
            "fail": {"count": bad, "ns": bad * 1000},
        },
    }
    return {"model_stats": [row]}


@dataclass(slots=True)
class TritonHttp:
    model: FakeModel
    config: dict[str, Any] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    regions: set[str] = field(default_factory=set)  # registered shared memory

    def call(self, request: Request) -> str:
        path = request.path
        if path.endswith("/infer"):
            return "probe" if b"Accept-Encoding" in request.head else ""  # one inference before the load
        if path == "/v2":
            return "server"
        if "sharedmemory" in path:
            return "shared memory"
        return {"config": "config", "stats": "stats"}.get(path.rpartition("/")[2], "metadata")

    def step(self, request: Request) -> int:
        """Step of a request, from INPUT0: the first input, an INT32, in JSON or right after it."""
        start = _header_length(request.head)
        document = json.loads(request.body[: start or None])
        first = document["inputs"][0]
        if "shared_memory_region" in first.get("parameters", {}):
            return -1
        if "data" in first:
            values = first["data"]
            while isinstance(values, list):
                values = values[0]
            return int(values)
        if start is None:
            return -1
        return int.from_bytes(request.body[start : start + 4], "little")

    def inference(self, request: Request) -> bytes:
        batch = 1
        document = {
            "model_name": self.model.name,
            "model_version": "1",
            "outputs": [{"name": "OUTPUT0", "datatype": "INT32", "shape": [batch, 1], "data": [0]}],
        }
        return json_reply(document)

    def control(self, request: Request, call: str) -> bytes:
        if call == "server":
            return json_reply({"name": "torture", "version": "2.51.0", "extensions": EXTENSIONS})
        if call == "config":
            return json_reply({**self.model.config(), **self.config})
        if call == "stats":
            return json_reply(statistics(self.model, self.counters))
        if call == "probe":
            return self.inference(request)
        if call == "shared memory":
            *_, name, verb = request.path.split("/")
            (self.regions.add if verb == "register" else self.regions.discard)(name)
            return json_reply({})
        if request.path.rstrip("/").endswith(("/ready", "/live")):
            return json_reply({})
        return json_reply(self.model.metadata())


def _header_length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"inference-header-content-length":
            return int(value)
    return None


def sse(*pieces: bytes) -> bytes:
    """A chunked stream of events."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + body + b"0\r\n\r\n"


USUAL_STREAM = sse(ROLE, delta("one"), delta("two"), delta("three"), END, usage(3, 4), DONE)


@dataclass(slots=True)
class OpenAi:
    """An OpenAI-style server; prompts look like `request 17`."""

    counters: Counters = field(default_factory=Counters)

    def call(self, request: Request) -> str:
        return "" if request.method == "POST" else "models"

    def step(self, request: Request) -> int:
        text = request.body
        at = text.find(b"request ")
        digits = text[at + 8 : at + 16]
        end = next((n for n, byte in enumerate(digits) if not 48 <= byte <= 57), len(digits))
        return int(digits[:end]) if at >= 0 and end else -1

    def inference(self, request: Request) -> bytes:
        if b'"stream":true' in request.body.replace(b" ", b""):
            return USUAL_STREAM
        message = {"role": "assistant", "content": "one two three"}
        usage_given = {"completion_tokens": 3, "prompt_tokens": 4}
        return json_reply({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage_given})

    def control(self, request: Request, call: str) -> bytes:
        return json_reply({"object": "list", "data": [{"id": "tiny"}]})


@dataclass(slots=True)
class Plain:
    """A plain HTTP server; bodies look like `request 17`."""

    counters: Counters = field(default_factory=Counters)

    def call(self, request: Request) -> str:
        return "" if request.method == "POST" else "other"

    def step(self, request: Request) -> int:
        digits = request.body.removeprefix(b"request ")
        return int(digits) if digits.isdigit() else -1

    def inference(self, request: Request) -> bytes:
        return json_reply({})

    def control(self, request: Request, call: str) -> bytes:
        return json_reply({"error": "no such path"}, 404)
