"""Run a command in this process with a simulated load, and record everything observable from outside.

The clock is simulated and the workers are engines on it, so a whole run takes milliseconds and two runs of the same
command line are identical. Options that a command merely repeats (`asked` and `effective` of a result) are ignored.
"""

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inferometer.base import status
from inferometer.cli.main import main
from inferometer.cluster.ray_process import RayProcess
from inferometer.load.plan import Plan
from inferometer.load.sequences import Sequences
from inferometer.load.workers import Workers
from inferometer.observe.poller import Poller
from inferometer.server.launcher import ServerCommand
from inferometer.tune.launched import LaunchedDeployment
from inferometer.tune.settings import Addresses
from inferometer.tune.variant import ModelVariant
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

LOAD_REACHED = 77
MS = 1_000_000
_STREAM = (2 * MS, 3 * MS, 4 * MS, 5 * MS)
_ECHOES = ("asked", "effective", "started_at", "host")
_OF_A_RUN = ("id", "words", "pid", "process_started", "ended_at", "commit", "short_id")
_VARYING = re.compile(
    r" at 0x[0-9a-f]+|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00)?|inferometer_run_\w+|(?<=fd=)\d+"
)


_RUN = re.compile(r"(?<=/runs/)[0-9a-f]{8}")


_Stamp = tuple[int, int, int]


class LoadReached(BaseException):
    """Raised where the first request would be sent."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Observable effects of a command line: exit code, output, files, data passed to workers and other processes, and
    requests to servers."""

    code: int
    said: str
    complaint: str
    files: dict[str, str]
    handed: tuple[str, ...]
    asked: tuple[str, ...]


@dataclass(slots=True)
class Observer:
    """Runs command lines in the working directory, which is restored afterwards."""

    capsys: pytest.CaptureFixture[str]
    servers: tuple[Any, ...]  # servers that record their requests or calls
    is_halted: bool = False  # stop at the first request
    handed: list[str] = field(default_factory=list)
    _found: dict[Path, tuple[_Stamp, bytes]] | None = None

    def run(self, *words: str, is_halted: bool = False) -> Seen:
        if self._found is None:
            self._found = {path: (stamp, path.read_bytes()) for path, stamp in _stamps().items()}
        before = self._found
        marks = [len(_all_asked(server)) for server in self.servers]
        self.handed.clear()
        self.is_halted = is_halted
        self.capsys.readouterr()
        code = LOAD_REACHED
        with contextlib.suppress(LoadReached):
            code = main(list(words))
        said, complaint = (_VARYING.sub("", text) for text in self.capsys.readouterr())
        after = _stamps()
        touched = [path for path, stamp in after.items() if path not in before or before[path][0] != stamp]
        changed = [path for path in touched if path not in before or before[path][1] != path.read_bytes()]
        files = {_RUN.sub("ID", str(path)): _content(path) for path in changed}
        for path in touched:
            path.unlink()
        for path in {*touched, *(before.keys() - after.keys())} & before.keys():
            content = before[path][1]
            path.write_bytes(content)
            before[path] = _stamp(path), content
        asked = [
            row
            for server, mark in zip(self.servers, marks, strict=True)
            for row in _written(_all_asked(server)[mark:])
        ]
        return Seen(code, said, complaint, files, tuple(map(self._plain, self.handed)), tuple(asked))

    def hand(self, *things: object) -> None:
        """Record data passed to another process."""
        self.handed += map(repr, things)

    @staticmethod
    def _plain(text: str) -> str:
        return _VARYING.sub("", text)


def _stamps() -> dict[Path, _Stamp]:
    """Stamps that show whether a file was written, without reading it."""
    names = sorted(os.path.join(folder, name) for folder, _, files in os.walk(".") for name in files)
    return {path: _stamp(path) for path in map(Path, names) if path.is_file()}


def _stamp(path: Path) -> _Stamp:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _all_asked(server: Any) -> list[Any]:
    found: list[Any] = server.calls if hasattr(server, "calls") else server.requests
    return found


def _written(rows: list[Any]) -> Iterator[str]:
    """Requests as text, without those for metrics, which a background thread sends. Inferences are simulated."""
    for row in rows:
        if hasattr(row, "message"):
            yield f"{row.method} {row.headers} {row.message!r}"
        elif row.path != "/metrics":
            yield f"{row.method} {row.path} {row.headers} {row.body!r}"


def _content(path: Path) -> str:
    if path.suffix == ".sqlite":
        return "a journal"
    text = path.read_text("utf-8", "replace")
    if path.suffix == ".json":
        with contextlib.suppress(ValueError):
            text = json.dumps(_without_echoes(json.loads(text)))
    return _VARYING.sub("", text)


def _without_echoes(value: Any) -> Any:
    if isinstance(value, dict):
        unseen = (*_ECHOES, *_OF_A_RUN) if value.get("kind") == "run" else _ECHOES
        return {name: _without_echoes(part) for name, part in value.items() if name not in unseen}
    return [_without_echoes(part) for part in value] if isinstance(value, list) else value


class _Workers(SimulatedLoad):
    """The requested number of workers in one engine; one request in twenty fails."""

    def __init__(self, observer: Observer, asked: Workers, clock: FakeClock) -> None:
        streamed = _STREAM if asked.traffic.wiring.is_streaming else ()

        def reply(number: int, sent_ns: int) -> Reply:
            is_bad = number % 20 == 9
            service_ns = (25 + 5 * (number * 7 % 11) + number // 40 % 5) * MS
            return Reply(service_ns, status.HTTP + 503 if is_bad else status.OK, responses_ns=streamed)

        plan = asked.sequences
        super().__init__(
            FakeServer(reply, servers=4),
            clock,
            requests=len(asked.traffic.requests),
            timeout_ns=asked.timeout_ns,
            sequences=None if plan is None else Sequences(plan),
            cancellation=asked.cancellation,
        )
        self._observer, self.count, self.pids = observer, asked.count, ()
        self.spool_problem = ""
        observer.hand(
            *(asked.traffic, asked.count, asked.timeout_ns, asked.sequences, asked.verbose),
            *(len(asked.spool_fds), None if asked.tracing is None else asked.tracing.share),
        )

    def apply(self, plan: Plan, start_ns: int | None = None) -> int:
        self._observer.hand(plan)
        if self._observer.is_halted:
            raise LoadReached
        return super().apply(plan, start_ns)

    def resize(self, count: int) -> None:
        self.count = count


class _Launched(LaunchedDeployment):
    """Shows the command instead of running it; requests reach the server at its address, if that is fixed."""

    def __init__(
        self, observer: Observer, command: ServerCommand, read_gpus: Any = None, *, grace_s: float
    ) -> None:
        super().__init__(command)
        self._observer, self._command = observer, command
        observer.hand(command)

    @property
    def addresses(self) -> Addresses:
        return Addresses(self._command.address, self._command.address, "")

    def is_running(self) -> bool:
        return True

    def apply(self, variants: Sequence[ModelVariant]) -> bool:
        self._observer.hand([variant.config for variant in variants])
        if self._command.port is None:
            raise LoadReached
        return True


def observer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *servers: Any) -> Observer:
    """An observer that simulates everything that takes time, needs another process, or is random."""
    from inferometer.diagnose import run as _diagnose  # noqa: F401 - those whose clock is replaced
    from inferometer.measure import opening
    from inferometer.report import progress as _progress  # noqa: F401
    from inferometer.scenario import run as _scenario  # noqa: F401
    from inferometer.tune import deployment as deployments
    from inferometer.tune import session

    found, clock = Observer(capsys, servers), FakeClock()

    def deployment(launch: Any, say: Any = None) -> Any:
        found.hand(launch)
        if launch.mode != "remote":
            raise LoadReached
        return opened(launch)

    @contextmanager
    def asked_host(host: Any, port: int) -> Iterator[None]:
        found.hand(host)
        raise LoadReached
        yield

    def cluster(asked: RayProcess) -> None:
        found.hand(asked.settings)
        raise LoadReached

    def poller(look: Any, *, interval_ns: int, clock: Any) -> Poller:
        found.hand(interval_ns)
        return Poller(look, interval_ns=interval_ns, clock=clock)

    opened = deployments.open_deployment
    for name, module in list(sys.modules.items()):
        # Other processes take real time.
        is_real = name in ("inferometer.services.undo", "inferometer.measure.level_actions")
        if name.startswith("inferometer.") and hasattr(module, "monotonic_ns") and not is_real:
            monkeypatch.setattr(module, "monotonic_ns", clock)
    monkeypatch.setattr(Workers, "__enter__", lambda asked: _Workers(found, asked, clock))
    monkeypatch.setattr(Workers, "__exit__", lambda self, *_: None)
    monkeypatch.setattr(RayProcess, "__enter__", cluster)
    monkeypatch.setattr(opening, "_host_watch", lambda *_: None)
    monkeypatch.setattr("inferometer.measure.groups.HostWatch", lambda *_: None)
    monkeypatch.setattr(opening, "Poller", poller)
    monkeypatch.setattr(session, "open_deployment", deployment)
    monkeypatch.setattr("inferometer.cli.tune._age_s", lambda: 0.0)
    monkeypatch.setattr(session, "LaunchedDeployment", partial(_Launched, found))
    monkeypatch.setattr("inferometer.server.in_process.asked_host", asked_host)
    monkeypatch.setattr("inferometer.services.undo.Guard.add", lambda *_, **__: None)
    monkeypatch.setattr(
        "inferometer.measure.journal.RequestJournal.open_spools", lambda _, count: tuple(range(count))
    )
    monkeypatch.setattr("secrets.randbits", lambda bits: 1000)
    return found
