"""Run wrk and parse its output."""

import re
from dataclasses import dataclass

from benchmarks.bar import BenchError
from benchmarks.children import Cores, run
from benchmarks.parts import program

_DURATION = re.compile(r"^([0-9.]+)(us|ms|s|m|h)$")
_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 60e6, "h": 3600e6}
_MARGIN_S = 20


@dataclass(frozen=True, slots=True)
class WrkReport:
    """The figures of one run."""

    requests: int
    rate: float
    p50_us: float


def parse_duration_us(text: str) -> float:
    """Convert '17.00us', '1.02ms' or '1.50s' to microseconds."""
    match = _DURATION.match(text)
    if match is None:
        raise BenchError(f"wrk printed the time '{text}', which is not a number with a unit")
    return float(match[1]) * _US[match[2]]


def parse_report(text: str) -> WrkReport:
    """Parse the output of `wrk --latency`; replies other than 2xx and 3xx, or socket errors, invalidate the run."""
    spoiled = re.search(r"^\s*(Non-2xx or 3xx responses|Socket errors):.*$", text, re.MULTILINE)
    if spoiled is not None:
        raise BenchError(f"wrk had failures: {spoiled[0].strip()}")
    requests = re.search(r"^\s*(\d+) requests in ", text, re.MULTILINE)
    rate = re.search(r"^Requests/sec:\s*([0-9.]+)", text, re.MULTILINE)
    half = re.search(r"^\s*50%\s+(\S+)", text, re.MULTILINE)
    if requests is None or rate is None or half is None:
        raise BenchError(f"wrk printed no figures: {text.strip()[:200]!r}")
    return WrkReport(int(requests[1]), float(rate[1]), parse_duration_us(half[1]))


@dataclass(frozen=True, slots=True)
class WrkRun:
    """The report of wrk, and its cost."""

    report: WrkReport
    cpu_us: float  # per request
    core_share: float


def run_wrk(url: str, *, connections: int, seconds: float, cores: Cores) -> WrkRun:
    """Run wrk with one thread on the core for the load."""
    whole_s = max(1, round(seconds))  # wrk takes only whole seconds
    command = [program("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{whole_s}s", "--latency", url]
    ended = run(command, timeout_s=whole_s + _MARGIN_S, cores=cores.load)
    report = parse_report(ended.output)
    return WrkRun(report, ended.cpu_s / max(1, report.requests) * 1e6, ended.cpu_s / ended.wall_s)
