"""The service kinds: each is a row of `KINDS` and the service that it opens.

A kind defines the requests and the meaning of replies; it never opens a socket for load and never reads a clock. How
its bytes travel is up to the links of `load`: the `Wiring` of its traffic names the protocol, and, if more than the
status of a reply matters, the `ReplyReader` that the worker applies to every reply.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from inferometer.base.errors import MissingError
from inferometer.options.option import Rule, is_grpc, names_data
from inferometer.options.options import Options

if TYPE_CHECKING:  # the command line reads the table and must not import what services need
    from inferometer.model.spec import ModelSpec, Tensor
    from inferometer.services.endpoint import Connection
    from inferometer.services.shared_memory import Placement
    from inferometer.services.task_plan import Frame
    from inferometer.services.traffic import Steps, Traffic
    from inferometer.services.visit_plan import StepCaller

Document = Mapping[str, Any]

RESPONSE = "response"
"""The only output of a service without tensors: the reply."""


class Service(Protocol):
    """A server of some kind at one address. The defaults apply to servers without the call."""

    @property
    def api_name(self) -> str:
        """The name of its API for text, as for --endpoint; empty for servers of other kinds."""
        return ""

    @property
    def can_stream(self) -> bool:
        """Whether answers that would otherwise arrive whole can be streamed."""
        return False

    def server(self) -> Document:
        """Return the server's `name`, `version` and `extensions`; the extension "statistics" means that it has
        counters.

        Raise MissingError if the server does not describe itself.
        """
        raise MissingError("such servers do not describe themselves")

    def models(self) -> Sequence[str]:
        """Return the names of the models that the server lists."""
        return ()

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> "ModelSpec":
        """Describe the model; its inputs determine the data. `called` are models that its code calls."""
        ...

    def traffic(self, model: "ModelSpec", steps: "Steps", placement: "Placement | None" = None) -> "Traffic":
        """Render every request once and return them with their wiring; data in shared memory is only referenced."""
        ...

    def read_outputs(self, body: bytes, header_length: int | None) -> Mapping[str, bytes]:
        """Return the raw values in a kept response, by output name."""
        return {RESPONSE: body}

    def statistics(self, model: "ModelSpec") -> Sequence[Document]:
        """Return the server's counters of the model; called only if `server` announces them."""
        return ()

    def message_types(self) -> tuple[Any, Any] | None:
        """Return the protobuf classes of requests and replies; None if not applicable."""
        return None


@runtime_checkable
class Answering(Protocol):
    """A service whose replies contain tensors, which can be compared."""

    def infer(self, request: bytes) -> "Mapping[str, Tensor]":
        """Send a rendered request and return the outputs by name."""


@runtime_checkable
class Visited(Protocol):
    """A service whose requests can be generated while the load runs, as visits require."""

    def caller(self, model: "ModelSpec", sample: "Sequence[Tensor]") -> "StepCaller":
        """Return the generator of one model's requests; inputs not given in a call come from the sample."""


@runtime_checkable
class Tasked(Protocol):
    """A service for text, whose calls can be parts of tasks."""

    def task_frame(self, model: "ModelSpec", system: str, max_tokens: int) -> "Frame":
        """Return the request of a call with a gap for its messages."""


class Kind(NamedTuple):
    """A service kind and its capabilities."""

    classes: Mapping[str, str]  # by protocol: module and class of the service
    ports: Mapping[str, int]  # by protocol: default ports
    title: str  # for messages
    needs_model: bool = True
    is_asked: bool = True  # `describe` contacts the server, which reveals another kind before the load
    is_async: bool = False  # callers of such servers are asynchronous
    has_statistics: bool = False  # such servers usually have counters; report if one does not
    has_tokens: bool = False  # answers are text, counted in tokens
    rules: tuple[Rule, ...] = ()  # checked only for this kind
    refused: tuple[str, ...] = ()  # fields of options that do not apply

    def open(self, connection: "Connection", options: Options) -> Service:
        """Create the service; its module is imported on demand, since most runs need one kind."""
        module, name = self.classes[options.protocol].split(":")
        service: Service = getattr(import_module(f"{__package__}.{module}"), name)(connection, options)
        return service


# --- the kinds


def _no_batches(kind: str) -> Rule:
    return Rule(
        lambda given: given.get("batch", 1) != 1,
        f"Batching is not supported with {{service_kind}} {kind}. Leave out {{-b}}.",
    )


def _no_grpc(what: str) -> Rule:
    return Rule(is_grpc, f"gRPC is not supported with {what}. Use {{protocol:http}}.")


_TRACE = ("trace_level", "trace_rate", "trace_count", "log_frequency")

_ONLY_TRITON = (
    *("shared_memory", "bls_composing_models", "request_parameters"),
    *("input_format", "output_format", "sequence_length", *_TRACE),
)
"""Options that only KServe v2 servers support."""

_NO_TENSORS = (*_ONLY_TRITON, "data.shapes", "data.files")
"""Options that only servers with tensors support."""

KINDS = {
    "triton": Kind(
        classes={"http": "triton_http:TritonHttp", "grpc": "triton_grpc:TritonGrpc"},
        ports={"http": 8000, "grpc": 8001},
        title="Triton or another KServe v2 server",
        has_statistics=True,
    ),
    "tfserving": Kind(
        classes={"http": "tfserving:TfServingRest", "grpc": "tfserving:TfServing"},
        ports={"http": 8501, "grpc": 8500},
        title="TensorFlow Serving",
        rules=(
            Rule(lambda given: "streaming" in given, "tfserving does not support streaming.", "leave it out"),
        ),
        refused=_ONLY_TRITON,
    ),
    "torchserve": Kind(
        classes={"http": "torchserve:TorchServe"},
        ports={"http": 8080},
        title="TorchServe",
        is_asked=False,
        rules=(
            Rule(
                lambda given: not (names_data(given) or given.get("data.files") or given.get("bodies")),
                "torchserve has no metadata to generate data from. Give a file with {data.files} data=@FILE, "
                "{bodies} @FILE or {data.sources}.",
                ours="TorchServe does not describe its inputs: give {data.files} data=@FILE, {bodies} @FILE or "
                "{data.sources} FILE",
            ),
            Rule(
                lambda given: "bodies" in given and (names_data(given) or "data.files" in given),
                "{bodies} is the whole request and cannot be combined with {data.files} or {data.sources}.",
                "give one of them",
            ),
            _no_grpc("TorchServe endpoints"),
        ),
        refused=(*_ONLY_TRITON, "data.shapes"),
    ),
    "triton_c_api": Kind(
        classes={"http": "in_process:InProcess", "grpc": "in_process:InProcess"},
        ports={"http": 0, "grpc": 0},
        title="a Triton in this process",
        has_statistics=True,
        rules=(
            Rule(
                lambda given: given.get("workers", 1) != 1,
                "Triton runs inside a single process. Leave out {workers}.",
            ),
        ),
        refused=_TRACE,
    ),
    "openai": Kind(
        classes={"http": "openai:OpenAi"},
        ports={"http": 8000},
        title="an OpenAI-style server",
        is_asked=False,
        is_async=True,
        has_tokens=True,
        rules=(
            _no_grpc("OpenAI endpoints"),
            _no_batches("openai"),
            Rule(
                lambda given: "reply_paths" in given and "body_template" not in given,
                "{--reply-path} describes the replies to requests made from {--body-template}.",
                "give {--body-template}, or remove it",
            ),
        ),
        refused=_NO_TENSORS,
    ),
    "dynamic_grpc": Kind(
        classes={"grpc": "dynamic_grpc:DynamicGrpc"},
        ports={"grpc": 50051},
        title="a gRPC server",
        needs_model=False,
        rules=(
            Rule(
                lambda given: not is_grpc(given),
                "dynamic_grpc supports only grpc. Use {protocol:grpc}.",
                ours="{service_kind} dynamic_grpc requires {protocol:grpc}",
            ),
            Rule(
                lambda given: not given.get("grpc_method"),
                "Must supply {grpc_method} package.Service/Method with {service_kind} dynamic_grpc.",
                ours="{service_kind} dynamic_grpc requires {grpc_method} package.Service/Method",
            ),
            Rule(
                lambda given: "bodies" in given and names_data(given),
                "{bodies} is the whole message and cannot be combined with {data.sources}.",
                "give one of them",
            ),
            Rule(
                lambda given: "proto_paths" in given and "proto" not in given,
                "{proto_paths} sets the root folder of imports and requires {proto}.",
                "give {proto}, or leave out {proto_paths}",
            ),
            _no_batches("dynamic_grpc"),
        ),
        refused=(*_NO_TENSORS, "fixed_schedule", "check", "check_python"),
    ),
    "http": Kind(
        classes={"http": "http:PlainHttp"},
        ports={"http": 80},
        title="a plain HTTP server",
        is_asked=False,
        needs_model=False,
        rules=(
            _no_grpc("{service_kind} http"),
            _no_batches("http"),
        ),
        refused=(*_NO_TENSORS, "data.sources"),
    ),
}
