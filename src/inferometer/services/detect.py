"""Detection of the server at an address: a few harmless requests, and a table that interprets the answers.

`probe` sends the requests, with short time-outs; `recognize` decides, as a pure function of the answers; `look` does
both, and tries TLS after plain text and vice versa.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from inferometer.base.deadline import Deadline
from inferometer.base.errors import MissingError, PeerError
from inferometer.base.frozen import frozen
from inferometer.base.text import decode_json
from inferometer.base.units import plain_number
from inferometer.options.names import with_names
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.http_control import BadReply, HttpControl
from inferometer.services.timed_socket import connect
from inferometer.wire.protobuf import fields

TIMEOUT_S = 5.0
LONGEST_TEXT = 4000  # characters of a page, enough to recognise it
_SERVER_NAME, _SERVER_EXTENSIONS = 1, 3  # fields of ServerMetadataResponse
_NOBODY = "inferometer-looks-around"  # name of a model that no server has
NO_ANSWER = -1  # status of a request that timed out


@frozen
class ProbeAnswer:
    """An answer: HTTP status, or `NO_ANSWER`, JSON document, if any, and the beginning of the text; for gRPC status
    200, or 0 for an error."""

    status: int
    document: Any = None
    text: str = ""

    def field(self, name: str) -> Any:
        return self.document.get(name) if isinstance(self.document, dict) else None

    @property
    def has_statistics(self) -> bool:
        extensions = self.field("extensions")
        return isinstance(extensions, list) and "statistics" in extensions

    @property
    def is_exposition(self) -> bool:
        """Whether the answer is a page in Prometheus format."""
        return self.status == 200 and self.text.startswith(("# HELP ", "# TYPE "))

    @property
    def description(self) -> str:
        """Describe an answer that does not identify the server."""
        if self.status != 200:
            return f"status {self.status}"
        if self.document is not None:
            return "JSON of an unknown form"
        return "a web page" if re.match(r"\s*<", self.text) else "text that is not JSON"

    @property
    def is_page(self) -> bool:
        """Whether the answer has content: Triton's metrics port answers any path with 200 and an empty body."""
        return self.status < 400 and (bool(self.text) or self.status >= 300) and not self.is_exposition


ProbeAnswers = Mapping[str, ProbeAnswer]
"""Answers by question; unanswered questions are missing."""

PAGE = "page"
QUESTIONS = {
    "kserve": "/v2",
    "openai": "/v1/models",
    "tfserving": f"/v1/models/{_NOBODY}",
    "ping": "/ping",
    "management": "/models?limit=1",
    "metrics": "/metrics",
    PAGE: "",  # the page that would be measured
}
"""Paths of the HTTP GET requests, by question."""

_APIS = ("kserve", "openai", "ping")  # questions whose answer identifies a server, unless they fail
_QUESTION_OF = {"triton": "kserve", "torchserve": "ping"}  # other questions have the name of the kind


class ServerGuess(NamedTuple):
    """Likely server at an address."""

    kind: str  # a service kind, or one of those below, which cannot be measured
    protocol: str
    title: str
    scheme: str = ""  # scheme to use, if it differs from the one tried
    page_status: int = 0  # of the page that would be measured, if requested
    is_locked: bool = False  # some answers require a key
    moved_to: str = ""  # redirect target of that page
    failures: tuple[str, ...] = ()  # failed questions, such as "GET /v1/models with status 500"
    listing: str = ""  # the answer that should have listed models, such as "GET /v1/models with a web page"

    @property
    def words(self) -> str:
        """The options that measure this server, in the classic form."""
        return f"--service-kind {self.kind} -i {self.protocol}"


def _is_tfserving(answer: ProbeAnswer) -> bool:
    """Recognise TensorFlow Serving by its error for an unknown model, or by the versions of a known one."""
    error = answer.field("error")
    return isinstance(error, str) and ("versions of model" in error or "Servable not found" in error)


def _is_torchserve_error(answer: ProbeAnswer) -> bool:
    """Recognise TorchServe by its errors, which have a code and a type; while its workers start, the ping returns
    one."""
    return isinstance(answer.document, dict) and answer.document.keys() >= {"code", "type", "message"}


def _is_management(answer: ProbeAnswer) -> bool:
    models = answer.field("models")
    if answer.status != 200 or not isinstance(models, list):
        return False
    return all(isinstance(row, dict) and row.keys() >= {"modelName", "modelUrl"} for row in models)


TORCHSERVE = ServerGuess("torchserve", "http", "TorchServe")
PLAIN = ServerGuess("http", "http", "an HTTP server of unknown kind")

TLS, METRICS, MANAGEMENT, GRPC = "tls", "metrics", "management", "grpc"
"""Kinds that cannot be measured without further information."""

SIGNS: tuple[tuple[str, Callable[[ProbeAnswer], bool], ServerGuess], ...] = (
    (
        "kserve",
        lambda answer: answer.field("name") == "triton" or answer.has_statistics,
        ServerGuess("triton", "http", "Triton over HTTP"),
    ),
    (
        "kserve",
        lambda answer: answer.status == 200 and isinstance(answer.field("name"), str),
        ServerGuess("triton", "http", "a plain KServe v2 server over HTTP"),
    ),
    (
        "openai",
        lambda answer: answer.status == 200 and isinstance(answer.field("data"), list),
        ServerGuess("openai", "http", "an OpenAI-style server"),
    ),
    ("tfserving", _is_tfserving, ServerGuess("tfserving", "http", "TensorFlow Serving's REST API")),
    (
        "ping",
        lambda answer: answer.field("status") in ("Healthy", "Partial Healthy", "Unhealthy"),
        TORCHSERVE,
    ),
    ("management", _is_management, ServerGuess(MANAGEMENT, "http", "TorchServe's management API")),
    (PAGE, _is_torchserve_error, TORCHSERVE),
    (
        "grpc kserve",
        lambda answer: answer.status == 200 and answer.has_statistics,
        ServerGuess("triton", "grpc", "Triton over gRPC"),
    ),
    (
        "grpc kserve",
        lambda answer: answer.status == 200,
        ServerGuess("triton", "grpc", "a plain KServe v2 server over gRPC"),
    ),
    ("grpc tfserving", lambda answer: True, ServerGuess("tfserving", "grpc", "TensorFlow Serving over gRPC")),
    ("grpc", lambda answer: True, ServerGuess(GRPC, "grpc", "a gRPC server of unknown kind")),
    ("tls grpc", lambda answer: True, ServerGuess(TLS, "grpc", "a gRPC port with TLS", "grpcs")),
    ("tls", lambda answer: True, ServerGuess(TLS, "http", "a port with TLS", "https")),
)
"""(question, test of its answer, resulting guess), in the order of the tests: most reliable first."""


def recognize(answers: ProbeAnswers) -> ServerGuess:
    """Return the guess that fits the answers."""
    if _is_metrics_port(answers):
        return ServerGuess(METRICS, "http", "a metrics port")
    for question, matches, guess in SIGNS:
        if question in answers and matches(answers[question]):
            return guess
    return PLAIN


def _is_metrics_port(answers: ProbeAnswers) -> bool:
    """Return whether the port serves only metrics; any other page can be measured."""
    page, metrics = answers.get(PAGE), answers.get("metrics")
    if page is None:
        return False
    return page.is_exposition or (metrics is not None and metrics.is_exposition and not page.is_page)


# --- probing


def look(connection: Connection, *, protocol: str = "http", page: str = "", first: str = "") -> ServerGuess:
    """Detect the server, trying this protocol first; raise PeerError if no answer can be interpreted.

    `page` is the path that would be measured if it is plain HTTP, `first` the most likely kind.
    """
    try:
        return _guess(connection, protocol, page, first)
    except PeerError as error:
        if connection.endpoint.tls is None:
            raise
        from inferometer.services.tls import is_untrusted

        if is_untrusted(error.__cause__):
            raise
        # Headers may contain secrets, so they are not sent in plain text.
        plain = Connection(connection.endpoint._replace(tls=None), timeout_s=connection.timeout_s)
        try:
            found = _guess(plain, protocol, page, first)
        except PeerError:
            raise error from error.__cause__
        if found.scheme:
            raise
        return found._replace(scheme=found.protocol)


def _guess(connection: Connection, protocol: str, page: str, first: str) -> ServerGuess:
    answers: ProbeAnswers = probe_grpc(connection) if protocol == "grpc" else {}
    answers = answers or probe(connection, page=page, first=first)
    found = recognize(answers)
    if PAGE not in answers and found is not PLAIN:
        return found
    is_locked = any(answer.status in (401, 403) for answer in answers.values())
    status = answers[PAGE].status if PAGE in answers else 0
    is_moved = found is PLAIN and 300 <= status < 400
    moved_to = _location(connection, page) if is_moved else ""
    silence = f"nothing within {plain_number(_patience_s(connection))} s"
    failures = tuple(
        f"GET {connection.endpoint.prefix}{QUESTIONS[question]} with "
        + (silence if answer.status == NO_ANSWER else f"status {answer.status}")
        for question, answer in answers.items()
        if found is PLAIN and question in _APIS and (answer.status >= 500 or answer.status == NO_ANSWER)
    )
    listing = ""
    if found is PLAIN and (models := answers.get("openai")) is not None and models.status != NO_ANSWER:
        listing = f"GET {connection.endpoint.prefix}{QUESTIONS['openai']} with {models.description}"
    return found._replace(
        page_status=status, is_locked=is_locked, moved_to=moved_to, failures=failures, listing=listing
    )


def _location(connection: Connection, page: str) -> str:
    """Return the target of a redirect as a full address."""
    endpoint = connection.endpoint
    path = page or f"{endpoint.prefix}/"
    control = HttpControl(connection._replace(endpoint=endpoint._replace(prefix="")))
    found = control.location(path, timeout_s=_patience_s(connection))
    from urllib.parse import urljoin

    return urljoin(f"{endpoint._replace(prefix='')}{path}", found) if found else ""


def _patience_s(connection: Connection) -> float:
    """Return the time-out for one answer."""
    return min(TIMEOUT_S, connection.timeout_s)


def probe(connection: Connection, *, page: str = "", first: str = "") -> ProbeAnswers:
    """Send requests until the answers identify the server; raise PeerError if there is none or its protocol is
    unknown."""
    endpoint = connection.endpoint
    control = HttpControl(
        connection._replace(endpoint=endpoint._replace(prefix=""), timeout_s=_patience_s(connection))
    )
    answers: dict[str, ProbeAnswer] = {}
    first = _QUESTION_OF.get(first, first)
    for question in sorted(QUESTIONS, key=lambda name: name != first):
        path = endpoint.prefix + QUESTIONS[question]
        try:
            answers[question] = _ask(control, (page or path or "/") if question == PAGE else path)
        except PeerError as error:
            cause = error.__cause__
            if not isinstance(cause, (BadReply, TimeoutError, ConnectionResetError)):
                raise
            if answers and isinstance(cause, TimeoutError):
                answers[question] = ProbeAnswer(NO_ANSWER)
            return answers or _probe_other_protocols(connection, cause)
        if recognize(answers) is not PLAIN:
            return answers
    if endpoint.tls is None and answers[PAGE].status == 400:
        # "a plain HTTP request was sent to an HTTPS port"
        return _probe_tls(endpoint, _patience_s(connection)) or answers
    return answers


def _probe_other_protocols(connection: Connection, cause: Exception) -> ProbeAnswers:
    """Probe TLS and gRPC after an answer that is not HTTP/1. HTTP/2 frames begin with a small length, so with zeros."""
    where = connection.endpoint.authority
    remedy = "check the port: Triton's are usually 8000 for HTTP and 8001 for gRPC"
    if isinstance(cause, TimeoutError):
        raise PeerError(
            f"{connection.endpoint} accepts connections, but did not answer a GET completely within "
            f"{plain_number(_patience_s(connection))} s",
            remedy=remedy,
        ) from cause
    is_closed = isinstance(cause, ConnectionResetError)
    line = cause.begins if isinstance(cause, BadReply) else ""
    answers: ProbeAnswers = {}
    if connection.endpoint.tls is None and not line.startswith("\x00"):
        answers = _probe_tls(connection.endpoint, _patience_s(connection))
    if not answers and (is_closed or line.startswith("\x00")):
        answers = probe_grpc(connection)
    if answers:
        return answers
    if is_closed and connection.endpoint.tls is not None:
        said = f"{where} speaks TLS, but closes every connection without an answer"
        remedy = with_names(
            "check the port, and give a client certificate if the server requires one: {--tls-cert} and {--tls-key}"
        )
    elif is_closed:
        said = f"{where} closes every connection without an answer: it speaks neither HTTP nor gRPC nor TLS"
    else:
        begin = (line or str(cause))[:60]
        said = f"{where} does not speak HTTP: {_likely_protocol(line)}its answer begins with {begin!r}"
    raise PeerError(said, remedy=remedy) from cause


_GREETINGS = (
    ("SSH-", "SSH"),
    (("-ERR", "-NOAUTH", "-DENIED"), "Redis"),
    ("220", "mail or FTP"),
    ("RFB ", "VNC"),
    ("AMQP", "AMQP"),
)


def _likely_protocol(line: str) -> str:
    return next((f"it looks like {name}, and " for begin, name in _GREETINGS if line.startswith(begin)), "")


def _ask(control: HttpControl, path: str) -> ProbeAnswer:
    status, body = control.exchange("GET", path)
    text = body[:LONGEST_TEXT].decode("utf-8", "replace")
    try:
        return ProbeAnswer(status, decode_json(body), text)
    except ValueError:
        return ProbeAnswer(status, text=text)


def probe_grpc(connection: Connection) -> dict[str, ProbeAnswer]:
    """Return the answers of a gRPC server; empty if there is none."""
    from inferometer.services.grpc_control import GrpcControl

    def call(service: str, method: str) -> bytes:
        return GrpcControl(connection, service).call_bytes(method, b"", timeout_s=_patience_s(connection))

    try:
        reply = call("inference.GRPCInferenceService", "ServerMetadata")
        return {"grpc kserve": ProbeAnswer(200, _server_metadata(reply))}
    except MissingError:
        pass
    except PeerError:
        return {}
    try:
        call("tensorflow.serving.PredictionService", "GetModelMetadata")
    except MissingError:
        return {"grpc": ProbeAnswer(0)}
    except PeerError:  # an error reply still shows that the call exists
        return {"grpc tfserving": ProbeAnswer(0)}
    return {"grpc tfserving": ProbeAnswer(200)}


def _server_metadata(message: bytes) -> dict[str, Any] | None:
    """Read a ServerMetadataResponse without its official class, which only the extra `grpc` installs.

    None if it cannot be read: describing the model reports that.
    """
    try:
        found = [
            (number, bytes(value).decode())
            for number, value in fields(memoryview(message))
            if not isinstance(value, int)
        ]
    except (PeerError, UnicodeDecodeError):
        return None
    names = [text for number, text in found if number == _SERVER_NAME]
    extensions = [text for number, text in found if number == _SERVER_EXTENSIONS]
    return {"name": names[-1] if names else "", "extensions": extensions}


def _probe_tls(endpoint: Endpoint, timeout_s: float) -> dict[str, ProbeAnswer]:
    """Try a TLS handshake, without verification and without sending data.

    A gRPC server supports only h2, which distinguishes it from an HTTPS server that supports both.
    """
    chosen = _shake_hands(endpoint, "http/1.1", timeout_s)
    if chosen is None:
        return {}
    is_grpc = chosen != "http/1.1" and _shake_hands(endpoint, "h2", timeout_s) == "h2"
    return {"tls grpc" if is_grpc else "tls": ProbeAnswer(0)}


def _shake_hands(endpoint: Endpoint, offered: str, timeout_s: float) -> str | None:
    """Return the protocol that the peer selects, or an empty string if none; None if it does not speak TLS."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([offered])
    try:
        with closing(connect(endpoint, Deadline.after(timeout_s), context)) as secured:
            assert isinstance(secured, ssl.SSLSocket)
            return secured.selected_alpn_protocol() or ""
    except ssl.SSLError as error:
        is_alert = "ALERT" in (error.reason or "")  # an alert shows that the peer speaks TLS
        return "" if is_alert else None
    except OSError:
        return None
