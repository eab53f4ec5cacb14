"""HTTP/1.1 connections of one worker: one per slot, kept alive, opened when first needed."""

import errno
import os
import select
import socket
import ssl
from collections.abc import Callable

from inferometer.base.clock import Clock
from inferometer.base.errors import PeerError
from inferometer.load.engine import Finish, Request
from inferometer.load.reactor import READ, WRITE, EpollReactor
from inferometer.records import status as outcome
from inferometer.target.endpoint import Endpoint, tls_context
from inferometer.wire.http1 import ReplyDecoder

BUFFER = 256 * 1024

CLOSED, CONNECTING, HANDSHAKE, OPEN = range(4)

Explain = Callable[[int, str], None]


class Http1Link:
    """Slot n owns connection n."""

    def __init__(
        self, *, endpoint: Endpoint, reactor: EpollReactor, clock: Clock, finish: Finish, explain: Explain
    ) -> None:
        self.reconnects = 0
        self.connects = 0
        self.connect_ns = 0
        self.endpoint = endpoint
        self.reactor = reactor
        self.clock = clock
        self.finish = finish
        self.explain = explain
        self.buffer = bytearray(BUFFER)
        self.addresses = resolve(endpoint)
        self.context = None if endpoint.tls is None else tls_context(endpoint.tls)
        self._connections: list[_Connection] = []

    def send(self, slot: int, request: Request, now_ns: int) -> None:
        connections = self._connections
        while slot >= len(connections):
            connections.append(_Connection(self, len(connections)))
        connections[slot].send(request, now_ns)

    def cancel(self, slot: int, status: int, text: str) -> None:
        self._connections[slot].fail(status, text)

    def close(self, slot: int) -> None:
        if slot < len(self._connections):
            self._connections[slot].close()

    @property
    def opening(self) -> int:
        return sum(connection.is_opening for connection in self._connections)


def resolve(endpoint: Endpoint) -> list[tuple[int, tuple[object, ...]]]:
    """The addresses to try, in order."""
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise PeerError(
            f"the host '{endpoint.host}' is not known: {error}", remedy="check the name given with -u"
        ) from error
    return [(row[0], row[4]) for row in found]


class _Connection:
    """One socket and the request on it."""

    __slots__ = (
        "_address",
        "_decoder",
        "_fd",
        "_first_ns",
        "_link",
        "_opened_ns",
        "_recv_into",
        "_replies",
        "_request",
        "_sent_ns",
        "_slot",
        "_socket",
        "_state",
        "_unsent",
        "_wrote_ns",
    )

    _decoder: ReplyDecoder
    _recv_into: Callable[[bytearray], int]
    _socket: socket.socket

    def __init__(self, link: Http1Link, slot: int) -> None:
        self._link = link
        self._slot = slot
        self._state = CLOSED
        self._request: Request | None = None
        self._address = 0
        self._fd = -1
        self._replies = 0  # on this socket
        self._sent_ns = self._wrote_ns = self._first_ns = self._opened_ns = 0
        self._unsent: memoryview | None = None

    @property
    def is_opening(self) -> bool:
        return self._state in (CONNECTING, HANDSHAKE)

    # --- sending

    def send(self, request: Request, now_ns: int) -> None:
        self._request = request
        self._wrote_ns = self._first_ns = 0
        if self._state != OPEN:
            self._sent_ns = 0  # connection set-up is no part of the service time
            self._address = 0
            self._open()
            return
        self._sent_ns = now_ns
        self._transmit(request)

    def _transmit(self, request: Request) -> None:
        try:
            sent = self._socket.send(request)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        except OSError as error:
            self._lost(error)
            return
        if sent == len(request):
            self._wrote_ns = self._link.clock()
        else:
            self._unsent = memoryview(request)[sent:]
            self._link.reactor.change(self._fd, READ | WRITE)

    def _transmit_rest(self) -> None:
        unsent = self._unsent
        assert unsent is not None
        try:
            sent = self._socket.send(unsent)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        except OSError as error:
            self._lost(error)
            return
        if sent < len(unsent):
            self._unsent = unsent[sent:]
            return
        self._unsent = None
        self._wrote_ns = self._link.clock()
        self._link.reactor.change(self._fd, READ)

    # --- receiving

    def _ready(self, mask: int) -> None:
        if self._state != OPEN:
            self._advance(mask)
            return
        if self._unsent is not None and mask & WRITE:
            self._transmit_rest()
            if self._state != OPEN:
                return
        if mask & ~WRITE:
            self._receive()

    def _receive(self) -> None:
        link = self._link
        try:
            length = self._recv_into(link.buffer)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self._lost(error)
            return
        now = link.clock()
        if length == 0:
            self._ended(now)
            return
        if self._request is None:
            self.close()  # a reply to nothing, such as 408 before an idle close: the next request opens anew
            return
        if not self._first_ns:
            self._first_ns = now
        try:
            complete = self._decoder.receive(link.buffer, length)
        except PeerError as error:
            self.fail(outcome.MALFORMED, str(error))
            return
        if complete:
            self._complete(now)
        elif link.context is not None and self._socket.pending():  # type: ignore[attr-defined]
            self._receive()

    def _complete(self, now_ns: int) -> None:
        decoder = self._decoder
        head = decoder.head
        assert head is not None
        received = decoder.received
        status = outcome.OK
        if not 200 <= head.status < 300:
            status = outcome.HTTP + head.status
            self._link.explain(status, bytes(decoder.body).decode("utf-8", "replace") or head.reason)
        decoder.next()
        self._replies += 1
        self._request = None
        if not head.reusable or not decoder.idle or self._unsent is not None:
            self.close()
        self._link.finish(self._slot, status, self._sent_ns, self._wrote_ns, self._first_ns, now_ns, received)

    # --- endings

    def _ended(self, now_ns: int) -> None:
        """The peer closed its side."""
        if self._request is None:
            self.close()
            return
        try:
            complete = self._decoder.eof()
        except PeerError as error:
            self.fail(outcome.RESET, str(error))
            return
        if complete:
            self._complete(now_ns)
        else:
            self._lost(ConnectionResetError("the server closed the connection before it answered"))

    def _lost(self, error: OSError) -> None:
        """The connection broke. A kept-alive one that the server had closed meanwhile is opened again, once."""
        if self._replies and self._request is not None and self._decoder.idle:
            self.close()
            self._link.reconnects += 1
            self._address = 0
            self._open()
            return
        self.fail(outcome.TLS if isinstance(error, ssl.SSLError) else outcome.RESET, str(error))

    def fail(self, status: int, text: str) -> None:
        """End the request badly and drop the socket: what is still to come on it belongs to no one."""
        received = self._decoder.received if self._state == OPEN else 0
        self.close()
        if self._request is None:
            return
        self._request = None
        link = self._link
        link.explain(status, text)
        link.finish(self._slot, status, self._sent_ns, self._wrote_ns, self._first_ns, link.clock(), received)

    def close(self) -> None:
        if self._state == CLOSED:
            return
        self._state = CLOSED
        self._unsent = None
        self._link.reactor.remove(self._fd)
        self._socket.close()

    # --- opening

    def _open(self) -> None:
        link = self._link
        self._opened_ns = link.clock()
        family, address = link.addresses[self._address]
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self.fail(outcome.CONNECT, f"no socket could be made: {error.strerror}")
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._use(sock)
        self._state = CONNECTING
        link.reactor.add(self._fd, WRITE, self._ready)
        code = sock.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            self._refused(code)

    def _use(self, sock: socket.socket) -> None:
        self._socket = sock
        self._fd = sock.fileno()
        self._recv_into = sock.recv_into

    def _advance(self, mask: int) -> None:
        if self._state == CONNECTING:
            if not mask & (WRITE | select.EPOLLERR | select.EPOLLHUP):
                return
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._refused(code)
                return
            if self._link.context is None:
                self._opened()
                return
            self._start_tls(self._link.context)
        self._shake_hands()

    def _start_tls(self, context: ssl.SSLContext) -> None:
        plain = self._socket
        self._link.reactor.remove(self._fd)
        self._use(
            context.wrap_socket(
                plain, do_handshake_on_connect=False, server_hostname=self._link.endpoint.host
            )
        )
        self._state = HANDSHAKE
        self._link.reactor.add(self._fd, READ | WRITE, self._ready)

    def _shake_hands(self) -> None:
        try:
            self._socket.do_handshake()  # type: ignore[attr-defined]
        except ssl.SSLWantReadError:
            self._link.reactor.change(self._fd, READ)
        except ssl.SSLWantWriteError:
            self._link.reactor.change(self._fd, WRITE)
        except OSError as error:
            self.fail(outcome.TLS, f"the TLS handshake failed: {error}")
        else:
            self._opened()

    def _opened(self) -> None:
        link = self._link
        now = link.clock()
        link.connects += 1
        link.connect_ns += now - self._opened_ns
        link.reactor.change(self._fd, READ)
        self._state = OPEN
        self._replies = 0
        self._decoder = ReplyDecoder()
        request = self._request
        if request is not None:
            if not self._sent_ns:
                self._sent_ns = link.clock()
            self._transmit(request)

    def _refused(self, code: int) -> None:
        self.close()
        if self._address + 1 < len(self._link.addresses):
            self._address += 1
            self._open()
            return
        self.fail(
            outcome.CONNECT, f"connection to {self._link.endpoint.authority} failed: {os.strerror(code)}"
        )
