"""Results built from the contents of a foreign file: from its requests if it has them, otherwise from its summary.

From requests, intervals are computed by the same functions as for our own measurements. Summary figures have none. If a
file has both, the stated figures are kept, and their intervals come from the requests.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from inferometer.base import status
from inferometer.base.frozen import frozen
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_S, plain_number, quantity
from inferometer.model.spec import ModelSpec
from inferometer.options.effective import Effective
from inferometer.records.records import COLUMNS, Records, from_rows
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.measurement import UNSTATED, ClientCost, FailureGroup, Level, Measurement
from inferometer.stats.merge import Subject, measurement
from inferometer.stats.result import Result
from inferometer.stats.text_figures import Streaming, TokenFigures, UserRates
from inferometer.stats.windows import Expense, WindowRules

RATE = "request_rate"
ARRIVALS = ("constant", "poisson")
"""How requests arrive at a rate, as named by these tools and by our options."""
NO_TIMES = Distribution(0, 0, 0, 0, 0, ())
UNKNOWN_COST = ClientCost(workers=0, cpu_share=0.0, cpu_us_per_request=0.0, reconnects=0, connect_ns=0)
_INTERVALS = (("mean", None), ("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0))


@frozen
class StatedRequest:
    """One request of a foreign file; times are in nanoseconds, and 0 if unknown."""

    start_ns: int
    end_ns: int
    first_ns: int = 0  # first token
    last_ns: int = 0  # last token; the end if unknown
    times_ns: tuple[int, ...] = ()  # of all responses, if they are known
    status: int = status.OK
    tokens: int = 0
    prompt_tokens: int = 0
    message: str = ""  # of a failure


@frozen
class Summary:
    """Figures that a file states; None and empty distributions are not stated."""

    requests: int
    failed: int = 0
    duration_ns: int = 0
    per_s: float | None = None  # successful requests per second
    latency: Distribution | None = None
    first: Distribution | None = None  # time to the first token
    between: Distribution | None = None  # mean time between tokens of each answer
    gaps: Distribution | None = None  # between consecutive responses
    per_answer: Distribution | None = None  # numbers of tokens
    per_prompt: Distribution | None = None
    output: int | None = None  # tokens
    prompt: int | None = None
    output_per_s: float | None = None
    prompt_per_s: float | None = None
    per_user: UserRates | None = None
    failures: tuple[FailureGroup, ...] = ()


def level_of(mode: str, value: float, found: Measurement, *, has_requests: bool) -> Level:
    """Return the level, with remarks on missing intervals and on a rate that was not reached."""
    remarks = []
    if not has_requests:
        text = "the file states figures without requests, so no figure has an interval"
        remarks.append(Remark(Note.SUMMARY_ONLY, text))
    per_s = _maybe_rate(found)
    if mode == RATE and per_s is not None and per_s < value * _reached(found):
        text = (
            f"the file states a rate of {plain_number(value)}/s, but only {quantity(per_s)} requests/s ended"
        )
        remarks.append(Remark(Note.OVERLOADED, text))
    return Level(mode, value, found, (), is_stable=True, is_over_limit=False, remarks=tuple(remarks))


def _maybe_rate(found: Measurement) -> float | None:
    """Return the ends per second, failures included, before the last requests were waited for; None if unknown."""
    sending_ns = found.duration_ns - found.latency.mean_ns
    count = found.request_count + found.failed_count
    return count * NS_PER_S / sending_ns if found.duration_ns and sending_ns > 0 else None


def _reached(found: Measurement) -> float:
    """Return the share of a rate that counts as reached; a count of random arrivals varies by its root."""
    return 0.9 - 2 / math.sqrt(max(1, found.request_count + found.failed_count))


@frozen
class Origin:
    """The tool that wrote a file, and the subject of its measurement."""

    tool: str  # name
    version: str = ""
    started_at: str = ""
    model: str = ""
    url: str = ""
    settings: Mapping[str, Any] | None = None  # as stated, for display
    arrivals: str = UNSTATED  # of a rate: one of ARRIVALS


def result_of(origin: Origin, levels: Sequence[Level]) -> Result:
    """Return the result. Settings, host and server are empty: the file does not state ours."""
    modes = {level.mode for level in levels}
    arrivals = origin.arrivals if RATE in modes else Effective().distribution
    return Result(
        tool=f"{origin.tool} {origin.version}".strip(),
        command=origin.tool,
        started_at=origin.started_at,
        asked=dict(origin.settings or {}),
        effective=Effective(mode=modes.pop() if len(modes) == 1 else UNSTATED, distribution=arrivals),
        host={},
        server={"url": origin.url} if origin.url else {},
        model={"name": origin.model} if origin.model else {},
        levels=tuple(levels),
        source=origin.tool,
    )


# --- from requests


def measured(rows: Sequence[StatedRequest], *, span: tuple[int, int] | None = None) -> Measurement | None:
    """Compute all figures of requests; None without any. `span` is the measured time if the file states it."""
    if not rows:
        return None
    records, has_times = _records(rows)
    rules = WindowRules(has_tokens=any(row.tokens or row.first_ns for row in rows))
    start_ns, end_ns = span or (int(records.sent_ns.min()), int(records.end_ns.max()))
    window = rules.new_window(start_ns)
    window.end_ns = max(end_ns, start_ns + 1)
    rules.add(window, records)
    window.expense = Expense(elapsed_ns=window.duration_ns, sent=len(rows))
    examples = {row.status: row.message for row in reversed(rows) if row.status != status.OK}
    subject = Subject(ModelSpec("", "", (), ()), 1, None, start_ns, examples)
    found = replace(measurement(window, subject), client=UNKNOWN_COST, send_ns=0, receive_ns=0)
    if found.streaming is None or has_times:
        return found
    # Only the first and the last response are known: gaps and numbers of responses are not.
    streaming = Streaming(0, 0.0, NO_TIMES, found.streaming.first, NO_TIMES)
    return replace(found, streaming=streaming, lanes=())


def _records(rows: Sequence[StatedRequest]) -> tuple[Records, bool]:
    """Return the records, and whether the time of every response is known."""
    has_times = all(row.times_ns for row in rows if row.first_ns)
    block = np.zeros((len(rows), len(COLUMNS)), dtype=np.int64)
    places = {name: number for number, name in enumerate(COLUMNS)}
    times: list[int] = []
    for line, row in zip(block, rows, strict=True):
        own = _times(row, has_times=has_times)
        times += own
        for name, value in (
            *((name, row.start_ns) for name in ("due_ns", "sent_ns", "wrote_ns")),
            ("first_ns", row.first_ns or row.end_ns),
            ("end_ns", row.end_ns),
            ("status", row.status),
            ("responses", max(len(own), 1)),
            ("tokens", row.tokens),
            ("prompt_tokens", row.prompt_tokens),
            ("stamps", len(own)),
        ):
            line[places[name]] = value
    return from_rows(block, np.array(times, dtype=np.int64)), has_times


def _times(row: StatedRequest, *, has_times: bool) -> tuple[int, ...]:
    if has_times or not row.first_ns:
        return row.times_ns
    return (row.first_ns, row.last_ns or row.end_ns) if row.tokens > 1 else (row.first_ns,)


# --- from a summary


def stated(said: Summary) -> Measurement:
    """Return the stated figures, without intervals."""
    latency = said.latency or NO_TIMES
    per_s = said.per_s
    if per_s is None:
        per_s = said.requests * NS_PER_S / said.duration_ns if said.duration_ns else 0.0
    return Measurement(
        batch=1,
        duration_ns=said.duration_ns,
        request_count=said.requests,
        failed_count=said.failed,
        delayed_count=0,
        infer_per_s=Estimate(per_s),
        send_per_s=(said.requests + said.failed) * NS_PER_S / said.duration_ns if said.duration_ns else per_s,
        latency=latency,
        latency_intervals=_points(latency),
        service=latency,
        send_ns=0,
        receive_ns=0,
        received_bytes=0,
        client=UNKNOWN_COST,
        server=None,
        failures=said.failures,
        streaming=_streaming(said),
        tokens=_tokens(said),
    )


def _points(latency: Distribution) -> tuple[tuple[str, Estimate], ...]:
    if not latency.count:
        return ()
    values = [
        (name, latency.mean_ns if p is None else latency.maybe_percentile_ns(p)) for name, p in _INTERVALS
    ]
    return tuple((name, Estimate(float(ns))) for name, ns in values if ns is not None)


def _streaming(said: Summary) -> Streaming | None:
    if said.first is None and said.gaps is None:
        return None
    return Streaming(0, 0.0, NO_TIMES, said.first or NO_TIMES, said.gaps or NO_TIMES)


def _tokens(said: Summary) -> TokenFigures | None:
    if said.output is None and said.output_per_s is None and said.per_answer is None and said.between is None:
        return None
    answers, prompts = said.per_answer or NO_TIMES, said.per_prompt or NO_TIMES
    per_s = NS_PER_S / said.duration_ns if said.duration_ns else 0.0
    output = answers.mean_ns * answers.count if said.output is None else said.output
    prompt = prompts.mean_ns * prompts.count if said.prompt is None else said.prompt
    return TokenFigures(
        output=output,
        output_per_s=output * per_s if said.output_per_s is None else said.output_per_s,
        per_answer=answers,
        between=said.between or NO_TIMES,
        prompt=prompt,
        prompt_per_s=prompt * per_s if said.prompt_per_s is None else said.prompt_per_s,
        per_prompt=prompts,
        from_events=0,
        per_user=said.per_user,
    )


# --- from both


def as_stated(found: Measurement, said: Summary) -> Measurement:
    """Return the figures as stated, with the intervals and histograms of the requests."""
    summary = stated(said)
    latency = _as_stated(found.latency, summary.latency)
    values = dict(summary.latency_intervals)
    streaming, tokens = found.streaming, found.tokens
    if streaming is not None and summary.streaming is not None:
        streaming = replace(
            streaming,
            first=_as_stated(streaming.first, summary.streaming.first),
            gaps=_as_stated(streaming.gaps, summary.streaming.gaps),
        )
    if tokens is not None and summary.tokens is not None:
        rate = summary.tokens.output_per_s
        tokens = replace(
            summary.tokens,
            per_answer=_as_stated(tokens.per_answer, summary.tokens.per_answer),
            per_prompt=_as_stated(tokens.per_prompt, summary.tokens.per_prompt),
            between=_as_stated(tokens.between, summary.tokens.between),
            output_interval=_around(rate, tokens.output_interval or Estimate(rate)),
            per_user=summary.tokens.per_user or tokens.per_user,
            prefill=tokens.prefill,
            decode=tokens.decode,
            classes=tokens.classes,
        )
    return replace(
        found,
        duration_ns=summary.duration_ns or found.duration_ns,
        request_count=summary.request_count,
        failed_count=summary.failed_count,
        infer_per_s=_around(summary.infer_per_s.value, found.infer_per_s),
        latency=latency,
        latency_intervals=tuple(
            (name, _around(values[name].value, row) if name in values else row)
            for name, row in found.latency_intervals
        ),
        service=latency,
        streaming=streaming or summary.streaming,
        tokens=tokens or summary.tokens,
        failures=found.failures or summary.failures,
    )


def _as_stated(found: Distribution, said: Distribution) -> Distribution:
    if not said.count or not found.count:
        return said if said.count else found
    values = dict(_points(said))
    return replace(
        said,
        count=found.count,
        std_ns=found.std_ns if said.std_ns is None else said.std_ns,
        min_ns=found.min_ns if said.min_ns is None else said.min_ns,
        max_ns=found.max_ns if said.max_ns is None else said.max_ns,
        percentiles=tuple(sorted({**dict(found.percentiles), **dict(said.percentiles)}.items())),
        histogram=found.histogram,
        intervals=tuple(
            (name, _around(values[name].value, row) if name in values else row)
            for name, row in found.intervals
        ),
    )


def _around(value: float, found: Estimate) -> Estimate:
    """Return the stated value with the interval of the requests, which is widened to include it."""
    if found.low is None or found.high is None:
        return Estimate(value)
    return Estimate(value, min(found.low, value), max(found.high, value))
