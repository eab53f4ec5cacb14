"""The table of absolute figures in docs/gpu.md: each planted model as it is, measured on the GPU of this machine.

Run it as `python -m gpu_tests.figures [PERF_ANALYZER]`: with a path to the real perf_analyzer the two take
turns, with the same data, three times each; the medians are written.
"""

import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from gpu_tests.planted import ALL, PlantedLimit, embedded, plant
from inferometer import api
from inferometer.observe.host import open_nvml
from inferometer.server.embedded import EmbeddedTriton

PAGE = Path(__file__).parent.parent / "docs" / "gpu.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
CONCURRENCY = 8
ROUNDS = 3


def main(theirs: str | None = None) -> int:
    nvml = open_nvml()
    if nvml is None:
        print("There is no GPU here, or nvidia-ml-py is missing: docs/gpu.md stays as it is.")
        return 0
    device = ", ".join(nvml.names().values())
    rows = [row for limit in ALL for row in _measured(limit, device, theirs)]
    head = "| device | model | tool | infer/s | p50 ms | p99 ms |\n|---|---|---|---:|---:|---:|"
    table = "\n".join((BEGIN, head, *rows, END))
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + table + rest.split(END)[1])
    print(table)
    return 0


def _measured(limit: PlantedLimit, device: str, theirs: str | None) -> list[str]:
    tools = {"inferometer": _ours} | ({} if theirs is None else {"perf_analyzer": partial(_theirs, theirs)})
    found: dict[str, list[tuple[float, ...]]] = {tool: [] for tool in tools}
    with tempfile.TemporaryDirectory() as folder:
        repository = plant(Path(folder) / "models", (limit,))
        data = _data(limit, Path(folder) / "data")
        with embedded(repository) as server:
            for turn in range(ROUNDS):
                for tool in list(tools)[:: 1 if turn % 2 else -1]:
                    found[tool].append(tools[tool](limit.name, server, data))
    return [
        _row(device, limit.name, tool, *map(median, zip(*runs, strict=True))) for tool, runs in found.items()
    ]


def _data(limit: PlantedLimit, folder: Path) -> Path:
    """The same for both tools: what a GPU is fed decides what power it takes, and so its clocks."""
    first = limit.models[0]
    folder.mkdir()
    np.full(first.values, 0.5, {"TYPE_FP16": "<f2", "TYPE_FP32": "<f4"}[first.datatype]).tofile(
        folder / "INPUT"
    )
    return folder


def _row(device: str, model: str, tool: str, rate: float, p50: float, p99: float) -> str:
    return f"| {device} | {model} | {tool} | {rate:,.0f} | {p50:.3g} | {p99:.3g} |"


def _ours(model: str, server: EmbeddedTriton, data: Path) -> tuple[float, float, float]:
    found = api.measure(model, url=server.http_address, concurrency=CONCURRENCY, duration_s=3, data=str(data))
    level = found.levels[-1].measurement
    assert level is not None
    p50, p99 = (dict(level.latency.percentiles)[rank] / 1e6 for rank in (50.0, 99.0))
    return level.infer_per_s.value, p50, p99


def _theirs(command: str, model: str, server: EmbeddedTriton, data: Path) -> tuple[float, float, float]:
    words = [command, "-m", model, "-u", server.http_address, "--concurrency-range", str(CONCURRENCY)]
    done = subprocess.run(
        [*words, "-p", "2000", "-s", "50", "--input-data", str(data)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    rate, p50, p99 = (
        re.search(pattern, done.stdout)
        for pattern in (r"Throughput: (\S+)", r"p50 latency: (\S+)", r"p99 latency: (\S+)")
    )
    assert rate is not None
    assert p50 is not None
    assert p99 is not None
    return float(rate[1]), float(p50[1]) / 1000, float(p99[1]) / 1000


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
