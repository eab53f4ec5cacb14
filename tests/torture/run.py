"""One run: the fault server, the command as a process, and the oracle's verdict."""

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.support.fork_client import ForkedProcess, fork_command
from tests.torture import machine
from tests.torture.backends import Backend, OpenAi, Plain, TritonHttp
from tests.torture.case import (
    GRPC,
    HTTP,
    OPENAI,
    OPENAI_STREAM,
    PLAIN,
    STREAM,
    Case,
    draw,
    faults_by_name,
)
from tests.torture.grpc_backend import TritonGrpc
from tests.torture.http1_wire import Request
from tests.torture.log import Log
from tests.torture.machine import Trouble
from tests.torture.oracle import Ended, complaints
from tests.torture.server import Choice, FaultServer

SHARED_MEMORY = Path("/dev/shm")
GONE_S = 5.0  # time for the processes of a finished run to exit


@dataclass(frozen=True, slots=True)
class Report:
    """Report of one run."""

    number: int
    complaints: list[str]
    took_s: float
    code: int | None
    seen: int
    faults: Mapping[str, int] = field(default_factory=dict)
    command: str = ""
    stdout: str = ""
    stderr: str = ""


def run(seed: int, number: int, address: str, *, keep: Path | None = None) -> Report:
    """Run the case with this number, with processes from the fork server at this address."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # disconnecting clients are normal here
    case = draw(seed, number)
    folder = Path(tempfile.mkdtemp(prefix="torture-")) if keep is None else keep
    try:
        return asyncio.run(_run(case, folder, address))
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


async def _run(case: Case, folder: Path, address: str) -> Report:
    random = Random(f"{case.seed}/{case.number}/server")
    log = Log()
    choice = Choice(tuple(case.faults), faults_by_name(case.kind), random)
    grpc = TritonGrpc(case.model, case.config) if case.kind in (GRPC, STREAM) else None
    backend = None if grpc is not None else _backend(case)
    regions: set[str] = getattr(grpc or backend, "regions", set())
    async with FaultServer(log, backend=backend, grpc=grpc, choice=choice, random=random) as server:
        words = [*case.words, "-u", f"127.0.0.1:{server.port}"]
        ended = await _command(case, words, folder, Around(address, log, server, regions))
    return Report(
        number=case.number,
        complaints=complaints(case, log, ended),
        took_s=ended.took_s,
        code=ended.code,
        seen=len(log.seen),
        faults=log.faults,
        command=" ".join([case.command, *words]),
        stdout=ended.stdout,
        stderr=ended.stderr,
    )


def _backend(case: Case) -> Backend[Request]:
    if case.kind == HTTP:
        return TritonHttp(case.model, case.config)
    if case.kind in (OPENAI, OPENAI_STREAM):
        return OpenAi()
    assert case.kind == PLAIN
    return Plain()


@dataclass(frozen=True, slots=True)
class Around:
    """Environment of a command."""

    fork_server: str
    log: Log
    server: FaultServer
    regions: set[str]  # shared memory regions registered with the server


async def _command(case: Case, words: list[str], folder: Path, around: Around) -> Ended:
    """Run the command in its own folder, with a separate folder for temporary files."""
    work, scratch = folder / "work", folder / "scratch"
    work.mkdir(parents=True, exist_ok=True)
    scratch.mkdir(exist_ok=True)
    with _disk(work, case.trouble, case.files):
        return await _command_in(case, words, work, scratch, around)


@contextmanager
def _disk(work: Path, trouble: Trouble | None, files: Mapping[str, str]) -> Iterator[None]:
    """A folder with the files of the run, with little free space if the disk should be full."""
    is_small = (
        trouble is not None and trouble.disk_bytes > 0 and os.geteuid() == 0
    )  # without privileges it cannot be mounted
    if trouble is not None and is_small:
        size = sum(-(-len(text) // 4096) * 4096 for text in files.values()) + trouble.disk_bytes
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", work], check=True)
    try:
        for name, text in files.items():
            (work / name).write_text(text)
        yield
    finally:
        if is_small:
            subprocess.run(["umount", "--lazy", work], check=True)


async def _command_in(case: Case, words: list[str], work: Path, scratch: Path, around: Around) -> Ended:
    out, err = work.parent / "stdout", work.parent / "stderr"
    trouble = case.trouble
    began = time.monotonic()
    out.touch()
    target = Path(trouble.stdout) if trouble is not None and trouble.stdout else out
    with target.open("wb") as stdout, err.open("wb") as stderr, open(os.devnull) as nothing:
        process = fork_command(
            around.fork_server,
            case.command,
            words,
            fds={0: nothing.fileno(), 1: stdout.fileno(), 2: stderr.fileno()},
            folder=str(work),
            environment={**os.environ, "INFEROMETER_STORE": "", "TMPDIR": str(scratch)},
            limits={} if trouble is None else trouble.limits,
            group=0,
        )
    if trouble is not None and trouble.memory_bytes:
        machine.limit_memory(process.pid, trouble.memory_bytes)
    task = None
    if trouble is not None:
        task = asyncio.create_task(machine.happen(trouble, process.pid, around.log, around.server))
    code = await _end(process, case.limit_s)
    took_s = time.monotonic() - began
    if task is not None:
        task.cancel()
    left = await _left(case, process.pid, work, scratch) + await _registered(around.regions)
    said, complained = (path.read_bytes().decode("utf-8", "replace") for path in (out, err))
    return Ended(code, took_s, said, complained, work, left)


async def _end(process: ForkedProcess, limit_s: float) -> int | None:
    """Return the exit code; kill a command that takes too long."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.add_reader(process.fileno(), lambda: None if over.done() else over.set_result(None))
    try:
        await asyncio.wait_for(over, limit_s)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        loop.remove_reader(process.fileno())
        process.wait()
        return None
    loop.remove_reader(process.fileno())
    return process.wait()


async def _left(case: Case, group: int, work: Path, scratch: Path) -> list[str]:
    """Resources that the finished command left behind."""
    left = []
    deadline = time.monotonic() + GONE_S
    while _is_alive(group):
        if time.monotonic() > deadline:
            os.killpg(group, signal.SIGKILL)
            left.append("left behind: a process")
            break
        await asyncio.sleep(0.01)
    left += [f"left behind: the temporary file {path.name}" for path in scratch.iterdir()]
    expected = {*case.files, *case.made}
    if case.trouble is not None and case.trouble.kills_command:
        expected |= {path.name for path in work.iterdir() if path.name.startswith(".")}  # unfinished files
    left += [f"left behind: the file {path.name}" for path in work.iterdir() if path.name not in expected]
    return left


async def _registered(regions: set[str]) -> list[str]:
    """Shared memory that is still registered with the server or still exists."""
    deadline = time.monotonic() + GONE_S
    while regions and time.monotonic() < deadline:
        await asyncio.sleep(0.01)  # a guard process cleans up after a killed run
    files = SHARED_MEMORY.glob("inferometer_run_*") if regions else ()
    left = [f"left behind: shared memory {path.name}" for path in files if path.name in regions]
    return left + [f"left behind: the registration of {name}" for name in sorted(regions)]


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
