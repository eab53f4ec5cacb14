"""The server's Prometheus metrics: reading the text, and a thread that looks at it while a level is measured.

    text -> readings -> Sample -> (measure.server_metrics) figures

The thread lives in the controller, whose interpreter lock no worker needs; it sleeps until the next look is due.
"""

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from inferometer.base.clock import Clock
from inferometer.base.errors import PeerError
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.observe.gpu import Gpu
from inferometer.observe.host_load import HostMeter, HostSample
from inferometer.target.control import HttpControl
from inferometer.target.endpoint import Connection

GPU_METRICS = {
    "nv_gpu_utilization": "utilization",
    "nv_gpu_power_usage": "power_w",
    "nv_gpu_memory_used_bytes": "memory_used_bytes",
    "nv_gpu_memory_total_bytes": "memory_total_bytes",
}
MODEL_METRICS = {
    "nv_inference_pending_request_count": "pending",
    "nv_inference_queue_duration_us": "queue_us",
    "nv_inference_request_success": "requests",
}
CPU_METRICS = {
    "nv_cpu_utilization": "cpu_share",
    "nv_cpu_memory_used_bytes": "memory_used_bytes",
    "nv_cpu_memory_total_bytes": "memory_total_bytes",
}
PATIENCE_S = 1.0  # for a look that is under way when the level ends


# --- text -> readings


@dataclass(frozen=True, slots=True)
class Reading:
    """One line: `name{label="text",...} value`."""

    name: str
    labels: Mapping[str, str]
    value: float


_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\})?\s*(?<=[\s}])(\S+)(?:\s+-?[0-9]+)?\s*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")


def readings(text: str) -> Iterator[Reading]:
    """Every line that holds a number; comments, broken lines, NaN and infinities are passed over."""
    for line in text.split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        name, labels, number = match.groups()
        try:
            value = float(number)
        except ValueError:
            continue
        if math.isfinite(value):
            yield Reading(name, _labels(labels or ""), value)


def _labels(text: str) -> dict[str, str]:
    return {
        name: _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], value)
        for name, value in _LABEL.findall(text)
    }


# --- readings -> sample


@dataclass(frozen=True, slots=True)
class Queue:
    """What is known of one model's queue: a gauge and two counters."""

    pending: float | None = None
    queue_us: float | None = None
    requests: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One look: only what the figures are made of, so that a long level stays small."""

    at_ns: int
    gpus: Mapping[str, Gpu] = field(default_factory=dict)
    queues: Mapping[tuple[str, str], Queue] = field(default_factory=dict)  # by (model, version)
    cpu_share: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    host: HostSample | None = None

    @property
    def is_empty(self) -> bool:
        """The text held nothing we know: perhaps it is not a Triton's."""
        return not self.gpus and not self.queues and self.cpu_share is None


def sample(text: str, *, at_ns: int, host: HostSample | None = None) -> Sample:
    gpus: dict[str, dict[str, float]] = {}
    queues: dict[tuple[str, str], dict[str, float]] = {}
    cpu: dict[str, float] = {}
    for row in readings(text):
        if row.name in GPU_METRICS and "gpu_uuid" in row.labels:
            gpus.setdefault(row.labels["gpu_uuid"], {})[GPU_METRICS[row.name]] = row.value
        elif row.name in MODEL_METRICS and "model" in row.labels:
            key = row.labels["model"], row.labels.get("version", "")
            queues.setdefault(key, {})[MODEL_METRICS[row.name]] = row.value
        elif row.name in CPU_METRICS:
            cpu[CPU_METRICS[row.name]] = row.value
    return Sample(
        at_ns=at_ns,
        gpus={uuid: _gpu(values) for uuid, values in gpus.items()},
        queues={key: Queue(**values) for key, values in queues.items()},
        cpu_share=cpu.get("cpu_share"),
        memory_used_bytes=_maybe_whole(cpu.get("memory_used_bytes")),
        memory_total_bytes=_maybe_whole(cpu.get("memory_total_bytes")),
        host=host,
    )


def _gpu(values: Mapping[str, float]) -> Gpu:
    return Gpu(
        utilization=values.get("utilization"),
        power_w=values.get("power_w"),
        memory_used_bytes=_maybe_whole(values.get("memory_used_bytes")),
        memory_total_bytes=_maybe_whole(values.get("memory_total_bytes")),
    )


def _maybe_whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def missing(found: Sample) -> tuple[str, ...]:
    """The GPU metrics that no GPU has."""
    return tuple(
        name
        for name, part in GPU_METRICS.items()
        if all(getattr(gpu, part) is None for gpu in found.gpus.values())
    )


# --- looking


class MetricsEndpoint:
    """Where the metrics are. With `host`, every look takes in this host as well."""

    def __init__(self, connection: Connection, *, clock: Clock, host: HostMeter | None = None) -> None:
        self._connection = connection
        self._control = HttpControl(connection)
        self._clock = clock
        self._host = host

    def look(self) -> Sample:
        url = self._connection.endpoint
        try:
            status, body = self._control.exchange("GET", "")
        except PeerError as error:
            raise PeerError(
                f"Unable to connect to Metrics endpoint URL {url}: {error.message}",
                remedy="give it with --metrics-url, or leave out --collect-metrics",
            ) from error
        if status != 200:
            raise PeerError(
                f"Metrics endpoint curling did not succeed. {url} answered with status {status}",
                remedy="give the address with --metrics-url, such as http://localhost:8002/metrics",
            )
        host = None if self._host is None else self._host.read()
        return sample(body.decode("utf-8", "replace"), at_ns=self._clock(), host=host)


class Poller:
    """Looks every interval between `start` and `stop`. One that fails is counted; the measurement goes on."""

    def __init__(self, look: Callable[[], Sample], *, interval_ns: int, clock: Clock) -> None:
        self._look = look
        self._interval_ns = interval_ns
        self._clock = clock
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._fresh: list[Sample] = []
        self._failures: list[str] = []
        self._slow: Remark | None = None
        self._has_told_of_slowness = False
        self.latest: Sample | None = None  # since the last start

    def start(self) -> None:
        self._ended = threading.Event()
        with self._lock:
            self._fresh, self._failures, self.latest = [], [], None
        self._thread = threading.Thread(
            target=self._poll, args=(self._ended,), name="server metrics", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """A look that hangs is left to end by itself; it is in no level."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
            self._thread = None

    def take(self) -> tuple[Sample, ...]:
        """What was seen since it was asked last."""
        with self._lock:
            taken, self._fresh = tuple(self._fresh), []
        return taken

    def remarks(self) -> tuple[Remark, ...]:
        """What went wrong since the start; that looking takes too long is said once."""
        found: list[Remark] = []
        with self._lock:
            if self._failures:
                times = f"{len(self._failures)} times" if len(self._failures) > 1 else "once"
                text = f"the server's metrics could not be read {times}: {self._failures[0]}"
                found.append(Remark(Note.METRICS_MISSING, text))
            if self._slow is not None and not self._has_told_of_slowness:
                self._has_told_of_slowness = True
                found.append(self._slow)
        return tuple(found)

    def _poll(self, ended: threading.Event) -> None:
        due_ns = self._clock()
        while True:
            began_ns = self._clock()
            self._look_once(ended)
            now_ns = self._clock()
            self._judge(now_ns - began_ns)
            # Looks that were missed are not made up for.
            due_ns += self._interval_ns * (1 + max(0, now_ns - due_ns) // self._interval_ns)
            if ended.wait((due_ns - now_ns) / NS_PER_S):
                return

    def _look_once(self, ended: threading.Event) -> None:
        try:
            seen = self._look()
        except PeerError as error:
            with self._lock:
                if self._ended is ended:
                    self._failures.append(error.message)
            return
        with self._lock:
            if self._ended is ended:  # else another level has begun meanwhile
                self._fresh.append(seen)
                self.latest = seen

    def _judge(self, took_ns: int) -> None:
        if took_ns <= self._interval_ns or self._slow is not None:
            return
        text = (
            f"Triton metrics endpoint latency ({took_ns // NS_PER_MS}ms) is larger than the querying interval "
            f"({self._interval_ns // NS_PER_MS}ms)"
        )
        with self._lock:
            self._slow = Remark(Note.METRICS_SLOW, text)


@contextmanager
def polling(poller: Poller | None) -> Iterator[None]:
    """The poller at work; None is none."""
    if poller is None:
        yield
        return
    poller.start()
    try:
        yield
    finally:
        poller.stop()


def warnings(first: Sample, *, is_classic: bool) -> Sequence[str]:
    """What to say after the first look."""
    if is_classic:
        return tuple(f"WARNING: Unable to parse '{name}' metric." for name in missing(first))
    if first.is_empty:
        return ("WARNING: The metrics endpoint answers, but with no metrics of a Triton server.",)
    return ()
