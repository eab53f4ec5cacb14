"""Any HTTP endpoint: method, path, bodies and headers given by the user; every 2xx is a success."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inferometer.base.confined import check_path
from inferometer.base.errors import UsageError
from inferometer.base.reading import DATA, read_file
from inferometer.base.secrets import redacted
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection
from inferometer.services.kind import RESPONSE, Service
from inferometer.services.shared_memory import Placement
from inferometer.services.traffic import Steps, Traffic, Wiring, render_http

if TYPE_CHECKING:  # only visits need these
    from inferometer.services.calls import JsonCalls

OUTPUT = TensorSpec(RESPONSE, "JSON", (1,))
"""The reply as text."""


class PlainHttp(Service):
    """One address of an HTTP server."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        """Describe the endpoint as a model named after its request."""
        method = self._method(is_bare=not self._options.bodies)
        return ModelSpec(
            name=name or redacted(f"{method} {self._path}"), version=version, inputs=(), outputs=(OUTPUT,)
        )

    def traffic(self, model: ModelSpec, steps: Steps, placement: Placement | None = None) -> Traffic:
        bodies = [read_body(text) for text in self._options.bodies]
        requests = tuple(map(self._render, bodies if bodies else [None]))
        return Traffic(Wiring(self._connection.endpoint), requests)

    def caller(self, model: ModelSpec, sample: Sequence[Tensor]) -> "JsonCalls":
        """Return the caller of a path, with or without a body."""
        from inferometer.services.calls import JsonCalls

        return JsonCalls(self._connection, self._path, method=self._options.method)

    @property
    def _path(self) -> str:
        prefix, path = self._connection.endpoint.prefix, self._options.path
        if not path:
            return prefix or "/"
        return f"{prefix}/{path.lstrip('/')}"

    def _method(self, *, is_bare: bool) -> str:
        method = (self._options.method or ("GET" if is_bare else "POST")).upper()
        if method in ("HEAD", "CONNECT"):
            raise UsageError(f"the method {method} is not supported", remedy="use GET, POST or PUT")
        return method

    def _render(self, body: bytes | None) -> bytes:
        method = self._method(is_bare=body is None)
        headers = (("Content-Type", "application/json"),) if body is not None and is_json(body) else ()
        if body is None and method in ("POST", "PUT", "PATCH"):
            body = b""  # so that Content-Length is sent
        return render_http(self._connection, self._path, body, headers, method=method)


def read_body(text: str) -> bytes:
    """Return the text itself, or the content of the file named after an `@`."""
    if not text.startswith("@"):
        return text.encode(errors="surrogateescape")
    check_path(text[1:])
    return read_file(
        text[1:],
        DATA,
        "the body file",
        remedy=f"write {option_name('--body', '@FILE')} with the path of a file, or give the text itself",
    )


def is_json(body: bytes) -> bool:
    """Guess from the first character whether a body is JSON."""
    return body.lstrip()[:1] in (b"{", b"[")
