"""Verdicts on troubles that are planted on a real Triton with random parameters: right, inconclusive or wrong.

    python -m benchmarks.planted_series [--count 20] [--only lock --only batches]

Every second case runs beside programs that keep the cores busy. A verdict may be inconclusive, but never wrong.
"""

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from inferometer import api
from inferometer.base.notes import CLIENT_LIMITS, Note
from inferometer.base.units import NS_PER_MS
from inferometer.compare.interference import HIDDEN, NOTHING, UNKNOWN
from inferometer.diagnose.diagnosis import (
    BATCHING,
    COMPUTE,
    INSTANCES,
    LIGHT,
    SHARED,
    SWITCHED_OFF,
    Diagnosis,
)
from inferometer.server.embedded import EmbeddedTriton
from inferometer.stats.verdict import INCONCLUSIVE, SHOWN
from tests.support.planted import TENSORS

RIGHT, OPEN, WRONG = "right", "inconclusive", "wrong"
SPINNER = "while True: pass"
CODE = '''"""Holds one of `slots` locks, and sleeps: `fixed` ms, and `item` ms times the inferences to the `power`."""

import fcntl
import json
import os
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.given = json.loads(json.loads(args["model_config"])["parameters"]["given"]["string_value"])
        paths = [f"{self.given['folder']}/lock{number}" for number in range(self.given["slots"])]
        self.files = [os.open(path, os.O_RDWR | os.O_CREAT) for path in paths]

    def execute(self, requests):
        inputs = [request.inputs()[0].as_numpy() for request in requests]
        items = sum(len(values) for values in inputs)
        asleep_s = (self.given["fixed"] + self.given["item"] * items ** self.given["power"]) / 1000
        file = self.locked()
        time.sleep(asleep_s)
        if file is not None:
            fcntl.flock(file, fcntl.LOCK_UN)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", values)]) for values in inputs]

    def locked(self):
        while self.files:
            for file in self.files:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return file
                except BlockingIOError:
                    pass
            time.sleep(0.001)
        return None
'''


class Found(NamedTuple):
    """Outcome of a case and its evidence."""

    outcome: str
    words: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted_series")
    parser.add_argument("--count", type=int, default=20, help="cases of each kind (default 20)")
    parser.add_argument(
        "--only", action="append", choices=tuple(CASES), help="only this kind; may be repeated"
    )
    parser.add_argument("--seed", type=int, default=0, help="first seed (default 0)")
    asked = parser.parse_args()
    is_wrong = False
    for kind in asked.only or CASES:
        outcomes: Counter[str] = Counter()
        for seed in range(asked.seed, asked.seed + asked.count):
            draw = random.Random(f"{kind} {seed}")
            with tempfile.TemporaryDirectory() as folder, crowd(2 * (seed % 2)):
                found = CASES[kind](draw, Path(folder))
            outcomes[found.outcome] += 1
            print(f"{kind} {seed}: {found.outcome}: {found.words}", flush=True)
        print(f"{kind}: {', '.join(f'{outcomes[name]} {name}' for name in (RIGHT, OPEN, WRONG))}", flush=True)
        is_wrong |= bool(outcomes[WRONG])
    return int(is_wrong)


@contextlib.contextmanager
def crowd(count: int, *words: str) -> Iterator[None]:
    """Programs that keep cores busy."""
    programs = [subprocess.Popen([*words, sys.executable, "-c", SPINNER]) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


@contextlib.contextmanager
def triton(
    folder: Path, *names: str, instances: int = 1, more: str = "", **given: float
) -> Iterator[EmbeddedTriton]:
    """A server with these models, which share their locks."""
    for name in names:
        (folder / "models" / name / "1").mkdir(parents=True)
        (folder / "models" / name / "1" / "model.py").write_text(CODE)
        text = json.dumps(
            {"folder": str(folder), "fixed": 0.0, "item": 0.0, "power": 1.0, "slots": 0, **given}
        )
        config = (
            f'backend: "python"\n{TENSORS}instance_group [ {{ kind: KIND_CPU count: {instances} }} ]\n{more}'
        )
        parameter = f'parameters {{ key: "given" value {{ string_value: {json.dumps(text)} }} }}\n'
        (folder / "models" / name / "config.pbtxt").write_text(config + parameter)
    arguments = ("--disable-auto-complete-config", "--exit-timeout-secs", "0")
    with EmbeddedTriton(folder / "models", extra_args=arguments) as server:
        yield server


def lock(draw: random.Random, folder: Path) -> Found:
    """Two models take the same lock while they sleep: they share something that is not a resource."""
    held_ms = draw.uniform(4, 20)
    with triton(folder, "a", "b", fixed=held_ms, slots=1) as server:
        found = api.interfere(f"a@{server.http_address}", f"b@{server.http_address}", duration_s=4)
    causes = {row.contends_for for row in found.models}
    words = f"{held_ms:.0f} ms: {found.ruling}, {', '.join(sorted(causes))}"
    if found.ruling == SHOWN and causes <= {HIDDEN}:
        return Found(RIGHT, words)
    is_open = found.ruling != "not shown" and causes <= {HIDDEN, UNKNOWN, NOTHING}
    return Found(OPEN if is_open else WRONG, words)


def slots(draw: random.Random, folder: Path) -> Found:
    """Instances share one or two locks: more instances than locks do not help."""
    locks, held_ms = draw.choice((1, 2)), draw.uniform(8, 25)
    before = draw.choice((1, 4))
    with triton(folder, "m", instances=before, fixed=held_ms, slots=locks) as server:
        found = diagnosed(server)
    kept = instances_kept(found, before)
    words = f"{locks} locks, {before} instances, kept {kept}: {found.ruling}: {found.verdict.sentence}"
    if kept > max(before, 2 * locks) or found.verdict.kind not in (SHARED, COMPUTE, BATCHING, LIGHT):
        is_open = found.ruling == INCONCLUSIVE or not found.trials
        return Found(OPEN if is_open and kept <= before else WRONG, words)
    is_right = found.verdict.kind == SHARED if before > locks else kept <= 2 * locks
    return Found(RIGHT if is_right else OPEN, words)


def batches(draw: random.Random, folder: Path) -> Found:
    """A batch takes longer than its requests one after the other."""
    item_ms, power = draw.uniform(3, 8), draw.uniform(1.5, 2.0)
    with triton(folder, "m", item=item_ms, power=power, more="dynamic_batching { }\n") as server:
        found = diagnosed(server)
    kept = [trial for trial in found.trials if trial.is_kept]
    tried = ", ".join(f"{row.suggestion.change.after} {row.gain:+.0%}" for row in found.trials)
    words = f"{item_ms:.1f} ms^{power:.1f}: {found.ruling}, tried {tried}: {found.verdict.sentence}"
    if any(trial.suggestion.change.after == SWITCHED_OFF for trial in kept):
        return Found(RIGHT, words)
    is_worse = any(trial.gain < 0 for trial in kept)
    is_open = found.ruling == INCONCLUSIVE or not found.trials
    return Found(OPEN if is_open and not is_worse else WRONG, words)


def starved(draw: random.Random, folder: Path) -> Found:
    """The client shares its core with busy programs: its times are too long, which it must say."""
    slept_ms, busy = draw.uniform(3, 15), draw.choice((1, 2, 3))
    load = draw.choice((1, 4))
    with triton(folder, "m", instances=4, fixed=slept_ms) as server:
        subprocess.run(["taskset", "-apc", "1", str(server.pid)], check=True, capture_output=True)
        quiet_ms = median_ms(folder, server, load)
        with crowd(busy, "taskset", "-c", "0"):
            found_ms, notes = median_ms(folder, server, load, "taskset", "-c", "0"), notes_of(folder)
    words = f"{busy} busy, {load} in flight: p50 {found_ms:.2f} ms where {quiet_ms:.2f} ms is true, {sorted(notes)}"
    if notes & {note.name for note in CLIENT_LIMITS}:
        return Found(RIGHT if found_ms > 1.05 * quiet_ms else OPEN, words)
    if found_ms < 1.1 * quiet_ms:
        return Found(RIGHT, words)
    is_open = found_ms < 1.2 * quiet_ms and Note.HOST_BUSY.name in notes
    return Found(OPEN if is_open else WRONG, words)


def diagnosed(server: EmbeddedTriton) -> Diagnosis:
    return api.diagnose(
        "m", url=server.http_address, concurrency=(1, 8), duration_s=1, apply=True, budget_s=15
    )


def instances_kept(found: Diagnosis, before: int) -> int:
    changes = [trial.suggestion.change for trial in found.trials if trial.is_kept]
    return int(next((change.after for change in reversed(changes) if change.kind == INSTANCES), before))


def median_ms(folder: Path, server: EmbeddedTriton, load: int, *prefix: str) -> float:
    words = ("measure", server.http_address, "m", "-c", str(load), "-d", "3s", "--no-store", "-q")
    command = [
        *prefix,
        sys.executable,
        "-m",
        "inferometer.cli.main",
        *words,
        "--json",
        str(folder / "one.json"),
    ]
    subprocess.run(command, check=False, capture_output=True)
    (level,) = api.load(folder / "one.json").levels
    assert level.measurement is not None
    return level.measurement.latency.percentile_ns(50) / NS_PER_MS


def notes_of(folder: Path) -> set[str]:
    (level,) = api.load(folder / "one.json").levels
    return {remark.note.name for remark in level.remarks}


CASES: dict[str, Callable[[random.Random, Path], Found]] = {
    "lock": lock,
    "slots": slots,
    "batches": batches,
    "starved": starved,
}


if __name__ == "__main__":
    raise SystemExit(main())
