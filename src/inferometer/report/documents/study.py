"""A study as model-analyzer's summary: the best variants against the default, and the recommendation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inferometer.base.answer_file import to_json
from inferometer.base.units import INFERENCES
from inferometer.report.document import (
    Bar,
    Bars,
    Block,
    Code,
    Column,
    Depth,
    Document,
    Facts,
    Figure,
    Section,
    Segment,
    Table,
    Tone,
)
from inferometer.report.documents import study_facts as facts
from inferometer.report.documents.study_charts import curves, line, predicted_chart, rising
from inferometer.report.documents.study_facts import effect_sentence, main_effects
from inferometer.report.format import plain_number, plural, quantity
from inferometer.stats.figures import BY_TAG, LATENCY_P99, THROUGHPUT
from inferometer.tune.knobs import knob_words
from inferometer.tune.scoring import RankedVariant, passes, pool
from inferometer.tune.study import Recommendation, Study, recommend
from inferometer.tune.trial import Status, Trial
from inferometer.tune.variant import ModelVariant

KIND = "search for a configuration"
ACROSS_MODELS = "Best Configs Across All Models"
LISTED = 200  # most rows of a long table
LONG_TEXTS = ("Why", "Value")  # columns with text of any length
NAMED = 5  # most configurations named in one row
Cell = Callable[[RankedVariant], str]
SPARED = ("Dynamic Batching", "Average GPU Utilization (%)")  # columns to drop if there is little room


def study_document(
    study: Study, top: int, *, has_own_objectives: bool = False, with_gpus: bool = False
) -> Document:
    """Return the report of one study; the same study gives the same document."""
    rows = facts.selected(study, top)
    found = recommend(study)
    with_gpus = with_gpus or not _is_cpu_only(study, rows)
    return Document(
        kind=KIND,
        title=facts.models(study),
        facts=(
            *facts.gpu_texts(study),
            f"Constraint targets: {'; '.join(facts.constraint_texts(study.goals))}",
            *((f"Search: {study.search}",) if study.search else ()),
        ),
        verdict=facts.sentence(study, has_own_objectives=has_own_objectives),
        tone=_tone(found),
        figures=tuple(_figures(study)),
        sections=tuple(_sections(study, rows, with_gpus=with_gpus)),
        source=to_json(study),
        source_name="study.json",
        tool=study.tool,
    )


def _tone(found: Recommendation | None) -> Tone:
    if found is None or not found.does_pass:
        return Tone.WARNING
    return Tone.GOOD if found.is_sure or found.gain_percent is None else Tone.PLAIN


def _is_cpu_only(study: Study, rows: Sequence[RankedVariant]) -> bool:
    return all(variant.cpu_only for row in rows for variant in facts.variants_of(study, row.name))


def _figures(study: Study) -> Iterator[Figure]:
    if not study.ranked:
        return
    best = study.ranked[0].best
    name = best.name.removeprefix(f"{study.name}_") if len(study.models) == 1 else best.name
    yield Figure("Best configuration", name, facts.load_text(best))
    rate, p99 = best.combined(THROUGHPUT), best.combined(LATENCY_P99)
    if rate is not None:
        yield Figure("Throughput", f"{quantity(rate)} {study.rate_unit}", facts.gain_text(study))
    if p99 is not None:
        limits = [
            row for goal in study.goals for row in goal.constraints if row.tag.startswith("perf_latency")
        ]
        yield Figure("p99 latency", f"{p99:,.2f} ms", "; ".join(map(facts.constraint_text, limits)))


def _sections(study: Study, rows: Sequence[RankedVariant], *, with_gpus: bool) -> Iterator[Section]:
    if rows:
        yield _best(study, rows, with_gpus=with_gpus)
        yield from _curves(study, rows, with_gpus=with_gpus)
        yield _configuration(study)
    yield from effects_section(study)
    front = pareto(study)
    if len(front) > 1:
        yield _front(study, front)
    yield from expected_section(study)
    yield from not_done_section(study)
    yield search_section(study)


def effects_section(study: Study) -> Iterator[Section]:
    """Yield the section with the effect of each knob, if any was changed."""
    effects = main_effects(study)
    if effects:
        tag = study.goals[0].objectives[0][0]
        title = _header(study, tag)
        heads = ("Knob", "Value", "Variants", f"Mean {title}", f"Best {title}")
        cells = tuple(
            (row.knob, row.value, str(row.variants), quantity(row.mean), quantity(row.best))
            for row in effects
        )
        lead = f"Each variant is represented by its best load. {effect_sentence(effects)}"
        table = text_table("Main effects", heads, cells, texts=2)
        yield Section("effects", "What each knob did", lead, (table,), is_detail=True)


def _header(study: Study, tag: str) -> str:
    """The heading of a figure; throughput of servers without inferences is in requests."""
    row = BY_TAG[tag]
    is_plain = tag == THROUGHPUT and study.rate_unit != INFERENCES
    return f"{row.title} ({study.rate_unit})" if is_plain else row.header


def expected_section(study: Study, worded: Callable[[str], str] = str) -> Iterator[Section]:
    """Yield the section with forecasts against measurements, if there are any."""
    expected = predicted_chart(study, worded)
    if expected is not None:
        yield Section("expected", "Expected and measured", _error(study), (expected,))


def search_section(study: Study) -> Section:
    """Facts about the search that found the configuration."""
    ended = f"It ended because {study.ended}." if study.ended else ""
    return Section("search", "The search", ended, (_search(study), *_time_bars(study)))


def _time_parts(study: Study) -> tuple[tuple[str, float, str], ...]:
    """Where the time of the command went: name, seconds, colour."""
    account = study.account
    if account is None:
        return ()
    loading = "starting the server" if facts.is_launched(study) else "loading"
    return (
        (loading, account.loading_s, "orange"),
        ("warming up", account.warming_s, "purple"),
        ("measuring", account.measuring_s, "blue"),
        ("searching", account.searching_s, "grey"),
    )


def _time_text(study: Study) -> str:
    """`23 s: loading 4.1 s, warming up 2.2 s, measuring 15 s, searching 1.7 s`."""
    assert study.account is not None
    parts = ", ".join(f"{name} {quantity(seconds)} s" for name, seconds, _ in _time_parts(study))
    several = f" (mean of {study.account.servers} servers)" if study.account.servers > 1 else ""
    return f"{quantity(study.account.total_s)} s: {parts}{several}"


def _time_bars(study: Study) -> Iterator[Bars]:
    if study.account is None or not study.account.total_s:
        return
    segments = tuple(
        Segment(name, seconds, f"{quantity(seconds)} s", colour)
        for name, seconds, colour in _time_parts(study)
        if seconds
    )
    total = f"{quantity(study.account.total_s)} s"
    yield Bars("Where the time of the command went", (Bar("command", segments, total),))


def text_table(
    caption: str, heads: Sequence[str], cells: Sequence[tuple[str, ...]], *, texts: int = 1
) -> Table:
    columns = tuple(
        Column(head, is_number=place >= texts, is_name=place < texts and head not in LONG_TEXTS)
        for place, head in enumerate(heads)
    )
    return Table(caption, columns, tuple(cells))


def best_table(study: Study, rows: Sequence[RankedVariant], *, with_gpus: bool) -> Table:
    """The columns of model-analyzer, and the load of the figures."""
    several = len(study.models) > 1
    has_ram = any(row.best.combined("cpu_used_ram") is not None for row in rows)

    def fact(text: Callable[[ModelVariant], str]) -> Cell:
        return lambda row: facts.each(study, row.name, text)

    def metric(tag: str, places: int | None = None) -> Cell:
        return lambda row: _metric(row.best, tag, places)

    def name(row: RankedVariant) -> str:
        return ",".join(variant.title for variant in facts.variants_of(study, row.name))

    cells: dict[str, Cell] = {
        "Model Config Name": name,
        "Max Batch Size": fact(facts.batch_size),
        "Dynamic Batching": fact(facts.batching),
        "Total Instance Count": fact(facts.instances),
        "Average p99 Latency (ms)" if several else "p99 Latency (ms)": metric(LATENCY_P99),
        "Total Throughput (infer/sec)" if several else "Throughput (infer/sec)": metric(THROUGHPUT),
    }
    if has_ram:
        cells["Max CPU Memory Usage (MB)"] = metric("cpu_used_ram", 0)
    if with_gpus:
        cells["Max GPU Memory Usage (MB)"] = metric("gpu_used_memory", 0)
        cells["Average GPU Utilization (%)"] = metric("gpu_utilization", 1)
    cells["Load"] = lambda row: facts.load_text(row.best)
    cells["Satisfies Constraints"] = lambda row: "Yes" if row.does_pass else "No"
    # With several models or members, a cell has several values, which may be on separate lines.
    listed = (*list(cells)[:4], "Load", "Satisfies Constraints")
    columns = tuple(
        Column(head, head not in listed, head in listed, rank=int(head in SPARED or "Memory" in head))
        for head in cells
    )
    shown = tuple(tuple(cell(row) for cell in cells.values()) for row in rows)
    return Table("The best configurations", columns, shown)


def _metric(trial: Trial, tag: str, places: int | None = None) -> str:
    def text(value: float | None) -> str:
        if value is not None and places is None:
            return plain_number(round(value, 3))
        return facts.number_text(value, places or 0)

    combined = text(trial.combined(tag))
    if len(trial.parts) == 1 or BY_TAG[tag].of_gpu:
        return combined
    return f"{combined} ({', '.join(text(trial.value(tag, part)) for part in range(len(trial.parts)))})"


def _best(study: Study, rows: Sequence[RankedVariant], *, with_gpus: bool) -> Section:
    total = len(study.ranked)
    lead = (
        f"{facts.why(study)} Shown: {len(rows)} of {plural(total, 'configuration')}, each at its best load."
    )
    return Section("best", "The best configurations", lead, (best_table(study, rows, with_gpus=with_gpus),))


def _curves(study: Study, rows: Sequence[RankedVariant], *, with_gpus: bool) -> Iterator[Section]:
    if study.mode == "offline":
        charts: list[Block | None] = [
            curves(study, rows, "batch_size", THROUGHPUT, "Throughput vs. Batch Size")
        ]
    else:
        charts = [
            curves(study, rows, LATENCY_P99, THROUGHPUT, "Throughput vs. Latency", monotonic=True),
            curves(study, rows, LATENCY_P99, "gpu_used_memory", "GPU Memory vs. Latency")
            if with_gpus
            else None,
            curves(study, rows, LATENCY_P99, "cpu_used_ram", "CPU Memory vs. Latency"),
        ]
    blocks = tuple(chart for chart in charts if chart is not None)
    if blocks:
        yield Section("curves", "Throughput and memory against latency", "", blocks)


def _configuration(study: Study) -> Section:
    best = study.ranked[0].name
    blocks = tuple(
        Code(f"{part.model}/config.pbtxt ({part.name})", part.text)
        for variant in facts.variants_of(study, best)
        for part in variant.with_members
    )
    lead = f"The configuration of {best}, ready to copy into the model repository."
    return Section("configuration", "The recommended configuration", lead, blocks)


def _front(study: Study, front: Sequence[Trial]) -> Section:
    heads = ("Configuration", "Load", "Throughput (infer/sec)", "p99 Latency (ms)", "Satisfies Constraints")
    cells = tuple(
        (
            trial.name,
            facts.load_text(trial),
            _metric(trial, THROUGHPUT, 1),
            _metric(trial, LATENCY_P99, 2),
            "Yes" if passes(study.goals, trial) else "No",
        )
        for trial in front[:LISTED]
    )
    lead = "No other measurement has more throughput at the same or a lower p99 latency."
    table = text_table("The Pareto front", heads, cells, texts=2)
    return Section("front", "The Pareto front", lead, (table,), is_detail=True)


def _error(study: Study) -> str:
    errors = sorted(
        abs(found - expected) / found * 100
        for trial in study.measured
        if (expected := dict(trial.predicted).get(THROUGHPUT)) is not None
        and (found := trial.combined(THROUGHPUT))
    )
    if not errors:
        return ""
    middle = errors[len(errors) // 2]
    if len(errors) == 1:
        return f"The only forecast was within {middle:.0f} % of the measured values."
    return f"Half of the {plural(len(errors), 'forecast')} were within {middle:.0f} % of the measured values."


def not_done_section(study: Study, worded: Callable[[str], str] = str) -> Iterator[Section]:
    """Yield the section with failed and skipped runs, each with its reason, if there are any."""
    failed = [trial for trial in study.not_done if trial.status is Status.FAILED]
    skipped = [trial for trial in study.not_done if trial.status is Status.SKIPPED]
    blocks: list[Block] = []
    if failed:
        blocks.append(_reasons("Tried without success", failed, worded))
    if skipped:
        heads = ("Configurations", "Why", "Runs")
        blocks.append(text_table("Left out", heads, tuple(_left_out(skipped, worded))[:LISTED], texts=2))
        blocks.append(replace(_reasons("Left out, one by one", skipped, worded), depth=Depth.LISTING))
    if blocks:
        yield Section("not-done", "Runs not done, and why", "", tuple(blocks))


def _reasons(caption: str, trials: Sequence[Trial], worded: Callable[[str], str]) -> Table:
    cells = tuple(
        (worded(trial.name), facts.load_text(trial), worded(trial.reason)) for trial in trials[:LISTED]
    )
    return text_table(caption, ("Configuration", "Load", "Why"), cells, texts=3)


def _left_out(skipped: Sequence[Trial], worded: Callable[[str], str]) -> Iterator[tuple[str, str, str]]:
    """A row for each reason with its configurations; the details of each are in the full list."""
    by_reason: dict[str, list[Trial]] = {}
    for trial in skipped:
        by_reason.setdefault(trial.reason.partition(": ")[0], []).append(trial)
    for reason, runs in sorted(by_reason.items(), key=lambda row: -len(row[1])):
        names = [worded(name) for name in dict.fromkeys(trial.name for trial in runs)]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        said = {trial.reason for trial in runs}
        why = said.pop() if len(said) == 1 else reason
        yield f"{', '.join(names[:NAMED])}{more}", worded(why), str(len(runs))


def _search(study: Study) -> Facts:
    recalled = [trial for trial in study.trials if trial.is_recalled]
    spent_s = sum(trial.cost_s for trial in study.trials if not trial.is_recalled)
    earlier = f"{plural(len(recalled), 'measurement')} of {sum(trial.cost_s for trial in recalled):.0f} s"
    objectives = ", ".join(f"{tag} {share:.0%}" for goal in study.goals for tag, share in goal.shares)
    return Facts(
        "How it was found",
        (
            ("Search", study.search or "unknown"),
            ("Objectives", objectives),
            ("Constraints", "; ".join(facts.constraint_texts(study.goals))),
            ("Measurements", str(facts.count(study))),
            ("Configurations measured", str(len(study.ranked))),
            ("Time in measurements", f"{spent_s:.0f} s")
            if study.account is None
            else ("Time", _time_text(study)),
            *_startup(study),
            *_busy(study),
            *((("Taken from the journal", f"{earlier} by earlier runs"),) if recalled else ()),
            ("Hardware", facts.hardware(study)),
        ),
    )


def _startup(study: Study) -> Iterator[tuple[str, str]]:
    """How long the best configuration of a launched server took to be warm, and which servers never were."""
    found = study.startup_s(study.ranked[0].name) if study.ranked else None
    if found is not None:
        yield "Start-up of the best one", f"{quantity(found)} s until it was ready and warm"
    cold = dict.fromkeys(
        knob_words(facts.knobs_of_name(study, trial.name)) for trial in study.measured if trial.is_cold
    )
    if cold:
        named = ", ".join(list(cold)[:NAMED])
        more = f" and {len(cold) - NAMED} more" if len(cold) > NAMED else ""
        yield (
            "Never warm",
            f"{named}{more}: still getting faster at the end of the warm-up; figures may be too low",
        )


def _busy(study: Study) -> Iterator[tuple[str, str]]:
    count = sum(trial.is_host_busy for trial in study.measured)
    if count:
        yield (
            "Other programs",
            f"used this machine's cores during {count} of {plural(len(study.measured), 'measurement')}",
        )


def pareto(study: Study) -> tuple[Trial, ...]:
    """Trials in order of p99 latency; each has more throughput than all trials before it."""
    rows = line(pool(study.trials), LATENCY_P99, THROUGHPUT)
    best_of_each = sorted(rows, key=lambda row: (row[0], -row[1]))
    return tuple(trial for _, _, trial in rising(best_of_each))


def across_document(studies: Sequence[Study], top: int) -> Document:
    """The best configurations of all models by throughput; those that meet their constraints come first."""
    found = [(study, row) for study in studies for row in study.ranked]
    found.sort(key=lambda pair: (not pair[1].does_pass, -(pair[1].best.combined(THROUGHPUT) or 0.0)))
    shown = found[:top]
    heads = ("Model", "Model Config Name", "Max Batch Size", "Total Instance Count", "p99 Latency (ms)",
             "Throughput (infer/sec)", "Satisfies Constraints")  # fmt: skip
    cells = tuple(
        (
            study.name,
            row.name,
            facts.each(study, row.name, facts.batch_size),
            facts.each(study, row.name, facts.instances),
            facts.number_text(row.best.combined(LATENCY_P99), 2),
            facts.number_text(row.best.combined(THROUGHPUT), 1),
            "Yes" if row.does_pass else "No",
        )
        for study, row in shown
    )
    table = text_table(ACROSS_MODELS, heads, cells, texts=2)
    names = " and ".join(study.name for study in studies)
    return Document(
        kind=KIND,
        title=ACROSS_MODELS,
        facts=(f"Models: {names}",),
        verdict=f"The best {plural(len(shown), 'configuration')} of all models, out of {len(found)} measured.",
        sections=(Section("best", ACROSS_MODELS, "", (table,)),),
        tool=studies[0].tool,
    )


# --- the servers of a study that used several


def servers_section(study: Study) -> Iterator[Section]:
    """Yield the section with a table of the servers, if several measured the trials."""
    rows = _servers(study)
    if not rows:
        return
    columns = (
        Column("Server", is_name=True),
        Column("At", is_number=False),
        Column("Machine", is_number=False),
        Column("Cores", is_number=False, rank=1),
        Column("Trials"),
        Column("Outcome", is_number=False),
    )
    cells = tuple(
        (
            str(number),
            str(row.get("place", "")),
            str(row.get("machine", "")),
            ", ".join(map(str, row.get("cores", ()))) or "-",
            str(row.get("trials", 0)),
            _server_outcome(row),
        )
        for number, row in enumerate(rows, 1)
    )
    tones = tuple(Tone.WARNING if _server_outcome(row) != "ok" else Tone.PLAIN for row in rows)
    used = [row for row in rows if not row.get("left_out")]
    lead = f"{plural(len(used), 'server')} of the same kind measured in parallel, one trial each."
    if len(used) < len(rows):
        lead += " Trials on different machines cannot be compared, so the others were not used."
    yield Section(
        "servers", "The servers", lead, (Table("The servers", columns, cells, tones=tones),), is_detail=True
    )


def _servers(study: Study) -> list[Mapping[str, Any]]:
    found = study.server.get("servers", ())
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list | tuple) else []


def _server_outcome(row: Mapping[str, Any]) -> str:
    if row.get("left_out"):
        return "not used: different kind of machine"
    return f"lost: {row['lost']}" if row.get("lost") else "ok"
