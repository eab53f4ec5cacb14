"""Parts that work without Ray: reasons in words, files sent along, and no import of Ray in ordinary runs."""

import importlib.util
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.cluster.messages import ClientJob
from inferometer.cluster.ray_actors import make_probe, with_files
from inferometer.cluster.ray_clients import files_of
from inferometer.cluster.ray_cluster import fingerprint, in_words, offered, why_lost
from inferometer.cluster.ray_messages import ClientSaid, ClientsPlaced, RayFailed, RaySettings, machine
from inferometer.cluster.ray_process import RayProcess, short_folder
from inferometer.options.options import Tls
from inferometer.services.endpoint import Endpoint
from inferometer.services.traffic import Traffic, Wiring


class ActorDiedError(Exception):
    pass


class ActorUnavailableError(Exception):
    pass


PROCESS = (
    "The actor died unexpectedly before finishing this task.\n\tclass_name: RayClient\nThe actor is dead because its "
    "worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: (1) killed by the OOM killer, a node"
)
NODE = "The actor died unexpectedly.\nThe actor is dead because its node has died. Node Id: 1f"
KILLED = "The actor is dead because it was killed by `ray.kill`."


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ActorDiedError(PROCESS), "its process has ended"),
        (ActorDiedError(NODE), "its node was lost"),
        (ActorDiedError(KILLED), "its process was killed"),
        (ActorDiedError("something new"), "its process has ended"),
        (ActorUnavailableError("The actor 1f is unavailable: RpcError"), "it can no longer be reached"),
        (ValueError("\n  first line\nsecond"), "first line"),
        (ValueError(), "ValueError"),
    ],
)
def test_why_a_client_was_lost(error: Exception, words: str) -> None:
    assert why_lost(error) == words


def test_cluster_resources_are_described_by_kinds_of_nodes() -> None:
    plain = {"CPU": 4.0, "memory": 1e10, "object_store_memory": 1e9, "node:10.0.0.1": 1.0}
    assert in_words({"CPU": 2.0, "client": 0.5}) == "CPU 2, client 0.5"
    assert offered([plain, plain, {**plain, "GPU": 1.0}]) == (
        "the cluster has 2 nodes with CPU 4; 1 node with CPU 4, GPU 1"
    )
    assert offered([]) == "the cluster has no nodes"


def test_a_probe_of_this_machine_finds_this_package() -> None:
    import inferometer

    assert make_probe()() == (inferometer.__version__, fingerprint(), "")


def job(**files: Any) -> ClientJob:
    endpoint = Endpoint("localhost", 8000, tls=Tls(**files) if files else None)
    return ClientJob(Traffic(requests=(b"",), wiring=Wiring(endpoint)))


def test_tls_files_are_sent_to_the_client(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"authority")
    asked = job(ca_file=str(tmp_path / "ca.pem"))
    found = with_files(asked, files_of(asked)).traffic.wiring.endpoint.tls
    assert found is not None
    assert found.ca_file != str(tmp_path / "ca.pem")
    assert Path(found.ca_file).read_bytes() == b"authority"
    assert found.key_file is None
    assert with_files(job(), files_of(job())) == job()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.pem"):
        files_of(job(ca_file=str(tmp_path / "none.pem")))


def test_a_missing_ray_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with (
        pytest.raises(UsageError, match=r"pip install 'inferometer\[ray\]'"),
        RayProcess(RaySettings("local")),
    ):
        pass


def test_ordinary_runs_do_not_import_ray() -> None:
    names = (
        "api",
        "cli.main",
        "measure.run",
        "find.run",
        "compare.live",
        "cluster.ray_cluster",
        "cluster.ray_actors",
    )
    code = (
        f"import sys; [__import__('inferometer.' + name) for name in {names}];"
        "sys.exit('ray' in sys.modules or 'numpy' not in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_sockets_fit_below_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/a/very/long/folder/for/temporary/files")
    longest = "/1/session_2026-11-17_07-59-16_537945_1234567/sockets/plasma_store"
    assert len(str(short_folder())) + len(longest) < 107


def test_processes_that_share_a_clock_are_on_the_same_machine() -> None:
    code = "from inferometer.cluster.ray_messages import machine; print(machine())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == machine() != ""


def test_answers_read_by_another_thread_are_not_lost() -> None:
    """Loads on one cluster share the connection, so any waiting thread may read a report."""
    ours, theirs = Pipe()
    process = RayProcess(RaySettings("auto"))
    process._bridge = ours
    theirs.send(ClientSaid(7, answer=b"later"))
    theirs.send(ClientsPlaced(3))
    process.read(0)  # as the thread of another load does
    assert process.expect(ClientsPlaced, 1.0).count == 3
    assert process.said[7].answer == b"later"
    theirs.send(RayFailed(UsageError("no room"), ""))
    process.read(0)
    theirs.close()
    with pytest.raises(UsageError, match="no room"):
        process.expect(ClientsPlaced, 1.0)
