"""Life cycle of a connection's socket, common to HTTP/1.1 and gRPC.

                          one address after the other, then the TLS handshake
    prepare() ---------> is_opening --------------> _refused(status, text)
                         |                             none of them worked
                         v
    _began()      the socket is open; the reactor calls _ready()
                         |
                         |   the socket accepts only a part: the rest waits in `_unsent`, and the reactor
                         |   calls again when the socket accepts more (_send_later, _transmit)
                         |   bytes arrive: _take(length, now); a length of 0 means that the peer closed its side
                         v
    _lost(error)  the peer has reset the connection, or TLS broke; the protocol decides what follows
    close()       the socket is gone; prepare() opens another one

The time it takes to open a connection is never part of a latency. The engine handles time-outs: it cancels the request,
and the link closes the connection or resets the stream.
"""

import errno
import os
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from inferometer.base import status as outcome
from inferometer.base.errors import PeerError
from inferometer.load.link import Callbacks, LinkBase, LinkSetup
from inferometer.load.reactor import FAILED, READ, WRITE
from inferometer.records.path import MOST_OPENINGS, Opening
from inferometer.wire.frames import Buffer

if TYPE_CHECKING:
    import ssl

    from inferometer.options.options import Tls

BUFFER = 256 * 1024  # bytes received at once,
# For streams of tiny pieces: reading thousands at once would delay answers to the controller.
SMALL_BUFFER = 8 * 1024
MANY = 512  # buffers per system call at most
_TCP_INFO = getattr(socket, "TCP_INFO", None)  # Linux only
_RTT_END = 72  # size of struct tcp_info up to tcpi_rtt, its last field here


class SocketErrors(NamedTuple):
    """Meaning of the errors of a non-blocking socket."""

    later: tuple[type[OSError], ...] = (BlockingIOError,)  # try again later
    # The peer had closed its side cleanly before the write; without a clean close Linux reports ECONNRESET.
    closed: tuple[type[OSError], ...] = (BrokenPipeError,)
    tls: tuple[type[OSError], ...] = ()


class SocketLink(LinkBase):
    """A link over sockets: it resolves the host once and sets up TLS once."""

    def __init__(self, setup: LinkSetup, callbacks: Callbacks, *, protocols: tuple[str, ...] = ()) -> None:
        """`protocols` are offered in the TLS handshake."""
        super().__init__(setup, callbacks)
        has_events = setup.wiring.reader is not None or setup.wiring.is_streaming
        self.small_buffer = bytearray(SMALL_BUFFER)
        self.buffer = self.small_buffer if has_events else bytearray(BUFFER)
        self.endpoint = endpoint = setup.wiring.endpoint
        begun_ns = self.clock()
        try:
            found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        except OSError as error:
            from inferometer.options.names import option_name

            raise PeerError(
                f"cannot resolve the host '{endpoint.host}': {error}",
                remedy=f"check the host name given with {option_name('-u')}",
            ) from error
        self.resolve_ns = self.clock() - begun_ns
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
        """Return the failure status of a request whose connection broke with this error."""
        return outcome.TLS if isinstance(error, self.errors.tls) else outcome.RESET

    def note_first(self, sent_ns: int, opening: Opening) -> None:
        """Note the first request on a connection."""
        if len(self.firsts) < MOST_OPENINGS:
            self.firsts.append((sent_ns, opening))


def handshake_rtt_us(sock: socket.socket) -> int:
    """Return the kernel's round-trip time of a connection that has just been opened; 0 if it is unknown.

    Later readings would include the server's work: acknowledgements wait for the reply.
    """
    if _TCP_INFO is None:
        return 0
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _RTT_END)
    except OSError:
        return 0
    return int(struct.unpack_from("=I", info, _RTT_END - 4)[0]) if len(info) == _RTT_END else 0


class SocketConnection(ABC):
    """A socket and the data still to be sent on it."""

    __slots__ = (
        "_address", "_buffer", "_clock", "_connected_ns", "_cost", "_dialed_ns", "_fd", "_is_open", "_link", "_opening",
        "_pending", "_recv_into", "_rtt_us", "_secure", "_send", "_socket", "_started_ns", "_unsent", "_waits_to_write",
        "is_opening",
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
        self._started_ns = 0  # when the attempt to open it began,
        self._address = 0  # and the address it tries
        self._dialed_ns = self._connected_ns = self._rtt_us = 0  # of that address
        self._opening = Opening(0, 0, 0)
        self._fd = -1
        self._secure: ssl.SSLSocket | None = None  # the same socket if it uses TLS
        self._pending: Callable[[], int] | None = None  # TLS: number of decrypted bytes not yet read
        self._unsent: list[Buffer] = []  # data that the socket has not accepted yet
        self._waits_to_write = False  # the reactor reports when it accepts more

    # --- implemented by the protocol

    @abstractmethod
    def _began(self) -> None:
        """Start using the connection, which is now open."""

    @abstractmethod
    def _refused(self, status: int, text: str) -> None:
        """Handle a connection that could not be opened."""

    @abstractmethod
    def _ready(self, mask: int) -> None:
        """Handle an event of the reactor: the protocol's fast path, or else _ready_generally()."""

    @abstractmethod
    def _writable(self) -> None:
        """Send more; the socket accepts data again."""

    @abstractmethod
    def _take(self, length: int, now_ns: int) -> None:
        """Handle the received bytes in the buffer; a length of 0 means that the peer has closed its side."""

    @abstractmethod
    def _lost(self, error: OSError) -> None:
        """Handle a broken connection."""

    # --- opening and closing

    def prepare(self) -> None:
        """Open the connection unless it is open or opening."""
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
            self._not_opened(outcome.CONNECT, f"cannot create a socket: {error.strerror}")
            return
        self._fd = self._socket.fileno()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._dialed_ns = self._clock()
        code = self._socket.connect_ex(address)
        self._link.reactor.add(self._fd, WRITE, self._go_on_opening)
        if code not in (0, errno.EINPROGRESS):
            self._connect_next(code)

    def _go_on_opening(self, mask: int) -> None:
        if self._secure is not None:
            self._shake_hands(self._secure)
        elif mask & (WRITE | FAILED):
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._connect_next(code)
                return
            self._connected_ns = self._clock()
            self._rtt_us = handshake_rtt_us(self._socket)
            if self._link.context is None:
                self._opened()
            else:
                self._start_tls(self._link.context)

    def _connect_next(self, code: int) -> None:
        """Try the next address, if there is one."""
        self._drop_socket()
        self._address += 1
        if self._address < len(self._link.addresses):
            self._connect()
        else:
            where = self._link.endpoint.authority
            self._not_opened(outcome.CONNECT, f"cannot connect to {where}: {os.strerror(code)}")

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
        has_tls = self._secure is not None
        opened_ns = self._clock() if has_tls else self._connected_ns
        self._opening = opening = Opening(
            self._dialed_ns, self._connected_ns, opened_ns, self._rtt_us, has_tls
        )
        link.connects += 1
        link.connect_ns += opened_ns - self._started_ns
        if len(link.openings) < MOST_OPENINGS:
            link.openings.append(opening)
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

    # --- sending what the socket did not accept at once

    def _send_later(self, data: Buffer, sent: int) -> None:
        """Queue all but the first `sent` bytes of `data`, which must not change."""
        self._unsent = [memoryview(data)[sent:]]
        self._wait_to_write()

    def _wait_to_write(self) -> None:
        if not self._waits_to_write:
            self._waits_to_write = True
            self._link.reactor.change(self._fd, READ | WRITE)

    def _transmit(self) -> bool:
        """Send `_unsent`; return whether all of it was sent."""
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

    # --- events outside the fast path

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
        """Read bytes that TLS has already decrypted, which the reactor does not report."""
        assert self._pending is not None
        if self._is_open and self._pending():
            self._receive()
