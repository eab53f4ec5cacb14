"""The processes of the self-test, and the load on its built-in servers.

Load is generated as in every measurement: by Workers and `measure_level`.
"""

import contextlib
import json
import select
import subprocess
from dataclasses import dataclass
from typing import Any, Self

from inferometer.base.errors import LocalError
from inferometer.base.frozen import frozen
from inferometer.base.interpreter import module_command
from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.load.plan import Plan
from inferometer.load.workers import Load, Recorded, Workers
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.options import Options
from inferometer.records.records import Records, join
from inferometer.selftest.null_server import Behaviour
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.kind import KINDS
from inferometer.stats.measurement import Measurement
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher

# --- helper processes; none outlives its context

ANSWER_S = 15.0


class HelperProcess:
    """A process that writes a line of JSON when it is ready and answers each line with another."""

    greeting: dict[str, Any]
    _process: subprocess.Popen[bytes]

    def __init__(self, module: str, *words: str) -> None:
        self._module = module
        self._words = words

    def __enter__(self) -> Self:
        command = module_command(f"inferometer.selftest.{self._module}", *self._words)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.greeting = self._read()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the missing answer reveals the failure
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        out = self._process.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], ANSWER_S)
        line = out.readline() if ready else b""
        if not line:
            raise LocalError(
                f"the self-test process '{self._module}' does not answer",
                remedy="this machine may be out of memory or overloaded",
            )
        answer: dict[str, Any] = json.loads(line)
        return answer


@frozen
class ServerReport:
    """Report of a built-in server about everything since its start."""

    now_ns: int
    cpu_ns: int
    requests: int
    late_ns: int  # maximum by which a freeze exceeded its pattern
    received_bytes: int
    sent_bytes: int
    arrivals_ns: list[int]  # since the last report


class NullServer(HelperProcess):
    """A built-in server on a loopback port."""

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__("null_server", behaviour.to_json())

    @property
    def port(self) -> int:
        return int(self.greeting["port"])

    def report(self) -> ServerReport:
        return ServerReport(**self.ask())


# --- load

PATIENCE_NS = 5 * NS_PER_S  # beyond the expected time of a level
MODEL = ModelSpec(
    name="null",
    version="",
    inputs=(TensorSpec("INPUT", "UINT8", (-1,)),),
    outputs=(TensorSpec("OUTPUT", "INT8", (1,)),),
)


def workers(server: NullServer, protocol: str, size: int, *, timeout_ns: int = 0) -> Workers:
    """Return one worker that sends requests with a tensor of this many bytes; start it with `with`."""
    service = KINDS["triton"].open(Connection(Endpoint("127.0.0.1", server.port)), Options(protocol=protocol))
    steps = ((Tensor("INPUT", "UINT8", (size,), bytes(size)),),)
    return Workers(service.traffic(MODEL, steps), timeout_ns=timeout_ns)


@dataclass(slots=True)
class _Deadline(Watcher):
    """Watcher that ends a level that takes far too long."""

    deadline_ns: int

    def is_interrupted(self) -> bool:
        return monotonic_ns() > self.deadline_ns


def run_load(load: Load, plan: Plan, duration_s: float) -> tuple[Measurement, Records]:
    """Measure one level; return the measurement and its requests.

    A plan with a count covers every request, which should take about `duration_s`; other plans one window of this
    length.
    """
    duration_ns = round(duration_s * NS_PER_S)
    is_whole = plan.count is not None
    settings = LevelSettings(
        model=MODEL,
        batch=1,
        percentile=None,
        rule=Precision(0.0, duration_ns),
        window_ns=None if is_whole else duration_ns,
        window_count=plan.count,
        is_whole=is_whole,
    )
    recorded = Recorded(load)
    deadline = _Deadline(monotonic_ns() + duration_ns + PATIENCE_NS)
    instrument = Instrument(recorded, monotonic_ns, lambda: None, deadline)
    level = measure_level(instrument, settings, LoadPoint("selftest", 0.0, plan))
    if level.measurement is None:
        raise LocalError("none of the self-test's requests was answered")
    return level.measurement, join(recorded.parts)
