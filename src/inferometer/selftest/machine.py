"""Machine: timer, open files and ports, which bound what can be measured from here."""

import os
import resource
import select
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from inferometer.base.clock import monotonic_ns
from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US
from inferometer.load.reactor import SPIN_NS
from inferometer.load.timer import Timer
from inferometer.observe.host import PORT_RANGE, local_ports
from inferometer.report.format import duration
from inferometer.selftest.check import Check, Verdict
from inferometer.selftest.pace import Pace
from inferometer.stats.quantiles import percentile

PART = "machine"
WAKES = 200
FEW_FILES = 4096
FEW_PORTS = 10_000
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def checks(pace: Pace) -> Iterator[Check]:
    yield _timer()
    yield _files()
    yield _ports()


def _timer() -> Check:
    """How late a timer alone wakes us; what is within SPIN_NS a worker hides, because it sleeps that much less."""
    resolution_ns = round(time.clock_getres(time.CLOCK_MONOTONIC) * NS_PER_S)
    late = np.array(_wakes(), dtype=np.int64)
    p50_ns, p99_ns = percentile(late, 50), percentile(late, 99)
    text = (
        f"clock resolution {duration(resolution_ns)}; a timer wakes us {duration(p50_ns)} late (p50), "
        f"{duration(p99_ns)} (p99)"
    )
    is_late = p50_ns > SPIN_NS
    if is_late:
        text += f"; more than {duration(SPIN_NS)} late, sends lag behind: is this machine saving power, or virtual?"
    figures = {
        "resolution_ns": resolution_ns,
        "late_p50_us": p50_ns / NS_PER_US,
        "late_p99_us": p99_ns / NS_PER_US,
    }
    return Check(PART, "timer", Verdict.WARN if is_late else Verdict.PASS, text, figures)


def _wakes() -> list[int]:
    timer = Timer()
    epoll = select.epoll()
    epoll.register(timer.fd, select.EPOLLIN)
    found = []
    try:
        for _ in range(WAKES):
            due = monotonic_ns() + NS_PER_MS
            timer.set(due)
            epoll.poll()
            found.append(monotonic_ns() - due)
            timer.clear(0)
    finally:
        epoll.close()
        os.close(timer.fd)
    return found


def _files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_endless = hard == resource.RLIM_INFINITY
    is_low = not is_endless and hard < FEW_FILES
    text = f"{'any number' if is_endless else hard} may be open at once, one for each request in flight over HTTP"
    if is_low:
        text += f"; {Note.FEW_FILES.advice}"
    figures = {"soft": soft, "hard": None if is_endless else hard}
    return Check(PART, "open files", Verdict.WARN if is_low else Verdict.PASS, text, figures)


def _ports() -> Check:
    """Ports of this machine for connections to one address; closed connections hold theirs for a minute."""
    ports = local_ports()
    free = len(ports) - len({port for port in _ports_taken() if port in ports})
    is_low = free < FEW_PORTS
    text = f"{free} of {len(ports)} local ports are free"
    if is_low:
        text += f"; widen the range in {PORT_RANGE}, or wait until closed connections have let go of theirs"
    figures = {"free": free, "range": len(ports)}
    return Check(PART, "ports", Verdict.WARN if is_low else Verdict.PASS, text, figures)


def _ports_taken() -> Iterator[int]:
    for table in TABLES:
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            yield int(line.split()[1].rpartition(":")[2], 16)
