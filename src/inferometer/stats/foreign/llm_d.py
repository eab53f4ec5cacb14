"""llm-d's benchmark report, version 0.2: figures without individual requests, one report for each stage of the load."""

import math
import re
from datetime import datetime

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.stats.estimate import Distribution
from inferometer.stats.foreign.built import Origin, Summary, level_of, result_of, stated
from inferometer.stats.foreign.part import Names, Part, summary
from inferometer.stats.measurement import UNSTATED
from inferometer.stats.result import Result

TOOL = "llm-d"
VERSION = "0.2"
PERCENTILES = (
    *((0.1, "p0p1"), (1.0, "p1"), (5.0, "p5"), (10.0, "p10"), (25.0, "p25"), (50.0, "p50")),
    *((75.0, "p75"), (90.0, "p90"), (95.0, "p95"), (99.0, "p99"), (99.9, "p99p9")),
)
_NAMES = Names("mean", "stddev", "min", "max", percentiles=PERCENTILES)
_UNITS = {"ms": NS_PER_MS, "s": NS_PER_S, "ms/token": NS_PER_MS, "s/token": NS_PER_S, "count": 1}
_SECONDS = re.compile(r"PT(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9}(?:\.\d{1,12})?)S)?")


def is_one(document: dict[str, object]) -> bool:
    return "version" in document and "run" in document and isinstance(document.get("results"), dict)


def read(document: Part) -> Result:
    version = str(document.get("version"))
    if not version.startswith(VERSION):
        raise document.error("version", f"is {version}, but this reader knows {VERSION}")
    run, scenario = document.part("run"), document.maybe_part("scenario")
    time = run.maybe_part("time")
    load = None if scenario is None else scenario.maybe_part("load")
    standard = None if load is None else load.maybe_part("standardized")
    mode, value = _load(standard)
    level = level_of(mode, value, stated(_summary(document, time)), has_requests=False)
    origin = Origin(
        tool=TOOL,
        version=version,
        started_at="" if time is None else _moment(time.get("start")),
        model=_model(scenario),
        settings={}
        if standard is None
        else {name: standard.get(name) for name in ("tool", "tool_version", "stage")},
    )
    return result_of(origin, [level])


def _moment(value: object) -> str:
    """Return a time, which is a text in JSON and a time value in YAML."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str) else ""


def _model(scenario: Part | None) -> str:
    if scenario is None:
        return ""
    for component in scenario.parts("stack"):
        standard = component.maybe_part("standardized")
        model = None if standard is None else standard.maybe_part("model")
        if model is not None and model.text("name"):
            return model.text("name")
    return ""


def _load(standard: Part | None) -> tuple[str, float]:
    if standard is None:
        return UNSTATED, 0.0
    rate = standard.maybe_number("rate_qps")
    if rate is not None:
        return "request_rate", rate
    concurrency = None if standard.get("concurrency") == math.inf else standard.maybe_number("concurrency")
    return (UNSTATED, 0.0) if concurrency is None else ("concurrency", concurrency)


def _summary(document: Part, time: Part | None) -> Summary:
    performance = document.part("results").part("request_performance")
    aggregate = performance.part("aggregate")
    empty = Part({}, document.origin, TOOL)
    counts = aggregate.part("requests")
    rates, latency = (aggregate.maybe_part(name) or empty for name in ("throughput", "latency"))
    total, failed = counts.maybe_count("total"), counts.maybe_count("failures") or 0
    if total is None:
        raise counts.error("total", "is missing")
    good = max(0, total - failed - (counts.maybe_count("incomplete") or 0))

    def known(part: Part, name: str) -> Distribution | None:
        figures = part.maybe_part(name)
        if figures is None:
            return None
        unit = _UNITS.get(figures.text("units"))
        if unit is None:
            raise figures.error("units", f"is '{figures.text('units')}', not one of {', '.join(_UNITS)}")
        return summary(figures, _NAMES, unit, good)

    def rate(name: str) -> float | None:
        figures = rates.maybe_part(name)
        return None if figures is None else figures.maybe_number("mean")

    def tokens(name: str) -> int | None:
        figures = counts.maybe_part(name)
        mean = None if figures is None else figures.maybe_number("mean")
        return None if mean is None else round(mean * good)

    return Summary(
        requests=good,
        failed=failed,
        duration_ns=0 if time is None else _duration_ns(time),
        per_s=rate("request_rate"),
        latency=known(latency, "request_latency"),
        first=known(latency, "time_to_first_token"),
        between=known(latency, "time_per_output_token"),
        gaps=known(latency, "inter_token_latency"),
        per_answer=known(counts, "output_length"),
        per_prompt=known(counts, "input_length"),
        output=tokens("output_length"),
        prompt=tokens("input_length"),
        output_per_s=rate("output_token_rate"),
        prompt_per_s=rate("input_token_rate"),
    )


def _duration_ns(time: Part) -> int:
    found = _SECONDS.fullmatch(time.text("duration"))
    if found is None:
        return 0
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return time.duration(hours * 3600 + minutes * 60 + seconds, "duration", NS_PER_S)
