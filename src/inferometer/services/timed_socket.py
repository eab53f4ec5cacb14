"""Sockets of control calls: each step, from name resolution to the last byte, observes the deadline of the whole
call."""

import ipaddress
import os
import queue
import select
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from inferometer.base.deadline import Deadline, DeadlineError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from inferometer.services.endpoint import Endpoint

Address = tuple[int, int, int, Any]  # family, type, protocol, and the argument of connect()


def connect(
    endpoint: "Endpoint", deadline: Deadline, context: "ssl.SSLContext | None" = None
) -> socket.socket:
    """Connect to the first address of the host that accepts, with TLS if a context is given."""
    sock = _connect_any(_resolve(endpoint.host, endpoint.port, deadline), deadline)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # otherwise a call may wait for a delayed ACK
    if context is None:
        return sock
    name = (endpoint.tls.server_name if endpoint.tls is not None else "") or endpoint.host
    try:
        secured = context.wrap_socket(sock, server_hostname=name, do_handshake_on_connect=False)
    except BaseException:
        sock.close()
        raise
    try:
        _repeat(secured, deadline, secured.do_handshake)
    except BaseException:
        secured.close()
        raise
    return secured


def receive_into(sock: socket.socket, buffer: bytearray, deadline: Deadline) -> int:
    """Receive into the buffer and return the number of bytes; 0 means that the peer closed its side."""
    length: int = _repeat(sock, deadline, partial(sock.recv_into, buffer))
    return length


def send_all(sock: socket.socket, data: "bytes | bytearray | memoryview", deadline: Deadline) -> None:
    left = memoryview(data)
    while left:
        left = left[_repeat(sock, deadline, partial(sock.send, left)) :]


def _repeat(sock: socket.socket, deadline: Deadline, step: "Callable[[], Any]") -> Any:
    """Repeat the step with waits short enough to notice a shortened deadline."""
    while True:
        sock.settimeout(deadline.wait_s())
        try:
            return step()
        except TimeoutError as error:
            if error.errno is not None:  # the system timed out
                raise


# --- names and addresses


def _resolve(host: str, port: int, deadline: Deadline) -> list[Address]:
    """Resolve the name on another thread: the system's resolver has no deadline and blocks signals."""
    if _is_literal(host):
        return _looked_up(host, port)
    found: queue.SimpleQueue[list[Address] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found.put(_looked_up(host, port))
        except Exception as error:  # noqa: BLE001 - raised again in the calling thread
            found.put(error)

    threading.Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
    while True:
        try:
            answer = found.get(timeout=deadline.wait_s())
        except queue.Empty:
            continue
        if isinstance(answer, Exception):
            raise answer
        return answer


def _looked_up(host: str, port: int) -> list[Address]:
    rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, kind, protocol, address) for family, kind, protocol, _, address in rows]


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _connect_any(addresses: list[Address], deadline: Deadline) -> socket.socket:
    failures: list[OSError] = []
    for family, kind, protocol, address in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            _connect_one(sock, address, deadline)
            return sock
        except BaseException as error:
            sock.close()
            if isinstance(error, DeadlineError) or not isinstance(error, OSError):
                raise
            failures.append(error)
    raise failures[0] if failures else OSError("the name does not resolve to an address")


def _connect_one(sock: socket.socket, address: Any, deadline: Deadline) -> None:
    sock.setblocking(False)
    try:
        sock.connect(address)
        return
    except BlockingIOError:
        pass
    waiting = select.poll()
    waiting.register(sock, select.POLLOUT)
    while not waiting.poll(max(1, deadline.wait_s() * 1000)):
        pass
    if number := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(number, os.strerror(number))
