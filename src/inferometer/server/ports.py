"""The three ports of a server: given ports are checked, the others are chosen."""

import errno
import itertools
import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from inferometer.base.errors import UsageError
from inferometer.base.processes import all_pids
from inferometer.base.system import has_proc

LOOPBACK = "127.0.0.1"
PROC = Path("/proc")
_LISTENING = "0A"
_FORWARDER = "docker-proxy"


class Ports(NamedTuple):
    """Port numbers by service; as a request, 0 means any free one."""

    http: int = 0
    grpc: int = 0
    metrics: int = 0

    def named(self) -> tuple[tuple[str, int], ...]:
        return (("HTTP", self.http), ("gRPC", self.grpc), ("metrics", self.metrics))


def choose_ports(requested: Ports) -> Ports:
    """Replace each 0 by a free port; raise UsageError if a given port is in use."""
    _check_numbers(requested)
    given_first = sorted(requested.named(), key=lambda pair: pair[1] == 0)
    with ExitStack() as held:  # all three at once, so that they differ
        taken = {
            service: held.enter_context(_bind(port, service)).getsockname()[1]
            for service, port in given_first
        }
    return Ports(*(taken[service] for service, _ in requested.named()))


def free_ports(count: int) -> tuple[int, ...]:
    """Return different ports that are free now."""
    with ExitStack() as held:
        return tuple(held.enter_context(_bind(0, "")).getsockname()[1] for _ in range(count))


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port now."""
    try:
        _bind(port, "").close()
    except UsageError:
        return False
    return True


def port_in_use(service: str, port: int) -> UsageError:
    """Return the error for a given port that another process uses."""
    return UsageError(
        f"the {service} port {port} on {LOOPBACK} is used by another process",
        remedy="stop that process, give another port, or leave out the port to use a free one",
    )


def listens_on(pid: int, ports: Iterable[int], proc: Path = PROC) -> bool:
    """Return whether this process, and not another one, listens on all these ports."""
    if proc == PROC and not has_proc():
        return set(ports) <= _listening_of(pid)
    sockets = {link for link in _open_files(pid, proc) if link.startswith("socket:")}
    if not sockets:  # the table of all connections is long on a busy machine
        return False
    return set(ports) <= {port for link, port in _listening(pid, proc) if link in sockets}


def listeners(port: int, proc: Path = PROC) -> tuple[int, ...]:
    """Return the visible processes that listen on a port of this machine, or in the container that it leads to."""
    if proc == PROC and not has_proc():
        return tuple(pid for pid in sorted(all_pids()) if port in _listening_of(pid))
    pids = sorted(int(name) for name in os.listdir(proc) if name.isdigit())
    inside = next(filter(None, (_maybe_container(pid, port, proc) for pid in pids)), None)
    tables: dict[str, frozenset[str]] = {}  # sockets that listen on the port, by network namespace
    found = []
    for pid in pids:
        try:
            if _holds(pid, port, tables, proc) if inside is None else _has_address(pid, inside, proc):
                found.append(pid)
        except OSError:  # owned by another user, or just exited
            continue
    return tuple(found)


def _holds(pid: int, port: int, tables: dict[str, frozenset[str]], proc: Path) -> bool:
    """Return whether the process listens on the port; the long connection table is read once per network namespace."""
    try:
        network = os.readlink(f"{proc}/{pid}/ns/net")
    except FileNotFoundError:
        network = str(pid)
    if network not in tables:
        tables[network] = frozenset(held for held, at in _listening(pid, proc) if at == port)
    return bool(tables[network]) and not tables[network].isdisjoint(_open_files(pid, proc))


def _maybe_container(pid: int, port: int, proc: Path) -> str | None:
    """Return the address of the container, if this process forwards the port to it."""
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as file:
            line = file.read()
    except OSError:
        return None
    if _FORWARDER.encode() not in line:
        return None
    words = line.decode("utf-8", "replace").split("\0")
    given = dict(itertools.pairwise(words))
    is_ours = words[0].rpartition("/")[2] == _FORWARDER and given.get("-host-port") == str(port)
    return given.get("-container-ip") if is_ours else None


def _has_address(pid: int, address: str, proc: Path) -> bool:
    """Return whether this is a local address in the network namespace of the process."""
    table = (proc / str(pid) / "net" / "fib_trie").read_text()
    return re.search(rf"\|-- {re.escape(address)}\n +/32 host LOCAL", table) is not None


def _check_numbers(requested: Ports) -> None:
    seen: dict[int, str] = {}
    for service, port in requested.named():
        if not 0 <= port <= 65535:
            raise UsageError(
                f"the {service} port is {port}, but a port must be from 1 to 65535",
                remedy="give such a port, or 0 to use a free one",
            )
        if port and port in seen:
            raise UsageError(
                f"the {service} port and the {seen[port]} port are both {port}, but must differ",
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
            remedy="give a port above 1023, or leave it out to use a free one",
        ) from None
    return sock


def _listening(pid: int, proc: Path) -> Iterator[tuple[str, int]]:
    for family in ("tcp", "tcp6"):  # gRPC listens on 127.0.0.1 with an IPv6 socket
        table = proc / str(pid) / "net" / family
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            if f" {_LISTENING} " in line:
                fields = line.split()
                yield f"socket:[{fields[9]}]", int(fields[1].rpartition(":")[2], 16)


def _listening_of(pid: int) -> frozenset[int]:
    """Return the ports that a process listens on, without /proc; none if its connections are hidden from this user."""
    import psutil

    try:
        process = psutil.Process(pid)
        read = process.net_connections if hasattr(process, "net_connections") else process.connections
        return frozenset(row.laddr.port for row in read("tcp") if row.status == psutil.CONN_LISTEN)
    except psutil.Error:
        return frozenset()


def _open_files(pid: int, proc: Path) -> Iterator[str]:
    folder = f"{proc}/{pid}/fd"
    for name in os.listdir(folder):
        try:
            yield os.readlink(f"{folder}/{name}")
        except OSError:  # closed since it was listed
            continue
