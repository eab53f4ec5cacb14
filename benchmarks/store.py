"""Time and memory of listing a store with many runs; run it alone with `python -m benchmarks.store 10000`."""

import contextlib
import http.client
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.bar import BenchError, Contest, Sample, Setting
from benchmarks.children import run
from benchmarks.live_page import pages
from inferometer.stats.estimate import Estimate
from inferometer.store.filter import ALL, RunFilter
from inferometer.store.run import FINISHED, Point, Run
from inferometer.store.run_folder import RunFolder
from inferometer.store.store import Store

RUNS = 10_000
ROUNDS = 10
PAGE = 50
FILTERS = (ALL, RunFilter(model="model 3"), RunFilter(tags=("nightly",)), RunFilter(text="concurrency 77"))
SEARCHES = ("", "model 3", "tag=nightly", "concurrency 77")
ORDERS = ("-started_at", "p99", "-throughput", "model")
KIB_PER_MIB = 1024


def store_bar(figure: str) -> Callable[[Setting], AbstractContextManager[Contest]]:
    """Judge one figure of the report; the others are shown."""

    @contextlib.contextmanager
    def opened(setting: Setting) -> Iterator[Contest]:
        def measure() -> Sample:
            report = _report(setting.count(RUNS, smoke=300), setting.count(ROUNDS, smoke=1))
            return Sample(report[figure], {name: value for name, value in report.items() if name != figure})

        yield Contest(measure)

    return opened


@cache
def _report(count: int, rounds: int) -> dict[str, Any]:
    """Run once for all bars."""
    ended = run([sys.executable, "-m", "benchmarks.store", str(count), str(rounds)], timeout_s=300)
    try:
        found: dict[str, Any] = json.loads(ended.output.splitlines()[-1])
    except (IndexError, ValueError):
        raise BenchError(f"no figures came back: {ended.output.strip()[-200:]!r}") from None
    return found


def main(count: int, rounds: int = ROUNDS) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        begun = time.perf_counter()
        for number in range(count):
            _plant(store, number)
        planted = time.perf_counter()
        if store.count() != count:
            raise SystemExit("runs are missing in the list")
        built = time.perf_counter()
        times = sorted(_list_s(store, *how) for how in product(FILTERS, ORDERS, range(rounds)))
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MIB
        pages_s, pages_mib = _page_times(Path(folder), rounds, least=min(PAGE, count // 100))
    print(
        json.dumps(
            {
                "list p95": 1000 * _p95(times),
                "list p50": 1000 * times[len(times) // 2],
                "peak MiB": peak_mib,
                "page p95": 1000 * _p95(pages_s),
                "pages MiB": pages_mib,
                "index s": built - planted,
                "write s": planted - begun,
            }
        )
    )


def _p95(ordered: Sequence[float]) -> float:
    return ordered[round(0.95 * len(ordered)) - 1]


def _page_times(store: Path, rounds: int, *, least: int) -> tuple[list[float], float]:
    """Sorted times of the page of runs, and the peak memory of its process."""
    with pages(store) as place:
        connection = http.client.HTTPConnection(place.url.removeprefix("http://"), timeout=60)
        connection.request("GET", place.page().removeprefix(place.url))
        welcome = connection.getresponse()
        welcome.read()
        cookie = (welcome.getheader("set-cookie") or "").partition(";")[0]
        times = []
        for search, order, number in product(SEARCHES, ORDERS, range(1, rounds + 1)):
            query = urlencode({"q": search, "order": order, "page": number})
            begun = time.perf_counter()
            connection.request("GET", f"/?{query}", headers={"cookie": cookie})
            reply = connection.getresponse()
            text = reply.read().decode()
            times.append(time.perf_counter() - begun)
            if reply.status != 200 or text.count("/runs/") < least:
                raise SystemExit(f"the page of runs cannot be loaded: {reply.status}")
        connection.close()
        with open(f"/proc/{place.pid}/status") as file:
            peak_kib = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return sorted(times), peak_kib / KIB_PER_MIB


def _list_s(store: Store, chosen: RunFilter, order: str, number: int) -> float:
    begun = time.perf_counter()
    if not store.runs(chosen, order=order, limit=PAGE, offset=number * PAGE):
        raise SystemExit("a list is empty")
    store.count(chosen)
    return time.perf_counter() - begun


def _plant(store: Store, number: int) -> None:
    """Write a run like that of `measure -c 1,2,4,8`."""
    folder = RunFolder(store.folder / "runs" / f"{(number * 2654435761) % 2**32:08x}")
    folder.path.mkdir(parents=True)
    begun = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=10 * number)
    points = tuple(_point(level, number) for level in (1, 2, 4, 8))
    folder.write(
        Run(
            folder.path.name,
            "measure",
            words=("measure", "localhost:8000", f"model {number % 10}", "-c", "1,2,4,8", f"run {number}"),
            state=FINISHED,
            code=0,
            started_at=begun.isoformat(),
            ended_at=(begun + timedelta(seconds=40)).isoformat(),
            host="host",
            host_class="x86_64, 8 x a processor",
            server="triton 2.51.0",
            url="http://localhost:8000",
            model=f"model {number % 10}",
            tags=("nightly",) if number % 3 == 0 else (),
            verdict=f"{1000 + number % 100} infer/s at concurrency {number % 100}.",
            figures=points[-1].figures,
            points=points,
        )
    )


def _point(level: int, number: int) -> Point:
    values = {"throughput": 1000.0 * level + number % 97, **{f"p{p}": p / 10 for p in (50, 90, 95, 99)}}
    return Point(
        "concurrency",
        level,
        {name: Estimate(value, 0.98 * value, 1.02 * value) for name, value in values.items()},
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
