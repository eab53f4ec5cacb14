"""The life of a connection's socket, the same for HTTP/1.1 and gRPC.

                          an address after the other, then the TLS handshake
    prepare() ---> ConnectAttempt ----------------> _refused(status, text)
                         |                             none of them worked
                         v
    _began()      the socket is open; the reactor calls _ready()
                         |
                         |   the socket takes only a part: the rest waits in `_unsent`, and the reactor
                         |   calls again when the socket takes more (_send_later, _transmit)
                         |   bytes arrive: _take(length, now); a length of 0 says that the peer closed its side
                         v
    _lost(error)  the peer has reset the connection, or TLS broke; what that means is the protocol's to say
    close()       the socket is gone; prepare() opens another one

The time it takes to open a connection is never part of a latency. Time-outs are the engine's: it cancels the request,
and the link closes the connection or gives up the stream.
"""

import errno
import os
import select
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from inferometer.base import status as outcome
from inferometer.base.clock import Clock
from inferometer.base.errors import PeerError
from inferometer.load.engine import Explain, Finish, NextStep
from inferometer.load.reactor import READ, WRITE, EpollReactor
from inferometer.load.replies import Replies
from inferometer.load.send_cost import SendCost
from inferometer.services.endpoint import Endpoint, tls_context
from inferometer.services.traffic import Wiring
from inferometer.wire.frames import Buffer

BUFFER = 256 * 1024  # bytes that are received at once
MANY = 512  # buffers in one system call at the most

# What a non-blocking socket says when it can go on only later.
LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

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
        """Close what is half open; neither callback is called."""
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


class SocketLink:
    """What links over sockets have in common: where they report to, what they count, how their connections open."""

    def __init__(
        self,
        *,
        wiring: Wiring,
        replies: Replies | None,
        reactor: EpollReactor,
        clock: Clock,
        finish: Finish,
        next_step: NextStep,
        explain: Explain,
        protocols: tuple[str, ...] = (),
    ) -> None:
        self.reconnects = 0
        self.resent = 0
        self.connects = 0
        self.connect_ns = 0
        self.wiring = wiring
        self.replies = replies
        self.reactor = reactor
        self.clock = clock
        self.finish = finish
        self.next_step = next_step
        self.explain = explain
        self.buffer = bytearray(BUFFER)
        self.cost = SendCost()
        self.connector = make_connector(wiring.endpoint, reactor, clock, protocols=protocols)


class SocketConnection(ABC):
    """A socket and what is half sent on it."""

    __slots__ = (
        "_attempt", "_buffer", "_clock", "_cost", "_fd", "_is_open", "_link", "_pending", "_recv_into", "_send",
        "_socket", "_unsent", "_waits_to_write",
    )  # fmt: skip

    _recv_into: Callable[[bytearray], int]
    _send: Callable[[Buffer], int]
    _socket: socket.socket

    def __init__(self, link: SocketLink) -> None:
        self._link = link
        self._clock = link.clock
        self._buffer = link.buffer
        self._cost = link.cost
        self._attempt: ConnectAttempt | None = None
        self._is_open = False
        self._fd = -1
        self._pending: Callable[[], int] | None = None  # of TLS: bytes that are decrypted and not read
        self._unsent: list[Buffer] = []  # what the socket has not taken yet
        self._waits_to_write = False  # the reactor tells when it takes more

    # --- what the protocol does

    @abstractmethod
    def _began(self) -> None:
        """The connection is open."""

    @abstractmethod
    def _refused(self, status: int, text: str) -> None:
        """It could not be opened."""

    @abstractmethod
    def _ready(self, mask: int) -> None:
        """The reactor's call: the fast path of the protocol, and _ready_generally() for all else."""

    @abstractmethod
    def _writable(self) -> None:
        """The socket takes more."""

    @abstractmethod
    def _take(self, length: int, now_ns: int) -> None:
        """So many bytes have come into the buffer; none mean that the peer has closed its side."""

    @abstractmethod
    def _lost(self, error: OSError) -> None:
        """The connection broke."""

    # --- opening and closing

    @property
    def is_opening(self) -> bool:
        return self._attempt is not None

    def prepare(self) -> None:
        """Open the connection unless that has been done."""
        if not self._is_open and self._attempt is None:
            self._attempt = ConnectAttempt(self._link.connector, self._opened, self._not_opened)
            self._attempt.start()

    def _opened(self, sock: socket.socket, took_ns: int) -> None:
        link = self._link
        link.connects += 1
        link.connect_ns += took_ns
        self._attempt = None
        self._socket = sock
        self._fd = sock.fileno()
        self._recv_into = sock.recv_into
        self._send = sock.send
        self._pending = sock.pending if isinstance(sock, ssl.SSLSocket) else None
        self._is_open = True
        link.reactor.add(self._fd, READ, self._ready)
        self._began()

    def _not_opened(self, status: int, text: str) -> None:
        self._attempt = None
        self._refused(status, text)

    def close(self) -> None:
        if self._attempt is not None:
            self._attempt.give_up()
            self._attempt = None
        if self._is_open:
            self._is_open = self._waits_to_write = False
            self._unsent = []
            self._link.reactor.remove(self._fd)
            self._socket.close()

    # --- sending what the socket did not take at once

    def _send_later(self, data: Buffer, sent: int) -> None:
        """All but the first `sent` bytes of `data`, which must not change."""
        self._unsent = [memoryview(data)[sent:]]
        self._wait_to_write()

    def _wait_to_write(self) -> None:
        if not self._waits_to_write:
            self._waits_to_write = True
            self._link.reactor.change(self._fd, READ | WRITE)

    def _transmit(self) -> bool:
        """Whether all of `_unsent` went out."""
        unsent = self._unsent
        try:
            if len(unsent) == 1:
                sent = self._send(unsent[0])
                if sent == len(unsent[0]):
                    self._unsent = []
                    return True
            elif self._pending is not None:
                sent = self._send(b"".join(unsent[:MANY]))
            else:
                sent = self._socket.sendmsg(unsent[:MANY])
        except LATER:
            sent = 0
        except OSError as error:
            self._lost(error)
            return False
        for index, part in enumerate(unsent):
            if sent < len(part):
                self._unsent = [memoryview(part)[sent:], *unsent[index + 1 :]]
                self._wait_to_write()
                return False
            sent -= len(part)
        self._unsent = []
        return True

    # --- events that no fast path takes

    def _ready_generally(self, mask: int) -> None:
        if mask & WRITE:
            self._writable()
            if self._is_open and self._waits_to_write and not self._unsent:
                self._waits_to_write = False
                self._link.reactor.change(self._fd, READ)
        if mask & ~WRITE and self._is_open:
            self._receive()

    def _receive(self) -> None:
        try:
            length = self._recv_into(self._buffer)
        except LATER:
            return
        except OSError as error:
            self._lost(error)
            return
        self._take(length, self._clock())
        if self._pending is not None:
            self._receive_pending()

    def _receive_pending(self) -> None:
        """Over TLS: bytes that are decrypted already, which epoll does not report."""
        assert self._pending is not None
        if self._is_open and self._pending():
            self._receive()


def loss_status(error: OSError) -> int:
    """What a request failed of when its connection broke like this."""
    return outcome.TLS if isinstance(error, ssl.SSLError) else outcome.RESET
