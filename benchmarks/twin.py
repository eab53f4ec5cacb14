"""`python -m benchmarks.twin --folder F`: check a twin of the real Triton, fitted at concurrency 1 to 8, elsewhere.

Five servers: the three planted pipelines (one slow step, one that forms no batches, one that has too few cores), the
image ensemble, and one with all of them for mixes of two models at the same time. The held-out points are other
concurrencies, rates, mixes and settings: 57 points, or 40 if the packages of the image models are missing.

Results in the folder are not measured again, so an interrupted run resumes. A full run takes about twelve minutes on a
dedicated machine. `--only NAME` runs one server in at most five minutes, so that several can run at once on separate
cores, each with its own folder; but not the image ensemble and the mixes, whose images slow each other down on any
cores. `--judge F F ...` judges the results in the folders, without any server.
"""

import argparse
import http.client
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.twin_loads import (
    FITTED,
    IMAGES,
    SERVERS,
    HeldOut,
    ModelLoad,
    fitted,
    held_out,
    missing_packages,
    models_of,
    with_steps,
)
from benchmarks.twin_verdict import POINTS, as_json, judged, table, verdicts
from inferometer import api
from inferometer.api.arguments import asked
from inferometer.base.answer_file import read, write
from inferometer.base.errors import InferometerError
from inferometer.cli.demo import write_input
from inferometer.observe.host import processor
from inferometer.options.options import DataOptions, Options
from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.repository import example_repository
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher
from inferometer.twin.check import measure_together
from inferometer.twin.twin import LoadForecast
from tests.support.planted import plant

SETTLING_S = 1.0  # before each load, so that a cold start affects no figure
DEADLINE_S = 60.0
_WHOLE_TIME = 1e-6  # a precision that is never reached


# --- measuring, with what is measured already left alone


@dataclass(frozen=True, slots=True)
class Bench:
    """The server and the folder with the results measured so far."""

    folder: Path
    server: EmbeddedTriton
    data: DataOptions
    scale: float = 1.0  # factor for durations

    def options(self, load: ModelLoad) -> Options:
        given: dict[str, Any] = {"model": load.model, "url": self.server.http_address, **dict(load.given)}
        if load.model == IMAGES:
            given["data"] = self.data
        given |= {
            "duration_s": self.scale * load.seconds,
            "precision": _WHOLE_TIME,
            "warmup_s": SETTLING_S,
        }
        return asked("measure", given)

    def kept(self, name: str, measure: Callable[[], Sequence[Result]], count: int = 1) -> list[Result]:
        """Results from the files of an earlier run, or measured now; either all of them are saved or none."""
        paths = [self.folder / f"{name}.{number}.json" for number in range(count)]
        if not all(path.exists() for path in paths):
            print(f"measuring {name} ...", flush=True)
            for path, result in zip(paths, measure(), strict=True):
                write(result, path)
        return [read(path, Result) for path in paths]

    def fitted(self, model: str) -> float:
        """Measure the loads of the fit; return the requests per second at the heaviest load."""
        for name, load in fitted(model):
            results = self.kept(name, partial(measure_together, [self.options(load)], Watcher()))
        found = results[-1].levels[-1].measurement
        if found is None or len(results[-1].levels) != len(FITTED):
            raise RuntimeError(f"'{model}' answered nothing at its heaviest load")
        return found.infer_per_s.value / found.batch

    def held_out(self, point: HeldOut) -> None:
        def measure() -> Sequence[Result]:
            with self._set(point.setting):
                return measure_together([self.options(load) for load in point.loads], Watcher())

        self.kept(point.name, measure, len(point.loads))

    @contextmanager
    def _set(self, setting: tuple[str, dict[str, Any]] | None) -> Iterator[None]:
        """Load a model with another configuration while the context lasts, then restore it."""
        if setting is None:
            yield
            return
        name, changes = setting
        before = json.loads(self._asked("GET", f"/v2/models/{name}/config"))
        self._load(name, before | changes)
        try:
            yield
        finally:
            self._load(name, before)

    def _load(self, name: str, config: dict[str, Any]) -> None:
        body = json.dumps({"parameters": {"config": json.dumps(config)}})
        self._asked("POST", f"/v2/repository/models/{name}/load", body)

    def _asked(self, method: str, path: str, body: str | None = None) -> bytes:
        connection = http.client.HTTPConnection(self.server.http_address, timeout=DEADLINE_S)
        try:
            connection.request(method, path, body)
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        if reply.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{method} {path}: {reply.status} {text[:200]!r}")
        return text


@dataclass(frozen=True, slots=True)
class Pinning:
    """Cores of the server and of the client; empty means no pinning."""

    server: frozenset[int] = frozenset()
    client: frozenset[int] = frozenset()

    def __str__(self) -> str:
        if not self.server and not self.client:
            return "server and client not kept apart"
        return f"server on cores {_listed(self.server)}, client on {_listed(self.client)}"


def measure(folder: Path, server: str, pinning: Pinning, scale: float) -> None:
    """Measure all loads of one server that are not in the folder yet."""
    models = models_of(server)
    if not models:
        return
    everywhere = frozenset(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="inferometer-twin-") as place, ExitStack() as stack:
        stack.callback(pin, everywhere)
        pin(pinning.server or everywhere)  # child processes of the server inherit its affinity
        triton = EmbeddedTriton(
            (plant(Path(place) / "models"), example_repository()),
            load_models=with_steps(models),
            extra_args=("--disable-auto-complete-config", "--exit-timeout-secs", "0"),
        )
        stack.enter_context(triton)
        pin(pinning.client or everywhere)
        data = DataOptions(sources=(str(write_input(Path(place) / "data")),))
        bench = Bench(folder, triton, data, scale)
        most = {model: bench.fitted(model) for model in models}
        for point in held_out(server, most):
            try:
                bench.held_out(point)
            except (InferometerError, RuntimeError) as error:
                print(f"{point.name} could not be measured, and is left out: {error}", flush=True)


def pin(cores: frozenset[int]) -> None:
    """Pin all threads of this process; threads and processes started later inherit it."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)


def _listed(cores: frozenset[int]) -> str:
    return ",".join(map(str, sorted(cores))) or "any"


# --- telling


def busiest_others(results: Sequence[Result]) -> float:
    """Maximum number of cores that other programs kept busy, over all loads."""
    hosts = [level.host for result in results for level in result.levels if level.host is not None]
    return max((host.others or 0.0 for host in hosts), default=0.0)


def report(folders: Sequence[Path], into: Path, words: str = "") -> int:
    """Report on all folders: one twin per folder, and a verdict on all points together."""
    rows: list[LoadForecast] = []
    results: list[Result] = []
    for folder in folders:
        twin, found, measured = judged(folder)
        api.save(twin, folder / "twin.json")
        answer = replace(twin, command="twin check", forecasts=tuple(found))
        api.save(answer, folder / "check.json")
        with suppress(ImportError):  # without the page renderer, the figures are still useful
            (folder / "check.html").write_text(api.to_html(answer))
        rows += found
        results += measured
    lines = [
        "# The twin at loads held out from its fit",
        "",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC: {processor()}, {os.cpu_count()} cores, "
        f"{busiest_others(results):.1f} cores busy with other work at worst. {words}".strip(),
        *_left_out(rows),
        "",
        *table(rows),
        "",
    ]
    found_verdicts = list(verdicts(rows))
    lines += [f"- {'holds' if is_kept else 'DOES NOT HOLD'}: {text}" for is_kept, text in found_verdicts]
    if len(rows) < POINTS:
        lines.append(f"- these are {len(rows)} points; the target applies to {POINTS} or more")
    text = "\n".join(lines) + "\n"
    (into / "report.md").write_text(text)
    (into / "points.json").write_text(json.dumps(as_json(rows), indent=1) + "\n")
    print(text, end="")
    return 0 if all(is_kept for is_kept, _ in found_verdicts) else 1


def _left_out(rows: Sequence[LoadForecast]) -> list[str]:
    if any(row.model == IMAGES for row in rows) or not missing_packages():
        return []
    return ["", f"**{IMAGES} was left out**: Python has no {' and no '.join(missing_packages())} here."]


def cores_of(text: str) -> frozenset[int]:
    """Parse a list of cores such as 0-1,4."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            found |= set(range(int(first), int(last if dash else first) + 1))
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"'{text}' is not a list of cores; write it like 0-1 or 0,2"
            ) from None
    missing = found - os.sched_getaffinity(0)
    if missing or not found:
        raise argparse.ArgumentTypeError(
            f"'{text}': this process may not use {_listed(frozenset(missing))}, "
            f"only {_listed(frozenset(os.sched_getaffinity(0)))}"
        )
    return frozenset(found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.twin", description=__doc__)
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="factor for the duration of each load, such as 0.2 for a quick run",
    )
    parser.add_argument("--folder", type=Path, default=Path("dist/twin"), help="folder for the results")
    parser.add_argument(
        "--only", action="append", choices=list(SERVERS), help="one of the servers; repeat for more"
    )
    parser.add_argument("--server-cores", type=cores_of, default=frozenset(), help="such as 0-1")
    parser.add_argument("--client-cores", type=cores_of, default=frozenset(), help="such as 2-3")
    parser.add_argument(
        "--judge",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help="measure nothing, judge the results in these folders",
    )
    given = parser.parse_args()
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    if given.judge:
        return report(given.judge, folder)
    servers = given.only or list(SERVERS)
    if missing_packages() and servers == [IMAGES]:
        parser.error(f"{IMAGES} needs {' and '.join(missing_packages())}, which Python does not have here")
    pinning = Pinning(given.server_cores, given.client_cores)
    for server in servers:
        measure(folder, server, pinning, given.scale)
    return report([folder], folder, f"{pinning}; durations times {given.scale:g}.")


if __name__ == "__main__":
    sys.exit(main())
