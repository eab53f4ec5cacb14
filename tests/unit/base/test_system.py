"""Substitutes for the calls of Linux, with those calls taken away."""

import os
import resource
import time
from pathlib import Path

import pytest

from inferometer.base import processes, system
from inferometer.base.system import most_open_files, readable_once, sysctl, unnamed_file, usable_cores
from inferometer.observe import host
from inferometer.server.ports import free_ports, listeners, listens_on


@pytest.fixture(params=["Linux", "elsewhere"])
def calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with the calls of Linux, and without them."""
    if request.param == "elsewhere":
        monkeypatch.delattr(os, "memfd_create")
        monkeypatch.delattr(os, "sched_getaffinity")
        for module in (system, processes, host):
            monkeypatch.setattr(module, "has_proc", lambda: False)
        monkeypatch.setattr("inferometer.server.ports.has_proc", lambda: False)
    return str(request.param)


def test_an_unnamed_file_can_be_written_and_read(calls: str) -> None:
    fd = unnamed_file("test")
    os.write(fd, b"abc")
    assert os.pread(fd, 10, 0) == b"abc"
    assert os.fstat(fd).st_nlink == 0
    os.close(fd)


def test_a_secret_is_readable_once(calls: str) -> None:
    with readable_once("secret", b"key") as path:
        assert Path(path).read_bytes() == b"key"
        assert os.stat(path).st_mode & 0o077 == 0 or path.startswith("/proc")
    assert not Path(path).exists()


def test_processes_are_found(calls: str) -> None:
    own = processes.maybe_process(os.getpid())
    assert own is not None
    assert own.parent == os.getppid()
    assert own.is_running
    assert own.core_s > 0
    assert 0 < time.time() - own.started_s < 24 * 3600
    assert processes.maybe_process(2**22 + 5) is None
    assert processes.command_line(os.getpid())
    assert processes.open_files(os.getpid()) > 2
    assert os.getpid() in processes.family([os.getppid()])
    assert usable_cores()


def test_the_host_is_described(calls: str) -> None:
    found = host.describe_host()
    assert found["memory_bytes"] > 1 << 20
    assert found["processor"]
    sample = host.HostMeter().read()
    assert 0 < sample.busy_s < sample.total_s
    assert sample.memory_used_bytes > 0


def test_unknown_figures_are_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "has_proc", lambda: False)
    monkeypatch.setenv("PATH", "")
    assert host.describe_host()["ports"] is None


def test_settings_of_macos_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "sysctl"
    script.write_text(
        "#!/bin/sh\ncase $2 in\n*.first) echo 49152;;\n*.last) echo 65535;;\n"
        "machdep.cpu.brand_string) echo 'Apple M3';;\n*) exit 1;;\nesac\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "has_proc", lambda: False)
    assert host.processor() == "Apple M3"
    assert host.local_ports() == range(49152, 65536)
    assert sysctl("kern.unknown") == ""


def test_listeners_are_found(calls: str) -> None:
    import socket

    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        assert os.getpid() in listeners(port)
        assert listens_on(os.getpid(), [port])
    assert not listens_on(os.getpid(), [port])


def test_an_unlimited_number_of_files_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, resource.RLIM_INFINITY))
    assert most_open_files() == 10240
