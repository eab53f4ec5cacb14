"""The cost of sharing a machine between models, as a document."""

import math
from collections.abc import Iterator, Sequence

from inferometer.base.units import NS_PER_S
from inferometer.compare.comparison import SLOWER, THROUGHPUT, Difference
from inferometer.compare.differences import speedup
from inferometer.compare.interference import (
    CLIENT,
    HIDDEN,
    NOTHING,
    STRANGER,
    UNKNOWN,
    WORK,
    Interference,
    SharedModel,
    SharedUse,
)
from inferometer.report.document import (
    Column,
    DifferenceBar,
    Differences,
    Document,
    Figure,
    Message,
    Section,
    Table,
    Tone,
    message_section,
    text_columns,
)
from inferometer.report.documents.speed import TONES, difference_words, verdict_of
from inferometer.report.format import NONE, difference, duration, level_label, plural, quantity, share, when
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN, times_longer, wide_words

_TONES = {SHOWN: Tone.BAD, NOT_SHOWN: Tone.GOOD, INCONCLUSIVE: Tone.WARNING}
CAUSE_WORDS = {
    NOTHING: "",
    UNKNOWN: ", and nothing observed explains it",
    WORK: "; the same requests take more CPU time (shared caches or memory bandwidth, or a lock that spins)",
    CLIENT: "; but the client itself waited for a core, so the cause is unknown",
    STRANGER: "; but another program used the GPU, so the cause is unknown",
    HIDDEN: "; they share something other than an observable resource (a lock, a queue)",
}


def interference_document(found: Interference) -> Document:
    sections = (
        _figures_section(found),
        _contention_section(found),
        _machine_section(found),
        message_section("notes", "Notes", (Message(text) for text in (*found.problems, *found.notes))),
    )
    return Document(
        kind="Interference",
        title=" + ".join(row.name for row in found.models) or "models",
        facts=(
            f"each at {level_label(found.mode, found.value)}",
            f"{duration(found.seconds * NS_PER_S)} alone and together, in {plural(found.rounds, 'round')}",
            f"all differences hold simultaneously with {share(found.confidence)} confidence",
            ", ".join(dict.fromkeys(row.url for row in found.models)),
            when(found.started_at),
        ),
        verdict=verdict(found),
        tone=_tone(found),
        figures=tuple(_headline(found)),
        sections=tuple(section for section in sections if section is not None),
    )


def verdict(found: Interference) -> str:
    """Say how much each model loses by sharing, and which resource the models contend for."""
    if not found.models:
        return " ".join(("Nothing was measured.", *found.problems))
    words = "; ".join(_model_words(found, row) for row in found.models)
    busy = f" {found.busy_machine}" if found.busy_machine else ""
    return f"{words}.{busy}"


def _model_words(found: Interference, row: SharedModel) -> str:
    shown, first = _shown(row), row.headline(found.mode)
    if shown is not None:
        cause = CAUSE_WORDS.get(row.contends_for, f" (contention: {row.contends_for})")
        return f"{row.name} is {difference_words(shown)}{_by(shown)} than alone{cause}"
    if first is None or first.percent.limits is None:
        return f"{row.name}: inconclusive, too few requests"
    if row.ruling(found.mode) == NOT_SHOWN:
        return f"{row.name} is not slowed by more than {_worst(first)} in {first.metric}"
    longer = times_longer(first.percent)
    seconds = "longer" if longer is None else f"for {math.ceil(longer * found.seconds):,} s"
    said = f"{first.metric} {difference(first.percent)}"
    if (wide := wide_words(first.percent)) is not None:
        said = f"{first.metric} has an {wide}"
    return f"{row.name}: inconclusive, {said}; measure {seconds} with -d"


def _worst(row: Difference) -> str:
    """The largest loss that the interval allows."""
    low, high = row.percent.limits or (0.0, 0.0)
    return share(max(0.0, -low if row.metric == THROUGHPUT else high) / 100)


def _by(row: Difference) -> str:
    return "" if row.metric == THROUGHPUT else f" by {row.metric}"


def _shown(model: SharedModel) -> Difference | None:
    """The figure that is worse and represents the model: throughput first, then the percentiles."""
    return next((row for row in model.differences if row.verdict == SLOWER), None)


def _tone(found: Interference) -> Tone:
    if found.problems or not found.models:
        return Tone.BAD
    return _TONES[found.ruling]


def _headline(found: Interference) -> Iterator[Figure]:
    for row in found.models:
        throughput = next((one for one in row.differences if one.metric == THROUGHPUT), None)
        if throughput is not None:
            value, detail = difference(throughput.percent), "together vs. alone"
            if (wide := wide_words(throughput.percent)) is not None:
                value, detail = INCONCLUSIVE, f"{detail}, {wide}"
            yield Figure(f"{row.name} throughput", value, detail, _row_tone(throughput))


def _figures_section(found: Interference) -> Section | None:
    if not found.models:
        return None
    columns = (
        *text_columns("Model", "Figure"),
        *(Column(name) for name in ("Alone", "Together", "Difference")),
        *text_columns("Verdict"),
    )
    rows, tones, bars = [], [], []
    for model in found.models:
        for row in model.differences:
            rows.append(
                (model.name, row.metric, *_values(row, found.rate_unit), difference(row.percent), _word(row))
            )
            tones.append(_row_tone(row))
            speed = speedup(row)
            bars.append(
                DifferenceBar(
                    row.metric, speed.value, speed.limits, difference_words(row), _row_tone(row), model.name
                )
            )
    table = Table("Each model alone and together with the others", columns, tuple(rows), tones=tuple(tones))
    chart = Differences("Speed together relative to alone (1 is the same)", tuple(bars))
    return Section("figures", "What sharing costs", "", (table, chart))


def _values(row: Difference, rate_unit: str) -> tuple[str, str]:
    if row.metric == THROUGHPUT:
        return f"{quantity(row.base)} {rate_unit}", f"{quantity(row.value)} {rate_unit}"
    return duration(row.base), duration(row.value)


def _word(row: Difference) -> str:
    return row.reason or verdict_of(row)


def _row_tone(row: Difference) -> Tone:
    return TONES[verdict_of(row)]


def _contention_section(found: Interference) -> Section | None:
    if not found.models:
        return None
    columns = (
        *text_columns("Model", "Contends for"),
        *(Column(name) for name in ("Queue alone", "Queue together", "Compute alone", "Compute together")),
        *text_columns("Evidence"),
    )
    rows = tuple((row.name, _contended(found, row), *_times(row), row.reason) for row in found.models)
    table = Table("Where the time is lost", columns, rows)
    return Section(
        "contention",
        "What they contend for",
        "Queue and compute times are the server's, per request.",
        (table,),
    )


def _contended(found: Interference, row: SharedModel) -> str:
    """The contended resource; inconclusive if a loss is neither shown nor ruled out."""
    is_open = row.contends_for == NOTHING and row.ruling(found.mode) == INCONCLUSIVE
    return INCONCLUSIVE if is_open else row.contends_for


def _times(row: SharedModel) -> tuple[str, ...]:
    pair = (row.server_alone, row.server_together)
    return (
        *(NONE if times is None else duration(times.queue_ns) for times in pair),
        *(NONE if times is None else duration(times.compute_ns) for times in pair),
    )


def _machine_section(found: Interference) -> Section | None:
    rows = [(row.name, row.use) for row in found.models] + [("together", found.use)]
    known = [(name, use) for name, use in rows if use is not None]
    if not known:
        return None
    names = ("Cores busy", "By the server", "Models waited for", "GPU", "GPU memory")
    columns = (*text_columns("Loaded"), *map(Column, names))
    table = Table(f"This machine, with {known[0][1].cores} cores", columns, tuple(_machine_rows(known)))
    return Section("machine", "The machine", "", (table,))


def _machine_rows(rows: Sequence[tuple[str, SharedUse]]) -> Iterator[tuple[str, ...]]:
    for name, use in rows:
        yield (
            name,
            quantity(use.busy),
            NONE if use.server_cores is None else quantity(use.server_cores),
            NONE if use.waiting is None else f"{quantity(use.waiting)} cores",
            NONE if use.gpu_share is None else share(use.gpu_share),
            NONE if use.gpu_memory_share is None else share(use.gpu_memory_share),
        )
