"""The service kinds, and what the rest of the program needs of one: a row of `KINDS` and the service that it opens.

A kind says what to send and what a reply means; it never opens a socket for load and never looks at a clock. How its
bytes travel is left to the links of `load`: the `Wiring` of its traffic names the protocol, and, where more than the
status of a reply counts, the `ReplyReader` that the worker asks about every reply.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from inferometer.base.errors import MissingError
from inferometer.options.option import Rule, is_grpc, names_data
from inferometer.options.options import Options

if TYPE_CHECKING:  # the command line reads the table and must not wait for what services need
    from inferometer.model.spec import ModelSpec, Tensor
    from inferometer.services.endpoint import Connection
    from inferometer.services.shared_memory import Placement
    from inferometer.services.traffic import Steps, Traffic
    from inferometer.services.visit_plan import StepCaller

Document = Mapping[str, Any]

RESPONSE = "response"
"""The one output of a service without tensors: whatever comes back."""


class Service(Protocol):
    """A server of some kind at one address. Kinds inherit what servers without such a call answer."""

    def server(self) -> Document:
        """What it says of itself: `name`, `version`, `extensions`; with "statistics" among these it has counters.

        MissingError where it says nothing.
        """
        raise MissingError("such servers do not describe themselves")

    def models(self) -> Sequence[str]:
        """Names of the models it has, as far as it tells."""
        return ()

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> "ModelSpec":
        """The model; its inputs tell which data is read or generated. `called` are models that its code calls."""
        ...

    def traffic(self, model: "ModelSpec", steps: "Steps", placement: "Placement | None" = None) -> "Traffic":
        """Every request, rendered once, and how it travels; what is placed in shared memory is only pointed at."""
        ...

    def read_outputs(self, body: bytes, header_length: int | None) -> Mapping[str, bytes]:
        """The raw values in a response that was kept, by the names of the model's outputs."""
        return {RESPONSE: body}

    def statistics(self, model: "ModelSpec") -> Sequence[Document]:
        """The server's counters of the model, asked for only where `server` announces them."""
        return ()

    def message_types(self) -> tuple[Any, Any] | None:
        """The classes of the protobuf messages that go there and come back; None where none do."""
        return None


@runtime_checkable
class Answering(Protocol):
    """A service whose replies hold tensors, which can be compared."""

    def infer(self, request: bytes) -> "Mapping[str, Tensor]":
        """The outputs that come back for a rendered request, by name."""


@runtime_checkable
class Visited(Protocol):
    """A service whose requests can be made while the load runs, as visits need it."""

    def caller(self, model: "ModelSpec", sample: "Sequence[Tensor]") -> "StepCaller":
        """Makes the requests of one model; inputs that a call does not give are those of the sample."""


class Kind(NamedTuple):
    """A row: a service kind and what can be asked of it."""

    classes: Mapping[str, str]  # by protocol: module and class of the service
    ports: Mapping[str, int]  # by protocol: where such a server listens if no address says otherwise
    title: str  # in sentences
    needs_model: bool = True
    is_asked: bool = True  # `describe` asks the server, so that one of another kind shows before the load
    is_async: bool = False  # callers of such servers do not wait for each other
    has_statistics: bool = False  # such servers usually count what they do: it is said when one does not
    has_tokens: bool = False  # answers are text, counted in tokens
    rules: tuple[Rule, ...] = ()  # checked only when this kind is asked for
    refused: tuple[str, ...] = ()  # fields of options that have no meaning here

    def open(self, connection: "Connection", options: Options) -> Service:
        """The service; its module is imported only now, as most runs need one kind."""
        module, name = self.classes[options.protocol].split(":")
        service: Service = getattr(import_module(f"{__package__}.{module}"), name)(connection, options)
        return service


# --- the kinds


def _no_batches(kind: str) -> Rule:
    return Rule(
        lambda given: given.get("batch", 1) != 1,
        f"Batching is not supported with --service-kind {kind}. Leave out -b.",
    )


def _no_grpc(what: str) -> Rule:
    return Rule(is_grpc, f"gRPC is not supported with {what}. Use -i http.")


_TRACE = ("trace_level", "trace_rate", "trace_count", "log_frequency")

_ONLY_TRITON = (
    *("shared_memory", "bls_composing_models", "request_parameters"),
    *("input_format", "output_format", "sequence_length", *_TRACE),
)
"""Fields that only servers of the KServe v2 protocol can honour."""

_NO_TENSORS = (*_ONLY_TRITON, "data.shapes", "data.files")
"""Fields that only servers of tensors can honour."""

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
                "torchserve has no metadata to generate data from. Give a file with --input data=@FILE, --body @FILE "
                "or --input-data.",
            ),
            Rule(
                lambda given: "bodies" in given and (names_data(given) or "data.files" in given),
                "--body is the whole request and cannot be combined with --input or --input-data.",
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
                "One process holds the Triton. Leave out --workers.",
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
        ),
        refused=_NO_TENSORS,
    ),
    "dynamic_grpc": Kind(
        classes={"grpc": "dynamic_grpc:DynamicGrpc"},
        ports={"grpc": 50051},
        title="a gRPC server",
        needs_model=False,
        rules=(
            Rule(lambda given: not is_grpc(given), "dynamic_grpc supports only grpc. Use -i grpc."),
            Rule(
                lambda given: not given.get("grpc_method"),
                "Must supply --grpc-method package.Service/Method with --service-kind dynamic_grpc.",
            ),
            Rule(
                lambda given: "bodies" in given and names_data(given),
                "--body is the whole message and cannot be combined with --input-data.",
                "give one of them",
            ),
            Rule(
                lambda given: "proto_paths" in given and "proto" not in given,
                "--proto-path sets the root folder of imports and requires --proto.",
                "give --proto, or leave out --proto-path",
            ),
            _no_batches("dynamic_grpc"),
        ),
        refused=(*_NO_TENSORS, "fixed_schedule"),
    ),
    "http": Kind(
        classes={"http": "http:PlainHttp"},
        ports={"http": 80},
        title="a plain HTTP server",
        is_asked=False,
        needs_model=False,
        rules=(
            _no_grpc("--service-kind http"),
            _no_batches("http"),
        ),
        refused=(*_NO_TENSORS, "data.sources"),
    ),
}
