"""Tokens and goodput in lines for people, and in the classic report."""

from collections.abc import Iterator

from inferometer.report.format import decimal, duration, plural, quantity, share, whole_us
from inferometer.stats.measurement import Distribution, Goodput, Measurement, TokenFigures


def text_lines(measurement: Measurement) -> Iterator[str]:
    """What there is to say of tokens and of a promise."""
    if measurement.tokens is not None:
        yield from _tokens(measurement.tokens)
    if measurement.goodput is not None:
        yield _goodput(measurement.goodput)


def _tokens(tokens: TokenFigures) -> Iterator[str]:
    if tokens.output:
        words = [
            f"Tokens: {quantity(tokens.output_per_s)} tokens/s, {_lengths(tokens.per_answer)} per answer"
        ]
        if tokens.between.count:
            between = tokens.between
            words.append(
                f"one every p50 {duration(between.percentile_ns(50))}, p99 {duration(between.percentile_ns(99))}"
            )
        yield "; ".join(words)
    if tokens.prompt:
        prompts = _lengths(tokens.per_prompt)
        yield f"Prompts: {quantity(tokens.prompt_per_s)} tokens/s, {prompts} per request"
    if tokens.output or tokens.from_events:
        yield _origin(tokens)


def _lengths(lengths: Distribution) -> str:
    if lengths.min_ns == lengths.max_ns:
        return str(lengths.min_ns)
    return f"{lengths.mean_ns} ({lengths.min_ns} to {lengths.max_ns})"


def _origin(tokens: TokenFigures) -> str:
    if not tokens.from_events:
        return "Tokens are the server's own count (usage)."
    if tokens.from_events == tokens.per_answer.count:
        return "Tokens are events of the streams: the server gave no usage, and an event may hold several tokens."
    answers = plural(tokens.from_events, "answer")
    return f"Tokens are the server's own count (usage), except for {answers} without one, whose events were counted."


def _goodput(goodput: Goodput) -> str:
    return (
        f"Goodput: {quantity(goodput.per_s)} requests/s kept '{goodput.promise}', "
        f"{share(goodput.share)} of all that ended"
    )


def classic_lines(measurement: Measurement) -> Iterator[str]:
    """The same as lines added to the classic Client block."""
    streaming, tokens = measurement.streaming, measurement.tokens
    if tokens is not None and streaming is not None:
        yield f"    Time to first token: {_times(streaming.first)}"
        if tokens.between.count:
            yield f"    Time between tokens: {_times(tokens.between)}"
    if tokens is not None and tokens.output:
        yield f"    Output token throughput: {decimal(tokens.output_per_s)} tokens/sec"
        yield f"    Output length: {decimal(tokens.output / tokens.per_answer.count)} tokens per request"
    if tokens is not None and tokens.prompt:
        yield f"    Input length: {decimal(tokens.prompt / tokens.per_prompt.count)} tokens per request"
    if tokens is not None and tokens.from_events:
        yield f"    [WARNING] {_origin(tokens)}"
    if measurement.goodput is not None:
        goodput = measurement.goodput
        yield f"    Goodput: {decimal(goodput.per_s)} infer/sec ({goodput.share * 100:.2f} %) within {goodput.promise}"


def _times(times: Distribution) -> str:
    return (
        f"{whole_us(times.mean_ns)} usec "
        f"(p50 {whole_us(times.percentile_ns(50))} usec, p99 {whole_us(times.percentile_ns(99))} usec)"
    )
