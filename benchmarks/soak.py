"""Soak test of the client: half an hour of load in a tenth of the time. `python -m benchmarks.soak`.

Two classes at fixed rates run the built-in scenario `soak`, `PACE` times as fast and with `PACE` times the rate, so
that the number of requests is the same. The memory of every client process is sampled. It must not grow by more than
2 % after the first of the six parts, and the lag of sends must not drift.
"""

import argparse
import os
import statistics
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from inferometer.base.units import NS_PER_US
from inferometer.measure.mix import WeightedModel
from inferometer.options.options import AUTO, REQUEST_TIMEOUT_S
from inferometer.scenario.ready import open_scenario
from inferometer.scenario.run import ScenarioRequest, prepare_scenario, run_scenario
from inferometer.stats.measurement import Level
from inferometer.stats.watcher import Watcher

GROWTH = 0.02
DRIFT = 1.25  # allowed lag, relative to the first parts,
SLACK_US = 50.0  # plus this slack
LOOK_S = 0.5
RATE = 40.0  # requests per second of both classes, before the pace
MODELS = (WeightedModel("simple", 3.0), WeightedModel("identity_fp32", 1.0))


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the soak."""

    name: str
    memory: Mapping[str, int]  # maximum of each process, in bytes
    lag_us: float  # p50 of the lateness of sends
    requests: int
    failed: int


@dataclass(slots=True)
class Memory:
    """A thread that samples the maximum memory of each process since the last query."""

    roles: dict[int, str] = field(default_factory=dict)
    _most: dict[str, int] = field(default_factory=dict)
    _is_over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self._is_over.wait(LOOK_S):
            self._look()

    def take(self) -> dict[str, int]:
        self._look()
        found, self._most = self._most, {}
        return found

    def end(self) -> None:
        self._is_over.set()

    def _look(self) -> None:
        me = psutil.Process()
        for child in (me, *me.children()):
            try:
                words, size = child.cmdline(), child.memory_info().rss
            except psutil.Error:
                continue
            if child.pid != os.getpid() and "inferometer.load.worker" not in words:
                continue  # the server's
            workers = sum(role.startswith("worker") for role in self.roles.values())
            role = self.roles.setdefault(
                child.pid, "controller" if child.pid == os.getpid() else f"worker {workers + 1}"
            )
            self._most[role] = max(self._most.get(role, 0), size)


class Parts(Watcher):
    """Records every part when it ends."""

    def __init__(self, memory: Memory) -> None:
        self.parts: list[Part] = []
        self._memory = memory

    def level_started(self, mode: str, value: float) -> None:
        self._memory.take()

    def level_finished(self, level: Level) -> None:
        found = level.measurement
        lag_ns = 0 if found is None else found.client.lag_p50_ns
        counts = (0, 0) if found is None else (found.request_count, found.failed_count)
        part = Part(level.name, self._memory.take(), lag_ns / NS_PER_US, *counts)
        self.parts.append(part)
        print(_line(part), flush=True)


def _line(part: Part) -> str:
    memory = ", ".join(f"{role} {size / 2**20:.1f} MiB" for role, size in sorted(part.memory.items()))
    return f"{part.name}: {part.requests:,} requests, lag p50 {part.lag_us:.0f} us, {memory}"


def problems(parts: Sequence[Part]) -> list[str]:
    """Describe what has grown or drifted; the first part is a warm-up."""
    found = []
    if len(parts) < 3:
        return ["too few parts to compare"]
    first, rest = parts[1], parts[2:]
    for role, before in first.memory.items():
        after = max((part.memory[role] for part in rest if role in part.memory), default=0)
        if after > before * (1 + GROWTH):
            grown = f"{before / 2**20:.1f} to {after / 2**20:.1f} MiB"
            found.append(f"the memory of the {role} grew from {grown}, more than {GROWTH:.0%}")
    third = max(1, len(parts) // 3)
    early = statistics.median(part.lag_us for part in parts[:third])
    late = statistics.median(part.lag_us for part in parts[-third:])
    if late > early * DRIFT + SLACK_US:
        found.append(f"the lag of sends went from {early:.0f} to {late:.0f} us")
    failed = sum(part.failed for part in parts)
    return [*found, f"{failed:,} requests failed"] if failed else found


def soak(address: str, minutes: float, pace: float) -> list[Part]:
    from inferometer.measure.checks import make
    from inferometer.options.values import Range

    given = {"url": address, "service_kind": AUTO, "request_rate": Range(RATE * pace)}
    options = make(given, defaults={"request_timeout_s": REQUEST_TIMEOUT_S})
    request = ScenarioRequest(open_scenario("soak"), options, MODELS, duration_s=minutes * 60 / pace)
    memory = Memory()
    watcher = Parts(memory)
    thread = threading.Thread(target=memory.watch, daemon=True)
    thread.start()
    for _ in run_scenario(prepare_scenario(request), watcher):
        pass
    memory.end()
    thread.join()
    return watcher.parts


def main() -> int:
    from inferometer.server.embedded import EmbeddedTriton

    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="A soak of ourselves.")
    parser.add_argument("--minutes", type=float, default=30.0, help="of load (default 30)")
    parser.add_argument("--pace", type=float, default=10.0, help="speed-up factor (default 10)")
    asked = parser.parse_args()
    began = time.monotonic()
    with EmbeddedTriton(load_models=tuple(row.model for row in MODELS)) as server:
        parts = soak(server.http_address, asked.minutes, asked.pace)
    found = problems(parts)
    for problem in found:
        print(f"FAILED: {problem}")
    sent = sum(part.requests for part in parts)
    print(
        f"{sent:,} requests in {time.monotonic() - began:.0f} s: {'as it was' if not found else 'not as it was'}"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
