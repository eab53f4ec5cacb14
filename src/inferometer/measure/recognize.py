"""From an address to a service: the kind that was asked for, or the one that the address looks like."""

from dataclasses import replace

from inferometer.base.errors import InferometerError, MissingError, PeerError, UsageError
from inferometer.measure.checks import changed
from inferometer.model.spec import ModelSpec
from inferometer.options.options import AUTO, Options
from inferometer.services.detect import PLAIN, ServerGuess, probe, probe_grpc, recognize
from inferometer.services.endpoint import Connection, Endpoint, parse_endpoint
from inferometer.services.kind import KINDS, Service

MOST_NAMES = 20


def address(options: Options) -> Endpoint:
    """Where the server is; without an address, where such a server usually is on this machine."""
    kind = KINDS["triton" if options.service_kind == AUTO else options.service_kind]
    port = kind.ports[options.protocol]
    endpoint = parse_endpoint(options.url or f"localhost:{port}", default_port=port, tls=options.tls)
    is_secure = options.protocol == "grpc" and options.grpc_tls
    return replace(endpoint, tls=options.tls) if is_secure else endpoint


def open_service(options: Options, connection: Connection) -> Service:
    return KINDS[options.service_kind].open(connection, options)


def recognized(options: Options) -> tuple[Options, tuple[str, ...]]:
    """The options with the kind that the address looks like, if none was asked for, and what to say about it."""
    if options.service_kind != AUTO:
        return _with_protocol(options), ()
    connection = Connection(address(options), options.headers)
    is_grpc = options.protocol == "grpc"
    looks = recognize(probe_grpc(connection) if is_grpc else probe(connection))
    if looks is None:
        raise PeerError(
            f"{connection.endpoint.authority} speaks neither HTTP nor a gRPC protocol that is known",
            remedy="check the address, or name what it is with --service-kind and -i",
        )
    model = options.model
    if not model and KINDS[looks.kind].needs_model:
        there = replace(options, service_kind=looks.kind, protocol=looks.protocol)
        model = _only_model(open_service(there, connection), connection, looks)
    options = changed(options, service_kind=looks.kind, protocol=looks.protocol, model=model)
    named = f", model '{model}'" if model else ""
    return options, (f"{connection.endpoint.authority} looks like {looks.title}{named} ({looks.words}).",)


def _with_protocol(options: Options) -> Options:
    """A kind that speaks one protocol need not be told which."""
    ports = KINDS[options.service_kind].ports
    return options if options.protocol in ports else replace(options, protocol=next(iter(ports)))


def _only_model(service: Service, connection: Connection, looks: ServerGuess) -> str:
    """The name of the one model that the server has."""
    where = f"{connection.endpoint.authority} looks like {looks.title}"
    try:
        names = sorted(service.models())
    except PeerError as error:
        raise UsageError(
            f"{where}, and does not list its models ({error.message})", remedy="name one with -m"
        ) from error
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(f"{where}, and has no model that is ready", remedy="load one, or name one with -m")
    shown = ", ".join(names[:MOST_NAMES]) + (
        f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    )
    raise UsageError(f"{where} and has {len(names)} models: {shown}", remedy="name one with -m")


def describe(service: Service, options: Options, connection: Connection) -> ModelSpec:
    """The model; where that fails because the server is of another kind, the sentence says of which."""
    try:
        return service.describe(options.model, options.version, options.bls_composing_models)
    except PeerError as error:
        if _is_own_word(error, options.protocol):
            raise
        hint = maybe_other_kind(options, connection)
        if not hint:
            raise
        raise PeerError(error.message, remedy=hint) from error


def _is_own_word(error: PeerError, protocol: str) -> bool:
    """Whether a gRPC server, or a proxy before it, said what is wrong; one that lacks the call is of another kind."""
    origin = error.__cause__ if isinstance(error.__cause__, PeerError) else error
    if protocol != "grpc" or isinstance(origin, MissingError):
        return False
    return not origin.remedy or "HTTP status" in origin.message


def maybe_other_kind(options: Options, connection: Connection) -> str:
    """What the address looks like, if that is something else than was asked for; only a hint, so it never fails."""
    try:
        looks = recognize(probe(connection))
    except InferometerError:
        return ""
    if (
        looks is None
        or looks is PLAIN
        or (looks.kind, looks.protocol) == (options.service_kind, options.protocol)
    ):
        return ""
    return f"{connection.endpoint.authority} looks like {looks.title}: measure it with {looks.words}"


def with_shapes(options: Options, model: ModelSpec, *, is_found: bool) -> Options:
    """Nobody who only gave an address can know which sizes are open: those become 1."""
    if not is_found or options.data.sources != ("random",) or options.data.files:
        return options
    ones = {
        spec.name: tuple(1 if dim < 0 else dim for dim in spec.shape)
        for spec in model.inputs
        if spec.is_dynamic
    }
    return replace(options, data=replace(options.data, shapes={**ones, **options.data.shapes}))
