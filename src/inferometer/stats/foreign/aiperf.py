"""Results of aiperf: `profile_export_aiperf.json` (a summary) and `profile_export.jsonl` (a line per request).

The lines do not state the load that was applied, and the summary does not have individual requests.
"""

from collections.abc import Iterable

from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S, plain_number
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.foreign.built import (
    ARRIVALS,
    Origin,
    StatedRequest,
    Summary,
    level_of,
    measured,
    result_of,
    stated,
)
from inferometer.stats.foreign.failures import status_of
from inferometer.stats.foreign.part import UNITS, Names, Part, summary
from inferometer.stats.measurement import UNSTATED, FailureGroup
from inferometer.stats.result import Result
from inferometer.stats.text_figures import UserRates

TOOL = "aiperf"
PERCENTILES = (1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0)
NAMES = Names("avg", "std", "min", "max", "count", tuple((p, f"p{plain_number(p)}") for p in PERCENTILES))
PROFILING = "profiling"  # the phase that is measured
_RATED = ("rate", "request_rate")


def is_summary(document: dict[str, object]) -> bool:
    return "aiperf_version" in document or {"input_config", "request_throughput", "request_latency"} <= set(
        document
    )


def is_line(document: dict[str, object]) -> bool:
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and "request_start_ns" in metadata and "metrics" in document


# --- the summary


def read_summary(document: Part) -> Result:
    config = document.maybe_part("input_config") or Part({}, document.origin, TOOL, "input_config")
    mode, value, settings = _load(config)
    arrivals = str(settings.get("type") or settings.get("request_rate_mode"))
    level = level_of(mode, value, stated(_summary(document)), has_requests=False)
    endpoint = config.maybe_part("endpoint")
    urls = () if endpoint is None else tuple(endpoint.rows("urls")) or (endpoint.text("url"),)
    return result_of(
        Origin(
            tool=TOOL,
            version=document.text("aiperf_version"),
            started_at=document.text("start_time"),
            model=_model(config),
            url=str(urls[0]) if urls else "",
            settings=settings,
            arrivals=arrivals if arrivals in ARRIVALS else UNSTATED,
        ),
        [level],
    )


def _model(config: Part) -> str:
    models = config.maybe_part("models")
    if models is not None:
        return ",".join(filter(None, (row.text("name") for row in models.parts("items"))))
    endpoint = config.maybe_part("endpoint")  # before 0.5
    names = [] if endpoint is None else endpoint.rows("model_names")
    return ",".join(name for name in names if isinstance(name, str))


def _load(config: Part) -> tuple[str, float, dict[str, object]]:
    """Return the mode and value of the load, and its settings as stated."""
    phases = [row for row in config.parts("phases") if row.text("kind") in (PROFILING, "")]
    loadgen = config.maybe_part("loadgen")  # before 0.5
    for phase in (*phases, *(() if loadgen is None else (loadgen,))):
        rate = next((phase.maybe_number(name) for name in _RATED if phase.get(name) is not None), None)
        if rate is not None:
            return "request_rate", rate, dict(phase.fields)
        concurrency = phase.maybe_number("concurrency")
        if concurrency is not None:
            return "concurrency", concurrency, dict(phase.fields)
    return UNSTATED, 0.0, {}


def _summary(document: Part) -> Summary:
    requests = _whole(document, "request_count")
    if requests is None:
        raise document.error("request_count", "is missing")
    duration = document.maybe_part("benchmark_duration")

    def times(name: str) -> Distribution | None:
        part = document.maybe_part(name)
        return (
            None if part is None else summary(part, NAMES, UNITS.get(part.text("unit"), NS_PER_MS), requests)
        )

    def lengths(name: str) -> Distribution | None:
        part = document.maybe_part(name)
        return None if part is None else summary(part, NAMES, 1, requests)

    return Summary(
        requests=requests,
        failed=_whole(document, "error_request_count") or 0,
        duration_ns=0
        if duration is None
        else duration.maybe_ns("avg", UNITS.get(duration.text("unit"), NS_PER_S)) or 0,
        per_s=_average(document, "request_throughput"),
        latency=times("request_latency"),
        first=times("time_to_first_token"),
        between=times("inter_token_latency"),
        gaps=times("inter_chunk_latency"),
        per_answer=lengths("output_sequence_length"),
        per_prompt=lengths("input_sequence_length"),
        output=_whole(document, "total_osl", "total_output_tokens"),
        prompt=_whole(document, "total_isl", "total_usage_prompt_tokens"),
        output_per_s=_average(document, "output_token_throughput"),
        prompt_per_s=_average(document, "input_token_throughput"),
        per_user=_user_rates(document),
        failures=tuple(map(_failure, document.parts("error_summary"))),
    )


def _average(document: Part, name: str) -> float | None:
    part = document.maybe_part(name)
    return None if part is None else part.maybe_number("avg")


def _whole(document: Part, *names: str) -> int | None:
    found = (_average(document, name) for name in names)
    return next((round(value) for value in found if value is not None and value >= 0), None)


def _user_rates(document: Part) -> UserRates | None:
    """Return tokens over total time of each request; aiperf's figure per user leaves out the first token."""
    part = document.maybe_part("e2e_output_token_throughput")
    mean = None if part is None else part.maybe_number("avg")
    if part is None or mean is None:
        return None
    known = ((p, part.maybe_number(f"p{plain_number(p)}")) for p in PERCENTILES)
    return UserRates(Estimate(mean), tuple((p, rate) for p, rate in known if rate is not None))


def _failure(row: Part) -> FailureGroup:
    details = row.maybe_part("error_details") or row
    code = _status(details)
    return FailureGroup(status.kind(code), row.maybe_count("count") or 0, details.text("message"), 0.0, 0.0)


def _status(details: Part) -> int:
    code = details.get("code")
    return status_of(code if isinstance(code, int) else None, details.text("type"))


# --- the lines


def read_lines(lines: Iterable[Part]) -> Result:
    rows: list[StatedRequest] = []
    origin = ""
    for line in lines:
        origin = line.origin
        metadata = line.part("metadata")
        if metadata.text("benchmark_phase") in (PROFILING, ""):
            rows.append(_request(line, metadata))
    found = measured(rows)
    if found is None:
        raise Part({}, origin, TOOL).error("", "has no request of the profiling phase")
    return result_of(Origin(tool=TOOL), [level_of(UNSTATED, 0.0, found, has_requests=True)])


def _request(line: Part, metadata: Part) -> StatedRequest:
    start = metadata.moment_ns("request_start_ns", 1)
    if start is None:
        raise metadata.error("request_start_ns", "is missing")
    end = metadata.moment_ns("request_end_ns", 1) or start
    error = line.maybe_part("error")
    if error is not None or metadata.get("was_cancelled") is True:
        code = status.CANCELLED if error is None else _status(error)
        message = "" if error is None else error.text("message")
        return StatedRequest(start, max(end, start), status=code, message=message)
    metrics = line.part("metrics")
    latency = _metric_ns(metrics, "request_latency")
    end = max(end, start) if latency is None else start + latency
    first = _metric_ns(metrics, "time_to_first_token")
    return StatedRequest(
        start_ns=start,
        end_ns=end,
        first_ns=0 if first is None else start + first,
        times_ns=() if first is None else _times(metrics, start + first),
        tokens=_metric_count(metrics, "output_sequence_length", "output_token_count"),
        prompt_tokens=_metric_count(metrics, "input_sequence_length", "usage_prompt_tokens"),
    )


def _metric_ns(metrics: Part, name: str) -> int | None:
    metric = metrics.maybe_part(name)
    return None if metric is None else metric.maybe_ns("value", UNITS.get(metric.text("unit"), NS_PER_MS))


def _metric_count(metrics: Part, *names: str) -> int:
    for metric in map(metrics.maybe_part, names):
        if metric is not None and (found := metric.maybe_count("value")) is not None:
            return found
    return 0


def _times(metrics: Part, first_ns: int) -> tuple[int, ...]:
    """Return the time of every response; empty if the line does not state the gaps between them."""
    metric = metrics.maybe_part("inter_chunk_latency")
    if metric is None:
        return (first_ns,) if _metric_count(metrics, "output_sequence_length") == 1 else ()
    unit = UNITS.get(metric.text("unit"), NS_PER_MS)
    times = [first_ns]
    for gap in metric.rows("value"):
        times.append(times[-1] + metric.duration(gap, "value", unit))
    return tuple(times)
