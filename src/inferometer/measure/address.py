"""Where the server is that the options ask for."""

from collections.abc import Iterator

from inferometer.base.errors import UsageError
from inferometer.base.secrets import GIVEN, body_secrets, header_secrets, query_secrets, redacted_parameter
from inferometer.measure.checks import changed
from inferometer.options.options import AUTO, Options
from inferometer.services.address import LOCAL, Address, maybe_server_path, read_address
from inferometer.services.endpoint import CONTROL_TIMEOUT_S, Connection, Endpoint, parse_endpoint
from inferometer.services.kind import KINDS

SHORTEST_CONTROL_S = 1.0  # a limit for requests may be that of an SLO, which holds for no control call


def address(options: Options) -> Endpoint:
    """Where the server is; without an address, where such a server usually is on this machine."""
    port = _usual_port(options)
    endpoint = parse_endpoint(options.url or f"{LOCAL}:{port}", default_port=port, tls=options.tls)
    is_secure = options.protocol == "grpc" and options.grpc_tls
    return endpoint._replace(tls=options.tls) if is_secure else endpoint


def _usual_port(options: Options) -> int:
    kind = KINDS["triton" if options.service_kind == AUTO else options.service_kind]
    return kind.ports[options.protocol]


def connection_to(options: Options, endpoint: Endpoint | None = None) -> Connection:
    """For control calls to this endpoint, or to the address: none takes longer than a request may.

    From here on the secrets among the options are masked in what servers answer.
    """
    bodies = (secret for body in options.bodies for secret in body_secrets(body))
    GIVEN.add(_secrets(options), bodies)
    asked_s = options.request_timeout_s
    timeout_s = min(CONTROL_TIMEOUT_S, max(asked_s, SHORTEST_CONTROL_S)) if asked_s else CONTROL_TIMEOUT_S
    return Connection(endpoint or address(options), options.headers, timeout_s)


def _secrets(options: Options) -> Iterator[str]:
    """Yield the values of headers, keys in queries, and parameters with the name of a secret."""
    yield from header_secrets(options.headers)
    for address in (options.url, options.metrics_url, options.path, options.endpoint):
        yield from query_secrets(address or "")
    for name, value, _ in options.request_parameters:
        if redacted_parameter(name, value) != value:
            yield value


# --- as our own commands read it


def written_address(options: Options) -> Address:
    """What the user wrote, taken apart."""
    return read_address(LOCAL if options.url is None else options.url)


def model_in(url: str | None, kind: str) -> str:
    """The model that stands in the path of an address of a server of this kind."""
    known = None if url is None else maybe_server_path(read_address(url).path.rstrip("/"))
    return known.model if known is not None and kind in known.kinds else ""


def url_of(options: Options, written: Address, path: str = "") -> str:
    """The address with another path, as `address` understands it: it knows the schemes http and https."""
    if options.grpc_tls and not written.scheme:
        written = written._replace(scheme="grpcs" if options.protocol == "grpc" else "https")
    return written.url(_usual_port(options), path)


def host_and_port(options: Options, written: Address) -> str:
    return url_of(options, written).rpartition("/")[2]


def with_scheme(options: Options, written: Address) -> Options:
    """What the scheme says of the protocol, and whether it agrees with what else is asked."""
    kind = options.service_kind
    if written.is_grpc and options.protocol == "http" and "protocol" in options.given:
        raise UsageError(
            f"the address '{options.url}' is one of gRPC, and HTTP is asked for",
            remedy="leave out one of them",
        )
    if written.is_grpc and kind != AUTO and "grpc" not in KINDS[kind].ports:
        raise UsageError(
            f"the address '{options.url}' is one of gRPC, which --service-kind {kind} does not speak",
            remedy="write http:// or https:// before it",
        )
    if options.grpc_tls and written.scheme in ("http", "grpc"):
        raise UsageError(
            f"the address '{options.url}' is one without TLS, and --tls asks for it",
            remedy=f"write {written.scheme}s:// before it, or leave out --tls",
        )
    return changed(options, protocol="grpc") if written.is_grpc else options
