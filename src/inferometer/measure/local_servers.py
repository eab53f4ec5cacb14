"""Inference servers on this machine: listening ports, and those at which a known kind of server answers."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from inferometer.base.deadline import within
from inferometer.base.errors import InferometerError, PeerError
from inferometer.base.frozen import frozen
from inferometer.measure.address import connection_to
from inferometer.measure.checks import changed, load_options
from inferometer.measure.recognize import ManyModelsError, recognized
from inferometer.options.command_line import Target
from inferometer.options.options import AUTO, Options

LOOK_S = 4.0  # to identify one port
ANSWER_S = 1.0  # for one answer of a text server without a list of models
MOST_PORTS = 64
AT_ONCE = 8
TEXT = "openai"
# Ports that servers use by default, where the system does not list the listening ones.
USUAL_PORTS = (3000, 5000, 8000, 8001, 8080, 8081, 8500, 8501, 8888, 9000, 11434, 30000)
_EVERYWHERE = ("127.0.0.1", "0.0.0.0", "::", "::1", "::ffff:127.0.0.1")
_SYSTEM_PORTS = 1024


@frozen
class ListeningPort:
    """A TCP port of this machine; the process is None if it belongs to another user."""

    number: int
    process: int | None = None


@frozen
class FoundServer:
    """A server of a known kind, with one of its models."""

    options: Options
    others: tuple[str, ...] = ()  # its other models
    api: str = ""  # the API of a text server, if `inferometer measure` does not detect it

    @property
    def url(self) -> str:
        return self.options.url or ""


def listening_ports() -> tuple[ListeningPort, ...]:
    """Return the ports above 1023 that other processes of this machine listen on."""
    import psutil

    try:
        rows = psutil.net_connections("tcp")
    except (psutil.Error, OSError):  # macOS lists them for root only
        return tuple(map(ListeningPort, USUAL_PORTS))
    found = {
        row.laddr.port: ListeningPort(row.laddr.port, row.pid)
        for row in rows
        if row.status == psutil.CONN_LISTEN
        and row.laddr
        and row.laddr.ip in _EVERYWHERE
        and row.pid != os.getpid()
    }
    return tuple(found[number] for number in sorted(found) if number >= _SYSTEM_PORTS)


def find_servers(ports: Sequence[ListeningPort]) -> tuple[FoundServer, ...]:
    """Return the servers behind these ports, several at a time; one with two protocols appears once, over HTTP."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = zip(ports, pool.map(_maybe_server, ports[:MOST_PORTS]), strict=False)
        return tuple(_once((port, server) for port, server in found if server is not None))


def _maybe_server(port: ListeningPort) -> FoundServer | None:
    given = {"service_kind": AUTO, "model": ""}
    try:
        with within(LOOK_S):
            asked = load_options(given, Target((f"127.0.0.1:{port.number}",)))
            try:
                options, _ = recognized(asked, "measure")
            except PeerError:  # such as 404 for every question
                return _maybe_text(asked)
            return _maybe_text(asked) if options.service_kind == "http" else _found(options, options.model)
    except ManyModelsError as error:
        first, *others = error.names
        return _found(error.options, first, tuple(others))
    except InferometerError:
        return None  # not a server that we know, or without a model


def _found(options: Options, model: str, others: tuple[str, ...] = ()) -> FoundServer:
    more = {"streaming": True} if options.service_kind == TEXT else {}
    return FoundServer(changed(options, model=model, **more), others)


def _maybe_text(options: Options) -> FoundServer | None:
    """Return the text server that does not list its models where most do."""
    from inferometer.services.text_probe import maybe_text_server

    found = maybe_text_server(connection_to(options), ANSWER_S)
    if found is None:
        return None
    api, model = found
    more = {"streaming": True} if api.can_stream else {}
    options = changed(options, service_kind=TEXT, protocol="http", endpoint=api.name, model=model, **more)
    return FoundServer(options, api=api.name)


def _once(found: Iterable[tuple[ListeningPort, FoundServer]]) -> Iterable[FoundServer]:
    """Drop the gRPC port of a process that also serves the same models over HTTP."""
    rows = sorted(found, key=lambda row: row[1].options.protocol != "http")
    seen: set[tuple[int, str, tuple[str, ...]]] = set()
    for port, server in rows:
        models = (server.options.model, *server.others)
        if port.process is not None:
            key = (port.process, server.options.service_kind, models)
            if key in seen:
                continue
            seen.add(key)
        yield server
