"""Choosing the three ports."""

import os
import socket

import pytest

from inferometer.base.errors import UsageError
from inferometer.server.ports import Ports, choose_ports, listens_on


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
def test_an_impossible_wish_is_refused(wish: Ports, words: str):
    with pytest.raises(UsageError, match=words):
        choose_ports(wish)


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"HTTP port {port} .*in use"):
            choose_ports(Ports(http=port))


def test_a_listener_is_told_from_a_stranger():
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        assert listens_on(os.getpid(), [port])
        assert not listens_on(os.getppid(), [port])
    assert not listens_on(os.getpid(), [port])
