"""An OpenTelemetry collector that receives figures and spans over HTTP and decodes them with the official messages."""

import gzip
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.servers import DEADLINE_S


class Collector:
    """The collector. Use as a context manager. `status` is the status of its replies; `rejected` spans of a push are
    not accepted."""

    def __init__(self, status: int = 200, *, rejected: int = 0) -> None:
        self.pushes: list[Any] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.spans: list[Any] = []
        self._news = threading.Condition()
        collector = self

        class Door(BaseHTTPRequestHandler):
            def handle(self) -> None:
                with suppress(ConnectionError):  # a client that did not wait
                    super().handle()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                with collector._news:
                    reply = collector._taken(self.path, body, rejected)
                    collector.paths.append(self.path)
                    collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                    collector._news.notify_all()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def _taken(self, path: str, body: bytes, rejected: int) -> bytes:
        if not path.endswith("/v1/traces"):
            self.pushes.append(ExportMetricsServiceRequest.FromString(body))
            return ExportMetricsServiceResponse().SerializeToString()
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        reply = ExportTraceServiceResponse()
        if rejected:
            reply.partial_success.rejected_spans = rejected
            reply.partial_success.error_message = "quota"
        return reply.SerializeToString()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(DEADLINE_S)

    def wait_for(self, holds: Callable[[], bool]) -> bool:
        with self._news:
            return self._news.wait_for(holds, DEADLINE_S)

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of the last push, by name."""
        (resource,) = self.pushes[-1].resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}
