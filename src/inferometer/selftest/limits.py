"""Limits of this machine and of one worker.

"machine": timer, open files and ports, which limit measurements from here. "ceiling": the maximum requests per
second of one worker, against a null server.
"""

import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from inferometer.base.notes import Note
from inferometer.base.system import has_proc, system_name
from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US, monotonic_ns
from inferometer.load.plan import Closed
from inferometer.load.reactor import READ, SPIN_NS, open_set
from inferometer.observe.host import PORT_RANGE, local_ports
from inferometer.report.format import duration, quantity, share
from inferometer.selftest.check import Check, CheckResult, Figure, Thoroughness
from inferometer.selftest.drive import NullServer, run_load, workers
from inferometer.selftest.null_server import Behaviour
from inferometer.stats.measurement import Measurement
from inferometer.stats.series import percentile

# --- machine

WAKES = 200
FEW_FILES = 4096
FEW_PORTS = 10_000
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def machine_checks(thoroughness: Thoroughness) -> Iterator[Check]:
    yield _timer()
    yield _files()
    yield _ports()


def _timer() -> Check:
    """Measure how late a timer fires; a worker hides lateness within SPIN_NS, because it sleeps that much less."""
    resolution_ns = round(time.clock_getres(time.CLOCK_MONOTONIC) * NS_PER_S)
    late = np.array(_wakes(), dtype=np.int64)
    p50_ns, p99_ns = percentile(late, 50), percentile(late, 99)
    text = (
        f"clock resolution {duration(resolution_ns)}; a timer fires {duration(p50_ns)} late (p50), "
        f"{duration(p99_ns)} (p99)"
    )
    advice = (
        f"timers fire more than {duration(SPIN_NS)} late, so requests are sent late: "
        "check for power saving or virtualization"
    )
    figures = {
        "resolution_ns": resolution_ns,
        "late_p50_us": p50_ns / NS_PER_US,
        "late_p99_us": p99_ns / NS_PER_US,
    }
    return _machine_check("timer", text, figures, advice if p50_ns > SPIN_NS else "")


def _wakes() -> list[int]:
    events, timer = open_set(monotonic_ns)
    events.register(timer.fd, READ)
    found = []
    try:
        for _ in range(WAKES):
            due = monotonic_ns() + NS_PER_MS
            timer.set(due)
            events.poll()
            found.append(max(monotonic_ns() - due, 0))  # poll's timer may be early
            timer.clear(0)
    finally:
        events.close()
        timer.close()
    return found


def _files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_endless = hard == resource.RLIM_INFINITY
    is_low = not is_endless and hard < FEW_FILES
    text = f"{'any number' if is_endless else hard} can be open at once, one per request in flight over HTTP"
    figures = {"soft": soft, "hard": None if is_endless else hard}
    return _machine_check("open files", text, figures, Note.FEW_FILES.advice if is_low else "")


def _ports() -> Check:
    """Count the free local ports for connections to one address; closed connections keep theirs for a minute."""
    ports = local_ports()
    if ports is None or not has_proc():
        text = f"free local ports cannot be counted on {system_name()}"
        figures: dict[str, Figure] = {"free": None, "range": None if ports is None else len(ports)}
        return _machine_check("ports", text, figures, "")
    free = len(ports) - len({port for port in _ports_taken() if port in ports})
    advice = f"widen the range in {PORT_RANGE}, or wait until closed connections have released their ports"
    text = f"{free} of {len(ports)} local ports are free"
    figures = {"free": free, "range": len(ports)}
    return _machine_check("ports", text, figures, advice if free < FEW_PORTS else "")


def _ports_taken() -> Iterator[int]:
    for table in TABLES:
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            yield int(line.split()[1].rpartition(":")[2], 16)


def _machine_check(name: str, text: str, figures: Mapping[str, Figure], advice: str) -> Check:
    """Return the check, with advice if a limit is near."""
    verdict = CheckResult.WARN if advice else CheckResult.PASS
    return Check("machine", name, verdict, f"{text}; {advice}" if advice else text, figures)


# --- ceiling

CONCURRENCY = 16  # enough to keep both ends busy
PROTOCOLS = {"http": "HTTP/1.1", "grpc": "gRPC"}
PAYLOADS = {"64 B": 64, "64 KiB": 64 * 1024, "1 MiB": 1024 * 1024}  # of the request; the reply is small
CORE = 0.8  # a process that uses more of a core than this is saturated
ALIKE = 0.05


def ceiling_checks(thoroughness: Thoroughness) -> Iterator[Check]:
    for protocol, title in PROTOCOLS.items():
        with NullServer(Behaviour(protocol)) as server:
            for payload, size in PAYLOADS.items():
                with workers(server, protocol, size) as load:
                    before = server.report()
                    found, _ = run_load(load, Closed(CONCURRENCY), thoroughness.ceiling_s)
                    after = server.report()
                server_share = (after.cpu_ns - before.cpu_ns) / (after.now_ns - before.now_ns)
                yield _ceiling_check(f"{title}, {payload}", found, server_share)


def limited_by(client: float, server: float) -> str:
    """Return the side that used all of a core, or "machine" if neither had a core to itself."""
    if max(client, server) < CORE:
        return "machine"
    if abs(client - server) < ALIKE:
        return "both"
    return "client" if client > server else "null server"


def _ceiling_check(name: str, found: Measurement, server_share: float) -> Check:
    rate, p50_ns = found.infer_per_s.value, found.latency.percentile_ns(50)
    cost_us, client_share = found.client.cpu_us_per_request, found.client.cpu_share
    limit = limited_by(client_share, server_share)
    least = "" if limit in ("client", "both") else "at least "
    text = (
        f"{least}{quantity(rate)} requests/s, p50 {duration(p50_ns)}, {duration(cost_us * 1000)} CPU each; "
        f"limit: {limit} (client {share(client_share)}, server {share(server_share)} of a core)"
    )
    if found.failed_count:
        text += f"; {found.failed_count} requests failed: {found.failures[0].example}"
    is_good = found.request_count > 0 and found.failed_count == 0
    figures: dict[str, Figure] = {
        "requests_per_s": rate,
        "p50_us": p50_ns / 1000,
        "client_cpu_us_per_request": cost_us,
        "client_cpu_share": client_share,
        "server_cpu_share": server_share,
        "limited_by": limit,
        "concurrency": CONCURRENCY,
        "failed": found.failed_count,
    }
    return Check("ceiling", name, CheckResult.PASS if is_good else CheckResult.FAIL, text, figures)
