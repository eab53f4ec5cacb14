"""TorchServe over HTTP: files as a form, or bodies given by the user; the management API reports workers.

It has no metadata, so there are always the same two inputs: `TORCHSERVE_INPUT`, the name of a file to send, and `data`,
the bytes themselves. Both are sent as the single part `data` of a form.
"""

import hashlib
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from inferometer.base.confined import check_path
from inferometer.base.errors import MissingError, PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import DATA as LARGEST_FILE
from inferometer.base.reading import read_file
from inferometer.base.status import HTTP
from inferometer.model.answers import TORCHSERVE_MODEL, TORCHSERVE_MODELS, Shape
from inferometer.model.numbers import decode
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.options import Options, Tls
from inferometer.services.endpoint import Connection, parse_endpoint
from inferometer.services.http import OUTPUT, is_json, read_body
from inferometer.services.http_control import HttpControl, reason_of
from inferometer.services.kind import Document, Service
from inferometer.services.shared_memory import Placement
from inferometer.services.traffic import (
    ANY_REPLY_LIMIT,
    Reply,
    ReplyBody,
    Steps,
    Traffic,
    WholeBody,
    Wiring,
    render_http,
)
from inferometer.wire.http1 import Head
from inferometer.wire.prometheus import metric_lines

if TYPE_CHECKING:  # only visits need these
    from inferometer.services.calls import JsonCalls

FILE = TensorSpec("TORCHSERVE_INPUT", "BYTES", (1,), optional=True)
DATA = TensorSpec("data", "BYTES", (1,), optional=True)

GOOD = 200
BYTES = "application/octet-stream"
NEIGHBOUR_TIMEOUT_S = 3.0
MOST_PAGES = 100  # of its model list, with at most a hundred models each


@frozen
class TorchServeReader:
    """Reader of replies; only status 200 is a success."""

    keeps_texts: bool = False  # for an export

    def start(self, head: Head) -> ReplyBody:
        is_wanted = head.status != GOOD or self.keeps_texts
        return WholeBody(partial(self._judge, head.status), is_wanted=is_wanted, limit=ANY_REPLY_LIMIT)

    def _judge(self, status: int, body: bytes, last_ns: int) -> Reply:
        if status != GOOD:
            return Reply(HTTP + status, self.refusal(status, body.decode("utf-8", "replace")))
        return Reply(texts=((last_ns, body),) if self.keeps_texts else ())

    def refusal(self, status: int, text: str) -> str:
        """Return the classic tool's message followed by the server's text."""
        return f"inference failed with error code {status}: {reason_of(text.encode())}"

    def keeping(self) -> "TorchServeReader":
        return replace(self, keeps_texts=True)


class TorchServe(Service):
    """A TorchServe server's inference port."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options

    # --- control calls

    def server(self) -> Document:
        """Describe the server, which has no metadata, but whose metrics may count requests."""
        if not self._options.collect_metrics or not self._has_metrics():
            raise MissingError("TorchServe does not describe itself")
        return {"name": "TorchServe", "extensions": ["statistics"]}

    def models(self) -> list[str]:
        """Return the names of the models that the management API lists."""
        names: list[str] = []
        token = ""
        for _ in range(MOST_PAGES):
            after = f"&nextPageToken={quote(token, safe='')}" if token else ""
            page = self._manage(f"/models?limit=100{after}", TORCHSERVE_MODELS)
            names += [row["modelName"] for row in page["models"]]
            token = page.get("nextPageToken", "")
            if not token:
                break
        return names

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        """Describe the model without contacting the server, which has no metadata."""
        inputs = () if self._options.bodies else (FILE, DATA)
        return ModelSpec(name=name, version=version, inputs=inputs, outputs=(OUTPUT,))

    def statistics(self, model: ModelSpec) -> Sequence[Document]:
        return counters(self._metrics_page(), model.name)

    @property
    def _metrics(self) -> Connection:
        return self._neighbour(self._options.metrics_url, 2)

    def _metrics_page(self) -> str:
        path = "" if self._metrics.endpoint.prefix else "/metrics"
        status, body = HttpControl(self._metrics).exchange("GET", path, timeout_s=NEIGHBOUR_TIMEOUT_S)
        if status != GOOD:
            raise PeerError(f"TorchServe's metrics at {self._metrics.endpoint} answered with status {status}")
        return body.decode("utf-8", "replace")

    def _has_metrics(self) -> bool:
        """Return whether the metrics page has content, which depends on the server's metrics mode."""
        try:
            return bool(self._metrics_page().strip())
        except PeerError:
            return False

    # --- requests

    def traffic(self, model: ModelSpec, steps: Steps, placement: Placement | None = None) -> Traffic:
        wiring = Wiring(
            self._connection.endpoint,
            reader=TorchServeReader(keeps_texts=self._options.profile_export is not None),
        )
        if self._options.bodies:
            bodies = map(read_body, self._options.bodies)
            requests = tuple(
                self._render(model, "application/json" if is_json(body) else BYTES, body) for body in bodies
            )
        else:
            requests = tuple(self._render(model, *_form(*_part(step))) for step in steps)
        return Traffic(wiring, requests, findings=(*self._about_workers(model), *self._about_metrics()))

    def caller(self, model: ModelSpec, sample: Sequence[Tensor]) -> "JsonCalls":
        """Return the caller with JSON bodies."""
        from inferometer.services.calls import JsonCalls

        return JsonCalls(self._connection, self._path(model))

    def _path(self, model: ModelSpec) -> str:
        return f"{self._connection.endpoint.prefix}/predictions/{_tail(model.name, model.version)}"

    def _render(self, model: ModelSpec, content_type: str, body: bytes) -> bytes:
        return render_http(self._connection, self._path(model), body, (("Content-Type", content_type),))

    # --- the management API

    @property
    def _management(self) -> Connection:
        return self._neighbour(self._options.management_url, 1)

    def _neighbour(self, url: str | None, offset: int) -> Connection:
        """Return a connection to another port of the server, by default next to the inference port, without
        credentials."""
        own = self._connection.endpoint
        port = min(own.port + offset, 65535)
        if url is None:
            return self._connection.beside(own._replace(port=port, prefix=""))
        endpoint = parse_endpoint(url, default_port=port, tls=own.tls or Tls())
        return self._connection.beside(endpoint)

    def _manage(self, path: str, shape: Shape) -> Any:
        return HttpControl(self._management).get(path, shape, timeout_s=NEIGHBOUR_TIMEOUT_S)

    def _about_metrics(self) -> tuple[str, ...]:
        if not self._options.collect_metrics or self._has_metrics():
            return ()
        return (
            f"TorchServe has no metrics at {self._metrics.endpoint.authority}: start it with "
            "metrics_mode=prometheus, or give their address with --metrics-url.",
        )

    def _about_workers(self, model: ModelSpec) -> tuple[str, ...]:
        """Return the management API's report on the model; empty if it cannot be reached."""
        try:
            rows = self._manage(f"/models/{_tail(model.name, model.version)}", TORCHSERVE_MODEL)
        except PeerError as error:
            if not isinstance(error, MissingError) or not error.message.startswith("Model"):
                return ()  # another server may be listening there
            where = self._management.endpoint.authority
            return (f"TorchServe's management API at {where} says: {error.message}",)
        return tuple(_workers(row) for row in rows if "workers" in row)


def _workers(row: Mapping[str, Any]) -> str:
    workers = row["workers"]
    ready = sum(worker.get("status") == "READY" for worker in workers)
    batch = row.get("batchSize", 1)
    batches = f", batches of up to {batch} within {row.get('maxBatchDelay')} ms" if batch != 1 else ""
    if not workers:
        wait = "; requests fail until one is added"
    else:
        wait = "" if ready else "; requests wait until one is ready or --request-timeout expires"
    return (
        f"TorchServe's model '{row.get('modelName')}' {row.get('modelVersion')} has {len(workers)} "
        f"worker{'' if len(workers) == 1 else 's'}, {ready} ready{batches}{wait}."
    )


def _tail(name: str, version: str) -> str:
    path = quote(name, safe="")
    return f"{path}/{quote(version, safe='')}" if version else path


# --- bodies


def _part(step: Sequence[Tensor]) -> tuple[str, bytes]:
    """Return the name of the file and its bytes; other data is named after its part of the form."""
    tensors = {tensor.name: tensor.data for tensor in step}
    if DATA.name in tensors:
        return DATA.name, _only(tensors[DATA.name])
    if FILE.name not in tensors:
        raise UsageError(
            f"a step of the input data has neither '{FILE.name}' nor '{DATA.name}'",
            remedy=f'write {{"data": [{{"{FILE.name}": ["photo.jpg"]}}]}}',
        )
    path = _only(tensors[FILE.name]).decode(errors="surrogateescape")
    return Path(path).name, _contents(path)


def _only(data: bytes) -> bytes:
    (element,) = decode("BYTES", data)
    return bytes(element)


def _contents(path: str) -> bytes:
    check_path(path)
    return read_file(
        path,
        LARGEST_FILE,
        f"the {FILE.name} file",
        remedy="paths are relative to the folder in which the command runs",
    )


def _form(name: str, data: bytes) -> tuple[str, bytes]:
    """Return the content type and the body of a form with the single part `data`.

    The part has a file name: TorchServe reads a part without one as text, which would corrupt its bytes.
    """
    boundary = f"inferometer-{hashlib.sha256(data).hexdigest()[:32]}"
    kind = mimetypes.guess_type(name)[0] or BYTES
    quoted = name.replace("\\", "_").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="data"; filename="{quoted}"\r\n'
        f"Content-Type: {kind}\r\n\r\n"
    )
    body = b"".join((head.encode(errors="surrogateescape"), data, f"\r\n--{boundary}--\r\n".encode()))
    return f"multipart/form-data; boundary={boundary}", body


# --- statistics from the metrics page

_REQUESTS = "ts_inference_requests_total"
_LATENCY = "ts_inference_latency_microseconds"
_QUEUE = "ts_queue_latency_microseconds"
_MOST = 2.0**53  # a larger counter has lost precision


def counters(page: str, model: str) -> list[Mapping[str, Any]]:
    """Return a row per version of the model: requests, their time in the server, and their time in the queue.

    The rest is reported as inference: it includes the worker, its handler, and communication with it.
    """
    found: dict[str, dict[str, float]] = {}
    for row in metric_lines(page):
        if row.labels.get("model_name") == model and 0 <= row.value < _MOST:
            version = found.setdefault(row.labels.get("model_version", ""), {})
            version[row.name] = version.get(row.name, 0.0) + row.value
    return [_row(model, version, values) for version, values in sorted(found.items())]


def _row(model: str, version: str, values: Mapping[str, float]) -> Mapping[str, Any]:
    count = round(values.get(_REQUESTS, 0))
    whole_ns, queue_ns = (round(values.get(name, 0) * 1000) for name in (_LATENCY, _QUEUE))
    return {
        "name": model,
        "version": version,
        "inference_count": count,
        "execution_count": count,
        "inference_stats": {
            "success": {"count": count, "ns": whole_ns},
            "queue": {"count": count, "ns": queue_ns},
            "compute_infer": {"count": count, "ns": max(0, whole_ns - queue_ns)},
        },
    }
