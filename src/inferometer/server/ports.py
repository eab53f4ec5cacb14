"""The three ports of a server: checked when given, picked when not."""

import errno
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from inferometer.base.errors import UsageError

LOOPBACK = "127.0.0.1"
_LISTENING = "0A"


class Ports(NamedTuple):
    """Port numbers by service; as a request, 0 means any free one."""

    http: int = 0
    grpc: int = 0
    metrics: int = 0

    def named(self) -> tuple[tuple[str, int], ...]:
        return (("HTTP", self.http), ("gRPC", self.grpc), ("metrics", self.metrics))


def choose_ports(requested: Ports) -> Ports:
    """These ports with a free one in place of each 0; a given port that is taken is a UsageError."""
    _check_numbers(requested)
    given_first = sorted(requested.named(), key=lambda pair: pair[1] == 0)
    with ExitStack() as held:  # all three at once, so that they differ
        taken = {
            service: held.enter_context(_bind(port, service)).getsockname()[1]
            for service, port in given_first
        }
    return Ports(*(taken[service] for service, _ in requested.named()))


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now."""
    try:
        _bind(port, "").close()
    except UsageError:
        return False
    return True


def port_in_use(service: str, port: int) -> UsageError:
    """The error for a given port that somebody else holds."""
    return UsageError(
        f"the {service} port {port} on {LOOPBACK} is in use by another process",
        remedy="stop that process, give another port, or leave the port out to have a free one picked",
    )


def listens_on(pid: int, ports: Iterable[int]) -> bool:
    """Whether it is this process, and not a stranger, that listens on all these ports."""
    sockets = {link for link in _open_files(pid) if link.startswith("socket:")}
    if not sockets:  # the table of all connections is long on a busy machine
        return False
    return set(ports) <= {port for link, port in _listening(pid) if link in sockets}


def _check_numbers(requested: Ports) -> None:
    seen: dict[int, str] = {}
    for service, port in requested.named():
        if not 0 <= port <= 65535:
            raise UsageError(
                f"the {service} port is {port}, but a port is a number from 1 to 65535",
                remedy="give such a number, or 0 to have a free one picked",
            )
        if port and port in seen:
            raise UsageError(
                f"the {service} port and the {seen[port]} port are both {port}, but each needs its own",
                remedy="give different ports",
            )
        seen[port] = service


def _bind(port: int, service: str) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((LOOPBACK, port))
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise port_in_use(service, port) from None
        raise UsageError(
            f"the {service} port {port} on {LOOPBACK} cannot be opened: {error.strerror}",
            remedy="give a port above 1023, or leave it out to have a free one picked",
        ) from None
    return sock


def _listening(pid: int) -> Iterator[tuple[str, int]]:
    for family in ("tcp", "tcp6"):  # gRPC listens on 127.0.0.1 with a socket of the other family
        table = Path(f"/proc/{pid}/net/{family}")
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if fields[3] == _LISTENING:
                yield f"socket:[{fields[9]}]", int(fields[1].rpartition(":")[2], 16)


def _open_files(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            yield os.readlink(f"{folder}/{name}")
        except OSError:  # closed since it was listed
            continue
