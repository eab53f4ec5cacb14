"""The service kinds: one row for each, chosen by `--service-kind`."""

from typing import TYPE_CHECKING

from inferometer.base.rules import Asked, Rule, is_async, is_grpc, names_data
from inferometer.target.kind import Kind, Target, TargetOptions

if TYPE_CHECKING:
    from inferometer.target.endpoint import Connection

AUTO = "auto"
"""No kind was asked for: the address is asked what it is."""


def _open_triton(connection: "Connection", options: TargetOptions) -> Target:
    if options.protocol == "http":
        from inferometer.target.triton_http import HttpOptions, TritonHttp

        return TritonHttp(connection, HttpOptions(options.input_format, options.output_format))
    from inferometer.target.triton_grpc import GrpcOptions, TritonGrpc

    return TritonGrpc(
        connection,
        GrpcOptions(
            is_streaming=options.streaming,
            compression=None if options.grpc_compression == "none" else options.grpc_compression,
            parameters=options.request_parameters,
            connections=options.connections or 0,
        ),
    )


def _open_openai(connection: "Connection", options: TargetOptions) -> Target:
    from inferometer.target.openai import OpenAi

    return OpenAi(connection, options)


def _open_http(connection: "Connection", options: TargetOptions) -> Target:
    from inferometer.target.http import PlainHttp

    return PlainHttp(connection, options)


def _open_in_process(connection: "Connection", options: TargetOptions) -> Target:
    from inferometer.target.in_process import InProcess

    return InProcess(connection, options.request_parameters)


def _is_empty(asked: Asked) -> bool:
    """Nothing says what to send."""
    return not names_data(asked) and "data.prompts" not in asked and "data.prompt_tokens" not in asked


_NO_TENSORS = (
    "shared_memory",
    "bls_composing_models",
    "request_parameters",
    "input_format",
    "output_format",
    "data.shapes",
    "data.files",
    "sequence_length",
    "trace_level",
    "trace_rate",
    "trace_count",
    "log_frequency",
)
"""Fields that only servers of tensors can honour."""

KINDS = {
    "triton": Kind(
        open=_open_triton,
        ports={"http": 8000, "grpc": 8001},
        title="Triton or another KServe v2 server",
        has_statistics=True,
    ),
    "triton_c_api": Kind(
        open=_open_in_process,
        ports={"http": 0, "grpc": 0},
        title="a Triton in this process",
        rules=(
            Rule(
                lambda asked: asked.get("workers", 1) != 1,
                "One process holds the Triton. Leave out --workers.",
            ),
        ),
        refused=("trace_level", "trace_rate", "trace_count", "log_frequency"),
    ),
    "openai": Kind(
        open=_open_openai,
        ports={"http": 8000},
        title="an OpenAI-style server",
        is_asked=False,
        is_async=True,
        has_tokens=True,
        rules=(
            Rule(is_grpc, "gRPC is not supported with OpenAI endpoints. Use -i http."),
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
            Rule(
                lambda asked: asked.get("batch", 1) != 1,
                "Batching is not supported with --service-kind openai. Leave out -b.",
            ),
        ),
        refused=_NO_TENSORS,
    ),
    "http": Kind(
        open=_open_http,
        ports={"http": 80},
        title="a plain HTTP server",
        is_asked=False,
        needs_model=False,
        rules=(
            Rule(is_grpc, "gRPC is not supported with --service-kind http. Use -i http."),
            Rule(
                lambda asked: asked.get("batch", 1) != 1,
                "Batching is not supported with --service-kind http. Leave out -b.",
            ),
        ),
        refused=(*_NO_TENSORS, "data.sources"),
    ),
}

NAMES = ("triton", "triton_c_api", "tfserving", "torchserve", "openai", "dynamic_grpc", "http")
"""Every kind that can be asked for; those without a row in KINDS are refused as not built yet."""
