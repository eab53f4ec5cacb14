"""Cost to a run of showing its live page in three browsers: runs with and without the page, in turns.

The load has its own core; the server, the pages and the browsers share the other. For the lag of sends, the sending
process has the core without its controller, since two processes on one core would delay each other. The server of
that bar hardly uses its core: late replies require new connections, which take time.

Browsers that draw slow down a server on the same core, and a slower server alone changes the client's cost per
request. So the browsers always draw: if they do not show the measured run, they show another run generated here.
"""

import contextlib
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from benchmarks.arithmetic import Usage, marginal_us
from benchmarks.bar import BenchError, Contest, Sample, Setting
from benchmarks.children import Cores, Ended, end_group, pinned, run, two_cores
from benchmarks.nginx import LOOPBACK, nginx
from benchmarks.parts import our_script
from inferometer.report.chromium import Tab, browsing
from inferometer.store.filter import RunFilter
from inferometer.store.live_file import LiveFile
from inferometer.store.run import RUNNING
from inferometer.store.store import Store
from inferometer.ui.place import UiPlace, maybe_read

MODEL = "simple"
BROWSERS = 3
FEW, MANY = 2_000, 40_000  # requests
RATE, RATE_S, RUNS = 2_000, 4, 3
TOLD_S = 0.2  # seconds between two lines of the other run
DEADLINE_S = 60.0
WORKER = "inferometer.load.worker"


def live_page_cpu(setting: Setting) -> AbstractContextManager[Contest]:
    """Marginal CPU per request at eight in flight."""

    def measure(shown: "_Shown") -> Sample:
        if setting.is_smoke:
            return Sample(shown.run("-c", "8", "-n", "500").cpu_s)
        short, long = (Usage(shown.run("-c", "8", "-n", str(count)).cpu_s, count) for count in (FEW, MANY))
        return Sample(marginal_us(short, long))

    return _contest(setting, _triton, measure)


def live_page_lag(setting: Setting) -> AbstractContextManager[Contest]:
    """Increase of the p99 of the lag of sends at a rate with the pages open."""

    def measure(shown: "_Shown") -> Sample:
        lags = []
        count = setting.count(RATE * RATE_S, smoke=RATE)
        for _ in range(setting.count(RUNS, smoke=1)):  # a short freeze of the machine spoils only one of them
            shown.run("-r", str(RATE), "-n", str(count), is_worker_alone=True)
            lags.append(shown.lag_us)
        return Sample(median(lags))

    return _contest(setting, _plain, measure, is_difference=True)


@contextlib.contextmanager
def _triton(cores: Cores) -> Iterator[tuple[str, ...]]:
    """Options of our command for this server."""
    from inferometer.server.embedded import EmbeddedTriton

    with EmbeddedTriton(load_models=(MODEL,)) as server:
        yield server.http_address, MODEL


@contextlib.contextmanager
def _plain(cores: Cores) -> Iterator[tuple[str, ...]]:
    with nginx(cores.server) as port:
        yield f"http://{LOOPBACK}:{port}/", "--service-kind", "http"


def _contest(
    setting: Setting,
    server: Callable[[Cores], AbstractContextManager[tuple[str, ...]]],
    measure: Callable[["_Shown"], Sample],
    *,
    is_difference: bool = False,
) -> AbstractContextManager[Contest]:
    @contextlib.contextmanager
    def opened() -> Iterator[Contest]:
        cores = two_cores()
        with (
            tempfile.TemporaryDirectory() as folder,
            pinned(cores.server),
            server(cores) as target,
            pages(Path(folder) / "store") as place,
            contextlib.ExitStack() as browsers,
        ):
            tabs = tuple(browsers.enter_context(browsing()) for _ in range(setting.count(BROWSERS, smoke=1)))
            for tab in tabs:  # the address includes the token
                tab.visit(place.page())
            other = browsers.enter_context(_other_run(Path(folder) / "store"))
            alone = _Shown(target, Path(folder), cores, place, tabs, other)
            shown = _Shown(target, Path(folder), cores, place, tabs)
            for one in () if setting.is_smoke else (alone, shown):
                one.run("-c", "8", "-n", str(FEW))
            if is_difference:

                def difference() -> Sample:
                    without, with_pages = measure(alone).value, measure(shown).value
                    return Sample(with_pages - without, {"without us": without, "with us": with_pages})

                yield Contest(difference)
            else:
                yield Contest(ours=lambda: measure(shown), theirs=lambda: measure(alone))

    return opened()


@contextlib.contextmanager
def pages(store: Path) -> Iterator[UiPlace]:
    """`inferometer ui` on a store, while the context lasts."""
    command = [our_script("inferometer"), "ui", "--store", str(store), "--port", "0"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until_s = time.monotonic() + DEADLINE_S
        while (place := maybe_read(store)) is None:
            if child.poll() is not None or time.monotonic() > until_s:
                raise BenchError("the pages could not be started")
            time.sleep(0.05)
        yield place
    finally:
        end_group(child.pid)
        child.wait()


@contextlib.contextmanager
def _other_run(store: Path) -> Iterator[str]:
    """Id of an endless run of this process that writes as many lines as any other."""
    keeper = Store(store).begin("measure", ("another", MODEL))
    live = LiveFile(Store(store).live_path(keeper.run), keeper.warn)
    is_over = threading.Event()

    def tell() -> None:
        live.tell({"kind": "level", "number": 1, "mode": "concurrency", "value": 8, "title": "concurrency 8"})
        begun_s = time.monotonic()
        while not is_over.wait(TOLD_S):
            elapsed_s = time.monotonic() - begun_s
            wave = 1 + elapsed_s % 3 / 10
            figures = {f"p{p}_ms": wave * p / 50 for p in (50, 90, 95, 99)}
            counts = {"per_s": 3000 / wave, "ended": round(3000 * elapsed_s), "failed": 0, "outstanding": 8}
            place = {"number": 1, "phase": "measuring", "elapsed_s": elapsed_s, "left_s": None}
            live.tell({"kind": "sample", **place, **counts, **figures, "client_cores": 0.1 * wave})

    telling = threading.Thread(target=tell)
    telling.start()
    try:
        yield keeper.run.id
    finally:
        is_over.set()
        telling.join()
        keeper.discard()


@dataclass(slots=True)
class _Shown:
    """Runs of one kind: stored and shown in `tabs`, or neither, while the tabs show another run."""

    target: tuple[str, ...]
    folder: Path
    cores: Cores
    place: UiPlace
    tabs: Sequence[Tab]
    other: str = ""  # the id of that run

    def run(self, *load: str, is_worker_alone: bool = False) -> Ended:
        kept = ("--no-store",) if self.other else ("--store", str(self.folder / "store"))
        words = ["measure", *self.target, *load, *kept, "-q", "--json", str(self._result)]
        is_over = threading.Event()
        besides = [threading.Thread(target=self._show, args=(is_over,))]
        if is_worker_alone:
            besides.append(threading.Thread(target=_move_worker, args=(self.cores.load, is_over)))
        for thread in besides:
            thread.start()
        cores = self.cores.server if is_worker_alone else self.cores.load
        try:
            return run([our_script("inferometer"), *words], timeout_s=DEADLINE_S + RATE_S, cores=cores)
        finally:
            is_over.set()
            for thread in besides:
                thread.join()

    def _show(self, is_over: threading.Event) -> None:
        """Open the page of the run as soon as it exists; a short run may be over before."""
        store = Store(self.folder / "store")
        page = ""
        while not page:
            runs = store.runs(RunFilter(state=RUNNING))
            page = next((run.id for run in runs if (run.pid == os.getpid()) == bool(self.other)), "")
            if is_over.wait(0.1):
                return
        for tab in self.tabs:
            tab.visit(f"{self.place.url}/runs/{page}/live")

    @property
    def _result(self) -> Path:
        return self.folder / "result.json"

    @property
    def lag_us(self) -> float:
        (level,) = json.loads(self._result.read_text())["levels"]
        lag: int = level["measurement"]["client"]["lag_p99_ns"]
        return lag / 1000


def _move_worker(cores: Iterable[int], is_over: threading.Event) -> None:
    """Move the sending process to these cores as soon as it exists."""
    while not is_over.wait(0.01):
        for process in psutil.process_iter(["cmdline"]):
            if WORKER in (process.info["cmdline"] or ()):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.cpu_affinity(list(cores))
                return
