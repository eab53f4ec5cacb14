"""Our own servers: started, observed and stopped, with stand-ins for tritonserver and docker."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inferometer.base.errors import InferometerError, LocalError, UsageError
from inferometer.server.ports import Ports
from inferometer.tune.deployment import open_deployment
from inferometer.tune.settings import LaunchSettings

DEADLINE_S = 60
SERVER = """\
#!{python}
import http.server, json, os, sys
words = sys.argv[1:]
with open({record!r}, "a") as file:
    file.write(json.dumps([os.getpid(), words, os.environ.get("COLOUR")]) + "\\n")
if "--fail" in words:
    print("error: it does not want to", file=sys.stderr)
    sys.exit(3)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *words): pass
port = int(words[words.index("--http-port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""
DOCKER = """\
#!{python}
import json, os, subprocess, sys
words = sys.argv[1:]
with open({record!r}, "a") as file:
    file.write(json.dumps(words) + "\\n")
if words[0] == "version":
    print("27.0")
elif words[0] == "run":
    child = subprocess.Popen([{server!r}, *words[words.index("tritonserver") + 1:]])
    open({pid!r}, "w").write(str(child.pid))
    child.wait()
elif words[0] == "stop":
    os.kill(int(open({pid!r}).read()), 15)
"""


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def server(tmp_path) -> Path:
    text = SERVER.format(python=sys.executable, record=str(tmp_path / "server.jsonl"))
    return script(tmp_path / "triton server", text)  # a path with a space


@pytest.fixture
def repository(tmp_path) -> Path:
    folder = tmp_path / "my models"
    folder.mkdir()
    return folder


def records(path: Path) -> list:
    return [json.loads(line) for line in path.read_text().splitlines()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_so, what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.02)


def test_the_tools_flags_override_the_users_on_an_installed_server(tmp_path, server, repository):
    launch = LaunchSettings(
        repositories=(repository,),
        executable=str(server),
        flags=(("log_verbose", "1"), ("http-port", "1"), ("model-control-mode", "poll")),
        environment={"COLOUR": "blue"},
    )
    with open_deployment(launch) as deployment:
        assert deployment.is_running()
        ((pid, words, colour),) = records(tmp_path / "server.jsonl")
        assert deployment.pid == pid
    assert colour == "blue"
    assert words[:2] == ["--model-repository", str(repository)]
    assert words[words.index("--log-verbose") + 1] == "1"
    assert words[words.index("--model-control-mode") + 1] == "explicit"
    assert words.count("--http-port") == 1
    assert not is_alive(pid)


def test_a_server_that_exited_is_restarted(tmp_path, server, repository):
    with open_deployment(LaunchSettings(repositories=(repository,), executable=str(server))) as deployment:
        os.kill(deployment.pid, signal.SIGKILL)
        wait_until(lambda: not deployment.is_running(), "the killed server has ended")
        assert deployment.revive()
        assert deployment.is_running()
        assert not deployment.revive()
    assert len(records(tmp_path / "server.jsonl")) == 2


def test_a_server_that_cannot_start_is_reported_with_the_reason(server, repository):
    launch = LaunchSettings(
        repositories=(repository,), executable=str(server), flags=(("fail", ""),), timeout_s=20
    )
    with pytest.raises(LocalError, match="it does not want to"), open_deployment(launch):
        pass


def test_a_server_never_outlives_a_killed_tool(tmp_path, server, repository):
    program = f"""
import sys, time
from pathlib import Path
from inferometer.tune.deployment import open_deployment
from inferometer.tune.settings import LaunchSettings
launch = LaunchSettings(repositories=(Path({str(repository)!r}),), executable={str(server)!r})
with open_deployment(launch) as deployment:
    print(deployment.pid, flush=True)
    time.sleep(60)
"""
    tool = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert tool.stdout is not None
    pid = int(tool.stdout.readline())
    tool.kill()
    tool.wait()
    tool.stdout.close()
    wait_until(lambda: not is_alive(pid), f"the guard has ended the server, process {pid}")


@pytest.mark.parametrize("name", ["no-such-tritonserver", "/nowhere/tritonserver"])
def test_a_missing_server_program_is_named(name, repository):
    with pytest.raises(UsageError, match=name):
        open_deployment(LaunchSettings(repositories=(repository,), executable=name))


# --- docker


@pytest.fixture
def docker(tmp_path, server, monkeypatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    record = tmp_path / "docker.jsonl"
    text = DOCKER.format(
        python=sys.executable, record=str(record), server=str(server), pid=str(tmp_path / "pid")
    )
    script(folder / "docker", text)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return record


def test_a_container_is_run_with_its_mounts_ports_and_words_and_stopped(tmp_path, docker, repository):
    launch = LaunchSettings(
        mode="docker",
        repositories=(repository,),
        docker_image="triton:test",
        docker_mounts=("/data:/data:ro",),
        docker_words=("--shm-size", "1G", "--label", "who=me"),
        environment={"COLOUR": "two words"},
        log=tmp_path / "server.log",
    )
    with open_deployment(launch) as deployment:
        assert deployment.is_running()
        port = deployment.addresses.http.rpartition(":")[2]
    version, run, stop = records(docker)
    assert version[0] == "version"
    assert f"type=bind,source={repository},target={repository},readonly" in run
    assert f"127.0.0.1:{port}:{port}" in run
    assert run[run.index("--volume") + 1] == "/data:/data:ro"
    assert "COLOUR=two words" in run
    place = run.index("triton:test")
    assert run[place - 4 : place] == ["--shm-size", "1G", "--label", "who=me"]
    assert run[place + 1 : place + 4] == ["tritonserver", "--model-repository", str(repository)]
    assert run[run.index("--name") + 1] == stop[-1]
    assert stop[0] == "stop"
    assert not deployment.is_running()


def test_a_container_needs_an_image(docker, repository):
    with pytest.raises(UsageError, match="image"):
        open_deployment(LaunchSettings(mode="docker", repositories=(repository,)))


def test_an_unresponsive_docker_is_reported(tmp_path, monkeypatch, repository):
    folder = tmp_path / "bin"
    folder.mkdir()
    script(folder / "docker", "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    launch = LaunchSettings(mode="docker", repositories=(repository,), docker_image="triton:test")
    with pytest.raises(UsageError, match="Cannot connect to the Docker daemon"), open_deployment(launch):
        pass


def test_a_missing_library_is_named(tmp_path, repository):
    launch = LaunchSettings(mode="c_api", repositories=(repository,), install_path=str(tmp_path))
    with pytest.raises(UsageError, match=r"has no lib/libtritonserver\.so"):
        open_deployment(launch)


def test_a_missing_remote_server_is_named():
    from inferometer.tune.settings import Addresses

    launch = LaunchSettings(mode="remote", addresses=Addresses(http="127.0.0.1:9"))
    with pytest.raises(InferometerError, match=r"127\.0\.0\.1:9"), open_deployment(launch):
        pass


def test_given_ports_are_used(server, repository):
    from inferometer.server.ports import choose_ports

    ports = choose_ports(Ports())
    options = LaunchSettings(repositories=(repository,), executable=str(server), ports=ports)
    with open_deployment(options) as deployment:
        assert deployment.addresses.http == f"127.0.0.1:{ports.http}"
    assert LaunchSettings(repositories=()).ports == Ports()
