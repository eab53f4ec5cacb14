"""The control calls of a server in this process, over HTTP on loopback: the controller asks as it asks any Triton.

As a module it is the whole program of the process that is asked before load begins.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from inferometer.base.errors import InferometerError
from inferometer.services.tritonserver import Server, Settings, TritonError
from inferometer.wire import grpc

LOOPBACK = "127.0.0.1"


def serve_control(server: Server, port: int) -> ThreadingHTTPServer:
    """Answer on this port from now on, on threads of their own."""

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
                status, document = 404, {"error": f"a Triton in this process has no {self.path}"}
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


def _document(server: Server, path: str) -> Any:
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["v2"]:
            return server.metadata()
        case ["v2", "models", "stats"]:
            return server.statistics()
        case ["v2", "repository", "index"]:
            return server.index()
        case ["v2", "models", name, *rest]:
            version = rest[1] if rest[:1] == ["versions"] else ""
            match rest[2:] if version else rest:
                case []:
                    return server.model_metadata(name, version)
                case ["config"]:
                    return server.model_config(name, version)
                case ["stats"]:
                    return server.statistics(name, version)
    raise LookupError(path)


def main() -> None:
    """Serve until the process is ended; what goes wrong at the start is said on standard error."""
    try:
        server = Server(Settings.from_environment(), lambda *_: None, lambda _: None)
        serve_control(server, int(sys.argv[1]))
    except InferometerError as error:
        sys.exit(f"error: {error}")
    threading.Event().wait()


if __name__ == "__main__":
    main()
