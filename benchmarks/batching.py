"""Answers of varied lengths from continuous batching: our tool, aiperf and guidellm, ten seconds each.

The server (`python -m benchmarks.batching` prints its port and serves) has steps of known durations, and draws the
length of every answer from 32 to 96 tokens. The true figures are those of the same engine in a simulated closed loop
of 500 s. The server has its own core and, if allowed, the highest priority.
"""

import contextlib
import json
import os
import random
import signal
import tempfile
import urllib.request
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bar import BenchError, Sample, Setting
from benchmarks.children import run
from benchmarks.streams import TOOLS, Figures, Task, error_ms, running
from tests.support.batching import KNOWN_ENGINE, PROMPT, stationary
from tests.support.llm_server import LlmServer

SHORTEST, LONGEST = 32, 96
USERS = (8, 32)
MODEL = "tiny"
TRUTH_S = 500.0
_SECONDS = 10
_MOST_LATE_S = 0.002  # median delay of the server's steps above which clients cannot be judged
_LEAST_ERROR = 0.01  # percent
_TIMEOUT_S = 180


@dataclass(frozen=True, slots=True)
class BatchingRun:
    """The figures of a tool, and the number of streams in flight."""

    said: Figures
    users: int

    @property
    def tokens_error(self) -> float:
        """Error of tokens per second in percent."""
        true = stationary(f"{SHORTEST}..{LONGEST}", self.users, TRUTH_S).tokens_per_s
        return max(_LEAST_ERROR, abs(self.said.tokens_per_s / true - 1) * 100)

    @property
    def ttft_error_ms(self) -> float:
        """Error of the p50: the p90 of some fifty answers is at a jump, between one and two prompts in a step."""
        said, true = self.said.ttft_ms[0], stationary(f"{SHORTEST}..{LONGEST}", self.users, TRUTH_S)
        return error_ms((said, said), (true.first_p50_ns / 1e6, true.first_p50_ns / 1e6))

    def sample(self, judged: str) -> Sample:
        info = {
            "tokens/s": self.said.tokens_per_s,
            "TTFT p50 ms": self.said.ttft_ms[0],
            "p90 ms": self.said.ttft_ms[1],
        }
        return Sample(getattr(self, judged), info)


def batching_server() -> AbstractContextManager[str]:
    return running("benchmarks.batching")


def measure(tool: str, address: str, users: int, setting: Setting) -> BatchingRun:
    command, figures = TOOLS[tool]
    with tempfile.TemporaryDirectory() as folder:
        task = Task(
            address,
            setting.count(users, smoke=2),
            requests=4 if setting.is_smoke else None,
            folder=Path(folder),
            seconds=_SECONDS,
            model=MODEL,
            prompt_tokens=PROMPT,
            output_tokens=LONGEST,
        )
        run(command(task), timeout_s=_TIMEOUT_S, counts_cpu=False)
        found = figures(task)
    late_s = _late_s(address)
    if late_s > _MOST_LATE_S and not setting.is_smoke:
        raise BenchError(
            f"half of the server's steps were {late_s * 1e3:.1f} ms late: the machine is too busy"
        )
    return BatchingRun(found, users)


def _late_s(address: str) -> float:
    with urllib.request.urlopen(f"{address}/late", timeout=60) as reply:
        return float(json.load(reply))


def main() -> None:
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    source = random.Random(1)
    with LlmServer(
        KNOWN_ENGINE,
        dialect=None,
        prompt_tokens=PROMPT,
        lengths=lambda: source.randint(SHORTEST, LONGEST),
    ) as server:
        print(server.address.rpartition(":")[2], flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
