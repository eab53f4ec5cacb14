"""Opening a connection: address after address, then the TLS handshake; its time is never part of a latency."""

import errno
import os
import select
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from inferometer.base.clock import Clock
from inferometer.base.errors import PeerError
from inferometer.load.reactor import READ, WRITE, EpollReactor
from inferometer.records import status as outcome
from inferometer.services.endpoint import Endpoint, tls_context

Address = tuple[int, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Connector:
    """What every connection of a worker is opened with."""

    endpoint: Endpoint
    addresses: tuple[Address, ...]  # to try, in order
    context: ssl.SSLContext | None
    reactor: EpollReactor
    clock: Clock


def make_connector(
    endpoint: Endpoint, reactor: EpollReactor, clock: Clock, *, protocols: tuple[str, ...] = ()
) -> Connector:
    """Resolves the host once; `protocols` are offered in the TLS handshake."""
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise PeerError(
            f"the host '{endpoint.host}' is not known: {error}", remedy="check the name given with -u"
        ) from error
    context = None if endpoint.tls is None else tls_context(endpoint.tls)
    if context is not None and protocols:
        context.set_alpn_protocols(list(protocols))
    return Connector(endpoint, tuple((row[0], row[4]) for row in found), context, reactor, clock)


class ConnectAttempt:
    """One attempt to open a connection: after `start`, either `opened(socket, took_ns)` or `refused(status, text)`."""

    __slots__ = ("_address", "_connector", "_opened", "_refused", "_secure", "_socket", "_started_ns")

    _socket: socket.socket

    def __init__(
        self,
        connector: Connector,
        opened: Callable[[socket.socket, int], None],
        refused: Callable[[int, str], None],
    ) -> None:
        self._connector = connector
        self._opened = opened
        self._refused = refused
        self._address = 0
        self._secure: ssl.SSLSocket | None = None
        self._started_ns = 0

    def start(self) -> None:
        self._started_ns = self._connector.clock()
        self._connect()

    def give_up(self) -> None:
        """Close what is half open; nobody is told."""
        self._connector.reactor.remove(self._socket.fileno())
        self._socket.close()

    def _connect(self) -> None:
        family, address = self._connector.addresses[self._address]
        try:
            self._socket = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self._refused(outcome.CONNECT, f"no socket could be made: {error.strerror}")
            return
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = self._socket.connect_ex(address)
        self._connector.reactor.add(self._socket.fileno(), WRITE, self._ready)
        if code not in (0, errno.EINPROGRESS):
            self._next(code)

    def _ready(self, mask: int) -> None:
        if self._secure is not None:
            self._shake_hands(self._secure)
        elif mask & (WRITE | select.EPOLLERR | select.EPOLLHUP):
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._next(code)
            elif self._connector.context is None:
                self._finish()
            else:
                self._start_tls(self._connector.context)

    def _next(self, code: int) -> None:
        """This address does not answer; perhaps the next one does."""
        self.give_up()
        self._address += 1
        if self._address < len(self._connector.addresses):
            self._connect()
        else:
            where = self._connector.endpoint.authority
            self._refused(outcome.CONNECT, f"connection to {where} failed: {os.strerror(code)}")

    def _start_tls(self, context: ssl.SSLContext) -> None:
        self._connector.reactor.remove(self._socket.fileno())
        endpoint = self._connector.endpoint
        name = endpoint.host if endpoint.tls is None else endpoint.tls.server_name or endpoint.host
        self._secure = context.wrap_socket(self._socket, do_handshake_on_connect=False, server_hostname=name)
        self._socket = self._secure
        self._connector.reactor.add(self._socket.fileno(), READ | WRITE, self._ready)
        self._shake_hands(self._secure)

    def _shake_hands(self, secure: ssl.SSLSocket) -> None:
        try:
            secure.do_handshake()
        except ssl.SSLWantReadError:
            self._connector.reactor.change(secure.fileno(), READ)
        except ssl.SSLWantWriteError:
            self._connector.reactor.change(secure.fileno(), WRITE)
        except OSError as error:
            self.give_up()
            self._refused(outcome.TLS, f"the TLS handshake failed: {error}")
        else:
            self._finish()

    def _finish(self) -> None:
        self._connector.reactor.remove(self._socket.fileno())
        self._opened(self._socket, self._connector.clock() - self._started_ns)
