"""Pictures of the browser interface for the documentation: run `python -m tests.support.ui_pictures` to update them.

The live page shows a made-up run, so that it looks the same every time.
"""

import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from inferometer.report.chromium import Tab, browsing
from inferometer.stats.result import Result
from inferometer.store.store import Store
from tests.support.browser import screenshot, wait_until
from tests.support.pictures import FOLDER
from tests.support.reports import sample_result

LEVELS = ((1, 310.0, 3.1), (2, 590.0, 3.3), (4, 1060.0, 3.7), (8, 1640.0, 4.8), (16, 1880.0, 8.4))
LEVEL_S = 8.0
STEP_S = 0.2


def live_lines(now_s: float) -> Iterator[Mapping[str, Any]]:
    """Lines of a run in the middle of its fifth level."""
    chance = random.Random(7)
    at = now_s - LEVEL_S * (len(LEVELS) - 0.35)
    yield {"kind": "planned", "at": at, "levels": len(LEVELS), "longest_s": LEVEL_S * len(LEVELS)}
    for number, (load, rate, p50) in enumerate(LEVELS, 1):
        title = f"concurrency {load}"
        yield {
            "kind": "level",
            "at": at,
            "number": number,
            "mode": "concurrency",
            "value": load,
            "title": title,
        }
        begun, ended = at, 0.0
        while at < min(begun + LEVEL_S, now_s):
            at += STEP_S
            speed = rate * (1 + 0.03 * math.sin(at) + chance.gauss(0, 0.015))
            ended += speed * STEP_S
            slow = p50 * rate / speed
            yield {
                "kind": "sample",
                "at": at,
                "number": number,
                "phase": "warm-up" if at < begun + 1 else "measuring",
                "elapsed_s": at - begun,
                "left_s": LEVEL_S - (at - begun),
                "per_s": speed,
                "p50_ms": slow,
                "p90_ms": slow * 1.35,
                "p95_ms": slow * 1.6,
                "p99_ms": slow * (2.2 + chance.random() * 0.4),
                "ended": round(ended),
                "failed": 0,
                "outstanding": load,
                "client_cores": speed * 5e-5,
                "server_waiting": max(0.0, load - 5 + chance.gauss(0, 0.3)),
                "gpu": min(0.97, speed / 1950),
                "tokens_per_s": None,
            }
        if at < now_s:
            figures = {
                "per_s": rate,
                "p50_ms": p50,
                "p90_ms": p50 * 1.35,
                "p95_ms": p50 * 1.6,
                "p99_ms": p50 * 2.4,
            }
            ends = {name: (value, value * 0.985, value * 1.015) for name, value in figures.items()}
            yield {
                "kind": "level_end",
                "at": at,
                "number": number,
                "mode": "concurrency",
                "value": load,
                **ends,
            }


def planted(folder: Path) -> str:
    """Write twenty finished runs and one that appears to be running; return the id of the latter."""
    chance = random.Random(3)
    for day in range(1, 21):
        factor = (1.0 if day <= 12 else 0.92) * chance.gauss(1, 0.006)
        keeper = Store(folder).begin("measure", ("measure", "localhost:8000", "resnet50"), tags=("nightly",))
        keeper.run = replace(keeper.run, started_at=f"2026-10-{day:02}T03:00:00+00:00")
        keeper.save(slower(sample_result(), factor))
        keeper.end(0)
    words = ("measure", "localhost:8000", "resnet50", "-c", "1,2,4,8,16", "-d", "8s")
    keeper = Store(folder).begin("measure", words)
    keeper.about(url="localhost:8000", model="resnet50", server="triton 2.51.0")
    with Store(folder).live_path(keeper.run).open("a") as file:
        for line in live_lines(time.time()):
            file.write(json.dumps(line) + "\n")
    return keeper.run.id


def slower(result: Result, factor: float) -> Result:
    """Return the result for another model with scaled rates."""
    levels = []
    for level in result.levels:
        value = level.measurement.infer_per_s.value * factor
        rate = replace(level.measurement.infer_per_s, value=value, low=value * 0.985, high=value * 1.015)
        levels.append(replace(level, measurement=replace(level.measurement, infer_per_s=rate)))
    return replace(result, levels=tuple(levels), model={**result.model, "name": "resnet50"})


def take(tab: Tab, folder: Path) -> None:
    run = planted(folder / "store")
    command = (
        sys.executable,
        "-m",
        "inferometer.cli.main",
        "ui",
        "--store",
        str(folder / "store"),
        "--port",
        "0",
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url, _, token = process.stdout.readline().split()[-1].partition("/?token=")
        tab.visit(f"{url}/runs/{run}/live?token={token}", width=1180, height=1500)
        wait_until(tab, "document.querySelector('#levels svg path.line')")
        time.sleep(0.5)
        screenshot(tab, FOLDER / "live.png")
        tab.visit(f"{url}/trend?model=resnet50", width=1180, height=1000)
        wait_until(tab, "document.querySelector('iframe.report')?.style.height")
        time.sleep(0.5)
        screenshot(tab, FOLDER / "trend.png")
    finally:
        process.terminate()
        process.wait(timeout=10)


if __name__ == "__main__":
    with TemporaryDirectory(prefix="inferometer-pictures-") as place, browsing() as shown:
        take(shown, Path(place))
