"""The summary of MLPerf's loadgen, `mlperf_log_summary.txt`: lines of `name : value`, with latencies in nanoseconds."""

import re
from dataclasses import replace

from inferometer.base.units import NS_PER_S
from inferometer.stats.foreign.built import Origin, Summary, level_of, result_of, stated
from inferometer.stats.foreign.part import Names, Part, summary
from inferometer.stats.measurement import UNSTATED
from inferometer.stats.result import Result

TOOL = "mlperf"
TITLE = "MLPerf loadgen"
HEADING = "MLPerf Results Summary"
MOST_LINES = 10_000
_LINE = re.compile(r"([^:]{1,120}?) {0,120}: {0,8}(.{0,400})")
_PERCENTILE = re.compile(r"(\d{1,2}\.\d{1,2}) percentile latency \(ns\)")
_QUERIES = re.compile(r"[Pp]rocessed (?:at least \d{1,18} queries \()?(\d{1,18})")
_RATES = ("Completed samples per second", "Samples per second", "QPS w/ loadgen overhead")
_SETTINGS = ("Scenario", "Mode", "Result is", "target_qps", "target_latency (ns)", "min_duration (ms)")


def is_one(text: str) -> bool:
    return HEADING in text[:4096]


def read(text: str, origin: str) -> Result:
    document = Part(_fields(text, origin), origin, TITLE)
    scenario = document.text("Scenario")
    if not scenario:
        raise document.error("Scenario", "is missing")
    batch = max(1, document.maybe_count("samples_per_query") or 1) if scenario == "MultiStream" else 1
    names = Names(
        "Mean latency (ns)",
        min="Min latency (ns)",
        max="Max latency (ns)",
        percentiles=_percentiles(document),
    )
    requests = _requests(document, scenario)
    latency = summary(document, names, 1, requests)
    if latency is None:
        raise document.error("Mean latency (ns)", "is missing")
    rates = (document.maybe_number(name) for name in _RATES)
    per_s = next((rate for rate in rates if rate is not None), None)
    if per_s is None:  # one query at a time, as in loadgen's own "QPS w/o loadgen overhead"
        per_s = NS_PER_S / max(latency.mean_ns, 1)
    found = stated(Summary(requests=requests, per_s=per_s * batch, latency=latency))
    mode, value = _load(document, scenario)
    settings = {name: document.get(name) for name in _SETTINGS if document.get(name) is not None}
    level = level_of(mode, value, replace(found, batch=batch), has_requests=False)
    drawn = Origin(tool=TOOL, model=document.text("SUT name"), settings=settings, arrivals="poisson")
    return result_of(drawn, [level])


def _fields(text: str, origin: str) -> dict[str, object]:
    """Return the values by name; the first value of a name counts."""
    found: dict[str, object] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if number > MOST_LINES:
            raise Part({}, origin, TITLE).error("", f"has more than {MOST_LINES:,} lines")
        if (pair := _LINE.fullmatch(line.strip()[:600])) is not None:
            found.setdefault(pair[1], _value(pair[2].strip()))
        elif (queries := _QUERIES.search(line[:600])) is not None:
            found.setdefault(_PROCESSED, int(queries[1]))
    return found


_PROCESSED = "processed queries"


def _value(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text) if len(text) <= 30 else text
        except ValueError:
            continue
    return text


def _percentiles(document: Part) -> tuple[tuple[float, str], ...]:
    matches = ((name, _PERCENTILE.fullmatch(name)) for name in document.fields)
    return tuple(sorted((float(found[1]), name) for name, found in matches if found is not None))


def _requests(document: Part, scenario: str) -> int:
    """Return the number of queries. Summaries without an early-stopping estimate only state the least number."""
    if scenario == "Offline":
        return document.maybe_count("samples_per_query") or 1
    return document.maybe_count(_PROCESSED) or document.maybe_count("min_query_count") or 1


def _load(document: Part, scenario: str) -> tuple[str, float]:
    if scenario == "Server":
        rate = document.maybe_number("target_qps")
        return (UNSTATED, 0.0) if rate is None else ("request_rate", rate)
    return (UNSTATED, 0.0) if scenario == "Offline" else ("concurrency", 1.0)
