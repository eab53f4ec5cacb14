"""The options that say which model to reach, where it is, and how to speak to it."""

from inferometer.base.errors import UsageError
from inferometer.base.options import (
    Dialect,
    Option,
    as_given,
    choice,
    existing_file,
    header,
    invalid,
    members,
    share,
    switch,
    whole,
)
from inferometer.services.kinds import NAMES


def _parameter(name: str, text: str) -> tuple[str, str, str]:
    """`name:value:type` of a request parameter."""
    fields = text.split(":")
    if len(fields) != 3 or not fields[0] or fields[2].lower() not in ("bool", "int", "string"):
        raise UsageError(
            f"Failed to parse {name}. The value '{text}' does not match <name:value:type>",
            remedy="the type is bool, int or string",
        )
    return fields[0], fields[1], fields[2].lower()


def _tolerance(name: str, text: str) -> tuple[float, float]:
    """`absolute[,relative]`."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or any(not 0 <= number < float("inf") for number in numbers):
        raise invalid(name, text, "write it like 1e-5 or 1e-5,1e-3, absolute and relative")
    return numbers[0], numbers[1] if len(numbers) == 2 else 0.0


OPTIONS = (
    Option(("-m",), "model", "Model to measure.", as_given, "NAME"),
    Option(
        ("-x",),
        "version",
        "Version of the model. Without it the server takes the latest.",
        as_given,
        "VERSION",
    ),
    Option(
        ("-u",),
        "url",
        "Address of the server: host:port, http://host:port or https://host:port (with TLS).",
        as_given,
        "URL",
        "localhost:8000",
    ),
    Option(
        ("-i",),
        "protocol",
        "Protocol: http or grpc, in any case.",
        choice("http", "grpc", any_case=True),
        "PROTOCOL",
        "http",
    ),
    Option(
        ("--service-kind",),
        "service_kind",
        f"Kind of server: {', '.join(NAMES)}. Any KServe v2 server is of kind triton.",
        choice(*NAMES),
        "KIND",
        "triton",
    ),
    Option(
        ("--bls-composing-models",),
        "bls_composing_models",
        "Models a BLS model may call: name[:version], separated by commas.",
        members,
        "MODELS",
    ),
    Option(
        ("-H",),
        "headers",
        "Header for every request, as Name:Value. May be given several times.",
        header,
        "HEADER",
        repeatable=True,
        secret=True,
    ),
    Option(
        ("--header",),
        "headers",
        "The same as -H.",
        header,
        "HEADER",
        repeatable=True,
        secret=True,
        dialect=Dialect.OURS,
    ),
    Option(
        ("--request-parameter",),
        "request_parameters",
        "Parameter of every gRPC request, as name:value:type with type bool, int or string. "
        "May be given several times.",
        _parameter,
        "PARAMETER",
        repeatable=True,
    ),
    Option(
        ("--ssl-https-verify-peer",),
        "tls.verify_peer",
        "Whether to verify the server's certificate: 0 or 1.",
        switch("0", on=("1",)),
        "NUMBER",
        "1",
    ),
    Option(
        ("--ssl-https-verify-host",),
        "tls.verify_host",
        "Whether the certificate must be for this host: 0 (no), 1 or 2 (yes).",
        switch("0", on=("1", "2")),
        "NUMBER",
        "2",
    ),
    Option(
        ("--ssl-https-ca-certificates-file",),
        "tls.ca_file",
        "Authorities to trust instead of the system's.",
        existing_file,
        "FILE",
    ),
    Option(
        ("--ssl-https-client-certificate-file",),
        "tls.certificate_file",
        "Our own certificate.",
        existing_file,
        "FILE",
    ),
    Option(
        ("--ssl-https-client-certificate-type",),
        "tls.certificate_type",
        "Format of our certificate: PEM or DER.",
        choice("PEM", "DER"),
        "TYPE",
        "PEM",
    ),
    Option(
        ("--ssl-https-private-key-file",),
        "tls.key_file",
        "The key of our certificate.",
        existing_file,
        "FILE",
    ),
    Option(
        ("--ssl-https-private-key-type",),
        "tls.key_type",
        "Format of the key: PEM or DER.",
        choice("PEM", "DER"),
        "TYPE",
        "PEM",
    ),
    Option(
        ("--grpc-compression-algorithm",),
        "grpc_compression",
        "Compression of gRPC requests: none, gzip or deflate.",
        choice("none", "gzip", "deflate"),
        "ALGORITHM",
        "none",
    ),
    Option(("--ssl-grpc-use-ssl",), "grpc_tls", "Speak TLS to the gRPC server."),
    Option(
        ("--ssl-grpc-root-certifications-file",),
        "tls.ca_file",
        "Authorities to trust, PEM.",
        existing_file,
        "FILE",
    ),
    Option(
        ("--ssl-grpc-private-key-file",),
        "tls.key_file",
        "The key of our certificate, PEM.",
        existing_file,
        "FILE",
    ),
    Option(
        ("--ssl-grpc-certificate-chain-file",),
        "tls.certificate_file",
        "Our own certificate, PEM.",
        existing_file,
        "FILE",
    ),
    Option(
        ("-k", "--insecure"),
        "insecure",
        "Do not verify the server's certificate.",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--cacert",),
        "tls.ca_file",
        "Authorities to trust, PEM.",
        existing_file,
        "FILE",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--cert",),
        "tls.certificate_file",
        "Our own certificate, PEM.",
        existing_file,
        "FILE",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--key",),
        "tls.key_file",
        "The key of our certificate, PEM.",
        existing_file,
        "FILE",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--server-name",),
        "tls.server_name",
        "Name to expect in the server's certificate instead of the address's.",
        as_given,
        "NAME",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--validate-tolerance",),
        "validate_tolerance",
        "How far floats may be from the validation data: absolute[,relative].",
        _tolerance,
        "NUMBERS",
        "0,0",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--validate-sample",),
        "validate_sample",
        "Share of the replies that is compared with the validation data, such as 10%.",
        share(zero=False),
        "SHARE",
        "100%",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--connections",),
        "connections",
        "Connections to share among the requests of a gRPC run (default: one for every four).",
        whole(least=1),
        "COUNT",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--grpc-method",),
        "grpc_method",
        "Method to call with --service-kind dynamic_grpc: package.Service/Method.",
        as_given,
        "METHOD",
        dialect=Dialect.NEWER,
    ),
    Option(
        ("--proto",),
        "proto",
        "File that describes the method of --grpc-method: .proto, or a compiled descriptor set (.pb). "
        "Without it the server is asked, by reflection.",
        existing_file,
        "FILE",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--proto-path",),
        "proto_paths",
        "Folder that the imports of --proto start from (default: the file's own). May be given several times.",
        as_given,
        "DIR",
        repeatable=True,
        dialect=Dialect.OURS,
    ),
    Option(
        ("--endpoint",),
        "endpoint",
        "Path appended to the address with --service-kind openai (inferometer: v1/chat/completions).",
        as_given,
        "PATH",
    ),
    Option(
        ("--output-tokens",),
        "output_tokens",
        "Most tokens of an answer, in the requests made for --service-kind openai.",
        whole(least=1),
        "COUNT",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--method",),
        "method",
        "Method of the request with --service-kind http (GET without a body, else POST).",
        as_given,
        "METHOD",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--path",),
        "path",
        "Path of the request with --service-kind http, appended to the address.",
        as_given,
        "PATH",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--body",),
        "bodies",
        "Body of the request with --service-kind http or torchserve, or its message as JSON with dynamic_grpc: text, "
        "or @FILE. Given several times, the requests take turns.",
        as_given,
        "BODY",
        repeatable=True,
        dialect=Dialect.OURS,
    ),
    Option(
        ("--model-signature-name",),
        "signature",
        "Signature to call with --service-kind tfserving.",
        as_given,
        "NAME",
        "serving_default",
    ),
    Option(
        ("--management-url",),
        "management_url",
        "Address of TorchServe's management API (default: the port after the one of -u).",
        as_given,
        "URL",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--triton-server-directory",),
        "triton_directory",
        "Triton's installation, for --service-kind triton_c_api.",
        as_given,
        "DIR",
        "/opt/tritonserver",
    ),
    Option(
        ("--model-repository",),
        "model_repository",
        "Models to load with --service-kind triton_c_api.",
        as_given,
        "DIR",
    ),
)
