"""What an address is: it is asked a few harmless questions, and a table says what the answers look like.

`probe` asks, with short time-outs; `recognize` decides, and is a pure function of the answers.
"""

import http.client
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from inferometer.base.errors import MissingError, PeerError
from inferometer.base.text import decode_json
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import HttpControl

TIMEOUT_S = 5.0
_NOBODY = "inferometer-looks-around"  # a model that no server has


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What came back: an HTTP status and the JSON document, if it was one; over gRPC status 200, or 0 for an error."""

    status: int
    document: Any = None

    def field(self, name: str) -> Any:
        return self.document.get(name) if isinstance(self.document, dict) else None

    @property
    def has_statistics(self) -> bool:
        extensions = self.field("extensions")
        return isinstance(extensions, list) and "statistics" in extensions


ProbeAnswers = Mapping[str, ProbeAnswer]
"""By question; one that was not answered at all is not there."""

QUESTIONS = {
    "kserve": "/v2",
    "openai": "/v1/models",
    "tfserving": f"/v1/models/{_NOBODY}",
    "ping": "/ping",
    "root": "/",
}
"""Over HTTP: what is asked for, by GET."""


@dataclass(frozen=True, slots=True)
class ServerGuess:
    """What an address looks like."""

    kind: str
    protocol: str
    title: str

    @property
    def words(self) -> str:
        """The options that measure it."""
        return f"--service-kind {self.kind} -i {self.protocol}"


def _is_tfserving(answer: ProbeAnswer) -> bool:
    """Its error names the model that it does not have, or versions of one that it has."""
    error = answer.field("error")
    return isinstance(error, str) and ("versions of model" in error or "Servable not found" in error)


def _is_torchserve_error(answer: ProbeAnswer) -> bool:
    """While its workers start the ping is an error, and all its errors have a code and a type."""
    return isinstance(answer.document, dict) and answer.document.keys() >= {"code", "type", "message"}


TORCHSERVE = ServerGuess("torchserve", "http", "TorchServe")

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
    ("root", _is_torchserve_error, TORCHSERVE),
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
)
"""(question, whether its answer tells, what of), in the order in which they are tried: the surest signs first."""

PLAIN = ServerGuess("http", "http", "an HTTP server of no kind that is known")


def recognize(answers: ProbeAnswers) -> ServerGuess | None:
    """What the answers look like; None when nothing that can be measured has answered."""
    for question, tells, guess in SIGNS:
        if question in answers and tells(answers[question]):
            return guess
    return PLAIN if any(not question.startswith("grpc") for question in answers) else None


# --- asking


def probe(connection: Connection) -> ProbeAnswers:
    """Ask until the answers tell; PeerError when nobody is there."""
    control = HttpControl(connection)
    answers: dict[str, ProbeAnswer] = {}
    for question, path in QUESTIONS.items():
        try:
            answers[question] = _ask(control, path)
        except PeerError as error:
            if not isinstance(
                error.__cause__, (http.client.HTTPException, TimeoutError, ConnectionResetError)
            ):
                raise
            return answers if answers else _probe_other_protocols(connection, error.__cause__)
        if recognize(answers) not in (None, PLAIN):
            break
    return answers


def _probe_other_protocols(connection: Connection, cause: Exception) -> ProbeAnswers:
    """HTTP/1 was not answered as such. Frames of HTTP/2 begin with a length, which is small: zeros."""
    is_silent = isinstance(cause, TimeoutError)
    is_closed = isinstance(cause, http.client.RemoteDisconnected)
    is_frame = isinstance(cause, http.client.BadStatusLine) and str(cause).startswith("\x00")
    is_something_else = isinstance(cause, http.client.HTTPException) and not is_closed and not is_frame
    return {} if is_silent or is_something_else else probe_grpc(connection)


def _ask(control: HttpControl, path: str) -> ProbeAnswer:
    status, body = control.exchange("GET", path, timeout_s=TIMEOUT_S)
    try:
        return ProbeAnswer(status, decode_json(body))
    except ValueError:
        return ProbeAnswer(status)


def probe_grpc(connection: Connection) -> dict[str, ProbeAnswer]:
    from inferometer.services.grpc_control import GrpcControl
    from inferometer.services.triton_grpc import TritonGrpc

    try:
        return {"grpc kserve": ProbeAnswer(200, dict(TritonGrpc(connection).server()))}
    except MissingError:
        pass
    except PeerError:
        return {}
    try:
        GrpcControl(connection, "tensorflow.serving.PredictionService").call_bytes("GetModelMetadata", b"")
    except MissingError:
        return {}
    except PeerError:  # a call that says what it lacks is there
        return {"grpc tfserving": ProbeAnswer(0)}
    return {"grpc tfserving": ProbeAnswer(200)}
