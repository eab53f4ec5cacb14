"""Table of all bars."""

from benchmarks import batching, contests
from benchmarks.agents import agents_lateness
from benchmarks.bar import Bar, Direction
from benchmarks.cluster import AT_A_RATE, IN_FLIGHT, cluster_cpu
from benchmarks.in_process import in_process_p50
from benchmarks.live_page import live_page_cpu, live_page_lag
from benchmarks.merge import merge_bar
from benchmarks.mixed import FLOW, IN_PYTHON, check_cpu, mixed_cpu, task_cpu, visit_cpu
from benchmarks.startup import COMMANDS, startup_cpu
from benchmarks.store import store_bar
from benchmarks.streams import AIPERF, GUIDELLM, LENGTHS, StreamRuns, one_core_rate, shared_core
from benchmarks.tuner import tuner
from tests.support.planted import PLANTED

PERF_ANALYZER = "perf_analyzer 2.51"
WRK = "wrk"
WIRE = "ours on the wire"
RIVALS = {AIPERF: "aiperf 0.13", GUIDELLM: "guidellm 0.8"}
JUDGED = {
    # end of the name: property of a run, title, unit, target, rivals
    "ttft": ("ttft_error_ms", "error of the TTFT (p50 or p90)", "ms", 0.33, (AIPERF, GUIDELLM)),
    "gap": ("gap_error_ms", "error of the gap between tokens (p50 or p90)", "ms", 0.33, (AIPERF, GUIDELLM)),
    "cpu": ("cpu_us", "CPU per token", "us", 0.15, (AIPERF,)),
}
BATCHES = {users: StreamRuns(users, batching.batching_server, batching.measure) for users in batching.USERS}
JUDGED_BATCHES = {
    # end of the name: property of a run, title, unit, target
    "tokens": ("tokens_error", "error of tokens per second", "%", 0.1),
    "ttft": ("ttft_error_ms", "error of the TTFT's p50", "ms", 0.33),
}
STREAMS = {streams: StreamRuns(streams) for streams in LENGTHS}


def _against(rival: str, name: str) -> str:
    """Return the name of a bar; bars against aiperf have no suffix."""
    return name if rival == AIPERF else f"{name}-{rival}"


BARS = (
    Bar(
        name="http-cpu-8",
        title="CPU per request, HTTP, Triton simple, concurrency 8",
        unit="us",
        target=0.25,
        rival=PERF_ANALYZER,
        open=contests.cpu_per_request(8),
    ),
    Bar(
        name="http-cpu-1",
        title="CPU per request, HTTP, Triton simple, concurrency 1",
        unit="us",
        rival=PERF_ANALYZER,
        open=contests.cpu_per_request(1),
    ),
    Bar(
        name="grpc-cpu-8",
        title="CPU per request, gRPC, Triton simple, concurrency 8",
        unit="us",
        target=0.25,
        rival=PERF_ANALYZER,
        rounds=5,
        open=contests.cpu_per_request(8, "grpc"),
    ),
    Bar(
        name="grpc-cpu-1",
        title="CPU per request, gRPC, Triton simple, concurrency 1",
        unit="us",
        target=0.4,
        rival=PERF_ANALYZER,
        rounds=5,
        open=contests.cpu_per_request(1, "grpc"),
    ),
    Bar(
        name="mixed-cpu",
        title="CPU per request, HTTP, two models by weight 3:1, concurrency 8",
        unit="us",
        target=1.1,
        rival="ours with one model",
        rounds=7,
        open=mixed_cpu,
    ),
    Bar(
        name="check-cpu",
        title="CPU per request, HTTP, Triton simple, concurrency 8: 1 % of the answers checked",
        unit="us",
        target=1.05,
        rival="ours without checks",
        rounds=7,
        open=check_cpu,
    ),
    *(
        Bar(
            name=name,
            title=f"CPU per request, HTTP, visits of three steps {words}, 4 visitors",
            unit="us",
            rival="independent requests",
            open=visit_cpu(kind),
        )
        for name, words, kind in (
            ("visit-cpu", "in a file", FLOW),
            ("visit-cpu-python", "in Python", IN_PYTHON),
        )
    ),
    Bar(
        name="task-cpu",
        title="CPU per streamed call, HTTP, tasks of three calls with growing contexts, 64 tasks",
        unit="us",
        target=2.0,
        rival="independent streamed requests",
        open=task_cpu,
    ),
    Bar(
        name="shm-cpu",
        title="CPU per request, HTTP, 1 MiB tensors: system shared memory",
        unit="us",
        target=1.0,
        rival=WIRE,
        open=contests.shared_memory_cpu,
    ),
    Bar(
        name="shm-bytes",
        title="bytes over the socket, HTTP, 1 MiB tensors: system shared memory",
        unit="bytes",
        target=1.0,
        rival=WIRE,
        open=contests.shared_memory_bytes,
    ),
    Bar(
        name="in-process-p50",
        title="p50 latency of Triton simple, concurrency 1, in our process against the faster of HTTP and gRPC",
        unit="us",
        target=1.0,
        rival="over a socket",
        open=in_process_p50,
    ),
    Bar(
        name="nginx-rate-8",
        title="throughput to nginx, one core, 8 connections",
        unit="requests/s",
        direction=Direction.AT_LEAST,
        target=0.75,
        rival=WRK,
        rounds=5,
        open=contests.nginx_rate(8),
    ),
    Bar(
        name="nginx-rate-64",
        title="throughput to nginx, one core, 64 connections",
        unit="requests/s",
        direction=Direction.AT_LEAST,
        target=0.75,
        rival=WRK,
        rounds=5,
        open=contests.nginx_rate(64),
    ),
    Bar(
        name="nginx-p50",
        title="p50 latency to nginx, concurrency 1",
        unit="us",
        target=1.25,
        rival=WRK,
        open=contests.nginx_p50(1),
    ),
    Bar(
        name="lag",
        title="open loop at 2,000/s to nginx: p99 of the send behind its due time",
        unit="us",
        target=150,
        rounds=5,
        open=contests.nginx_lag(2000),
    ),
    Bar(
        name="lag-triton",
        title="open loop at 2,000/s to Triton simple: p99 of the send behind its due time",
        unit="us",
        target=1.0,
        rival=PERF_ANALYZER,
        rounds=9,
        open=contests.triton_lag(2000),
    ),
    *(
        Bar(
            name=_against(rival, f"streams-{streams}-{end}"),
            title=f"{title}, {streams:,} streams of 100 tokens/s",
            unit=unit,
            target=target,
            rival=RIVALS[rival],
            rounds=None if streams == min(LENGTHS) else 1,
            open=runs.bar(rival, judged),
        )
        for streams, runs in STREAMS.items()
        for end, (judged, title, unit, target, rivals) in JUDGED.items()
        for rival in rivals
    ),
    *(
        Bar(
            name=_against(rival, f"batching-{users}-{end}"),
            title=f"{title} in 10 s, continuous batching, answers of 32 to 96 tokens, {users} in flight",
            unit=unit,
            target=target,
            rival=RIVALS[rival],
            open=runs.bar(rival, judged),
        )
        for users, runs in BATCHES.items()
        for end, (judged, title, unit, target) in JUDGED_BATCHES.items()
        for rival in RIVALS
    ),
    Bar(
        name="streams-1000-rate",
        title="tokens taken from 1,000 streams of 100 tokens/s by one core",
        unit="tokens/s",
        direction=Direction.AT_LEAST,
        target=50_000,
        open=one_core_rate,
    ),
    Bar(
        name="streams-1000-busy",
        title="the same on a core that another program keeps busy: the result says client-limited",
        unit="of 1",
        direction=Direction.AT_LEAST,
        target=1,
        rounds=1,
        open=shared_core,
    ),
    *(
        Bar(
            name=f"startup-{name}",
            title=f"CPU before the first request, Triton simple: {' '.join(words[: words.index('-m')])}",
            unit="s",
            target=0.4,
            rounds=7,
            open=startup_cpu(name),
        )
        for name, words in COMMANDS.items()
    ),
    Bar(
        name="memory",
        title="peak memory, 10 million requests, simulated server",
        unit="MiB",
        target=250,
        rounds=1,
        open=contests.peak_memory,
    ),
    Bar(
        name="memory-real",
        title="peak memory, 10 million requests to nginx, all processes",
        unit="MiB",
        target=250,
        rounds=1,
        only_full=True,
        open=contests.peak_memory_real,
    ),
    *(
        Bar(name=name, title=title, unit=unit, target=target, rounds=1, open=store_bar(figure))
        for name, title, unit, target, figure in (
            (
                "store-list",
                "a page of the list of runs, 10,000 runs in the store, filtered and sorted: p95",
                *("ms", 200, "list p95"),
            ),
            ("store-memory", "peak memory of that process", "MiB", 150, "peak MiB"),
            (
                "store-page",
                "the page of runs in the browser interface, of the same store: p95",
                *("ms", 200, "page p95"),
            ),
            ("store-page-memory", "peak memory of the browser interface", "MiB", 150, "pages MiB"),
        )
    ),
    Bar(
        name="live-page-cpu",
        title="CPU per request, HTTP, Triton simple, concurrency 8: kept, and its live page open in three browsers",
        unit="us",
        target=1.03,
        rival="neither",
        rounds=7,
        open=live_page_cpu,
    ),
    Bar(
        name="live-page-lag",
        title="open loop at 2,000/s: how much later the send is at p99 with that page open in three browsers",
        unit="us",
        target=10,
        rounds=5,
        open=live_page_lag,
    ),
    Bar(
        name="agents-late",
        title="200 tasks in flight, random graphs of 2 to 120 calls: p99 of the send behind its due time",
        unit="ms",
        target=1.0,
        open=agents_lateness,
    ),
    Bar(
        name="merge-200",
        title="one core makes one answer of 200 simulated clients: its time for a million requests",
        unit="s",
        target=1.0,
        rounds=1,
        open=merge_bar,
    ),
    Bar(
        name="cluster-cpu",
        title="CPU per request at 4,000/s to nginx, four Ray clients on this machine against one with four workers",
        unit="us",
        target=1.15,
        rival="one client, four workers",
        rounds=5,
        open=cluster_cpu(AT_A_RATE),
    ),
    Bar(
        name="cluster-cpu-8",
        title="the same with 8 in flight",
        unit="us",
        target=1.15,
        rival="one client, four workers",
        rounds=5,
        open=cluster_cpu(IN_FLIGHT),
    ),
    Bar(
        name="tuner",
        title="time to a configuration, 119 of them, ours / brute",
        unit="s",
        target=0.10,
        rival="model-analyzer 1.58",
        rounds=1,
        only_full=True,
        open=tuner,
    ),
    *(
        Bar(
            name=f"predict-{pipeline.name}",
            title=f"prediction error, planted pipeline {pipeline.name}",
            unit="%",
            target=15,
            rounds=5,
            open=contests.prediction(pipeline),
        )
        for pipeline in PLANTED
    ),
)
