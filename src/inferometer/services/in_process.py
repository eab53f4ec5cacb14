"""Triton inside a process of Inferometer: requests are passed by address, without a network.

The process answers control calls over HTTP on loopback, so the controller uses it like any Triton. Run as a program,
this module is the process that answers before the load begins.
"""

import json
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from inferometer.base.errors import InferometerError, UsageError
from inferometer.model.spec import ModelSpec
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection
from inferometer.services.kind import Document, Service
from inferometer.services.kserve import grpc_outputs, load_messages
from inferometer.services.shared_memory import Placement
from inferometer.services.traffic import IN_PROCESS, Steps, Traffic, Wiring
from inferometer.services.triton_grpc import render_request
from inferometer.services.triton_http import TritonHttp
from inferometer.services.tritonserver import (
    CONFIG_VERSION,
    READY_ONLY,
    InProcessServer,
    InProcessSettings,
    TritonError,
    version_number,
)
from inferometer.wire import grpc

LOOPBACK = "127.0.0.1"


class InProcess(Service):
    """A Triton in this process. Its address is for control calls, which use Triton's HTTP API."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._control = TritonHttp(connection)
        self._endpoint = connection.endpoint
        self._parameters = options.request_parameters

    def server(self) -> Document:
        return self._control.server()

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        return self._control.describe(name, version, called)

    def models(self) -> list[str]:
        return self._control.models()

    def statistics(self, model: ModelSpec) -> list[Document]:
        return self._control.statistics(model)

    def read_outputs(self, body: bytes, header_length: int | None) -> dict[str, bytes]:
        """Return the raw values in the message that the worker builds from a response."""
        return grpc_outputs(body)

    def message_types(self) -> tuple[Any, Any]:
        messages = load_messages()
        return messages.ModelInferRequest, messages.ModelInferResponse

    def traffic(self, model: ModelSpec, steps: Steps, placement: Placement | None = None) -> Traffic:
        """Render every request as a message, which the worker parses once."""
        if placement is not None:
            raise UsageError(
                "a Triton in this process reads inputs in place, so shared memory has no effect",
                remedy=f"leave out {option_name('--shared-memory')}",
            )
        requests = tuple(
            render_request(model, [(tensor, None) for tensor in step], None, self._parameters)
            for step in steps
        )
        wiring = Wiring(self._endpoint, protocol=IN_PROCESS, is_streaming=model.is_decoupled)
        return Traffic(wiring, requests)


# --- the server's process


def serve_control(server: InProcessServer, port: int) -> ThreadingHTTPServer:
    """Start answering on this port, on separate threads."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._answer()

        def _answer(self) -> None:
            try:
                status, document = 200, _document(server, self.path)
            except TritonError as error:
                status = 404 if error.code in (grpc.NOT_FOUND, grpc.UNAVAILABLE) else 400
                document = {"error": error.text}
            except LookupError:
                status, document = 404, {"error": f"a Triton in this process does not support {self.path}"}
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    listener = ThreadingHTTPServer((LOOPBACK, port), Answers)
    listener.daemon_threads = True
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    return listener


def _document(server: InProcessServer, path: str) -> Any:
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["v2"]:
            return server.document("ServerMetadata")
        case ["v2", "models", "stats"]:
            return server.document("ServerModelStatistics", b"", version_number(""))
        case ["v2", "repository", "index"]:
            return server.document("ServerModelIndex", READY_ONLY)
        case ["v2", "models", name, *rest]:
            version = rest[1] if rest[:1] == ["versions"] else ""
            model = name.encode(), version_number(version)
            match rest[2:] if version else rest:
                case []:
                    return server.document("ServerModelMetadata", *model)
                case ["config"]:
                    return server.document("ServerModelConfig", *model, CONFIG_VERSION)
                case ["stats"]:
                    return server.document("ServerModelStatistics", *model)
    raise LookupError(path)


def main() -> None:
    """Serve until the process is terminated; report start failures on standard error."""
    try:
        server = InProcessServer(InProcessSettings.from_environment(), lambda *_: None, lambda _: None)
        serve_control(server, int(sys.argv[1]))
    except InferometerError as error:
        sys.exit(f"error: {error}")
    threading.Event().wait()


if __name__ == "__main__":
    main()
