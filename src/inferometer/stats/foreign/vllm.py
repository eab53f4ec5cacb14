"""Results of `vllm bench serve`: a JSON file for each load, with individual requests after `--save-detailed`.

Lists of individual requests have one entry per request, in the order of their sends; failed ones have an error text.
"""

import math
import re
from collections.abc import Iterator
from datetime import datetime

import numpy as np

from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.stats.estimate import Distribution
from inferometer.stats.foreign.built import (
    Origin,
    StatedRequest,
    Summary,
    as_stated,
    level_of,
    measured,
    result_of,
    stated,
)
from inferometer.stats.foreign.failures import status_of
from inferometer.stats.foreign.part import Names, Part, summary
from inferometer.stats.measurement import UNSTATED
from inferometer.stats.result import Result
from inferometer.stats.series import Series

TOOL = "vllm"
TITLE = "vllm bench serve"
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,4})?)_([a-z0-9]{2,8})_ms")
_LISTS = ("input_lens", "output_lens", "ttfts", "itls", "start_times")
_HTTP = re.compile(r"\b([1-5]\d\d)\b")


def is_one(document: dict[str, object]) -> bool:
    return {"request_throughput", "completed", "total_input_tokens", "duration"} <= set(document)


def read(document: Part) -> Result:
    said = _summary(document)
    rows = list(_requests(document))
    found = measured(rows) if any(row.status == status.OK for row in rows) else None
    mode, value = _load(document)
    level = level_of(
        mode,
        value,
        stated(said) if found is None else as_stated(found, said),
        has_requests=found is not None,
    )
    origin = Origin(
        tool=TOOL,
        started_at=_started_at(document.text("date")),
        model=document.text("model_id"),
        settings={name: document.get(name) for name in _SETTINGS if document.get(name) is not None},
        arrivals="poisson" if document.maybe_number("burstiness") == 1 else UNSTATED,
    )
    return result_of(origin, [level])


_SETTINGS = ("backend", "endpoint_type", "num_prompts", "request_rate", "burstiness", "max_concurrency")


def _started_at(date: str) -> str:
    """Return the time, which vLLM writes without a time zone."""
    try:
        return datetime.strptime(date, "%Y%m%d-%H%M%S").isoformat()
    except ValueError:
        return ""


def _load(document: Part) -> tuple[str, float]:
    """Return the mode and value; a rate of "inf" with a limit of concurrency is a closed load."""
    rate = document.get("request_rate")
    if isinstance(rate, int | float) and not isinstance(rate, bool) and math.isfinite(rate) and rate > 0:
        return "request_rate", float(rate)
    concurrency = document.maybe_number("max_concurrency")
    return (UNSTATED, 0.0) if concurrency is None else ("concurrency", concurrency)


def _summary(document: Part) -> Summary:
    completed = document.maybe_count("completed")
    if completed is None:
        raise document.error("completed", "is missing")
    requests = document.maybe_count("num_prompts")
    failed = document.maybe_count("failed")
    if failed is None:  # before 0.11
        failed = max(0, (requests or completed) - completed)
    return Summary(
        requests=completed,
        failed=failed,
        duration_ns=document.maybe_ns("duration") or 0,
        per_s=document.maybe_number("request_throughput"),
        latency=_times(document, "e2el", completed) or _latencies(document, completed),
        first=_times(document, "ttft", completed),
        between=_times(document, "tpot", completed),
        gaps=_times(document, "itl", completed),
        output=document.maybe_count("total_output_tokens"),
        prompt=document.maybe_count("total_input_tokens"),
        output_per_s=document.maybe_number("output_throughput"),
    )


def _times(document: Part, name: str, count: int) -> Distribution | None:
    known = {50.0: f"median_{name}_ms"}
    for key in document.fields:
        if (found := _PERCENTILE.fullmatch(key)) and found[2] == name:
            known[float(found[1])] = key
    names = Names(f"mean_{name}_ms", f"std_{name}_ms", percentiles=tuple(sorted(known.items())))
    return summary(document, names, NS_PER_MS, count)


def _latencies(document: Part, completed: int) -> Distribution | None:
    """Return the latencies, which vLLM 0.32 lists even without `--save-detailed`; failed requests have 0."""
    rows = document.rows("latencies")
    found = [ns for row in rows if (ns := document.duration(row, "latencies", NS_PER_S))]
    if not found or len(found) != completed:
        return None
    return Series(np.array(found, dtype=np.int64)).distribution()


def _requests(document: Part) -> Iterator[StatedRequest]:
    """Yield the requests; none without all the lists that describe them."""
    lists = [document.rows(name) for name in _LISTS]
    errors = document.rows("errors")
    if not all(lists):
        return
    for name, rows in zip(_LISTS, lists, strict=True):
        if len(rows) != len(lists[0]):
            raise document.error(name, f"has {len(rows)} entries, but {_LISTS[0]} has {len(lists[0])}")
    for number, row in enumerate(zip(*lists, strict=True)):
        line = Part(dict(zip(_LISTS, row, strict=True)), document.origin, TITLE, f"request {number}")
        error = errors[number] if number < len(errors) else ""
        yield _request(line, error if isinstance(error, str) else "")


def _request(line: Part, error: str) -> StatedRequest:
    start = line.moment_ns("start_times", NS_PER_S)
    if start is None:
        raise line.error("start_times", "is missing")
    prompt = line.maybe_count("input_lens") or 0
    tokens = line.maybe_count("output_lens") or 0
    first = line.maybe_ns("ttfts") or 0
    if error or (not tokens and not first):
        code = _HTTP.search(error)
        known = status_of(None if code is None else int(code[1]), error)
        return StatedRequest(start, start + first, status=known, prompt_tokens=prompt, message=error)
    times = [start + first]
    for gap in line.rows("itls"):
        times.append(times[-1] + line.duration(gap, "itls", NS_PER_S))
    # The file has no end times: vLLM's own latency ends with the last response.
    return StatedRequest(
        start_ns=start,
        end_ns=times[-1],
        first_ns=times[0],
        times_ns=tuple(times),
        tokens=tokens,
        prompt_tokens=prompt,
    )
