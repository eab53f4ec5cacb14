"""The tuner on the GPU of this machine: what it finds in a short, a longer and a long time, beside a plain grid.

Run it as `python -m gpu_tests.tuning FOLDER [--budgets 60,240] [--no-grid]`: a line per search, and every study in
FOLDER.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpu_tests.planted import MLP, embedded, plant
from inferometer import api
from inferometer.observe.host import open_nvml

LIMIT_MS = 20
INSTANCES, LOADS = (1, 2, 4), (8, 32, 64, 128)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budgets", default="60,60,60,120,240")
    parser.add_argument("--no-grid", action="store_true")
    given = parser.parse_args()
    if open_nvml() is None:
        print("There is no GPU here, or nvidia-ml-py is missing: nothing is tuned.")
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        repository = plant(Path(place), (MLP,))
        for number, budget in enumerate(given.budgets.split(",")):
            _tuned(repository, given.folder / f"tune-{budget}-{number}", budget)
        if not given.no_grid:
            _grid(repository)
    return 0


def _tuned(repository: Path, stem: Path, budget: str) -> None:
    begin = time.monotonic()
    words = ["tune", MLP.name, "--model-repository", str(repository), "--slo", f"p99<{LIMIT_MS}ms"]
    files = ["--json", f"{stem}.json", "--html", f"{stem}.html", "--journal", f"{stem}.sqlite"]
    done = subprocess.run(
        [sys.executable, "-m", "inferometer.cli.main", *words, "--budget", f"{budget}s", *files],
        capture_output=True,
        text=True,
        timeout=3 * float(budget) + 60,
        check=False,
    )
    stem.with_suffix(".log").write_text(f"{done.stdout}\n{done.stderr}")
    said = " ".join(done.stdout.split()[:60])
    print(f"budget {budget} s: {time.monotonic() - begin:.0f} s, code {done.returncode}: {said}", flush=True)


def _grid(repository: Path) -> None:
    """Every point of it once, for two seconds."""
    original = (repository / MLP.name / "config.pbtxt").read_text()
    for count in INSTANCES:
        for is_batching in (True, False):
            text = original.replace("count: 4", f"count: {count}")
            if not is_batching:
                text = "\n".join(line for line in text.splitlines() if "dynamic_batching" not in line)
            (repository / MLP.name / "config.pbtxt").write_text(text)
            with embedded(repository) as server:
                found = api.measure(MLP.name, url=server.http_address, concurrency=list(LOADS), duration_s=2)
            for level in found.levels:
                figures = level.measurement
                assert figures is not None
                p99_ms = dict(figures.latency.percentiles)[99.0] / 1e6
                row = {"instances": count, "batching": is_batching, "load": level.value}
                print(
                    json.dumps(row),
                    f"{figures.infer_per_s.value:,.0f} infer/s, p99 {p99_ms:.3g} ms",
                    flush=True,
                )
    (repository / MLP.name / "config.pbtxt").write_text(original)


if __name__ == "__main__":
    sys.exit(main())
