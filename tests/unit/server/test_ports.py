"""Choice of the three ports."""

import os
import socket

import pytest

from inferometer.base.errors import UsageError
from inferometer.server.ports import Ports, choose_ports, listeners, listens_on


def test_picked_ports_are_free_and_differ():
    ports = choose_ports(Ports())
    assert len(set(ports)) == 3
    assert all(ports)


def test_given_ports_are_kept():
    free = choose_ports(Ports())
    assert choose_ports(Ports(grpc=free.grpc)).grpc == free.grpc
    assert choose_ports(free) == free


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Ports(http=70000), "HTTP port is 70000"),
        (Ports(metrics=-1), "metrics port is -1"),
        (Ports(http=8000, metrics=8000), "metrics port and the HTTP port are both 8000"),
    ],
)
def test_impossible_ports_are_refused(wish: Ports, words: str):
    with pytest.raises(UsageError, match=words):
        choose_ports(wish)


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"HTTP port {port} .*is used"):
            choose_ports(Ports(http=port))


def test_a_listener_is_distinguished_from_another_process():
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        assert listens_on(os.getpid(), [port])
        assert not listens_on(os.getppid(), [port])
    assert not listens_on(os.getpid(), [port])


# --- processes that listen on a port, on a fake /proc

TCP = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


class Processes:
    def __init__(self, folder):
        self.folder = folder

    def add(self, pid, *, words=("server",), listens=(), sees=(), addresses=()):
        """Add a process that listens on ports, in a network where others listen too."""
        place = self.folder / str(pid)
        (place / "net").mkdir(parents=True)
        (place / "fd").mkdir()
        (place / "cmdline").write_text("\0".join(words) + "\0")
        rows = [
            f"   0: 0100007F:{port:04X} 00000000:0000 0A 0:0 0:0 0 1000 0 {port + 70000}\n"
            for port in (*listens, *sees)
        ]
        (place / "net" / "tcp").write_text(TCP + "".join(rows))
        trie = "".join(f"        |-- {address}\n           /32 host LOCAL\n" for address in addresses)
        (place / "net" / "fib_trie").write_text(f"Local:\n{trie}  |-- 172.17.0.0\n     /16 link UNICAST\n")
        for number, port in enumerate(listens):
            (place / "fd" / str(number)).symlink_to(f"socket:[{port + 70000}]")


def test_all_processes_with_the_socket_are_found(tmp_path):
    machine = Processes(tmp_path)
    machine.add(1, sees=(8000,))
    machine.add(30, listens=(8000, 8001))
    machine.add(31, listens=(8000,))
    machine.add(40, listens=(9000,), sees=(8000,))
    (tmp_path / "self").mkdir()
    assert listeners(8000, tmp_path) == (30, 31)
    assert listeners(7000, tmp_path) == ()


def test_a_port_forwarded_to_a_container_has_its_processes(tmp_path):
    machine = Processes(tmp_path)
    forward = ("-proto", "tcp", "-host-ip", "0.0.0.0", "-host-port", "8000", "-container-ip", "172.17.0.2")
    machine.add(
        5,
        words=("/usr/bin/docker-proxy", *forward, "-container-port", "80"),
        listens=(8000,),
        addresses=("172.17.0.1",),
    )
    machine.add(6, words=("bash",), addresses=("172.17.0.1",))
    machine.add(70, listens=(80,), addresses=("127.0.0.1", "172.17.0.2"))
    machine.add(71, addresses=("127.0.0.1", "172.17.0.2"))
    machine.add(80, listens=(80,), addresses=("127.0.0.1", "172.17.0.22"))
    assert listeners(8000, tmp_path) == (70, 71)


def test_this_process_is_found_for_its_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert listeners(server.getsockname()[1]) == (os.getpid(),)


def test_the_connections_of_a_network_are_read_once(tmp_path):
    machine = Processes(tmp_path)
    for pid in (1, 2):
        machine.add(pid, listens=(8000,))
        (tmp_path / str(pid) / "ns").mkdir()
        (tmp_path / str(pid) / "ns" / "net").symlink_to("net:[4026531840]")
    (tmp_path / "2" / "net" / "tcp").unlink()  # same content
    assert listeners(8000, tmp_path) == (1, 2)
