"""Sentences about a measurement, shared by all forms of a report."""

from collections.abc import Iterator, Sequence

from inferometer.base.notes import Note
from inferometer.base.slo import Term
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.report.format import (
    GIB,
    NONE,
    at_percentile,
    duration,
    first_line,
    interval,
    level_label,
    plain_number,
    plural,
    quantity,
    share,
    significant,
)
from inferometer.report.promises import outcome_words, verdict_word
from inferometer.stats.estimate import Distribution
from inferometer.stats.machine_figures import QueueFigures, ServerMetrics
from inferometer.stats.measurement import ClientCost, FailureGroup, Level, Measurement, StartFigures
from inferometer.stats.result import Finding, JudgedLoad
from inferometer.stats.slo import metric_of
from inferometer.stats.text_figures import AskedLengths, CancelFigures, Phase, Streaming, TokenFigures

_VERDICTS = {
    Note.CLIENT_LIMITED: "client limit",
    Note.CLIENT_STARVED: "client short of cores",
    Note.CLIENT_LOST: "client lost",
    Note.OVERLOADED: "overloaded",
    Note.NOT_OFFERED: "rate not reached",
    Note.NOT_STABLE: "not stable",
    Note.NOT_PRECISE: "not precise",
    Note.INTERRUPTED: "interrupted",
    Note.SERVER_GONE: "server gone",
    Note.NO_ANSWER: "no answer",
    Note.NO_REPLY: "no reply",
    Note.OTHER_CLIENTS: "other clients",
    Note.NOT_COUNTED: "not counted",
    Note.WRONG_ANSWERS: "wrong answers",
}


# --- a level, a search


def level_sentence(level: Level, *, with_ok: bool = True) -> str:
    """Describe a finished level in one line."""
    label = level_label(level.mode, level.value)
    if level.measurement is None:
        return f"{label}: no request finished"
    if not level.measurement.request_count:
        cancelled = level.measurement.cancelled
        if cancelled is not None and not level.measurement.failed_count:
            return f"{label}: {plural(cancelled.count, 'request')} cancelled, none answered"
        return f"{label}: no request succeeded, {verdict_words(level)}"
    found, said = level.measurement, verdict_words(level)
    per_s = f"{quantity(found.infer_per_s.value / found.batch)} requests/s {interval(found.infer_per_s)}"
    if found.tokens is not None and found.tokens.output:
        per_s = f"{output_rate(found.tokens)}, {per_s}"
    words = f"{label}: {per_s.rstrip()}, p99 {at_percentile(found.latency, 99)}"
    if found.checks is not None:
        words += f", wrong {share(found.checks.share.value)}"
    return f"{words}, {said}" if with_ok or said != "ok" else words


def _mean_and_tail(latency: Distribution) -> str:
    return f"avg {duration(latency.mean_ns)}, p99 {at_percentile(latency, 99)}"


def _middle_and_tail(times: Distribution) -> str:
    return f"p50 {at_percentile(times, 50)}, p99 {at_percentile(times, 99)}"


UNSTEADY = ("drift", "faster start")
"""Kinds of doubt that mean the server changed during the measurement."""


def verdict_words(level: Level, finding: Finding | None = None) -> str:
    """Summarize a level in a few words: `ok`, or everything wrong with it; the SLO verdict comes first."""
    found = (_VERDICTS[remark.note] for remark in level.remarks if remark.note in _VERDICTS)
    words = list(dict.fromkeys(found))
    if level.measurement is None and not words:
        words.append("no reply")
    if not level.is_stable and not words and not level.has_remark(Note.FAILURES):
        words.append("not stable")
    if level.is_over_limit:
        words.append("over limit")
    if level.measurement is not None and level.measurement.failed_count:
        words.append("errors" if level.measurement.request_count else "all failed")
    if level.start is not None:
        words.append("cold start")
    if level.doubt is not None and level.doubt.kind in UNSTEADY:
        words.append(level.doubt.kind)
    if level.promise is not None:
        words.insert(0, outcome_words(level.promise))
    judged = () if finding is None else finding.judged
    for row in (row for row in judged if row.load == level.value):
        words.insert(0, _judged_words(row, level, () if finding is None else finding.terms))
    return ", ".join(dict.fromkeys(words)) if words else "ok"


def _judged_words(row: JudgedLoad, level: Level, terms: Sequence[Term]) -> str:
    """The verdict on a load, with the terms that this level's own figures violate."""
    words = verdict_word(row.verdict)
    if row.verdict != "broken":
        return words
    within = _terms_within(level, terms)
    causes = [label for label in row.broken if label not in within]
    return f"{words}: {', '.join(causes)}" if causes else words


def _terms_within(level: Level, terms: Sequence[Term]) -> set[str]:
    """Labels of the SLO terms that this level's figures meet."""
    values = ((term, _term_value(term, level.measurement)) for term in terms)
    return {term.label for term, value in values if value is not None and term.is_within(value)}


def _term_value(term: Term, found: Measurement | None) -> float | None:
    get = metric_of(term).get
    return None if get is None or found is None else get(found)


def finding_sentence(finding: Finding) -> str:
    """The result of a search as a sentence."""
    unit = "requests/s" if finding.mode == "request_rate" else "requests in flight"
    if not finding.value:
        why = "; this client was the limit" if finding.is_client_limited else ""
        words = f"{_not_met_words(finding, unit)}{why}."
    else:
        most = found_load(finding, finding.value)
        above = f"limited by {finding.limited_by}"
        if finding.is_client_limited:
            above = "above that, this client was the limit"
        elif finding.high is None:
            tried = max((row.load for row in finding.judged), default=finding.low)
            above = f"no violation found up to {found_load(finding, tried)}, the highest load tried"
        words = f"Meets '{finding.promise}' up to {most} {unit} ({limit_words(finding)}); {above}."
    if finding.knee:
        words += f" Knee at {found_load(finding, finding.knee)}."
    if finding.needed_s:
        words += f" To narrow this down, search for {finding.needed_s:.0f} s or longer."
    return words


def is_never_met(finding: Finding) -> bool:
    """Whether the SLO is violated at the lowest load tried; False if that load is undecided."""
    return not finding.value and finding.is_broken_at_once


def _not_met_words(finding: Finding, unit: str) -> str:
    lowest = min(finding.judged, key=lambda row: row.load, default=None)
    if lowest is None:
        return f"It is undecided whether '{finding.promise}' is met: no load yielded any figures"
    if lowest.verdict == "broken":
        return f"'{finding.promise}' is not met at any load tried; limited by {finding.limited_by}"
    least = f"{found_load(finding, lowest.load)} {unit}, the lowest load tried"
    return f"It is undecided whether '{finding.promise}' is met at {least} ({limit_words(finding)})"


def found_load(finding: Finding, load: float) -> str:
    return quantity(load) if finding.mode == "request_rate" else plain_number(load)


def limit_words(finding: Finding) -> str:
    """The loads between which the limit lies. Results of 0.1 only record which loads passed a short trial."""
    name = "between" if finding.confidence is None else f"{share(finding.confidence)} interval"
    low = found_load(finding, finding.low)
    if finding.high is None:
        return f"{name} {low} or more" if finding.low else f"{name} unknown"
    high = found_load(finding, finding.high)
    if not finding.low:
        return f"{name} up to {high}"
    return f"{name} {low} {'and' if finding.confidence is None else 'to'} {high}"


def start_words(start: StartFigures, rate_unit: str) -> str:
    """Describe the start of a level that was excluded."""
    line = (
        f"the first {duration(start.duration_ns)} differ from the rest and are excluded: "
        f"{quantity(start.infer_per_s)} {rate_unit}"
    )
    return f"{line}, {_mean_and_tail(start.latency)}" if start.latency.count else line


def first_round_sentence(level: Level, first: StartFigures) -> str:
    """Compare the answers of the first round of staggered users with the later ones."""
    answers = f"{plural(first.request_count, 'answer')} in {duration(first.duration_ns)}"
    line = (
        f"{level_label(level.mode, level.value)}: users started one after another; their first round is excluded: "
        f"{answers}"
    )
    change = first_round_change(level, first)
    if change is None:
        return line
    way = "slower" if change > 0 else "faster"
    return f"{line}, avg {duration(first.latency.mean_ns)}, {share(abs(change))} {way} than the rest"


def first_round_change(level: Level, first: StartFigures) -> float | None:
    """Return how much slower the first round was than the rest, as a share; None if unknown."""
    found = level.measurement
    if not first.latency.count or found is None or not found.latency.mean_ns:
        return None
    return first.latency.mean_ns / found.latency.mean_ns - 1


def failure_sentence(level: Level, group: FailureGroup) -> str:
    """Say how many requests failed in one way, when, and with which message."""
    when = f", at {group.first_s:.1f} s"
    if group.count > 1:
        when = f", {group.first_s:.1f} s to {group.last_s:.1f} s"
    if level.has_remark(Note.SUMMARY_ONLY):
        when = ""
    example = first_line(group.example)
    failed = f"{plural(group.count, 'request')} failed ({group.kind}){when}"
    if group.max_ns:
        failed += f", after {duration(group.mean_ns)} (at most {duration(group.max_ns)})"
    line = f"{level_label(level.mode, level.value)}: {failed}"
    return f"{line}: {example}" if example else line


# --- a measurement


def measurement_sentences(measurement: Measurement) -> Iterator[str]:
    """Yield sentences with figures that the tables do not show."""
    if measurement.streaming is not None:
        yield _streaming(measurement.streaming)
    yield from token_sentences(measurement)
    sequences = measurement.sequences
    if sequences is not None:
        words = f"Sequences: {sequences.count:,} complete, {quantity(sequences.per_s)} per second"
        yield f"{words}, each {_middle_and_tail(sequences.latency)}"
    if measurement.metrics is not None:
        yield from metrics_sentences(measurement.metrics)


def expert_sentences(measurement: Measurement, ports: int) -> Iterator[str]:
    """Yield the intervals of the latency figures and the client's cost; `ports` is 0 if unknown."""
    rows = [
        f"{'avg' if name == 'mean' else name} {interval(estimate) or 'unknown (too few samples)'}"
        for name, estimate in measurement.latency_intervals
    ]
    is_known = any(row.low is not None for _, row in measurement.latency_intervals)
    if rows and (is_known or not measurement.is_foreign):
        yield f"95 % intervals: {', '.join(rows)}."
    if not measurement.is_foreign:
        yield _client(measurement.client, ports)


def _streaming(streaming: Streaming) -> str:
    each = streaming.responses / max(1, streaming.per_request.count)
    rates = f"{quantity(streaming.per_s)} responses/s, {quantity(each)} per request; " if each else ""
    words = f"Streams: {rates}first after {_middle_and_tail(streaming.first)}"
    return f"{words}; between them {_middle_and_tail(streaming.gaps)}" if streaming.gaps.count else words


def _client(client: ClientCost, ports: int) -> str:
    """The cost of the measurement on the client."""
    each = duration(client.cpu_us_per_request * NS_PER_US)
    words = [f"{share(client.cpu_share)} of a core" + (f", {each} per request" if client.cpu_share else "")]
    if client.lag_p99_ns:
        words.append(f"sent late by p50 {duration(client.lag_p50_ns)}, p99 {duration(client.lag_p99_ns)}")
    if client.loop_lag_max_ns:
        words.append(
            f"loop lag p50 {duration(client.loop_lag_p50_ns)}, at most {duration(client.loop_lag_max_ns)}"
        )
    if client.files:
        limit = f" of {client.file_limit:,}" if client.file_limit else ""
        words.append(f"{client.files:,}{limit} files open")
    if client.connects:
        among = f" ({ports:,} local ports)" if ports else ""
        words.append(f"{plural(client.connects, 'connection')} opened{among}")
    return f"Client: {'; '.join(words)}."


def token_sentences(measurement: Measurement) -> Iterator[str]:
    """Sentences about tokens, cancelled requests and goodput."""
    if measurement.tokens is not None:
        yield from _tokens(measurement, measurement.tokens)
    if measurement.cancelled is not None:
        yield _cancelled(measurement.cancelled, measurement.ended_count)
    goodput = measurement.goodput
    if goodput is not None:
        per_s = quantity(goodput.per_s / measurement.batch)
        words = f"Goodput: {per_s} requests/s within the limits of '{goodput.promise}'"
        yield f"{words}, {share(goodput.share)} of all requests"


def output_rate(tokens: TokenFigures) -> str:
    """`914 tokens/s ±1.6 %`."""
    spread = "" if tokens.output_interval is None else interval(tokens.output_interval)
    return f"{quantity(tokens.output_per_s)} tokens/s {spread}".rstrip()


def _tokens(measurement: Measurement, tokens: TokenFigures) -> Iterator[str]:
    if tokens.output:
        words = f"Tokens: {quantity(tokens.output_per_s)} tokens/s, {lengths(tokens.per_answer)} per answer"
        yield f"{words}; TPOT {_middle_and_tail(tokens.between)}" if tokens.between.count else words
    if tokens.prompt:
        prompts = lengths(tokens.per_prompt)
        cached = f", {share(tokens.cached / tokens.prompt)} cached" if tokens.cached else ""
        yield f"Prompts: {quantity(tokens.prompt_per_s)} tokens/s, {prompts} per request{cached}"
    if tokens.per_user is not None:
        rates = tokens.per_user
        yield (
            f"Per user: {quantity(rates.mean.value)} tokens/s on average, p50 {quantity(rates.percentile(50))}, "
            f"p1 {quantity(rates.percentile(1))}"
        )
    if tokens.prefill is not None and tokens.decode is not None:
        yield _phases(tokens.prefill, tokens.decode, queue_share(measurement))
    streaming = measurement.streaming
    if streaming is not None and streaming.answer is not None:
        yield f"First token of the answer, after the reasoning: {_middle_and_tail(streaming.answer)}"
    if streaming is not None and streaming.tool is not None:
        calls = f"{streaming.tool.count:,} of {measurement.request_count:,} answers"
        yield f"First tool call: {_middle_and_tail(streaming.tool)} ({calls})"
    if tokens.reasoning:
        yield f"Reasoning: {share(tokens.reasoning / tokens.output)} of the output tokens"
    if tokens.asked is not None:
        yield from _asked(tokens.asked)
    if (tokens.output or tokens.from_events) and not measurement.is_foreign:
        yield token_origin(tokens)


def _phases(before: Phase, after: Phase, queued: float | None) -> str:
    """Split the requests' time at the first token; before it, a request may wait, and the server reads the prompt."""
    waited = "" if queued is None else f", {share(queued)} in the server's queue"
    speed = f", {quantity(after.per_s)} tokens/s per request" if after.tokens else ""
    return f"Until the first token: {share(before.share)} of the time{waited}; after it: {share(after.share)}{speed}"


def queue_share(measurement: Measurement) -> float | None:
    """Return the share of the requests' time spent in the server's queue, from its metrics; None without them.

    The server reports the mean queue time, or Little's law gives it: waiting requests over completions per second."""
    tokens, streaming = measurement.tokens, measurement.streaming
    llm = None if measurement.metrics is None else measurement.metrics.llm
    if llm is None or streaming is None or tokens is None or tokens.prefill is None or tokens.decode is None:
        return None
    queue_ns, per_s = llm.queue_ns, measurement.infer_per_s.value / measurement.batch
    if queue_ns is None and llm.waiting_mean is not None and per_s:
        queue_ns = llm.waiting_mean * NS_PER_S / per_s
    total_ns = tokens.prefill.time_ns + tokens.decode.time_ns
    if queue_ns is None or not total_ns:
        return None
    return min(tokens.prefill.share, queue_ns * streaming.first.count / total_ns)


def _asked(asked: AskedLengths) -> Iterator[str]:
    """Describe answers whose length differs from the requested one."""
    if asked.early:
        answers = f"{asked.early:,} of {plural(asked.asked, 'answer')}"
        yield f"Ended early: {answers}, by {significant(asked.missing_tokens / asked.early, 3)} tokens on average"
    if asked.over:
        answers = f"{asked.over:,} of {plural(asked.asked, 'answer')}"
        yield f"Too long: {answers}, by {significant(asked.extra_tokens / asked.over, 3)} tokens on average"


def _cancelled(cancelled: CancelFigures, ended: int) -> str:
    part = share(cancelled.count / ended)
    ran = _middle_and_tail(cancelled.ran)
    words = f"Cancelled by the client: {plural(cancelled.count, 'request')} ({part}) after {ran}"
    return f"{words}; {plural(cancelled.tokens, 'token')} had arrived" if cancelled.tokens else words


def lengths(tokens: Distribution, to: str = " to ") -> str:
    """`128`, or the mean with the shortest and the longest: `96 (12 to 200)`; a dash if there are none."""
    if not tokens.count:
        return NONE
    if tokens.min_ns is None or tokens.max_ns is None or tokens.min_ns == tokens.max_ns:
        return f"{tokens.mean_ns:,}"
    return f"{tokens.mean_ns:,} ({tokens.min_ns:,}{to}{tokens.max_ns:,})"


def token_origin(tokens: TokenFigures, *, separator: str = ",") -> str:
    """Say whether the server or the client counted the tokens."""
    if not tokens.from_events:
        return "Tokens are the server's own count (usage)."
    if tokens.from_events == tokens.per_answer.count:
        return "Tokens are counted as stream events: the server reported no usage. An event may hold several tokens."
    answers = plural(tokens.from_events, "answer", separator=separator)
    return f"Tokens are the server's own count (usage), except for {answers} without one, whose events were counted."


def metrics_sentences(metrics: ServerMetrics) -> Iterator[str]:
    """A line for the server, and one for each busy model, each GPU and this host."""
    server = _joined(
        _maybe_share("CPU", metrics.cpu_share),
        _memory(metrics.memory_used_bytes, metrics.memory_total_bytes),
    )
    if server or metrics.llm is None:  # LLM servers have their own section
        yield f"Server metrics ({plural(metrics.polls, 'poll')}): {server or 'no CPU or memory figures'}"
    for queue in metrics.queues:
        yield f"{queue.model} version {queue.version}: {_queue(queue)}"
    host = metrics.host
    # NVML is used only if the server reports no GPUs: both see the same ones.
    gpus = metrics.gpus if metrics.gpus or host is None else host.gpus
    for gpu in gpus:
        power = "" if gpu.power_w is None else f"{quantity(gpu.power_w)} W"
        memory = _memory(gpu.memory_used_bytes, gpu.memory_total_bytes)
        yield f"{gpu.uuid}: {_joined(_maybe_share('busy', gpu.utilization), power, memory)}"
    if host is not None:
        used = _memory(host.memory_used_bytes, None)
        yield f"This host: {_joined(_maybe_share('CPU', host.cpu_share), used)}"


def _queue(row: QueueFigures) -> str:
    pending = waited = ""
    if row.pending_mean is not None and row.pending_max is not None:
        pending = f"{quantity(row.pending_mean)} requests pending, {plain_number(row.pending_max)} at most"
    if row.queue_us is not None:
        waited = f"{duration(row.queue_us * NS_PER_US)} in the queue"
    return _joined(pending, waited)


def _maybe_share(name: str, part: float | None) -> str:
    return "" if part is None else f"{name} {share(part)}"


def _memory(used: int | None, total: int | None) -> str:
    if used is None:
        return ""
    whole = "" if total is None else f" of {quantity(total / GIB)}"
    return f"memory {quantity(used / GIB)}{whole} GiB"


def _joined(*words: str) -> str:
    return ", ".join(filter(None, words))
