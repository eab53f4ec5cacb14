"""The life of a connection's socket, the same for HTTP/1.1 and gRPC.

                          an address after the other, then the TLS handshake
    prepare() ---------> is_opening --------------> _refused(status, text)
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
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError
from inferometer.load.link import Callbacks, LinkBase, LinkSetup
from inferometer.load.reactor import READ, WRITE
from inferometer.wire.frames import Buffer

if TYPE_CHECKING:
    import ssl

    from inferometer.options.options import Tls

BUFFER = 256 * 1024  # bytes that are received at once,
SMALL_BUFFER = (
    8 * 1024
)  # where they may be thousands of tiny pieces: the controller's questions wait behind them
MANY = 512  # buffers in one system call at the most


class SocketErrors(NamedTuple):
    """What the errors of a non-blocking socket mean."""

    later: tuple[type[OSError], ...] = (BlockingIOError,)  # it can go on only later
    # The peer had closed its side in good order before we wrote; Linux calls a reset without that ECONNRESET.
    closed: tuple[type[OSError], ...] = (BrokenPipeError,)
    tls: tuple[type[OSError], ...] = ()


class SocketLink(LinkBase):
    """A link over sockets: the host is looked up once, and TLS is set up once."""

    def __init__(self, setup: LinkSetup, callbacks: Callbacks, *, protocols: tuple[str, ...] = ()) -> None:
        """`protocols` are offered in the TLS handshake."""
        super().__init__(setup, callbacks)
        has_events = setup.wiring.reader is not None or setup.wiring.is_streaming
        self.small_buffer = bytearray(SMALL_BUFFER)
        self.buffer = self.small_buffer if has_events else bytearray(BUFFER)
        self.endpoint = endpoint = setup.wiring.endpoint
        try:
            found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise PeerError(
                f"the host '{endpoint.host}' is not known: {error}", remedy="check the name given with -u"
            ) from error
        self.addresses = [(row[0], row[4]) for row in found]  # to try, in order
        self.context: ssl.SSLContext | None = None
        self.errors = SocketErrors()
        if endpoint.tls is not None:
            self._prepare_tls(endpoint.tls, protocols)

    def _prepare_tls(self, tls: "Tls", protocols: tuple[str, ...]) -> None:
        import ssl

        from inferometer.services.tls import tls_context

        self.context = tls_context(tls)
        if protocols:
            self.context.set_alpn_protocols(list(protocols))
        self.errors = SocketErrors(
            later=(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError),
            closed=(BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError),
            tls=(ssl.SSLError,),
        )

    def loss_status(self, error: OSError) -> int:
        """What a request failed of when its connection broke like this."""
        return outcome.TLS if isinstance(error, self.errors.tls) else outcome.RESET


class SocketConnection(ABC):
    """A socket and what is half sent on it."""

    __slots__ = (
        "_address", "_buffer", "_clock", "_cost", "_fd", "_is_open", "_link", "_pending", "_recv_into", "_secure",
        "_send", "_socket", "_started_ns", "_unsent", "_waits_to_write", "is_opening",
    )  # fmt: skip

    _recv_into: Callable[[bytearray], int]
    _send: Callable[[Buffer], int]
    _socket: socket.socket

    def __init__(self, link: SocketLink) -> None:
        self._link = link
        self._clock = link.clock
        self._buffer = link.buffer
        self._cost = link.cost
        self.is_opening = False
        self._is_open = False
        self._started_ns = 0  # the attempt to open it,
        self._address = 0  # and which address that is trying
        self._fd = -1
        self._secure: ssl.SSLSocket | None = None  # the same socket, where TLS is spoken
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

    def prepare(self) -> None:
        """Open the connection unless that has been done."""
        if not self._is_open and not self.is_opening:
            self.is_opening = True
            self._started_ns = self._clock()
            self._address = 0
            self._connect()

    def _connect(self) -> None:
        self._secure = None
        family, address = self._link.addresses[self._address]
        try:
            self._socket = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self._not_opened(outcome.CONNECT, f"no socket could be made: {error.strerror}")
            return
        self._fd = self._socket.fileno()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = self._socket.connect_ex(address)
        self._link.reactor.add(self._fd, WRITE, self._go_on_opening)
        if code not in (0, errno.EINPROGRESS):
            self._connect_next(code)

    def _go_on_opening(self, mask: int) -> None:
        if self._secure is not None:
            self._shake_hands(self._secure)
        elif mask & (WRITE | select.EPOLLERR | select.EPOLLHUP):
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._connect_next(code)
            elif self._link.context is None:
                self._opened()
            else:
                self._start_tls(self._link.context)

    def _connect_next(self, code: int) -> None:
        """This address does not answer; perhaps the next one does."""
        self._drop_socket()
        self._address += 1
        if self._address < len(self._link.addresses):
            self._connect()
        else:
            where = self._link.endpoint.authority
            self._not_opened(outcome.CONNECT, f"connection to {where} failed: {os.strerror(code)}")

    def _start_tls(self, context: "ssl.SSLContext") -> None:
        reactor, endpoint = self._link.reactor, self._link.endpoint
        reactor.remove(self._fd)
        name = endpoint.host if endpoint.tls is None else endpoint.tls.server_name or endpoint.host
        self._socket = self._secure = secure = context.wrap_socket(
            self._socket, do_handshake_on_connect=False, server_hostname=name
        )
        self._fd = secure.fileno()
        reactor.add(self._fd, READ | WRITE, self._go_on_opening)
        self._shake_hands(secure)

    def _shake_hands(self, secure: "ssl.SSLSocket") -> None:
        import ssl

        try:
            secure.do_handshake()
        except ssl.SSLWantReadError:
            self._link.reactor.change(self._fd, READ)
        except ssl.SSLWantWriteError:
            self._link.reactor.change(self._fd, WRITE)
        except OSError as error:
            self._drop_socket()
            self._not_opened(outcome.TLS, f"the TLS handshake failed: {error}")
        else:
            self._opened()

    def _opened(self) -> None:
        link, sock = self._link, self._socket
        link.connects += 1
        link.connect_ns += self._clock() - self._started_ns
        self._recv_into = sock.recv_into
        self._send = sock.send
        self._pending = None if self._secure is None else self._secure.pending
        self.is_opening, self._is_open = False, True
        link.reactor.remove(self._fd)
        link.reactor.add(self._fd, READ, self._ready)
        self._began()

    def _not_opened(self, status: int, text: str) -> None:
        self.is_opening = False
        self._refused(status, text)

    def close(self) -> None:
        if self._is_open or self.is_opening:
            self._is_open = self.is_opening = self._waits_to_write = False
            self._unsent = []
            self._drop_socket()

    def _drop_socket(self) -> None:
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
        except self._link.errors.later:
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
        except self._link.errors.later:
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
