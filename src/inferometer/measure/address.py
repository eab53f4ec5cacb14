"""The server's address according to the options."""

from collections.abc import Iterator

from inferometer.base.errors import UsageError
from inferometer.base.secrets import GIVEN, body_secrets, header_secrets, query_secrets, redacted_parameter
from inferometer.measure.checks import changed
from inferometer.options.names import option_name
from inferometer.options.options import AUTO, Options
from inferometer.services.address import LOCAL, Address, read_address
from inferometer.services.endpoint import CONTROL_TIMEOUT_S, Connection, Endpoint, parse_endpoint
from inferometer.services.kind import KINDS

SHORTEST_CONTROL_S = 1.0  # a request timeout may be an SLO limit, which does not apply to control calls


def address(options: Options) -> Endpoint:
    """Return the server's address, or the usual local address of its kind if none is given."""
    port = _usual_port(options)
    endpoint = parse_endpoint(options.url or f"{LOCAL}:{port}", default_port=port, tls=options.tls)
    is_secure = options.protocol == "grpc" and options.grpc_tls
    return endpoint._replace(tls=options.tls) if is_secure else endpoint


def _usual_port(options: Options) -> int:
    kind = KINDS["triton" if options.service_kind == AUTO else options.service_kind]
    return kind.ports[options.protocol]


def connection_to(options: Options, endpoint: Endpoint | None = None) -> Connection:
    """Open a connection for control calls, which take no longer than a request may.

    From here on, secrets among the options are masked in server answers.
    """
    bodies = (secret for body in options.bodies for secret in body_secrets(body))
    GIVEN.add(_secrets(options), bodies)
    asked_s = options.request_timeout_s
    timeout_s = min(CONTROL_TIMEOUT_S, max(asked_s, SHORTEST_CONTROL_S)) if asked_s else CONTROL_TIMEOUT_S
    return Connection(endpoint or address(options), options.headers, timeout_s)


def _secrets(options: Options) -> Iterator[str]:
    """Yield the values of headers, keys in queries, and parameters named as secrets."""
    yield from header_secrets(options.headers)
    for address in (options.url, options.metrics_url, options.path, options.endpoint):
        yield from query_secrets(address or "")
    for name, value, _ in options.request_parameters:
        if redacted_parameter(name, value) != value:
            yield value


# --- addresses in our own commands


def written_address(options: Options) -> Address:
    """Parse the address that the user wrote."""
    return read_address(LOCAL if options.url is None else options.url)


def url_of(options: Options, written: Address, path: str = "") -> str:
    """Return the address with another path, in the http or https form that `address` understands."""
    if options.grpc_tls and not written.scheme:
        written = written._replace(scheme="grpcs" if options.protocol == "grpc" else "https")
    return written.url(_usual_port(options), path)


def host_and_port(options: Options, written: Address) -> str:
    return url_of(options, written).rpartition("/")[2]


def with_scheme(options: Options, written: Address) -> Options:
    """Set the protocol from the scheme, after checking that it agrees with the other options."""
    kind = options.service_kind
    if written.is_grpc and options.protocol == "http" and "protocol" in options.given:
        raise UsageError(
            f"the address '{options.url}' uses gRPC, but the options request HTTP",
            remedy="remove one of them",
        )
    if written.is_grpc and kind != AUTO and "grpc" not in KINDS[kind].ports:
        raise UsageError(
            f"the address '{options.url}' uses gRPC, which {option_name('--service-kind')} {kind} does not "
            "support",
            remedy="start the address with http:// or https://",
        )
    if options.grpc_tls and written.scheme in ("http", "grpc"):
        raise UsageError(
            f"the address '{options.url}' does not use TLS, but {option_name('--tls')} requires it",
            remedy=f"start the address with {written.scheme}s://, or remove {option_name('--tls')}",
        )
    return changed(options, protocol="grpc") if written.is_grpc else options
