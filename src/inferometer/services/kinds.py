"""The service kinds: one row for each, chosen by `--service-kind`."""

from inferometer.options.option import Rule, is_grpc, names_data
from inferometer.services.kind import Kind


def _no_batches(kind: str) -> Rule:
    return Rule(
        lambda given: given.get("batch", 1) != 1,
        f"Batching is not supported with --service-kind {kind}. Leave out -b.",
    )


def _no_grpc(what: str) -> Rule:
    return Rule(is_grpc, f"gRPC is not supported with {what}. Use -i http.")


_ONLY_TRITON = (
    "shared_memory",
    "bls_composing_models",
    "request_parameters",
    "input_format",
    "output_format",
    "sequence_length",
    "trace_level",
    "trace_rate",
    "trace_count",
    "log_frequency",
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
        rules=(Rule(lambda given: "streaming" in given, "tfserving does not support streaming."),),
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
                "torchserve has no metadata to make data from. Give a file with --input data=@FILE, --body @FILE or "
                "--input-data.",
            ),
            Rule(
                lambda given: "bodies" in given and (names_data(given) or "data.files" in given),
                "--body is the whole request and cannot be combined with --input or --input-data.",
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
        refused=("trace_level", "trace_rate", "trace_count", "log_frequency"),
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
            ),
            Rule(
                lambda given: "proto_paths" in given and "proto" not in given,
                "--proto-path is where the imports of a file start. Give the file with --proto.",
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
