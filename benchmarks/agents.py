"""Lateness of the calls of 200 tasks in flight: `python -m benchmarks.agents` measures once and prints a line of JSON.

The tasks are 50 random graphs with fan-out up to 8, chains of up to 12 steps and tool pauses. The server is a process
that logs when each call arrives and when its answer ends. From its log every edge, every text and every figure of
every task is checked; lateness is the time of a send after its due time, which is the end of the last answer that the
call waits for, plus the pause.
"""

import argparse
import contextlib
import gc
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.bar import BenchError, Contest, Sample, Setting
from inferometer.base.units import NS_PER_S
from inferometer.model.task import expanded
from tests.support.call_log import CallLog, Heard, Speech
from tests.support.task_graphs import as_yaml, random_steps
from tests.support.task_log import check_log, run_tasks

GRAPHS, MOST_CALLS = 50, 120
IN_FLIGHT, TASKS = 200, 500
SERVICE_S = (0.2, 1.0)
LONGEST_S = 45  # of the load
_END_S = 30.0
_WORDS = (" and", " more")


@dataclass(frozen=True, slots=True)
class TaskLateness:
    """Lateness of all calls."""

    tasks: int
    calls: int
    edges: int
    seconds: float
    late_p50_ms: float
    late_p99_ms: float
    late_most_ms: float
    after_pause_p99_ms: float  # of calls that a tool pause came before
    busy_cores: float  # of the machine, with all processes of this benchmark


def measure_lateness(*, in_flight: int = IN_FLIGHT, count: int = TASKS, seed: int = 0) -> TaskLateness:
    """Run the tasks; raise BenchError if they do not end in time, AssertionError if the log contradicts a figure."""
    import psutil

    made = [random_steps(seed + number, most=MOST_CALLS) for number in range(GRAPHS)]
    graphs = tuple(map(expanded, made))
    psutil.cpu_percent()
    with _logged() as (address, heard):
        tasks, found = run_tasks(
            address,
            {"steps": as_yaml(max(made, key=len))},
            in_flight=in_flight,
            count=count,
            graphs=graphs,
            longest_ns=LONGEST_S * NS_PER_S,
        )
    busy = psutil.cpu_percent() / 100 * (psutil.cpu_count() or 1)
    if found.complete != count:
        raise BenchError(f"{found.complete} of {count} tasks ended within {LONGEST_S} s")
    calls = check_log(tasks, heard)
    rows = [
        (call.sent_ns - call.due_ns, task.graph.nodes[call.node].pause.draw_ns(0, task.number, call.node) > 0)
        for task in tasks
        for call in task.calls
    ]
    late_ms = np.array([late_ns for late_ns, _ in rows]) / 1e6
    paused_ms = late_ms[[is_paused for _, is_paused in rows]]
    p50, p99 = np.percentile(late_ms, (50, 99))
    return TaskLateness(
        tasks=len(tasks),
        calls=calls,
        edges=sum(len(task.graph.nodes[call.node].after) for task in tasks for call in task.calls),
        seconds=(max(call.ended_ns for call in heard) - min(call.arrived_ns for call in heard)) / NS_PER_S,
        late_p50_ms=round(float(p50), 4),
        late_p99_ms=round(float(p99), 4),
        late_most_ms=round(float(late_ms.max()), 3),
        after_pause_p99_ms=round(float(np.percentile(paused_ms, 99)), 4),
        busy_cores=round(busy, 2),
    )


@contextlib.contextmanager
def agents_lateness(setting: Setting) -> Iterator[Contest]:
    """A bar: the p99 of the lateness at 200 tasks in flight."""

    def measure() -> Sample:
        count = setting.count(TASKS, smoke=20)
        found = measure_lateness(in_flight=min(IN_FLIGHT, count), count=count)
        return Sample(
            found.late_p99_ms, {"p50 ms": found.late_p50_ms, "calls": found.calls, "edges": found.edges}
        )

    yield Contest(measure)


# --- the server


@contextlib.contextmanager
def _logged() -> Iterator[tuple[str, list[Heard]]]:
    """Run the server; its log is in the list at the end of the context."""
    heard: list[Heard] = []
    with tempfile.TemporaryDirectory(prefix="inferometer-agents-") as folder:
        log = Path(folder) / "log"
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.agents", "--serve", str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip(), heard
            child.stdin.close()
            child.wait(_END_S)
            heard += pickle.loads(log.read_bytes())
        finally:
            child.kill()
            child.wait()


def _serve(log: Path) -> None:
    """Answer calls until stdin ends, then write the log."""
    draw = Random(7)

    def speak(number: int, body: dict[str, Any]) -> Speech:
        return Speech((f"answer{number}", *_WORDS), draw.uniform(*SERVICE_S))

    gc.disable()  # a collection would delay the answers of all connections
    with CallLog(speak) as server:
        print(server.address, flush=True)
        sys.stdin.read()
    log.write_bytes(pickle.dumps(server.heard))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.serve is not None:
        _serve(given.serve)
        return
    print(json.dumps(asdict(measure_lateness(in_flight=given.in_flight, count=given.tasks, seed=given.seed))))


if __name__ == "__main__":
    main()
