"""The options that say how much load there is and how it is made."""

import re

from inferometer.base.errors import UsageError
from inferometer.base.options import (
    Dialect,
    Option,
    choice,
    decimal,
    duration,
    existing_file,
    invalid,
    span,
    whole,
)


def _ramp(name: str, text: str) -> tuple[float, float, float]:
    """`start:end[:step]` that the steps divide evenly."""
    start, end, step = span()(name, text)
    if end is None:
        raise UsageError(
            f"Failed to parse {name}. Both start and end values must be provided, but got '{text}'"
        )
    if start > end:
        raise UsageError(f"Failed to parse {name}. The start must not be above the end, but got '{text}'")
    if (end - start) % step:
        raise UsageError(
            f"Failed to parse {name}. The range must be a multiple of the step, but got '{text}'",
            remedy="choose a step that divides end minus start",
        )
    return start, end, step


def _identifiers(name: str, text: str) -> tuple[int, int | None]:
    """`start[:end]` of sequence ids."""
    match = re.fullmatch("([0-9]{1,20})(?::([0-9]{1,20}))?", text)
    if match is None:
        raise invalid(name, text, "write it like 1:1000, with ids from 0 on")
    start, end = int(match[1]), None if match[2] is None else int(match[2])
    if end is not None and end < start:
        raise UsageError(f"Failed to parse {name}. The end must not be below the start, but got '{text}'")
    return start, end


def _speed(name: str, text: str) -> float:
    factor = decimal(least=0)(name, text.removesuffix("x"))
    assert isinstance(factor, float)
    if factor == 0:
        raise UsageError(f"{name} needs a factor above 0, but got '{text}'", remedy="write it like 2 or 0.5")
    return factor


def _shape(name: str, text: str) -> str:
    from inferometer.load.shape import parse_shape

    parse_shape(text)
    return text


def _workers(name: str, text: str) -> object:
    return text if text == "auto" else whole(least=1)(name, text)


OPTIONS = (
    Option(
        ("--concurrency-range",),
        "concurrency",
        "Requests in flight, as start[:end[:step]]. An end of 0 is open and needs --latency-threshold.",
        span(),
        "RANGE",
        "1:1:1",
    ),
    Option(
        ("--request-rate-range",),
        "request_rate",
        "Requests per second, as start[:end[:step]].",
        span(decimals=True),
        "RANGE",
    ),
    Option(
        ("--request-distribution",),
        "request_distribution",
        "Gaps between requests at a rate: constant or poisson.",
        choice("constant", "poisson"),
        "NAME",
        "constant",
    ),
    Option(
        ("--request-intervals",),
        "request_intervals",
        "File of gaps between requests in microseconds, one per line.",
        existing_file,
        "FILE",
    ),
    Option(
        ("--periodic-concurrency-range",),
        "periodic_concurrency",
        "Ramp of streaming requests, as start:end[:step].",
        _ramp,
        "RANGE",
    ),
    Option(
        ("--request-period",),
        "request_period",
        "Responses of a request before the next step of the ramp.",
        whole(least=1),
        "COUNT",
        "10",
    ),
    Option(
        ("--fixed-schedule",),
        "fixed_schedule",
        "Send each step of the data file at its own timestamp, in milliseconds after the start.",
        dialect=Dialect.NEWER,
    ),
    Option(
        ("--replay",),
        "replay",
        "Trace to replay: one JSON object per line with a timestamp (milliseconds) or timestamp_s (seconds).",
        existing_file,
        "FILE",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--speed",),
        "speed",
        "How fast a trace is replayed: 2 takes half its time.",
        _speed,
        "FACTOR",
        "1",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--shape-load",),
        "shape_load",
        "How the rate changes, such as 'ramp 10..500 over 60s then hold 500 for 2m'; see docs/load.md.",
        _shape,
        "SHAPE",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--session-concurrency",),
        "session_concurrency",
        "Chat sessions in parallel, with --service-kind openai: each session of the file once, its turns in order.",
        whole(least=1),
        "COUNT",
        dialect=Dialect.NEWER,
    ),
    Option(
        ("--request-count",),
        "request_count",
        "Send exactly this many requests and stop; 0 is no limit.",
        whole(least=0),
        "COUNT",
        "0",
    ),
    Option(
        ("--warmup-request-count",),
        "warmup_request_count",
        "Requests sent and finished before measuring.",
        whole(least=0),
        "COUNT",
        "0",
    ),
    Option(
        ("--request-timeout",),
        "request_timeout_s",
        "Time a request may take before it counts as failed, such as 500ms or 60s; 0 is no limit. A run in which "
        "nothing at all is answered for 60s, or for this time if it is longer, is given up.",
        duration(zero=True),
        "TIME",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--workers",),
        "workers",
        "Processes that make the load; auto adds some when one cannot keep up.",
        _workers,
        "COUNT",
        "1",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--max-threads",),
        "max_threads",
        "Threads of the classic tool: the end of an open range without --async, the most streams (by rate 4).",
        whole(least=1),
        "COUNT",
        "16",
    ),
    Option(("-a", "--async"), "asynchronous", "Use asynchronous calls: each request carries an id."),
    Option(
        ("--sync",), "synchronous", "Use synchronous calls, also where asynchronous ones are the default."
    ),
    Option(
        ("--streaming",),
        "streaming",
        "Send requests on bidirectional gRPC streams that stay open. Needed for decoupled models.",
    ),
    Option(
        ("--num-of-sequences",),
        "sequences",
        "Live sequences when loading by rate.",
        whole(least=1),
        "COUNT",
        "4",
    ),
    Option(
        ("--sequence-length",),
        "sequence_length",
        "Requests in a sequence.",
        whole(),
        "COUNT",
        "20",
    ),
    Option(
        ("--sequence-length-variation",),
        "sequence_length_variation",
        "Spread around the sequence length, in percent.",
        decimal(least=0),
        "PERCENT",
        "20",
    ),
    Option(
        ("--sequence-id-range",),
        "sequence_ids",
        "Ids of sequences, as start[:end]. The script perf_analyzer starts at 1, inferometer at a random one.",
        _identifiers,
        "RANGE",
    ),
    Option(
        ("--serial-sequences",),
        "serial_sequences",
        "At most one live request per sequence when loading by rate.",
    ),
    Option(
        ("--enable-mpi",),
        "mpi",
        "Measure several models at once, one per MPI rank.",
        built=False,
        meanwhile="start one run per model; --workers puts more load on one from this machine",
    ),
    Option(
        ("-t",),
        "old_start",
        "First concurrency; use --concurrency-range.",
        whole(least=1, noun="concurrency"),
        "COUNT",
        deprecated=True,
    ),
    Option(
        ("-c",),
        "old_end",
        "Last concurrency, only together with -d; use --concurrency-range.",
        whole(least=0, noun="maximum concurrency"),
        "COUNT",
        deprecated=True,
    ),
    Option(("-d",), "old_sweep", "Sweep from -t to -c; use --concurrency-range.", deprecated=True),
)
