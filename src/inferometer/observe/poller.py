"""A thread that polls the server's metrics while a level is measured.

It runs in the controller, whose interpreter lock no worker needs, and sleeps until the next poll is due.
"""

import threading
from collections.abc import Callable

from inferometer.base.errors import MetricsError, PeerError
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS, NS_PER_S, Clock
from inferometer.observe.host import HostMeter
from inferometer.observe.metrics import MOST_SAMPLES, Sample, sample, thinned
from inferometer.options.names import option_name
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import HttpControl

LOOK_S = 3.0  # for a whole page
PATIENCE_S = 1.0  # for a poll in progress when the level ends


class MetricsEndpoint:
    """The metrics endpoint; None for a server without one. With `host`, every poll also samples this host."""

    def __init__(self, connection: Connection | None, *, clock: Clock, host: HostMeter | None = None) -> None:
        self._connection = connection
        self._control = None if connection is None else HttpControl(connection)
        self._clock = clock
        self._host = host

    def look(self) -> Sample:
        page = self._page()
        host = None if self._host is None else self._host.read(waits=True)
        return sample(page, at_ns=self._clock(), host=host)

    def _page(self) -> str:
        if self._connection is None or self._control is None:
            return ""
        try:
            timeout_s = min(LOOK_S, self._connection.timeout_s)
            status, body = self._control.exchange("GET", "", timeout_s=timeout_s)
        except PeerError as error:
            raise MetricsError(
                f"the server's metrics cannot be read: {error.message}",
                remedy=f"set their address with {option_name('--metrics-url')}, or remove "
                f"{option_name('--collect-metrics')}",
                has_answered=False,
            ) from error
        if status != 200:
            raise MetricsError(
                f"the server's metrics cannot be read: {self._connection.endpoint} answered with status {status}",
                remedy=f"set their address with {option_name('--metrics-url')}, such as "
                "http://localhost:8002/metrics",
                has_answered=True,
            )
        return body.decode("utf-8", "replace")


class Poller:
    """Polls at an interval while entered. A failed poll is counted; the measurement continues."""

    def __init__(self, look: Callable[[], Sample], *, interval_ns: int, clock: Clock) -> None:
        self._look = look
        self._interval_ns = interval_ns
        self._clock = clock
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._fresh: list[Sample] = []
        self._failures = 0
        self._first_failure = ""
        self._slow: Remark | None = None
        self._has_reported_slowness = False
        self.latest: Sample | None = None  # since the last start

    def __enter__(self) -> None:
        self._ended = threading.Event()
        with self._lock:
            self._fresh, self._failures, self.latest = [], 0, None
        self._thread = threading.Thread(
            target=self._poll, args=(self._ended,), name="server metrics", daemon=True
        )
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        """Stop without waiting for a poll that hangs; its result is dropped."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
            self._thread = None

    def take(self) -> tuple[Sample, ...]:
        """Return the samples since the last call."""
        with self._lock:
            taken, self._fresh = tuple(self._fresh), []
        return taken

    def remarks(self) -> tuple[Remark, ...]:
        """Return remarks on failures since the start; slowness is reported once."""
        found: list[Remark] = []
        with self._lock:
            if self._failures:
                times = f"{self._failures} times" if self._failures > 1 else "once"
                text = f"the server's metrics could not be read {times}: {self._first_failure}"
                found.append(Remark(Note.METRICS_MISSING, text))
            if self._slow is not None and not self._has_reported_slowness:
                self._has_reported_slowness = True
                found.append(self._slow)
        return tuple(found)

    def _poll(self, ended: threading.Event) -> None:
        due_ns = self._clock()
        while True:
            began_ns = self._clock()
            self._look_once(ended)
            now_ns = self._clock()
            self._judge(now_ns - began_ns)
            # Missed polls are skipped.
            due_ns += self._interval_ns * (1 + max(0, now_ns - due_ns) // self._interval_ns)
            if ended.wait((due_ns - now_ns) / NS_PER_S):
                return

    def _look_once(self, ended: threading.Event) -> None:
        try:
            seen = self._look()
        except PeerError as error:
            with self._lock:
                if self._ended is ended:
                    self._first_failure = self._first_failure if self._failures else error.message
                    self._failures += 1
            return
        with self._lock:
            if self._ended is ended:  # otherwise another level has begun
                self._fresh.append(seen)
                self.latest = seen
                if len(self._fresh) > MOST_SAMPLES:
                    self._fresh = list(thinned(self._fresh))

    def _judge(self, took_ns: int) -> None:
        if took_ns <= self._interval_ns or self._slow is not None:
            return
        text = (
            f"reading the server's metrics took {took_ns // NS_PER_MS} ms, longer than the interval of "
            f"{self._interval_ns // NS_PER_MS} ms"
        )
        with self._lock:
            self._slow = Remark(Note.METRICS_SLOW, text)


def warnings_about(first: Sample) -> tuple[str, ...]:
    """Return warnings after the first poll: a page without any known metric may not be Triton's."""
    if not first.gpus and not first.queues and first.cpu_share is None:
        return ("WARNING: The metrics endpoint answers, but without any metrics of a Triton server.",)
    return ()


def llm_warnings(first: Sample) -> tuple[str, ...]:
    """Return warnings after the first poll of an LLM server."""
    if first.llm is None:
        known = "vLLM, SGLang, TensorRT-LLM or llama.cpp"
        return (f"WARNING: The metrics endpoint answers, but without any metrics of {known}.",)
    return ()
