"""Servers started by a command line: ready checks, failed starts, and nothing left behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from inferometer.base.errors import PeerError, UsageError
from inferometer.server import launcher
from inferometer.server.launcher import LaunchedServer, ServerCommand, StartError, new_log
from inferometer.server.ready import ReadyCheck, parse_ready
from inferometer.server.set_call import SetCall, parse_set_call
from inferometer.tune.trial import Status, Trial
from tests.support import planted_server
from tests.support.leftovers import left, marked

SCRIPT = planted_server.__file__
ENOUGH_S = 60.0


@pytest.fixture
def token() -> Iterator[str]:
    with marked() as found:
        yield found


def wait_until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ENOUGH_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def command(token: str, behaviour: str, **changes) -> ServerCommand:
    words = (sys.executable, SCRIPT, token, behaviour, "{port}")
    return ServerCommand(words, **{"start_s": ENOUGH_S, **changes})


@pytest.mark.parametrize(
    ("behaviour", "limit_s", "said"),
    [
        ("hangs", 0.5, "was not ready within 0.5 s (check: tcp); it logged nothing; see its log {log}"),
        ("exits", ENOUGH_S, "exited with status 1 instead of starting; unknown flag --x; see its log {log}"),
        (
            "late",
            ENOUGH_S,
            "exited with status 4 instead of starting; the weights are damaged; see its log {log}",
        ),
        (
            "silent",
            ENOUGH_S,
            "exited with status 1 instead of starting; it logged nothing; see its log {log}",
        ),
        (
            "killed",
            ENOUGH_S,
            "SIGKILL instead of starting (the kernel does that when the machine is out of memory)",
        ),
        (
            "memory",
            ENOUGH_S,
            "torch.OutOfMemoryError: CUDA out of memory; frame 26; frame 27; frame 28; frame 29",
        ),
        ("dying", ENOUGH_S, "no weights"),  # and leaves a child
    ],
)
def test_a_failed_start_is_named_and_cleaned_up(tmp_path, token, behaviour, limit_s, said):
    server, log = LaunchedServer(command(token, behaviour, start_s=limit_s)), tmp_path / "1.log"
    with pytest.raises(StartError) as caught:
        server.start({}, log)
    assert said.format(log=log) in str(caught.value)
    assert not server.is_running()
    assert left(token) == []


@pytest.mark.parametrize("behaviour", ["good", "stubborn", "child", "daemon", "bare"])
def test_a_stopped_server_leaves_nothing_behind(tmp_path, token, behaviour):
    server = LaunchedServer(command(token, behaviour), grace_s=1.5)
    server.start({}, tmp_path / "1.log")
    assert server.is_running()
    assert len(left(token)) >= (1 if behaviour in ("good", "stubborn") else 2)
    server.stop()
    assert left(token) == []
    assert (tmp_path / "1.log").read_text() == "listening\n"
    # One that ignored SIGTERM gets less time to exit from now on.
    assert server._grace_s == (launcher.STUBBORN_GRACE_S if behaviour == "stubborn" else 1.5)


def test_a_busy_port_is_named(tmp_path, token):
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        words = (sys.executable, SCRIPT, token, "good", str(port))
        server = LaunchedServer(ServerCommand(words, address=f"http://127.0.0.1:{port}", port=port))
        with pytest.raises(StartError, match=f"port {port} of .* is used by another process"):
            server.start({}, tmp_path / "1.log")
    assert left(token) == []


OWNER = """
import sys, time
from pathlib import Path
from inferometer.server.launcher import LaunchedServer, ServerCommand
server = LaunchedServer(ServerCommand(tuple(sys.argv[2:])))
server.start({}, Path(sys.argv[1]))
print("ready", flush=True)
time.sleep(300)
"""


def test_nothing_survives_a_killed_owner(tmp_path, token):
    words = [
        sys.executable,
        "-c",
        OWNER,
        str(tmp_path / "1.log"),
        sys.executable,
        SCRIPT,
        token,
        "child",
        "{port}",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        try:
            assert owner.stdout.readline() == b"ready\n"
            assert len(left(token)) == 4  # the owner, the guard, the server, its child
        finally:
            os.kill(owner.pid, signal.SIGKILL)
    wait_until(lambda: left(token) == [])


# --- values of a running server


def test_values_are_set_without_a_restart(tmp_path, token):
    calls = (SetCall("PUT", "http://127.0.0.1:{port}/slots/{slots}"),)
    words = (sys.executable, SCRIPT, token, "{behaviour}", "{port}")
    server = LaunchedServer(ServerCommand(words, calls=calls, start_s=ENOUGH_S))
    assert server.command.live == {"slots"}
    first, log = {"behaviour": "good", "slots": 2}, tmp_path / "1.log"
    assert not server.can_set(first)
    server.start(first, log)
    pid = server.pid
    assert server.can_set({**first, "slots": 4})
    assert not server.can_set({**first, "behaviour": "cold"})
    server.set({**first, "slots": 4})
    with pytest.raises(PeerError, match=r"PUT http://127\.0\.0\.1:\d+/slots/0 was answered with 400: \{\}"):
        server.set({**first, "slots": 0})
    assert not server.can_set({**first, "slots": 4})  # nobody knows what it has now
    assert server.pid == pid
    server.stop()
    assert log.read_text().splitlines() == ["listening", "/slots/2", "/slots/4", "/slots/0"]
    assert server.command.call_lines({**first, "slots": 4}) == [
        "curl -fsS -X PUT 'http://127.0.0.1:{port}/slots/4'"
    ]


def test_a_server_that_refuses_its_first_values_does_not_start(tmp_path, token):
    call = SetCall("PUT", "http://127.0.0.1:{port}/slots/{slots}", '{{"a": {slots}}}')
    server = LaunchedServer(command(token, "good", calls=(call,)))
    with pytest.raises(PeerError, match="was answered with 400"):
        server.start({"slots": 0}, tmp_path / "1.log")
    assert left(token) == []


@pytest.mark.parametrize(
    "text", ["", "PUT", "put http://a/", "PUT localhost:80/", "PUT https://a/", "FETCH http://a"]
)
def test_a_call_that_is_none_is_rejected(text):
    with pytest.raises(UsageError, match="is not a call"):
        parse_set_call("--serve-set", text)


# --- placeholders

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['A'], open(sys.argv[1]).read()]))"


def test_values_reach_the_command_the_environment_and_files(tmp_path):
    template = tmp_path / "config.in"
    template.write_text('{"slots": {slots}, "other": {untouched}, "port": {port}, "more": {port_more}}')
    server = LaunchedServer(
        ServerCommand(
            (sys.executable, "-c", SHOW, "{config}", "{flags}", "{{x}}", "--share={share}", "{nothing}"),
            environment=(("A", "slots={slots}"),),
            files=(("config", template),),
        )
    )
    log = tmp_path / "1.log"
    with pytest.raises(StartError, match="exited with status 0"):
        server.start({"slots": 4, "flags": "--a 'b c'", "share": 0.1 + 0.2, "nothing": ""}, log)
    arguments, variable, rendered = json.loads(log.read_text())
    assert Path(arguments[0]).name == "config.in"
    assert arguments[1:] == ["--a", "b c", "{x}", "--share=0.3"]
    assert variable == "slots=4"
    found = re.fullmatch(r'{"slots": 4, "other": {untouched}, "port": (\d+), "more": (\d+)}', rendered)
    assert found is not None
    assert found[1] != found[2]
    assert not Path(arguments[0]).exists()  # the folder of a start is removed


def test_the_command_line_for_users_keeps_ports():
    command = ServerCommand(
        ("serve", "--port", "{port}", "-n", "{slots}", "{flag}", "a b"), environment=(("A", "{slots}"),)
    )
    assert command.line({"slots": 4, "flag": ""}) == "A=4 serve --port {port} -n 4 'a b'"


def test_an_unknown_program_is_named():
    with pytest.raises(UsageError, match="'no-such-server' is not an executable program"):
        LaunchedServer(ServerCommand(("no-such-server",)))


def test_logs_are_numbered(tmp_path):
    first = new_log(tmp_path / "logs", "default")
    first.touch()
    assert (first.name, new_log(tmp_path / "logs", "3").name) == ("001-default.log", "002-3.log")


# --- ready checks


@pytest.mark.parametrize("check", ["tcp", "/", "log:listening"])
def test_each_check_sees_a_server_start(tmp_path, token, check):
    server = LaunchedServer(command(token, "good", ready=parse_ready("--ready", check)))
    server.start({}, tmp_path / "1.log")
    server.stop()


@pytest.mark.parametrize("word", ["", "udp", "health", "log:", "/a b"])
def test_an_invalid_check_is_rejected(word):
    with pytest.raises(UsageError, match=f"--ready '{word}' is not a check"):
        parse_ready("--ready", word)


def test_a_readiness_check_is_written_as_it_is_read():
    assert [str(ReadyCheck()), str(ReadyCheck("/health")), str(ReadyCheck(line="up"))] == [
        "tcp",
        "/health",
        "log:up",
    ]


def test_a_start_without_memory_is_recognised():
    reason = "the server exited with status 1 instead of starting; RuntimeError: bad_alloc; see its log x"
    assert Trial(0, (), Status.FAILED, reason).lacks_memory
