"""Ceiling: the most requests per second of one worker, against a server that does nothing."""

from collections.abc import Iterator

from inferometer.load.plan import Closed
from inferometer.report.format import duration, quantity, share
from inferometer.selftest.behaviour import Behaviour
from inferometer.selftest.check import Check, Figure, Verdict
from inferometer.selftest.child import NullServer, ServerReport
from inferometer.selftest.drive import Run, run_for, workers
from inferometer.selftest.pace import Pace

PART = "ceiling"
CONCURRENCY = 16  # enough for both ends to have work at any time
PROTOCOLS = {"http": "HTTP/1.1", "grpc": "gRPC"}
PAYLOADS = {"64 B": 64, "64 KiB": 64 * 1024, "1 MiB": 1024 * 1024}  # of the request; the reply is small
CORE = 0.8  # whoever uses more of a core than this is at its limit
ALIKE = 0.05


def checks(pace: Pace) -> Iterator[Check]:
    for protocol, title in PROTOCOLS.items():
        with NullServer(Behaviour(protocol)) as server:
            for payload, size in PAYLOADS.items():
                with workers(server, protocol, size) as load:
                    before = server.report()
                    run = run_for(load, Closed(CONCURRENCY), pace.ceiling_s)
                    after = server.report()
                yield _check(f"{title}, {payload}", run, _share(before, after))


def _share(before: ServerReport, after: ServerReport) -> float:
    return (after.cpu_ns - before.cpu_ns) / (after.now_ns - before.now_ns)


def limited_by(client: float, server: float) -> str:
    """Whose share of a core says that it could do no more; the machine, if neither had a core to itself."""
    if max(client, server) < CORE:
        return "machine"
    if abs(client - server) < ALIKE:
        return "both"
    return "client" if client > server else "null server"


def _check(name: str, run: Run, server_share: float) -> Check:
    found = run.measurement
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
    return Check(PART, name, Verdict.PASS if is_good else Verdict.FAIL, text, figures)
