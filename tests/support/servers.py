"""Scripted HTTP servers on loopback: they answer, stall, break off or misbehave.

An **act** is the reaction to one request: a function of its wire. A **script** picks the act for each request.
`ScriptedServer` runs a script; `FakeTriton` is a server for a whole run, with scripted inferences.
"""

import contextlib
import json
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

DEADLINE_S = 30.0
# Delay of a usual answer. Immediate answers would keep two cores busy while other tests run.
SERVICE_S = 0.002
PIECE = 64 * 1024
TLS_HELLO = b"\x16\x03"
ANYWHERE = contextlib.nullcontext()


@dataclass(frozen=True, slots=True)
class Request:
    """A received request; `connection` counts the connections from 0."""

    connection: int
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the first header with this name, ignoring case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class Wire:
    """The server's end of one connection."""

    def __init__(self, connection: socket.socket, ended: threading.Event) -> None:
        self.ended = ended  # the server stops: waiting acts must return
        self._socket = connection
        self._read = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive_until(self, mark: bytes) -> bytes | None:
        """Return all bytes before the mark; None if the peer closes first."""
        while (found := self._read.find(mark)) < 0:
            if not self._more():
                return None
        taken, self._read = self._read[:found], self._read[found + len(mark) :]
        return taken

    def comes_with(self, mark: bytes) -> bool:
        """Whether the next piece starts with these bytes."""
        return bool(self._read or self._more()) and self._read.startswith(mark)

    def receive(self, length: int) -> bytes | None:
        parts, missing = [self._read[:length]], length - len(self._read[:length])
        self._read = self._read[length:]
        while missing:
            part = self._socket.recv(min(missing, PIECE))
            if not part:
                return None
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _more(self) -> bool:
        part = self._socket.recv(PIECE)
        self._read += part
        return bool(part)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
        self._socket.close()

    def reset(self) -> None:
        """Close abruptly: the peer gets RST."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


Act = Callable[[Wire], None]
Script = Callable[[Request], Act]


# --- acts


def reply(body: bytes = b"", status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """A complete reply with its length."""
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answer(body: bytes = b"", status: int = 200, headers: Mapping[str, str] | None = None) -> Act:
    return raw(reply(body, status, headers))


def raw(data: bytes) -> Act:
    """Send exactly these bytes, valid or not."""
    return lambda wire: wire.send(data)


def answer_json(document: Any, status: int = 200) -> Act:
    return answer(json.dumps(document).encode(), status, {"Content-Type": "application/json"})


def answer_chunked(*parts: bytes) -> Act:
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return raw(b"HTTP/1.1 200 Scripted\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n")


def answer_and_close(body: bytes = b"", *, announced: bool) -> Act:
    """The last reply of its connection, announced or not."""
    return both(answer(body, headers={"Connection": "close"} if announced else None), Wire.close)


def answer_until_close(body: bytes) -> Act:
    """A reply without a length, which ends with the connection as in HTTP/1.0."""
    return both(raw(b"HTTP/1.1 200 Scripted\r\n\r\n" + body), Wire.close)


def break_off(body: bytes, after: int) -> Act:
    """A reply whose body stops after `after` bytes."""
    whole = reply(body)
    return both(raw(whole[: len(whole) - len(body) + after]), Wire.close)


def trickle(data: bytes) -> Act:
    """Send the bytes one by one."""

    def act(wire: Wire) -> None:
        for position in range(len(data)):
            wire.send(data[position : position + 1])

    return act


def never(wire: Wire) -> None:
    """Never answer."""
    wire.ended.wait()


def drip(begin: bytes = b"", forever: bytes = b"x") -> Act:
    """Send these bytes, then one more piece every few milliseconds until the server stops."""

    def act(wire: Wire) -> None:
        wire.send(begin)
        with contextlib.suppress(OSError):  # the client may give up
            while not wire.ended.wait(0.02):
                wire.send(forever)

    return act


def held(until: threading.Event, act: Act) -> Act:
    """Run the act once the event is set; do nothing if the server stops first."""

    def wait_and_act(wire: Wire) -> None:
        while not until.wait(0.01):
            if wire.ended.is_set():
                return
        act(wire)

    return wait_and_act


def late(delay_s: float, act: Act) -> Act:
    """Run the act after a delay."""

    def wait(wire: Wire) -> None:
        wire.ended.wait(delay_s)

    return both(wait, act)


def serviced(
    act: Act, place: contextlib.AbstractContextManager[Any] = ANYWHERE, service_s: float = SERVICE_S
) -> Act:
    """Run the act after a service time at a shared place, which may have a queue."""

    def wait_and_act(wire: Wire) -> None:
        with place:
            time.sleep(service_s)
        act(wire)

    return wait_and_act


def both(first: Act, second: Act) -> Act:
    def act(wire: Wire) -> None:
        first(wire)
        second(wire)

    return act


# --- servers


class ScriptedServer:
    """A scripted server. Use as a context manager. `tls` may change at any time: new connections use the new value."""

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.requests: list[Request] = []  # in the order in which their last byte arrived
        self.connections = 0
        self.tls = tls
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", port))
        self._ended = threading.Event()
        self._news = threading.Condition()
        self._wires: set[Wire] = set()
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._start(self._accept, ())
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def kill(self) -> None:
        """Stop like a killed process: close the listener and cut every connection."""
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        with self._news:
            wires = list(self._wires)
        for wire in wires:
            wire.close()

    def wait_for(self, holds: Callable[[], bool], deadline_s: float = DEADLINE_S) -> bool:
        """Wait until the condition holds; it is checked after every connection and request."""
        with self._news:
            return self._news.wait_for(holds, deadline_s)

    def _start(self, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._news:
                    number, self.connections = self.connections, self.connections + 1
                    self._news.notify_all()
                self._start(self._serve, (connection, number))

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
        except OSError:  # the peer rejects our certificate
            connection.close()
            return
        wire = Wire(connection, self._ended)
        with self._news:
            self._wires.add(wire)
        try:
            while not self._ended.is_set() and (request := _read_request(wire, number)) is not None:
                act = self._script(request)
                with self._news:
                    self.requests.append(request)
                    self._news.notify_all()
                act(wire)
        except OSError:
            pass  # the peer has disconnected, or an act has closed the connection
        finally:
            with self._news:
                self._wires.discard(wire)
            wire.close()


def _read_request(wire: Wire, connection: int) -> Request | None:
    if wire.comes_with(TLS_HELLO):  # like HTTP servers, which wait for the end of a line
        wire.send(reply(status=400))
        return None
    head = wire.receive_until(b"\r\n\r\n")
    if head is None:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    if not first.endswith((" HTTP/1.1", " HTTP/1.0")):
        return None  # another protocol: the connection is closed
    method, path, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = tuple((name, value.strip(" ")) for name, _, value in pairs)
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    body = wire.receive(length)
    return None if body is None else Request(connection, method, path, headers, body)


Tensor = tuple[str, str, tuple[int, ...]]
"""Name, datatype, shape without the batch."""


@dataclass(frozen=True, slots=True)
class FakeModel:
    name: str = "fake"
    inputs: tuple[Tensor, ...] = (("INPUT0", "INT32", (1,)),)
    outputs: tuple[Tensor, ...] = (("OUTPUT0", "INT32", (1,)),)
    max_batch_size: int = 8

    def metadata(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "versions": ["1"],
            "platform": "fake",
            "inputs": [self._described(tensor) for tensor in self.inputs],
            "outputs": [self._described(tensor) for tensor in self.outputs],
        }

    def config(self) -> dict[str, Any]:
        return {"name": self.name, "platform": "", "backend": "fake", "max_batch_size": self.max_batch_size}

    def statistics(self, *, good: int, bad: int) -> dict[str, Any]:
        times = {name: {"count": good, "ns": good * ns} for name, ns in _STEPS_NS.items()}
        row = {
            "name": self.name,
            "version": "1",
            "inference_count": good,
            "execution_count": good,
            "inference_stats": {**times, "fail": {"count": bad, "ns": bad * 1_000}},
        }
        return {"model_stats": [row]}

    def _described(self, tensor: Tensor) -> dict[str, Any]:
        name, datatype, shape = tensor
        return {
            "name": name,
            "datatype": datatype,
            "shape": [-1, *shape] if self.max_batch_size else [*shape],
        }


Infer = Callable[[int, Request], Act | None]
"""(number of the inference from 0, its request) -> what happens to it; None is the usual answer."""

Control = Callable[[Request], Act | None]
"""The same for every other call."""

_STEPS_NS = {
    "queue": 1_000,
    "compute_input": 2_000,
    "compute_infer": 3_000,
    "compute_output": 4_000,
    "success": 11_000,
}
_MODEL_PATH = re.compile(r"/v2/models/(?P<name>[^/]+)(?:/versions/1)?(?:/(?P<what>config|stats|infer))?$")


class FakeTriton:
    """A Triton with metadata, configuration, statistics and inference for one model. Use as a context manager."""

    def __init__(
        self,
        infer: Infer = lambda number, request: None,
        *,
        control: Control = lambda request: None,
        model: FakeModel | None = None,
        extensions: tuple[str, ...] = ("binary_tensor_data", "model_configuration", "statistics"),
        usual: bytes = reply(b"{}"),
        service_s: float = SERVICE_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.server = ScriptedServer(self._act, tls=tls)
        self.model = FakeModel() if model is None else model
        self.inferences: list[Request] = []
        self._extensions = extensions
        self._infer = infer
        self._control = control
        self._usual = serviced(raw(usual), service_s=service_s)
        self._good = self._bad = 0
        self._counting = threading.Lock()

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    def wait_for_inferences(self, count: int) -> bool:
        return self.server.wait_for(lambda: len(self.inferences) >= count)

    def _act(self, request: Request) -> Act:
        found = _MODEL_PATH.fullmatch(request.path)
        if found is not None and found["name"] == self.model.name and found["what"] == "infer":
            return self._inference(request)
        act = self._control(request)
        if act is not None:
            return act
        if request.path == "/v2":
            return answer_json({"name": "fake", "version": "2.51.0", "extensions": list(self._extensions)})
        if found is None:
            return answer_json({"error": f"no such path: {request.path}"}, 404)
        if found["name"] != self.model.name:
            return answer_json({"error": f"Request for unknown model: '{found['name']}' is not found"}, 400)
        documents = {"config": self.model.config, "stats": self._statistics, None: self.model.metadata}
        return answer_json(documents[found["what"]]())

    def _inference(self, request: Request) -> Act:
        with self._counting:
            self.inferences.append(request)
            act = self._infer(self._good + self._bad, request)
            self._good += act is None
            self._bad += act is not None
        return self._usual if act is None else act

    def _statistics(self) -> dict[str, Any]:
        with self._counting:
            return self.model.statistics(good=self._good, bad=self._bad)
