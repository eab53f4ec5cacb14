"""The measurements of the bars: start the server, and run both tools with the same load."""

import contextlib
import json
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.arithmetic import Usage, lag_us, marginal_us
from benchmarks.bar import BenchError, Contest, Sample, Setting
from benchmarks.children import Ended, run, two_cores
from benchmarks.nginx import LOOPBACK, nginx
from benchmarks.parts import our_script, real_perf_analyzer
from benchmarks.wrk import run_wrk
from tests.support.planted import Planted, plant

Open = Callable[[Setting], AbstractContextManager[Contest]]
_Tool = tuple[Callable[..., Ended], str]  # how to run it, and its name

MODEL = "simple"
IDENTITY = "identity_fp32"
MIB = 1024 * 1024
WINDOWS = 3  # with this wide stability threshold, every run has exactly the minimum number
LONG_RUN_COUNT = 10_000_000
_SHORT = 0.1  # share of the long run
_CPU_WINDOW = (
    2  # times --seconds: the variation between starts must be small compared with the cost of the requests
)
_MARGIN_S = 40
_SMOKE_REQUESTS = 500  # in a window of a second
_SETTLED_S = 0.1


# --- CPU per request, on a real Triton


def cpu_per_request(concurrency: int, protocol: str = "http") -> Open:
    """Marginal CPU per request on Triton's `simple`, ours against the real perf_analyzer."""

    @contextlib.contextmanager
    def opened(setting: Setting) -> Iterator[Contest]:
        from inferometer.server.embedded import EmbeddedTriton

        ours = partial(run, environment=None), our_script("perf_analyzer")
        tools = [ours]
        if not setting.is_smoke:
            real = real_perf_analyzer()
            tools.append((partial(run, environment=real.environment), str(real.executable)))
        with EmbeddedTriton(load_models=(MODEL,)) as server:

            def spend(tool: _Tool, window_s: float) -> tuple[Usage, Ended]:
                start, executable = tool
                command = [executable, "-m", MODEL, "-i", protocol]
                command += ["-u", server.grpc_address if protocol == "grpc" else server.http_address]
                command += ["--concurrency-range", str(concurrency), "-s", "99999", "-r", str(WINDOWS)]
                command += _window(setting, window_s)
                before = _served(server.http_address, MODEL)
                ended = start(command, timeout_s=WINDOWS * window_s + _MARGIN_S)
                return Usage(ended.cpu_s, _served(server.http_address, MODEL) - before), ended

            def measure(tool: _Tool) -> Sample:
                window_s = setting.seconds * _CPU_WINDOW
                if setting.is_smoke:
                    return Sample(spend(tool, window_s)[0].cpu_s)
                short, short_ended = spend(tool, window_s * _SHORT)
                long, long_ended = spend(tool, window_s)
                rate = (long.requests - short.requests) / (long_ended.wall_s - short_ended.wall_s)
                p50 = float(re.findall(r"p50 latency: (\d+) usec", long_ended.output)[-1])
                return Sample(marginal_us(short, long), {"requests/s": rate, "p50 us": p50})

            for tool in (
                () if setting.is_smoke else tools
            ):  # the very first start takes longer, which would distort a short run
                spend(tool, setting.seconds * _SHORT)
            yield Contest(ours=lambda: measure(ours), theirs=lambda: measure(tools[-1]))

    return opened


def _window(setting: Setting, window_s: float) -> Sequence[str]:
    """Length of a window; on a busy machine a very short one can be empty, so a smoke run counts requests."""
    if setting.is_smoke:
        count = max(1, round(_SMOKE_REQUESTS * window_s))
        return ["--measurement-mode", "count_windows", "--measurement-request-count", str(count)]
    return ["-p", str(round(window_s * 1000))]


def _served(address: str, model: str) -> int:
    """Number of requests that the server has counted, once the last ones of a finished tool are included."""
    count, seen = -1, _counted(address, model)
    while count != seen:
        time.sleep(_SETTLED_S)
        count, seen = seen, _counted(address, model)
    return seen


def _counted(address: str, model: str) -> int:
    with urllib.request.urlopen(f"http://{address}/v2/models/{model}/stats", timeout=10) as reply:
        statistics = json.load(reply)["model_stats"]
    return sum(
        int(model["inference_stats"][outcome].get("count", 0))
        for model in statistics
        for outcome in ("success", "fail")
    )


# --- shared memory, on a real Triton


def shared_memory_cpu(setting: Setting) -> AbstractContextManager[Contest]:
    """Marginal CPU per request with tensors of 1 MiB, in shared memory against on the wire, both with our tool."""
    return _shared_memory(setting, lambda cost: cost.cpu_us)


def shared_memory_bytes(setting: Setting) -> AbstractContextManager[Contest]:
    """The same for bytes on the loopback device, including headers, in both directions."""
    return _shared_memory(setting, lambda cost: cost.wire_bytes)


@dataclass(frozen=True, slots=True)
class _TransferCost:
    """Cost of one additional request."""

    cpu_us: float
    wire_bytes: float


@contextlib.contextmanager
def _shared_memory(setting: Setting, judged: Callable[[_TransferCost], float]) -> Iterator[Contest]:
    from inferometer.server.embedded import EmbeddedTriton

    script = our_script("perf_analyzer")
    with EmbeddedTriton(load_models=(IDENTITY,)) as server:
        command = [script, "-m", IDENTITY, "-u", server.http_address, "--shape", f"INPUT0:{MIB // 4}"]
        command += ["--output-shared-memory-size", str(MIB), "-s", "99999", "-r", str(WINDOWS)]

        def spend(window_s: float, *words: str) -> tuple[Usage, int]:
            requests, sent = _served(server.http_address, IDENTITY), _loopback_bytes()
            ended = run(
                [*command, *_window(setting, window_s), *words],
                timeout_s=WINDOWS * window_s + _MARGIN_S,
            )
            sent = _loopback_bytes() - sent
            return Usage(ended.cpu_s, _served(server.http_address, IDENTITY) - requests), sent

        def measure(*words: str) -> Sample:
            if setting.is_smoke:
                return Sample(spend(setting.seconds, *words)[1])
            short, short_bytes = spend(setting.seconds * _SHORT, *words)
            long, long_bytes = spend(setting.seconds, *words)
            cpu_us = marginal_us(short, long)
            cost = _TransferCost(cpu_us, (long_bytes - short_bytes) / (long.requests - short.requests))
            return Sample(judged(cost), {"CPU us/request": cost.cpu_us, "bytes/request": cost.wire_bytes})

        yield Contest(ours=lambda: measure("--shared-memory", "system"), theirs=measure)


def _loopback_bytes() -> int:
    return int(Path("/sys/class/net/lo/statistics/rx_bytes").read_text())


# --- throughput and latency, on nginx


def nginx_rate(connections: int) -> Open:
    """Requests per second to nginx, ours against wrk: one core for the load, one for nginx."""
    return _against_wrk(connections, "rate")


def nginx_p50(connections: int) -> Open:
    """Median latency to nginx in microseconds, ours against wrk."""
    return _against_wrk(connections, "p50_us")


def _against_wrk(connections: int, judged: str) -> Open:
    @contextlib.contextmanager
    def opened(setting: Setting) -> Iterator[Contest]:
        cores = two_cores()
        with nginx(cores.server) as port:

            def ours() -> Sample:
                (core,) = cores.load
                command = _module("benchmarks.drive", port, connections, setting.seconds, core)
                report = _json(run(command, timeout_s=setting.seconds + _MARGIN_S))
                if report["failed"]:
                    raise BenchError(f"{report['failed']} of our requests to nginx failed")
                return Sample(report[judged], _cost(report["cpu_us"], report["core_share"]))

            def theirs() -> Sample:
                url = f"http://{LOOPBACK}:{port}/"
                found = run_wrk(url, connections=connections, seconds=setting.seconds, cores=cores)
                return Sample(getattr(found.report, judged), _cost(found.cpu_us, found.core_share))

            yield Contest(ours, theirs)

    return opened


def _cost(cpu_us: float, core_share: float) -> dict[str, float]:
    """Additional figures. In a throughput bar, a core share well below 1 indicates a disturbed round."""
    return {"CPU us/request": cpu_us, "of the core": core_share}


# --- how punctual requests are at a rate


def nginx_lag(rate: float) -> Open:
    """Lag of our sends behind their due times, with a core reserved for the load."""

    @contextlib.contextmanager
    def opened(setting: Setting) -> Iterator[Contest]:
        cores = two_cores()
        with nginx(cores.server) as port:
            yield Contest(lambda: _our_lag(setting, "nginx", port, rate, *cores.load))

    return opened


def triton_lag(rate: float) -> Open:
    """Lag of our sends, against that of the real perf_analyzer behind its own most punctual request."""

    @contextlib.contextmanager
    def opened(setting: Setting) -> Iterator[Contest]:
        from inferometer.server.embedded import EmbeddedTriton

        with EmbeddedTriton(load_models=(MODEL,)) as server, tempfile.TemporaryDirectory() as folder:

            def theirs() -> Sample:
                real = real_perf_analyzer()
                export = Path(folder) / f"{time.monotonic_ns()}.json"
                command = [str(real.executable), "-m", MODEL, "-u", server.http_address, "--async"]
                command += ["--request-rate-range", f"{rate:g}", "-s", "99999", "-r", str(WINDOWS)]
                command += ["-p", str(round(setting.seconds * 1000 / WINDOWS))]
                command += ["--profile-export-file", str(export)]
                run(command, timeout_s=setting.seconds + _MARGIN_S, environment=real.environment)
                (level,) = json.loads(export.read_bytes())["experiments"]
                sent = [request["timestamp"] for request in level["requests"]]
                return Sample(
                    lag_us(sent, rate, 99), {"p50 us": lag_us(sent, rate, 50), "requests": len(sent)}
                )

            yield Contest(lambda: _our_lag(setting, "triton", server.http_address, rate), theirs)

    return opened


def _our_lag(setting: Setting, what: str, where: object, rate: float, *core: int) -> Sample:
    command = _module("benchmarks.lag", what, where, rate, setting.seconds, *core)
    report = _json(run(command, timeout_s=setting.seconds + _MARGIN_S))
    if report["failed"]:
        raise BenchError(f"{report['failed']} of our requests failed")
    return Sample(report["p99_us"], {"p50 us": report["p50_us"], "requests": report["requests"]})


# --- memory


@contextlib.contextmanager
def peak_memory(setting: Setting) -> Iterator[Contest]:
    """Ten million requests to a simulated server, in one process."""
    yield Contest(lambda: _long_run(setting, timeout_s=400))


@contextlib.contextmanager
def peak_memory_real(setting: Setting) -> Iterator[Contest]:
    """Ten million requests to nginx: controller and worker together."""
    with nginx(two_cores().server) as port:
        yield Contest(lambda: _long_run(setting, port, timeout_s=1800))


def _long_run(setting: Setting, *port: int, timeout_s: float) -> Sample:
    count = setting.count(LONG_RUN_COUNT, smoke=1000)
    report = _json(run(_module("benchmarks.long_run", count, *port), timeout_s=timeout_s))
    if report["requests"] != count:
        raise BenchError(f"only {report['requests']} of {count} requests were measured")
    return Sample(report["peak_mib"], {"requests/s": report["rate"]})


# --- our own modules as children


def _module(name: str, *arguments: object) -> Sequence[str]:
    return [sys.executable, "-m", name, *map(str, arguments)]


def _json(ended: Ended) -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads(ended.output.splitlines()[-1])
    except (IndexError, ValueError):
        raise BenchError(f"no figures came back: {ended.output.strip()[-200:]!r}") from None
    return report


# --- predictions


def prediction(pipeline: Planted) -> Open:
    """Error of the predicted gain of the first suggestion for a planted bottleneck."""

    @contextlib.contextmanager
    def opened(setting: Setting) -> Iterator[Contest]:
        from inferometer import api
        from inferometer.server.embedded import EmbeddedTriton

        def measure() -> Sample:
            found = api.diagnose(
                pipeline.name,
                url=server.http_address,
                concurrency=(1, 8),
                duration_s=setting.seconds,
                apply=True,
                budget_s=0.1 if setting.is_smoke else 4 * setting.seconds,  # the first trial is enough
            )
            if (
                setting.is_smoke
            ):  # with other work on the machine, the verdict may be that the machine is busy
                return Sample(0.0, {"infer/s": found.throughput})
            if (found.verdict.kind, found.verdict.step) != (pipeline.kind, pipeline.culprit):
                raise BenchError(f"the verdict on {pipeline.name} is wrong: {found.verdict.sentence}")
            if not found.trials:
                raise BenchError(f"nothing was tried on {pipeline.name}")
            trial = found.trials[0]
            info = {"predicted/s": trial.suggestion.throughput, "measured/s": trial.throughput}
            return Sample(100 * abs(trial.ratio - 1), info)

        with tempfile.TemporaryDirectory() as folder:
            repository = plant(Path(folder), (pipeline,))
            arguments = ("--disable-auto-complete-config", "--exit-timeout-secs", "0")
            with EmbeddedTriton(repository, extra_args=arguments) as server:
                yield Contest(ours=measure)

    return opened
