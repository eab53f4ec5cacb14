"""The service kinds: one row for each, chosen by `--service-kind`."""

from typing import TYPE_CHECKING

from inferometer.options.options import Options
from inferometer.options.rule import Rule, is_grpc, names_data
from inferometer.services.kind import Kind, Service

if TYPE_CHECKING:
    from inferometer.services.endpoint import Connection


def _open_triton(connection: "Connection", options: Options) -> Service:
    if options.protocol == "http":
        from inferometer.services.triton_http import HttpOptions, TritonHttp

        return TritonHttp(
            connection, HttpOptions(options.input_format, options.output_format, options.has_ids)
        )
    from inferometer.services.triton_grpc import GrpcOptions, TritonGrpc

    return TritonGrpc(
        connection,
        GrpcOptions(
            is_streaming=options.streaming,
            compression=None if options.grpc_compression == "none" else options.grpc_compression,
            parameters=options.request_parameters,
            connections=options.connections or 0,
            has_ids=options.has_ids,
        ),
    )


def _open_openai(connection: "Connection", options: Options) -> Service:
    from inferometer.services.openai import OpenAi

    return OpenAi(connection, options)


def _open_http(connection: "Connection", options: Options) -> Service:
    from inferometer.services.http import PlainHttp

    return PlainHttp(connection, options)


def _open_tfserving(connection: "Connection", options: Options) -> Service:
    if options.protocol == "http":
        from inferometer.services.tfserving_rest import TfServingRest

        return TfServingRest(connection, options)
    from inferometer.services.tfserving import TfServing

    return TfServing(connection, options)


def _open_torchserve(connection: "Connection", options: Options) -> Service:
    from inferometer.services.torchserve import TorchServe

    return TorchServe(connection, options)


def _open_in_process(connection: "Connection", options: Options) -> Service:
    from inferometer.services.in_process import InProcess

    return InProcess(connection, options.request_parameters)


def _open_dynamic_grpc(connection: "Connection", options: Options) -> Service:
    from inferometer.services.dynamic_grpc import DynamicGrpc

    return DynamicGrpc(connection, options)


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
        open=_open_triton,
        ports={"http": 8000, "grpc": 8001},
        title="Triton or another KServe v2 server",
        has_statistics=True,
    ),
    "tfserving": Kind(
        open=_open_tfserving,
        ports={"http": 8501, "grpc": 8500},
        title="TensorFlow Serving",
        rules=(Rule(lambda given: "streaming" in given, "tfserving does not support streaming."),),
        refused=_ONLY_TRITON,
    ),
    "torchserve": Kind(
        open=_open_torchserve,
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
            Rule(is_grpc, "gRPC is not supported with TorchServe endpoints. Use -i http."),
        ),
        refused=(*_ONLY_TRITON, "data.shapes"),
    ),
    "triton_c_api": Kind(
        open=_open_in_process,
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
        open=_open_openai,
        ports={"http": 8000},
        title="an OpenAI-style server",
        is_asked=False,
        is_async=True,
        has_tokens=True,
        rules=(
            Rule(is_grpc, "gRPC is not supported with OpenAI endpoints. Use -i http."),
            Rule(
                lambda given: given.get("batch", 1) != 1,
                "Batching is not supported with --service-kind openai. Leave out -b.",
            ),
        ),
        refused=_NO_TENSORS,
    ),
    "dynamic_grpc": Kind(
        open=_open_dynamic_grpc,
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
            Rule(
                lambda given: given.get("batch", 1) != 1,
                "Batching is not supported with --service-kind dynamic_grpc. Leave out -b.",
            ),
        ),
        refused=(*_NO_TENSORS, "fixed_schedule"),
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
                lambda given: given.get("batch", 1) != 1,
                "Batching is not supported with --service-kind http. Leave out -b.",
            ),
        ),
        refused=(*_NO_TENSORS, "data.sources"),
    ),
}
