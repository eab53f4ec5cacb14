"""Token streams: our tool, aiperf and guidellm against a server with exact timing that reports what it sent.

The server has its own core and, if allowed, the highest priority; the tools may use the other cores. One run of a tool
serves all bars with the same number of streams.
"""

import contextlib
import json
import math
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.arithmetic import Usage, marginal_us
from benchmarks.bar import BenchError, Contest, Sample, Setting
from benchmarks.children import ROOT, Ended, end_group, pinned, run, two_cores
from benchmarks.contests import Open
from benchmarks.parts import PARTS, environment, our_script
from benchmarks.stream_server import MODEL, PROMPT_TOKENS, TOKENS, Quantiles, Truth
from inferometer.base.notes import CLIENT_LIMITS, Note

OURS, AIPERF, GUIDELLM = "ours", "aiperf", "guidellm"
ENVIRONMENTS = {
    AIPERF: ("aiperf==0.13.*",),
    GUIDELLM: ("guidellm==0.8.*", "torch==2.13.0"),  # without a pin, torch installs gigabytes of CUDA
}
LENGTHS = {20: 20, 200: 10, 1000: 4}  # answers per stream in a run; a short run has one per stream
_MOST_LATE_MS = 1.0  # median lateness of the server's tokens above which clients cannot be judged
_LEAST_ERROR_MS = 0.001
_WORDS = 2000
_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures reported by a tool."""

    ttft_ms: Quantiles
    tokens_per_s: float
    gap_ms: Quantiles  # quantiles of the mean gap per stream, which all tools report
    is_client_limited: bool = False


@dataclass(frozen=True, slots=True)
class StreamRun:
    """The figures of a tool, what the server sent during the run, and the cost of a token."""

    said: Figures
    truth: Truth
    cpu_us: float  # per additional token
    cpu_s: float

    @property
    def ttft_error_ms(self) -> float:
        return error_ms(self.said.ttft_ms, self.truth.ttft_ms)

    @property
    def gap_error_ms(self) -> float:
        return error_ms(self.said.gap_ms, self.truth.gap_ms)

    @property
    def tokens_per_s(self) -> float:
        return self.said.tokens_per_s

    @property
    def says_so(self) -> float:
        """1 if the result says that the client was the limit, else 0."""
        return float(self.said.is_client_limited)

    def sample(self, judged: str) -> Sample:
        info = {
            "TTFT p50 ms": self.said.ttft_ms[0],
            "p90 ms": self.said.ttft_ms[1],
            "gap p50 ms": self.said.gap_ms[0],
            "gap p90 ms": self.said.gap_ms[1],
            "tokens/s": self.said.tokens_per_s,
            "CPU s": self.cpu_s,
            "ms server late p99": self.truth.late_p99_ms,
        }
        if math.isnan(self.cpu_s):
            del info["CPU s"]
        if self.said.is_client_limited:
            info["client-limited"] = 1.0
        return Sample(getattr(self, judged), info)


def error_ms(said: Quantiles, true: Quantiles) -> float:
    """Error of the p50 or the p90, whichever is larger: symmetric noise does not affect a median."""
    return max(_LEAST_ERROR_MS, *(abs(one - other) for one, other in zip(said, true, strict=True)))


# --- the server


def stream_server() -> AbstractContextManager[str]:
    return running("benchmarks.stream_server")


@contextlib.contextmanager
def running(module: str) -> Iterator[str]:
    """Run a server, which prints its port, on its own core while the context lasts; yield its address."""
    with pinned(two_cores().server):
        child = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,
        )
    try:
        assert child.stdout is not None
        port = child.stdout.readline().strip().decode()
        if not port:
            raise BenchError("the server with exact timing does not start")
        yield f"http://127.0.0.1:{port}"
    finally:
        end_group(child.pid)
        child.communicate()


def told(address: str) -> Truth:
    """Return what the server sent since the last call."""
    with urllib.request.urlopen(f"{address}/truth", timeout=60) as reply:
        return Truth(**json.load(reply))


# --- the tools: how each is called, and where its figures are


@dataclass(frozen=True, slots=True)
class Task:
    """The load for a tool, and a folder for its output."""

    address: str
    streams: int
    requests: int | None
    folder: Path
    seconds: int = 0  # without a number of requests
    model: str = MODEL
    prompt_tokens: int = PROMPT_TOKENS
    output_tokens: int = TOKENS


def _ours(task: Task) -> Sequence[str]:
    return [
        *(
            our_script("inferometer"),
            "measure",
            task.address,
            task.model,
            "--service-kind",
            "openai",
            "--streaming",
        ),
        *("-c", str(task.streams), "--timeout", "600s"),
        *(("-n", str(task.requests)) if task.requests else ("-d", f"{task.seconds}s")),
        *("--prompt-tokens", str(task.prompt_tokens), "--output-tokens", str(task.output_tokens)),
        *("--json", str(task.folder / "ours.json"), "-q"),
    ]


def _our_figures(task: Task) -> Figures:
    (level,) = json.loads((task.folder / "ours.json").read_text())["levels"]
    found = level["measurement"]
    if found["failed_count"]:
        raise BenchError(f"{found['failed_count']} of our streams failed")
    return Figures(
        ttft_ms=_our_quantiles(found["streaming"]["first"]),
        gap_ms=_our_quantiles(found["tokens"]["between"]),
        tokens_per_s=found["tokens"]["output_per_s"],
        is_client_limited=any(Note[remark["note"]] in CLIENT_LIMITS for remark in level["remarks"]),
    )


def _our_quantiles(distribution: Mapping[str, Any]) -> Quantiles:
    found = dict(distribution["percentiles"])
    return found[50.0] / 1e6, found[90.0] / 1e6


def _aiperf(task: Task) -> Sequence[str]:
    return [
        *(
            str(environment(AIPERF, ENVIRONMENTS[AIPERF]) / "aiperf"),
            "profile",
            "-m",
            task.model,
            "-u",
            task.address,
        ),
        *("--tokenizer", str(tokenizer().relative_to(ROOT)), "--endpoint-type", "chat", "--streaming"),
        *(
            "--use-server-token-count",
            "--concurrency",
            str(task.streams),
        ),
        *(
            ("--request-count", str(task.requests))
            if task.requests
            else ("--benchmark-duration", str(task.seconds))
        ),
        *("--isl", str(task.prompt_tokens), "--osl", str(task.output_tokens), "--ui", "none"),
        *("--artifact-dir", str(task.folder / "aiperf")),
    ]


def _aiperf_figures(task: Task) -> Figures:
    found = json.loads((task.folder / "aiperf" / "profile_export_aiperf.json").read_text())
    return Figures(
        ttft_ms=(found["time_to_first_token"]["p50"], found["time_to_first_token"]["p90"]),
        gap_ms=(found["inter_token_latency"]["p50"], found["inter_token_latency"]["p90"]),
        tokens_per_s=found["output_token_throughput"]["avg"],
    )


def _guidellm(task: Task) -> Sequence[str]:
    return [
        *(str(environment(GUIDELLM, ENVIRONMENTS[GUIDELLM]) / "guidellm"), "run", "--disable-console"),
        *("--backend", f"kind=openai_http,target={task.address},model={task.model}"),
        *("--profile", f"kind=concurrent,streams={task.streams}"),
        *(
            "--constraint",
            f"kind=max_requests,count={task.requests}"
            if task.requests
            else f"kind=max_duration,seconds={task.seconds}",
        ),
        *("--tokenizer", f"kind=hf_auto,model={tokenizer()}"),
        *(
            "--data",
            f"kind=synthetic_text,prompt_tokens={task.prompt_tokens},output_tokens={task.output_tokens}",
        ),
        *("--output", f"kind=json,path={task.folder / 'guidellm.json'}"),
    ]


def _guidellm_figures(task: Task) -> Figures:
    (found,) = json.loads((task.folder / "guidellm.json").read_text())["benchmarks"]
    metrics = found["metrics"]
    first = metrics["time_to_first_token_ms"]["successful"]["percentiles"]
    gaps = metrics["inter_token_latency_ms"]["successful"]["percentiles"]
    return Figures(
        ttft_ms=(first["p50"], first["p90"]),
        gap_ms=(gaps["p50"], gaps["p90"]),
        tokens_per_s=metrics["output_tokens_per_second"]["successful"]["mean"],
    )


TOOLS: Mapping[str, tuple[Callable[[Task], Sequence[str]], Callable[[Task], Figures]]] = {
    OURS: (_ours, _our_figures),
    AIPERF: (_aiperf, _aiperf_figures),
    GUIDELLM: (_guidellm, _guidellm_figures),
}


def tokenizer() -> Path:
    """Create a folder with a word tokenizer, which the other tools need for prompts; nothing is downloaded."""
    folder = PARTS / "tokenizer"
    if not (folder / "tokenizer_config.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        names = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(_WORDS))]
        specials = [
            {"id": number, "content": name, "special": True, "single_word": False, "lstrip": False}
            | {"rstrip": False, "normalized": False}
            for number, name in enumerate(names[:3])
        ]
        vocabulary = {name: number for number, name in enumerate(names)}
        model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
        words = {
            "version": "1.0",
            "added_tokens": specials,
            "pre_tokenizer": {"type": "Whitespace"},
            "model": model,
        }
        nothing = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
        (folder / "tokenizer.json").write_text(json.dumps(words | nothing))
        settings = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


# --- runs


def run_tool(tool: str, task: Task, cores: frozenset[int] | None = None) -> tuple[Figures, Truth, Ended]:
    command, figures = TOOLS[tool]
    task.folder.mkdir(exist_ok=True)
    words = command(task)
    told(task.address)  # discard what was sent before this run
    # guidellm leaves a process behind; no bar compares its CPU time.
    ended = run(words, timeout_s=_TIMEOUT_S, cores=cores, counts_cpu=tool != GUIDELLM)
    sent = told(task.address)
    if sent.streams < (task.requests or 1):
        raise BenchError(f"{tool} took {sent.streams} of {task.requests} streams to their end")
    return figures(task), sent, ended


def _measure(tool: str, address: str, streams: int, setting: Setting) -> StreamRun:
    answers = LENGTHS[streams]
    streams = setting.count(streams, smoke=streams // 20)
    if setting.is_smoke:
        with tempfile.TemporaryDirectory() as folder:
            said, sent, ended = run_tool(tool, Task(address, streams, 2 * streams, Path(folder)))
        return StreamRun(said, sent, ended.cpu_s / sent.tokens * 1e6, ended.cpu_s)
    with tempfile.TemporaryDirectory() as folder:
        _, few, short = run_tool(tool, Task(address, streams, streams, Path(folder) / "short"))
        said, sent, long = run_tool(tool, Task(address, streams, streams * answers, Path(folder) / "long"))
    if sent.late_p50_ms > _MOST_LATE_MS:
        raise BenchError(
            f"half of the server's tokens were {sent.late_p50_ms:,.0f} ms late: the machine is too busy"
        )
    cost = marginal_us(Usage(short.cpu_s, few.tokens), Usage(long.cpu_s, sent.tokens))
    return StreamRun(said, sent, cost, long.cpu_s)


class Sampled(Protocol):
    """A run, with the properties that bars compare."""

    def sample(self, judged: str) -> Sample: ...


@dataclass(frozen=True, slots=True)
class StreamRuns:
    """All runs with a number of streams, by tool. A bar reuses the runs of other bars before it measures more."""

    streams: int
    server: Callable[[], AbstractContextManager[str]] = stream_server
    measure: Callable[[str, str, int, Setting], "Sampled"] = (
        _measure  # a tool, at an address, with so many streams
    )
    runs: dict[str, list["Sampled"]] = field(default_factory=lambda: {tool: [] for tool in TOOLS})

    def bar(self, rival: str, judged: str) -> Open:
        """Bar that compares a property of our runs with the rival's."""

        @contextlib.contextmanager
        def opened(setting: Setting) -> Iterator[Contest]:
            with self.server() as address:

                def taking(tool: str) -> Callable[[], Sample]:
                    had = iter(tuple(self.runs[tool]))

                    def measure() -> Sample:
                        found = next(had, None)
                        if found is None:
                            found = self.measure(tool, address, self.streams, setting)
                            self.runs[tool].append(found)
                        return found.sample(judged)

                    return measure

                yield Contest(ours=taking(OURS), theirs=taking(rival))

        return opened


def _thousand(address: str, requests: int, folder: Path, setting: Setting) -> Task:
    return Task(address, setting.count(1000, smoke=20), setting.count(requests, smoke=40), folder)


@contextlib.contextmanager
def one_core_rate(setting: Setting) -> Iterator[Contest]:
    """Tokens per second received from a thousand streams, with all our processes on one core."""

    def measure() -> Sample:
        with tempfile.TemporaryDirectory() as folder:
            task = _thousand(address, 10_000, Path(folder), setting)
            said, sent, ended = run_tool(OURS, task, cores=two_cores().load)
        return StreamRun(said, sent, ended.cpu_s / sent.tokens * 1e6, ended.cpu_s).sample("tokens_per_s")

    with stream_server() as address:
        yield Contest(ours=measure)


@contextlib.contextmanager
def shared_core(setting: Setting) -> Iterator[Contest]:
    """The same while another program keeps the core busy: whether the result says that the client was the limit."""

    def measure() -> Sample:
        with tempfile.TemporaryDirectory() as folder, _busy(two_cores().load):
            task = _thousand(address, 4_000, Path(folder), setting)
            said, sent, ended = run_tool(OURS, task, cores=two_cores().load)
        return StreamRun(said, sent, ended.cpu_s / sent.tokens * 1e6, ended.cpu_s).sample("says_so")

    with stream_server() as address:
        yield Contest(ours=measure)


@contextlib.contextmanager
def _busy(cores: frozenset[int]) -> Iterator[None]:
    with pinned(cores):
        child = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        yield
    finally:
        end_group(child.pid)
        child.wait()
