"""The figures of a trial, in the tags and units of the metric catalogue."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.observe.host import Gpu
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import MEGA, METRICS, Source
from inferometer.stats.machine_figures import GpuFigures
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.merge import gpu_figures
from inferometer.tune import model_config
from inferometer.tune.search.search import Proposal
from inferometer.tune.trial import Figures, Trial

if TYPE_CHECKING:
    import psutil

LEAVING_S = 2.0  # for processes of the previous variant to exit
_POLL_S = 0.02


def figures_of(level: Level, pids: Sequence[int], instances: Mapping[str, int]) -> Figures:
    """Return a level in the catalogue's tags and units; memory is that of the processes that hold models."""
    found = level.measurement
    assert found is not None
    host = ((tag, Estimate(value)) for tag, value in _host(found, pids, instances))
    return Figures((*_of(Source.RUN, found).values, *host))


def _of(source: Source, found: object) -> Figures:
    rows = ((row.tag, row.estimate(found)) for row in METRICS if row.source is source)
    return Figures(tuple((tag, estimate) for tag, estimate in rows if estimate is not None))


def _host(found: Measurement, pids: Sequence[int], instances: Mapping[str, int]) -> list[tuple[str, float]]:
    if not pids:
        return []
    import psutil

    rows = [("cpu_available_ram", psutil.virtual_memory().available / MEGA)]
    used = [size for pid in pids if (size := resident(pid, instances)) is not None]
    if used:
        rows.insert(0, ("cpu_used_ram", sum(used) / MEGA))
    part = None if found.metrics is None else found.metrics.cpu_share
    if part is None and found.metrics is not None and found.metrics.host is not None:
        part = found.metrics.host.cpu_share
    if part is not None:
        rows.append(("cpu_utilization", 100 * part))
    return rows


def instances_of(proposal: Proposal, gpus: int) -> Mapping[str, int]:
    """Return the configured instances of each model, if known; a group without listed GPUs runs on each GPU."""
    found = {}
    for part in (part for variant in proposal.variants for part in variant.with_members):
        groups = part.config.get("instance_group", ())
        is_open = any(group.get("kind") != "KIND_CPU" and not group.get("gpus") for group in groups)
        if groups and (gpus or not is_open):
            found[part.model] = model_config.total_instances(part.config) * (gpus if is_open else 1)
    return found


def resident(pid: int, instances: Mapping[str, int] | None = None) -> int | None:
    """Return the memory of the server and its child processes, including those of the Python backend, without those of
    the previous variant."""
    import psutil

    try:
        server = psutil.Process(pid)
        family = [server, *server.children(recursive=True)]
    except psutil.Error:
        return None
    leaving = _leavers(family, instances or {})
    total = 0
    for process in family:
        with contextlib.suppress(psutil.Error):
            total += 0 if process in leaving else process.memory_info().rss
    return total


def _leavers(family: "Sequence[psutil.Process]", instances: Mapping[str, int]) -> "set[psutil.Process]":
    """Return processes of the previous variant: all but the youngest n of a model with n instances. An ensemble keeps
    those of its former members until its next requests."""
    import psutil

    from inferometer.measure.host import maybe_stub

    by_model: dict[str, list[tuple[float, psutil.Process]]] = {}
    for process in family:
        with contextlib.suppress(psutil.Error):
            model = maybe_stub(process.cmdline()) if instances else None
            if model is not None and model in instances:
                by_model.setdefault(model, []).append((process.create_time(), process))
    return {
        process
        for model, rows in by_model.items()
        for _, process in sorted(rows, key=itemgetter(0), reverse=True)[instances[model] :]
    }


def await_leavers(pids: Sequence[int], instances: Mapping[str, int]) -> None:
    """Wait until the processes of the previous variant have released GPU memory, up to a time limit."""
    import psutil

    deadline_ns = monotonic_ns() + round(LEAVING_S * NS_PER_S)
    with contextlib.suppress(psutil.Error):
        servers = [psutil.Process(pid) for pid in pids]
        while monotonic_ns() < deadline_ns and any(
            _leavers(server.children(recursive=True), instances) for server in servers
        ):
            time.sleep(_POLL_S)


def gpus_of(level: Level) -> tuple[tuple[str, Figures], ...]:
    """Return the GPU figures: of this host if the server runs on it, since the server's metrics may predate the
    variant."""
    metrics = None if level.measurement is None else level.measurement.metrics
    reported = () if metrics is None else metrics.gpus
    seen = level.host.gpus if level.host is not None and level.host.is_local else ()
    if not seen and metrics is not None and metrics.host is not None:
        seen = metrics.host.gpus
    used = {gpu.uuid for gpu in reported or seen}
    return _by_gpu([gpu for gpu in seen if gpu.uuid in used] or reported)


def _by_gpu(rows: Sequence[GpuFigures]) -> tuple[tuple[str, Figures], ...]:
    return tuple((gpu.uuid, _of(Source.GPU, gpu)) for gpu in rows)


# --- GPUs of an idle server without models

Read = Callable[[], Mapping[str, Gpu]]


def watch_idle(
    read: Read, duration_s: float, interval_s: float, wait: Callable[[float], None] = time.sleep
) -> Trial:
    """Return a trial without models and with at least one sample: peak memory, mean utilisation and power."""
    samples = [read()]
    for _ in range(int(duration_s / interval_s)):
        wait(interval_s)
        samples.append(read())
    return Trial(-1, (), gpus=_by_gpu(gpu_figures(samples)))
