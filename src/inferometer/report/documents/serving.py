"""LLM servers: their own metrics, and the conclusions of a diagnosis."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from inferometer.diagnose.serving import LimitCheck, Serving, ServingLevel
from inferometer.report.document import Block, Column, Message, Messages, Section, Table, Tone
from inferometer.report.documents.levels import load_column
from inferometer.report.format import NONE, duration, level_value, plural, quantity, share
from inferometer.stats.machine_figures import LlmServerFigures
from inferometer.stats.result import Result, measured

UNKNOWN = "unknown"
_TITLE = "Server metrics"

Value = TypeVar("Value", int, float)

COLUMNS: tuple[tuple[str, Callable[[LlmServerFigures], str]], ...] = (
    ("Running", lambda row: _mean_and_most(row.running_mean, row.running_max)),
    ("Waiting", lambda row: _mean_and_most(row.waiting_mean, row.waiting_max)),
    ("KV cache", lambda row: _known(row.kv_cache_max, share)),
    ("Preemptions", lambda row: _known(row.preemptions, _count)),
    ("Prompt tokens/s", lambda row: _known(row.prompt_per_s, quantity)),
    ("Generated/s", lambda row: _known(row.generated_per_s, quantity)),
    ("Prefix hits", lambda row: _known(row.prefix_share, share)),
    ("Drafts accepted", lambda row: _known(row.accepted_share, share)),
)
_TONES = {"limits": Tone.WARNING, "has room": Tone.GOOD, "not known": Tone.PLAIN}


def server_section(result: Result) -> Section | None:
    """A row for each level; None without metrics of an LLM server. Metrics that it does not report have no column."""
    rows = [
        (level, found.metrics.llm)
        for level, found in measured(result)
        if found.metrics is not None and found.metrics.llm is not None
    ]
    if not rows:
        return None
    cells = {name: [text(llm) for _, llm in rows] for name, text in COLUMNS}
    shown = [name for name, texts in cells.items() if set(texts) != {UNKNOWN}]
    columns = (load_column(rows[0][0]), *map(Column, shown))
    table = Table(
        _TITLE,
        columns,
        tuple(
            (level_value(level.mode, level.value), *(cells[name][number] for name in shown))
            for number, (level, _) in enumerate(rows)
        ),
    )
    hidden = [name for name in cells if name not in shown]
    lead = " ".join(_lead(rows[-1][1], hidden))
    return Section("server", _TITLE, lead, (table,))


def _lead(llm: LlmServerFigures, hidden: list[str]) -> Iterator[str]:
    capacity = "" if llm.kv_tokens is None else f", with a KV cache of {llm.kv_tokens:,} tokens"
    slots = "" if llm.slots is None else f", and at most {llm.slots:,} requests at once"
    yield f"The metrics of {llm.server}{capacity}{slots}."
    yield "Running and waiting are requests, as mean and maximum of all polls; KV cache is the peak usage."
    if hidden:
        yield f"Not reported: {', '.join(name[:2] + name[2:].lower() for name in hidden)}."
    if llm.was_restarted:
        yield "The server was restarted during the run, so its counters are unknown."


def _mean_and_most(mean: float | None, most: float | None) -> str:
    return UNKNOWN if mean is None or most is None else f"{quantity(mean)} (≤ {most:,.0f})"


def _known(value: Value | None, text: Callable[[Value], str]) -> str:
    return UNKNOWN if value is None else text(value)


def _count(value: int) -> str:
    return f"{value:,}"


# --- a diagnosis


def serving_blocks(serving: Serving) -> Iterator[Block]:
    """Every limit with its evidence, and the loads it is based on."""
    yield _checks(serving.checks)
    yield _loads(serving.levels)
    if serving.fitting is not None:
        text = f"{plural(serving.fitting, 'sequence')} of this length fit into the KV cache."
        yield Messages((Message(text, tone=Tone.PLAIN),))


def advice_blocks(serving: Serving) -> Iterator[Block]:
    if serving.advice:
        yield Messages(
            tuple(Message(f"Without a prediction: {text}", tone=Tone.PLAIN) for text in serving.advice)
        )


def _checks(checks: tuple[LimitCheck, ...]) -> Table:
    columns = (
        Column("Limit", is_number=False, is_name=True),
        Column("Evidence", is_number=False),
        Column("Allows"),
        Column("Verdict", is_number=False),
    )
    rows = tuple(
        (
            row.kind,
            row.evidence,
            NONE if row.bound is None else f"{quantity(row.bound)}/s",
            row.state,
        )
        for row in checks
    )
    tones = tuple(_TONES[row.state] for row in checks)
    return Table("Each limit by itself", columns, rows, tones=tones)


def _loads(levels: tuple[ServingLevel, ...]) -> Table:
    names = (
        "Concurrency",
        "Requests/s",
        "Latency",
        "TTFT",
        "Token gap",
        "Tokens/s",
        "Running",
        "Waiting",
        "KV cache",
    )
    rows = tuple(
        (
            str(row.concurrency),
            quantity(row.requests_per_s),
            duration(row.latency_ns),
            _known(row.first_ns, duration),
            _known(row.between_ns, duration),
            _known(row.output_per_s, quantity),
            _known(None if row.server is None else row.server.running_mean, quantity),
            _known(None if row.server is None else row.server.waiting_mean, quantity),
            _known(None if row.server is None else row.server.kv_cache_max, share),
        )
        for row in levels
    )
    return Table("The loads (means)", (*map(Column, names),), rows)
