"""Listeners that are not model servers: each treats connections in one way."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Self

Meeting = Callable[[socket.socket], None]
"""What happens to a connection; it is closed after that."""

PIECE = 65536


class Listener:
    """A listener on loopback. Use as a context manager."""

    def __init__(self, meeting: Meeting) -> None:
        self._meeting = meeting
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)

    def _start(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                connection = self._listener.accept()[0]
                self._open.add(connection)
                self._start(lambda met=connection: self._meet(met))  # type: ignore[misc]

    def _meet(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            self._meeting(connection)
        self._open.discard(connection)


def mute(connection: socket.socket) -> None:
    """Read, but never answer."""
    while connection.recv(PIECE):
        pass


def closing(connection: socket.socket) -> None:
    """Close before reading anything."""


def hanging_up(connection: socket.socket) -> None:
    """Close after reading something."""
    connection.recv(PIECE)


def resetting(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def greeting(text: bytes) -> Meeting:
    """Send a greeting first, like SSH, SMTP and MySQL."""

    def meet(connection: socket.socket) -> None:
        connection.sendall(text)
        mute(connection)

    return meet


def answering(text: bytes) -> Meeting:
    """Send the same answer to any request."""

    def meet(connection: socket.socket) -> None:
        connection.recv(PIECE)
        connection.sendall(text)

    return meet


def tls_or(plain: Meeting, context: ssl.SSLContext) -> Meeting:
    """Shake hands with TLS clients, and answer others in plain text, like a proxy."""

    def meet(connection: socket.socket) -> None:
        if connection.recv(1, socket.MSG_PEEK) != b"\x16":
            plain(connection)
            return
        with context.wrap_socket(connection, server_side=True) as secured:
            mute(secured)

    return meet
