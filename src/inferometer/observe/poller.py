"""A thread that looks at the server's metrics while a level is measured.

It lives in the controller, whose interpreter lock no worker needs, and sleeps until the next look is due.
"""

import threading
from collections.abc import Callable

from inferometer.base.errors import PeerError
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS, NS_PER_S, Clock
from inferometer.observe.host import HostMeter
from inferometer.observe.metrics import MOST_SAMPLES, Sample, sample, thinned
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import HttpControl

LOOK_S = 3.0  # for a whole page
PATIENCE_S = 1.0  # for a look that is under way when the level ends


class MetricsEndpoint:
    """Where the metrics are; None is a server that has none. With `host`, every look takes in this host as well."""

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
            raise PeerError(
                f"Unable to connect to Metrics endpoint URL: {error.message}",
                remedy="give it with --metrics-url, or leave out --collect-metrics",
            ) from error
        if status != 200:
            raise PeerError(
                f"Metrics endpoint curling did not succeed. {self._connection.endpoint} answered with status {status}",
                remedy="give the address with --metrics-url, such as http://localhost:8002/metrics",
            )
        return body.decode("utf-8", "replace")


class Poller:
    """Looks every interval while it is entered. One that fails is counted; the measurement goes on."""

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
        self._has_told_of_slowness = False
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
        """A look that hangs is not waited for; its result is dropped."""
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
                times = f"{self._failures} times" if self._failures > 1 else "once"
                text = f"the server's metrics could not be read {times}: {self._first_failure}"
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
                    self._first_failure = self._first_failure if self._failures else error.message
                    self._failures += 1
            return
        with self._lock:
            if self._ended is ended:  # else another level has begun meanwhile
                self._fresh.append(seen)
                self.latest = seen
                if len(self._fresh) > MOST_SAMPLES:
                    self._fresh = list(thinned(self._fresh))

    def _judge(self, took_ns: int) -> None:
        if took_ns <= self._interval_ns or self._slow is not None:
            return
        text = (
            f"Triton metrics endpoint latency ({took_ns // NS_PER_MS}ms) is larger than the querying interval "
            f"({self._interval_ns // NS_PER_MS}ms)"
        )
        with self._lock:
            self._slow = Remark(Note.METRICS_SLOW, text)


def warnings_about(first: Sample) -> tuple[str, ...]:
    """What to say after the first look: a text without anything we know is perhaps not a Triton's."""
    if not first.gpus and not first.queues and first.cpu_share is None:
        return ("WARNING: The metrics endpoint answers, but with no metrics of a Triton server.",)
    return ()


def llm_warnings(first: Sample) -> tuple[str, ...]:
    """The same of an LLM server."""
    if first.llm is None:
        known = "vLLM, SGLang, TensorRT-LLM or llama.cpp"
        return (f"WARNING: The metrics endpoint answers, but with no metrics of {known}.",)
    return ()
