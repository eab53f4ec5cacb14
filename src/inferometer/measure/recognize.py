"""From an address to a service: the requested kind, or the kind found by probing.

Our own commands parse an address and reject one that leads elsewhere, with the command to type instead. The classic
script uses it unchanged.
"""

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from inferometer.base.deadline import within
from inferometer.base.errors import InferometerError, MissingError, PeerError, UnknownModelError, UsageError
from inferometer.base.text import nearest
from inferometer.measure.address import connection_to, host_and_port, url_of, with_scheme, written_address
from inferometer.measure.checks import changed
from inferometer.measure.wrong_address import maybe_wrong, typed, wrong_path
from inferometer.model.spec import ModelSpec
from inferometer.options.names import option_name
from inferometer.options.options import AUTO, Options
from inferometer.services.address import Address, ServerPath, maybe_server_path
from inferometer.services.detect import METRICS, ServerGuess, look, probe, recognize
from inferometer.services.endpoint import Connection
from inferometer.services.kind import KINDS, Service

CLASSIC = "perf_analyzer"
"""The command that behaves like the classic tool."""

MOST_NAMES = 20
HINT_S = 2.0  # time to identify an address that gave an unexpected answer


class ManyModelsError(UsageError):
    """No model is named, and the server has several; `options` are those of the server found."""

    def __init__(self, message: str, *, remedy: str, names: Sequence[str], options: Options) -> None:
        super().__init__(message, remedy=remedy)
        self.names = tuple(names)
        self.options = options


Recognized = tuple[Options, tuple[str, ...]]
"""Options with the findings applied, and messages about them."""


def open_service(options: Options, connection: Connection) -> Service:
    return KINDS[options.service_kind].open(connection, options)


def recognized(options: Options, command: str) -> Recognized:
    """Parse the address, and detect the kind if none was requested."""
    if options.service_kind != AUTO:
        ports = KINDS[options.service_kind].ports  # a kind with one protocol implies it
        options = options if options.protocol in ports else replace(options, protocol=next(iter(ports)))
    if command == CLASSIC:
        return options, ()
    _check_model_is_meant(options)
    if options.url is None and options.service_kind != AUTO:
        return options, ()
    written = written_address(options)
    options = with_scheme(options, written)
    known = maybe_server_path(written.path.rstrip("/"))
    if options.service_kind == AUTO:
        return _found(options, written, known, command)
    if options.service_kind == "http":
        return _plain(options, written), ()
    if known is not None and options.service_kind in known.kinds and not known.is_measured:
        there = ServerGuess(options.service_kind, options.protocol, KINDS[options.service_kind].title)
        raise wrong_path(options, there, command, known.prefix)
    parts, said = _taken_apart(options, written, known)
    return changed(options, **parts), said


def _check_model_is_meant(options: Options) -> None:
    kind = options.service_kind
    if options.model and kind != AUTO and not KINDS[kind].needs_model:
        raise UsageError(
            f"{KINDS[kind].title} has no models ({option_name('--service-kind')} {kind}), but "
            f"'{options.model}' was requested",
            remedy=f"remove the model, or remove {option_name('--service-kind')} to detect the kind of "
            "server",
        )


# --- the path of an address


def _plain(options: Options, written: Address) -> Options:
    """Request exactly this URL, for any kind of server."""
    path = written.path + written.query
    if options.path and written.query:
        raise UsageError(
            f"the address '{options.url}' ends with a query, so {option_name('--path')} cannot be appended",
            remedy="put the whole path in one of them",
        )
    if options.path:
        path = f"{path.rstrip('/')}/{options.path.lstrip('/')}"
    options = replace(options, service_kind="http", protocol="http")
    return changed(options, service_kind="http", url=url_of(options, written), path=path)


def _taken_apart(
    options: Options, written: Address, known: ServerPath | None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the address, and the model, version and endpoint from a known path. Any other path may be a proxy's
    prefix."""
    if known is None or options.service_kind not in known.kinds:
        path = written.path.rstrip("/")
        _check_rest(options, written, path)
        return {"url": url_of(options, written, path)}, ()
    _check_rest(options, written, known.prefix)
    parts = {name: getattr(known, name) for name in ("model", "version", "endpoint") if getattr(known, name)}
    for name, value in parts.items():
        given = getattr(options, name).lstrip("/")
        if given not in ("", value):
            raise UsageError(
                f"the address '{options.url}' contains the {name} '{value}', but '{given}' was requested",
                remedy="remove one of them",
            )
    url = url_of(options, written, known.prefix)
    words = "".join(f", {name} '{value}'" for name, value in parts.items())
    return {"url": url, **parts}, (f"'{options.url}' is interpreted as {url}{words}.",)


def _check_rest(options: Options, written: Address, prefix: str) -> None:
    if written.query:
        raise UsageError(
            f"the address '{options.url}' ends with the query '{written.query}', which only plain HTTP supports",
            remedy=f"remove it, or request it unchanged with {option_name('--service-kind', 'http')}",
        )
    if prefix and options.protocol == "grpc":
        raise UsageError(
            f"the address '{options.url}' has the path '{prefix}', but gRPC does not use paths",
            remedy=f"write {host_and_port(options, written)}",
        )


# --- detection of the kind


def _found(options: Options, written: Address, known: ServerPath | None, command: str) -> Recognized:
    if options.method or options.path:  # an explicit method or path means plain HTTP, whatever the server is
        options = _plain(options, written)
        _check_model_is_meant(options)
        return options, ()
    path = written.path.rstrip("/")
    looks = _look(options, written, path if known is None else known.prefix, known)
    if looks.kind == "http" and path and not options.bodies and options.body_template is None:
        looks = _unless_known(options, written, looks, command)
    named = options if known is None or options.model else replace(options, model=known.model)
    if (wrong := maybe_wrong(named, looks, command)) is not None:
        raise wrong
    if options.body_template is not None:
        looks = looks._replace(kind="openai", protocol="http", title="a server for the given body template")
    elif known is not None and known.endpoint and looks.kind in ("http", _host_kind(known.endpoint)):
        looks = looks._replace(kind="openai", protocol="http", title="an OpenAI-style server by its path")
    if looks.kind == "http" or (_has_whole_bodies(options, looks.kind) and looks.kind != "torchserve"):
        return _found_plain(options, written, looks, command)
    if known is not None and not (known.is_measured and looks.kind in known.kinds):
        raise wrong_path(named, looks, command, known.prefix)
    there = replace(options, service_kind=looks.kind, protocol=looks.protocol)
    parts, said = _taken_apart(there, written, known)
    where = f"{host_and_port(there, written)} looks like {looks.title}"
    model = parts.pop("model", options.model) or _only_model(replace(there, url=parts["url"]), where)
    options = changed(options, service_kind=looks.kind, protocol=looks.protocol, model=model, **parts)
    words = f"--service-kind {looks.kind}{' --grpc' if looks.protocol == 'grpc' else ''}"
    return options, (*said, f"{where}, model '{model}' ({words}).")


def _host_kind(endpoint: str) -> str:
    """Return the kind of server whose address a text API resembles; empty if there is none."""
    from inferometer.services.apis import maybe_requested

    api = maybe_requested(endpoint)
    return "" if api is None else api.host_kind


def _has_whole_bodies(options: Options, kind: str) -> bool:
    """Return whether bodies are whole; for an OpenAI-style server, --body may also set individual fields."""
    if not options.bodies or kind != "openai":
        return bool(options.bodies)
    from inferometer.services.body_fields import is_body_field

    return not all(map(is_body_field, options.bodies))


def _look(options: Options, written: Address, prefix: str, known: ServerPath | None = None) -> ServerGuess:
    there = connection_to(replace(options, url=url_of(options, written, prefix)))
    first = "" if known is None else known.kinds[0]
    try:
        with _on_one_line():
            return look(there, protocol=options.protocol, page=written.path + written.query, first=first)
    except PeerError as error:
        if isinstance(error.__cause__, socket.gaierror) and options.url == written.host and not options.model:
            error.remedy += (
                f"; or, if that is the model, write the address first: localhost:8000 {written.host}"
            )
        raise


def _unless_known(options: Options, written: Address, looks: ServerGuess, command: str) -> ServerGuess:
    """Return the guess, unless an unknown path belongs to a server of a known kind."""
    whole = _look(options, written, "")
    if whole.kind in KINDS and whole.kind != "http":
        raise wrong_path(options, whole, command)
    return whole if whole.kind == METRICS else looks


def _found_plain(options: Options, written: Address, looks: ServerGuess, command: str) -> Recognized:
    where = f"{host_and_port(options, written)} looks like {looks.title}"
    if looks.is_locked and (options.model or looks.page_status >= 300):
        raise PeerError(
            f"{where}: it requires authentication",
            remedy=f"give a key with {option_name('--api-key-env')} NAME, {option_name('--api-key-file')} "
            f"FILE or {option_name('-H')} 'Authorization: Bearer ...', or name "
            f"the kind of server with {option_name('--service-kind')}",
        )
    if looks.kind != "http" and options.model:
        raise _body_of_model(options, written, looks, command, where)
    if looks.failures and not options.bodies:
        kinds = (
            f"{option_name('--service-kind', 'openai')} for one that serves text"
            if "/v1/" in looks.failures[0]
            else option_name("--service-kind")
        )
        raise PeerError(
            f"{where}: it answers {' and '.join(looks.failures)}",
            remedy=f"check the server's log, or name the kind of server with {kinds}",
        )
    if options.model:
        url = f"{url_of(options, written)}{written.path}{written.query}"
        right = typed(options, "measure" if command == "tune" else command, url, "")
        page = f"; or, for the page itself, {right}"
        raise PeerError(
            f"{where} and does not list its models: it answers {looks.listing}"
            if looks.listing
            else f"{where} and does not list its models",
            remedy=f"check the port and the path{page if looks.page_status < 300 else ''}; {_if_text()}",
        )
    if not options.bodies and 300 <= looks.page_status < 500:
        page = f"GET {written.path or '/'}{written.query}"
        listing = "" if looks.listing.startswith(f"{page} ") or not looks.listing else f", {looks.listing}"
        raise PeerError(
            f"{where} and answers {page} with status {looks.page_status}{listing}",
            remedy=f"check the port and the path, or define the request with {option_name('--path')}, "
            f"{option_name('--method')} and {option_name('--body')}; {_if_text()}",
        )
    given = "" if looks.kind == "http" else " and receives the given request"
    return _plain(options, written), (f"{where}{given} (--service-kind http).",)


def _if_text() -> str:
    return f"if it serves text, add {option_name('--service-kind', 'openai')}"


_INFER_PATHS = {
    "triton": "/v2/models/{}/infer",
    "tfserving": "/v1/models/{}:predict",
    "openai": "/v1/chat/completions",
}


def _body_of_model(
    options: Options, written: Address, looks: ServerGuess, command: str, where: str
) -> UsageError:
    """Return the error for a whole body together with a model: a body is sent to a path, unchanged."""
    path = _INFER_PATHS[looks.kind].format(options.model)
    known = maybe_server_path(written.path.rstrip("/"))
    prefix = written.path.rstrip("/") if known is None else known.prefix
    right = typed(options, command, f"{url_of(options, written)}{prefix}{path}", "")
    if looks.kind == "openai":
        from inferometer.services.body_fields import maybe_fields

        fields = " ".join(filter(None, map(maybe_fields, options.bodies)))
        right = f"for single fields, write {fields}; for a whole body, {right}" if fields else right
    return UsageError(
        f"{where}: {option_name('--body')} is a whole request body, which is sent to a path and not to the "
        "model "
        f"'{options.model}'",
        remedy=f"{right} with the same {option_name('--body')}; or remove {option_name('--body')} and give "
        f"inputs with {option_name('--data')} or {option_name('--input')}",
    )


def _only_model(options: Options, where: str) -> str:
    """Return the name of the server's only model."""
    service = open_service(options, connection_to(options))
    try:
        names = sorted(service.models())
    except PeerError as error:
        raise UsageError(
            f"{where}, but does not list its models ({error.message})",
            remedy=f"name one with {option_name('-m')}",
        ) from error
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(
            f"{where}, but has no model that is ready",
            remedy=f"load one, or name one with {option_name('-m')}",
        )
    raise ManyModelsError(
        f"{where} and has {len(names)} models: {_listed(names)}",
        remedy=f"name one with {option_name('-m')}",
        names=names,
        options=options,
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


# --- the model


def describe(
    service: Service, options: Options, connection: Connection, command: str, *, is_found: bool
) -> ModelSpec:
    """Describe the model; if that fails because the server is of another kind, say which.

    `is_found` means that the kind was detected from the address.
    """
    if command == CLASSIC:
        return _classic_describe(service, options, connection)
    kind = KINDS[options.service_kind]
    with _on_one_line():
        if kind.needs_model and not kind.is_asked and not is_found:
            looks = look(connection, first=options.service_kind)
            is_meant = looks.kind == getattr(service, "host_kind", "")
            if not is_meant and (wrong := maybe_wrong(options, looks, command)) is not None:
                raise wrong
        try:
            model = service.describe(options.model, options.version, options.bls_composing_models)
        except PeerError as error:
            if not _is_own_word(error, options.protocol) and (
                hint := maybe_hint(options, connection, command)
            ):
                raise hint from error
            found = _misspelt(service, options.model, error)
            raise found from (error.__cause__ if found is error else error)
    if model.is_plain or (kind.needs_model and not kind.is_asked and getattr(service, "names_model", True)):
        _check_listed(service, options.model)
    return model


def _misspelt(service: Service, name: str, error: PeerError) -> PeerError:
    """Add the server's models to its error about this model, if the named one is not among them."""
    is_answer = not error.remedy or error.remedy.startswith("the server has ")
    if not is_answer or isinstance(error, MissingError):
        return error
    try:
        names = sorted(service.models())
    except PeerError:
        names = []
    is_unknown = names and name not in names
    return UnknownModelError(
        error.message, remedy=_others("the server", name, names) if is_unknown else error.remedy
    )


def _others(subject: str, name: str, names: Sequence[str]) -> str:
    lowered = {known.lower(): known for known in names}
    close = lowered.get(nearest(name.lower(), lowered), "")
    return (f"did you mean '{close}'? " if close else "") + f"{subject} has {_listed(names)}"


def maybe_hint(options: Options, connection: Connection, command: str) -> UsageError | None:
    """Return an error if the address looks like another kind of server; only a hint, so it never fails."""
    if not KINDS[options.service_kind].ports[options.protocol]:
        return None  # the server runs in-process
    try:
        with within(HINT_S):
            return maybe_wrong(options, look(connection, protocol=options.protocol), command)
    except InferometerError:
        return None


def _check_listed(service: Service, name: str) -> None:
    """Check the model's name: some servers accept any name and answer with the model they have."""
    try:
        names = sorted(service.models())
    except PeerError:
        return  # models cannot be listed
    is_known = name in names or any(known.startswith(f"{name}:") for known in names)  # name:latest
    if names and not is_known:
        raise UnknownModelError(f"the server has no model '{name}'", remedy=_others("it", name, names))


def _is_own_word(error: PeerError, protocol: str) -> bool:
    """Return whether a gRPC server, or a proxy in front of it, reported the error; a server without the call is of
    another kind."""
    origin = error.__cause__ if isinstance(error.__cause__, PeerError) else error
    if protocol != "grpc" or isinstance(origin, MissingError):
        return False
    return not origin.remedy or "HTTP status" in origin.message


_TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)


@contextmanager
def _on_one_line() -> Iterator[None]:
    """Put the message on one line, without the markup of a web page."""
    try:
        yield
    except PeerError as error:
        title = _TITLE.search(error.message)
        words = error.message
        if title is not None:
            words = f"{words.partition('<')[0]}a page '{title[1]}'"
            if not error.remedy:
                error.remedy = "check the address: it serves a web page, not a model"
        error.message = re.sub(r"\[Errno -?\d+\] ", "", " ".join(words.split()))
        raise


# --- the classic script


def _classic_describe(service: Service, options: Options, connection: Connection) -> ModelSpec:
    try:
        return service.describe(options.model, options.version, options.bls_composing_models)
    except PeerError as error:
        if _is_own_word(error, options.protocol):
            raise
        hint = maybe_other_kind(options, connection)
        if not hint:
            raise
        raise PeerError(error.message, remedy=hint) from error


def maybe_other_kind(options: Options, connection: Connection) -> str:
    """Return the hint of `maybe_hint` in the classic script's wording."""
    try:
        with within(HINT_S):
            looks = recognize(probe(connection))
    except InferometerError:
        return ""
    if looks.kind not in KINDS or looks.kind == "http":
        return ""
    if (looks.kind, looks.protocol) == (options.service_kind, options.protocol):
        return ""
    return f"{connection.endpoint.authority} looks like {looks.title}: measure it with {looks.words}"


def with_shapes(options: Options, model: ModelSpec, *, is_found: bool) -> Options:
    """Set open dimensions to 1 for users who gave only an address and cannot know them."""
    if not is_found or options.data.sources != ("random",) or options.data.files:
        return options
    ones = {
        spec.name: tuple(1 if dim < 0 else dim for dim in spec.shape)
        for spec in model.inputs
        if spec.is_dynamic
    }
    return replace(options, data=replace(options.data, shapes={**ones, **options.data.shapes}))
