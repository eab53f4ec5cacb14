"""The service kinds: one row for each, chosen by `--service-kind`."""

from inferometer.base.rules import Asked, Rule, is_async, is_grpc, names_data
from inferometer.services.kind import Kind

AUTO = "auto"
"""No kind was asked for: the address is asked what it is."""


def _is_empty(asked: Asked) -> bool:
    """Nothing says what to send."""
    return not names_data(asked) and "data.prompts" not in asked and "data.prompt_tokens" not in asked


def _no_batches(kind: str) -> Rule:
    return Rule(
        lambda asked: asked.get("batch", 1) != 1,
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
        rules=(
            Rule(
                lambda asked: not is_grpc(asked),
                "tfserving supports only grpc. Use -i grpc.",
                is_classic=True,
            ),
            Rule(lambda asked: "streaming" in asked, "tfserving does not support streaming."),
            Rule(is_async, "tfserving does not support the async API.", is_classic=True),
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
                lambda asked: not names_data(asked),
                "torchserve needs an input data file. Give one with --input-data.",
                is_classic=True,
            ),
            Rule(
                lambda asked: not (names_data(asked) or asked.get("data.files") or asked.get("bodies")),
                "torchserve has no metadata to make data from. Give a file with --input data=@FILE, --body @FILE or "
                "--input-data.",
            ),
            Rule(
                lambda asked: "bodies" in asked and (names_data(asked) or "data.files" in asked),
                "--body is the whole request and cannot be combined with --input or --input-data.",
            ),
            _no_grpc("TorchServe endpoints"),
            Rule(
                lambda asked: "collect_metrics" in asked,
                "The --collect-metrics option is only supported with Triton client backend.",
                is_classic=True,
            ),
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
                lambda asked: asked.get("workers", 1) != 1,
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
            Rule(_is_empty, "Must supply --input-data FILE with --service-kind openai.", is_classic=True),
            Rule(
                lambda asked: not asked.get("endpoint"),
                "Must supply --endpoint with --service-kind openai.",
                is_classic=True,
            ),
            Rule(
                lambda asked: not is_async(asked),
                "Only async calls are supported with --service-kind openai. Use --async.",
                is_classic=True,
            ),
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
            Rule(lambda asked: not is_grpc(asked), "dynamic_grpc supports only grpc. Use -i grpc."),
            Rule(
                lambda asked: not asked.get("grpc_method"),
                "Must supply --grpc-method package.Service/Method with --service-kind dynamic_grpc.",
            ),
            Rule(
                lambda asked: "asynchronous" in asked,
                "Only sync calls are supported with --service-kind dynamic_grpc. Leave out --async.",
                is_classic=True,
            ),
            Rule(
                lambda asked: "bodies" in asked and names_data(asked),
                "--body is the whole message and cannot be combined with --input-data.",
            ),
            Rule(
                lambda asked: "proto_paths" in asked and "proto" not in asked,
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

NAMES = ("triton", "triton_c_api", "tfserving", "torchserve", "openai", "dynamic_grpc", "http")
"""Every kind, in the order in which they are offered."""
