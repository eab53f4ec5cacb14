"""Table of the figures by which a run is judged, compared, tuned and plotted.

A row defines the name of a figure, its unit, which direction is better, and how to get it. SLOs (`p99<50ms`), gates
(`p99 > +5%`), objectives and constraints of the tuner (`perf_latency_p99`), columns and axes select rows by name. The
tag is the name in files and in YAML; `short` is the name in SLOs, gates and comparisons.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple

from inferometer.base.units import NS_PER_MS
from inferometer.stats.energy import energies
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.measurement import Measurement

MEGA = 1_000_000
GOODPUT_RATE = "goodput_rate"
TOKENS = "output_token_throughput"
_UNITS = {"ms": NS_PER_MS, "MB": MEGA, "%": 0.01}
"""Divisors of figures as measured (nanoseconds, bytes, a share)."""


class Source(Enum):
    """The origin of a figure."""

    RUN = "run"  # a Measurement
    HOST = "host"  # the server's processes, which a Measurement does not include
    GPU = "gpu"  # GpuFigures
    OUTPUT = "output"  # an OutputSimilarity


class Metric(NamedTuple):
    """A figure: a row of the table."""

    tag: str
    title: str
    unit: str
    is_higher_better: bool
    get: Callable[[Any], float | None] | None = None  # as measured; None if not available
    short: str = ""
    source: Source = Source.RUN
    percentile: float | None = None
    interval: Callable[[Measurement], Estimate | None] | None = None  # with its error, if known
    is_summed: bool = False  # over several models (or GPUs); other figures are averaged
    may_min: bool = False  # as a constraint
    may_max: bool = False

    @property
    def header(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def of_gpu(self) -> bool:
        return self.source is Source.GPU

    @property
    def is_share(self) -> bool:
        return self.unit == "%"

    @property
    def need(self) -> int:
        """Requests required for the figure to exist: a percentile needs one beyond it."""
        p = self.percentile
        return 1 if p is None else math.ceil(100 / min(p, 100 - p))

    def in_unit(self, value: float) -> float:
        return 100 * value if self.is_share else value / _UNITS.get(self.unit, 1)

    def estimate(self, source: Any) -> Estimate | None:
        """Return the estimate in its unit; None if not available."""
        if self.interval is not None:
            found = self.interval(source)
        else:
            value = None if self.get is None else self.get(source)
            found = None if value is None else Estimate(value)
        if found is None or not self.unit:
            return found
        ends = (None if end is None else self.in_unit(end) for end in (found.low, found.high))
        return Estimate(self.in_unit(found.value), *ends)

    def combine(self, values: Sequence[float]) -> float:
        total = sum(values)
        return total if self.is_summed else total / len(values)


# --- durations: mean, extremes and percentiles of each


_DURATIONS: dict[str, tuple[str, str, Callable[[Measurement], Distribution | None]]] = {
    "": ("perf_latency", "Latency", lambda found: found.latency),
    "tpot": (
        "inter_token_latency",
        "Inter Token Latency",
        lambda found: None if found.tokens is None else found.tokens.between,
    ),
    "ttft": (
        "time_to_first_token",
        "Time To First Token",
        lambda found: None if found.streaming is None else found.streaming.first,
    ),
    "ttfo": (
        "time_to_first_answer_token",
        "Time To First Answer Token",
        lambda found: None if found.streaming is None else found.streaming.answer or found.streaming.first,
    ),
    "ttfc": (
        "time_to_first_tool_call",
        "Time To First Tool Call",
        lambda found: None if found.streaming is None else found.streaming.tool,
    ),
    "gap": (
        "token_gap",
        "Token Gap",
        lambda found: None if found.streaming is None or found.tokens is None else found.streaming.gaps,
    ),
}
"""Durations by the word before the statistic in an SLO."""


def _duration(word: str, statistic: str) -> Metric:
    """Build the row of a statistic: avg, min, max or a percentile such as p99."""
    tag, title, of = _DURATIONS[word]
    name = "mean" if statistic == "avg" else statistic
    percentile = float(name[1:]) if name.startswith("p") else None

    def get(found: Measurement) -> float | None:
        durations = of(found)
        if durations is None or not durations.count:
            return None
        if percentile is not None:
            found_ns = durations.maybe_percentile_ns(percentile)
        else:
            found_ns = {"mean": durations.mean_ns, "min": durations.min_ns, "max": durations.max_ns}[name]
        return None if found_ns is None else float(found_ns)

    def interval(found: Measurement) -> Estimate | None:
        if not word:
            return dict(found.latency_intervals).get(name)
        durations, value = of(found), get(found)
        if durations is None or value is None:
            return None
        return durations.interval(name) or Estimate(value)

    return Metric(
        f"{tag}_{statistic}",
        f"{statistic if percentile is not None else statistic.capitalize()} {title}",
        "ms",
        False,
        get,
        short=name if not word else word if name == "mean" else f"{word} {name}",
        percentile=percentile,
        interval=interval,
        may_max=True,
    )


# --- server times


def _batch(found: Measurement) -> float | None:
    counters = None if found.server is None else found.server.counters
    if counters is None or not counters.success_count or not counters.execution_count:
        return None
    return counters.inference_count / counters.execution_count


def _server_time(part: str) -> Metric:
    def per_request(found: Measurement) -> float | None:
        counters = None if found.server is None else found.server.counters
        if counters is None or not counters.success_count:
            return None
        return float(getattr(counters, f"{part}_ns")) / counters.success_count

    title = f"Server {part.replace('_', ' ').title()} time"
    return Metric(f"perf_server_{part}", title, "ms", False, per_request)


def _output_rate(found: Measurement) -> Estimate | None:
    if found.tokens is None:
        return None
    return found.tokens.output_interval or Estimate(found.tokens.output_per_s)


def _user_rate(found: Measurement) -> Estimate | None:
    return None if found.tokens is None or found.tokens.per_user is None else found.tokens.per_user.mean


def _sending(found: Measurement) -> float:
    return found.send_ns + found.receive_ns


def _energy(unit: str) -> Metric:
    """Build the row of the joules per request, inference or token; figures of an invalid measurement are not used."""

    def interval(found: Measurement) -> Estimate | None:
        return energies(found).get(f"energy per {unit}")

    return Metric(
        f"energy_per_{unit}",
        f"Energy Per {unit.title()}",
        "J",
        False,
        lambda found: None if (estimate := interval(found)) is None else estimate.value,
        short=f"energy per {unit}",
        interval=interval,
        may_max=True,
    )


def _gpu(name: str, title: str, unit: str, is_higher_better: bool, get: Any, **more: Any) -> Metric:
    return Metric(name, title, unit, is_higher_better, get, source=Source.GPU, **more)


_used, _total = attrgetter("memory_used_bytes"), attrgetter("memory_total_bytes")


def _free(gpu: Any) -> float | None:
    used, total = _used(gpu), _total(gpu)
    return None if used is None or total is None else total - used


def _rows() -> Iterator[Metric]:
    yield Metric(
        "perf_throughput",
        "Throughput",
        "infer/sec",
        True,
        lambda found: found.infer_per_s.value,
        short="throughput",
        interval=lambda found: found.infer_per_s,
        is_summed=True,
        may_min=True,
    )
    yield from (_duration("", statistic) for statistic in ("avg", "p50", "p90", "p95", "p99"))
    yield Metric(
        "perf_client_response_wait",
        "Response Wait Time",
        "ms",
        False,
        lambda found: max(0.0, found.service.mean_ns - _sending(found)),
    )
    yield Metric("perf_client_send_recv", "Client Send/Recv", "ms", False, _sending)
    yield from map(_server_time, ("queue", "compute_input", "compute_infer", "compute_output"))
    yield Metric("perf_server_batch", "Mean Server Batch", "", True, _batch)
    yield Metric(
        "perf_error_rate",
        "Failed Requests",
        "%",
        False,
        lambda found: found.failed_share,
        short="errors",
        may_max=True,
    )
    yield _gpu("gpu_used_memory", "GPU Memory Usage", "MB", False, _used, is_summed=True, may_max=True)
    yield _gpu("gpu_free_memory", "GPU Memory Available", "MB", True, _free, is_summed=True)
    yield _gpu("gpu_total_memory", "GPU Memory Available", "MB", True, _total, is_summed=True)
    yield _gpu("gpu_utilization", "GPU Utilization", "%", True, lambda gpu: gpu.utilization)
    yield _gpu("gpu_power_usage", "GPU Power Usage", "W", False, lambda gpu: gpu.power_w)
    yield Metric("cpu_used_ram", "RAM Usage", "MB", False, source=Source.HOST)
    yield Metric("cpu_available_ram", "RAM Available", "MB", True, source=Source.HOST)
    yield Metric("cpu_utilization", "CPU Utilization", "%", False, source=Source.HOST)
    yield Metric(
        "output_token_throughput",
        "Output Token Throughput",
        "infer/sec",
        True,
        lambda found: None if found.tokens is None else found.tokens.output_per_s,
        short="tokens",
        interval=_output_rate,
        is_summed=True,
        may_min=True,
    )
    yield Metric(
        "output_token_throughput_per_user",
        "Output Token Throughput Per User",
        "tokens/sec",
        True,
        lambda found: None if (rate := _user_rate(found)) is None else rate.value,
        short="tokens per user",
        interval=_user_rate,
        may_min=True,
    )
    yield from map(_energy, ("request", "inference", "token"))
    yield Metric(
        GOODPUT_RATE,
        "Goodput",
        "infer/sec",
        True,
        lambda found: None if found.goodput is None else found.goodput.per_s,
        is_summed=True,
    )
    statistics = ("avg", "min", "max", "p25", "p50", "p75", "p90", "p95", "p99")
    yield from (_duration(word, statistic) for word in ("tpot", "ttft", "gap") for statistic in statistics)


def _output(name: str, title: str, unit: str, is_higher_better: bool, same: float | None = None) -> Metric:
    """Build the row of an output figure; `same` replaces a figure that is undefined for identical outputs."""
    field = "snr_db" if name == "snr" else name

    def get(output: Any) -> float | None:
        value: float | None = getattr(output, field)
        return same if same is not None and output.is_identical else value

    return Metric(name, title, unit, is_higher_better, get, short=name, source=Source.OUTPUT)


METRICS = tuple(_rows())
_GOODPUT = Metric(
    "goodput",
    "Goodput",
    "%",
    True,
    lambda found: None if found.goodput is None else found.goodput.share,
    short="goodput",
)
"""The share of good requests, which only an SLO defines."""
_WRONG = Metric(
    "wrong_answer_rate",
    "Wrong Answers",
    "%",
    False,
    lambda found: None if found.checks is None else found.checks.share.value,
    short="wrong",
    interval=lambda found: None if found.checks is None else found.checks.share,
    may_max=True,
)
"""The share of wrong answers, only for SLOs and comparisons, since few runs check answers."""
OUTPUT_METRICS = (
    _output("snr", "signal-to-noise ratio", "dB", True, same=math.inf),
    _output("cosine", "cosine", "", True, same=1.0),
    _output("relative", "relative error", "%", False, same=0.0),
    _output("max_abs", "largest error", "", False),
    _output("mean_abs", "mean error", "", False),
    _output("top1", "same largest class", "%", True),
    _output("exact", "same elements", "%", True),
)

BY_TAG = {metric.tag: metric for metric in METRICS}
_FIRSTS = tuple(_duration(word, "avg") for word in ("ttfo", "ttfc"))
_BY_SHORT = {
    metric.short: metric for metric in (*METRICS, _GOODPUT, _WRONG, *_FIRSTS, *OUTPUT_METRICS) if metric.short
}
_PERCENTILE = r"(?:(ttft|ttfo|ttfc|tpot|gap) )?(p[1-9]\d?(?:\.\d+)?)"

THROUGHPUT = "perf_throughput"
LATENCY_P99 = "perf_latency_p99"
OLD_LATENCY = "perf_latency"  # model-analyzer's original name for it
TOKEN_TAGS = frozenset(  # only for models that generate text
    tag
    for tag in BY_TAG
    if tag.startswith(("output_token_", "inter_token_", "time_to_first_token_", "token_gap_"))
)


def known_tag(tag: str) -> str:
    """Return the current name of a tag."""
    return LATENCY_P99 if tag == OLD_LATENCY else tag


def named(short: str) -> Metric | None:
    """Find a metric by its name in SLOs and gates, including any percentile of a duration."""
    if short in _BY_SHORT:
        return _BY_SHORT[short]
    found = re.fullmatch(_PERCENTILE, short)
    return None if found is None else _duration(found[1] or "", found[2])
