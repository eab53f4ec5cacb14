"""The result of `inferometer gate` as a document: whether the new run is worse than the last good runs."""

import math
from collections.abc import Iterator, Mapping

from inferometer.compare.comparison import (
    FAILED,
    FINE,
    INCONCLUSIVE,
    INVALID,
    PASSED,
    REGRESSION,
    UNDECIDED,
)
from inferometer.compare.regression import ANY, FigureJudgement, RegressionCheck
from inferometer.report.document import (
    Chart,
    Column,
    Document,
    Figure,
    Message,
    Section,
    Table,
    Tone,
    message_section,
    text_columns,
)
from inferometer.report.documents.trend import figure_text, history_chart, run_names
from inferometer.report.format import NONE, difference, level_label, plural, share, signed, when
from inferometer.stats.expectation import FEWEST_GOOD
from inferometer.stats.history import FigureHistory

CARDS = 4
NEVER = 1000  # percent: a change that no regression reaches
LISTED = 6  # most runs that a sentence names one by one
_TONES = {PASSED: Tone.GOOD, FAILED: Tone.BAD, INCONCLUSIVE: Tone.WARNING}
_WHOLE = {FINE: Tone.GOOD, REGRESSION: Tone.BAD, UNDECIDED: Tone.WARNING, INVALID: Tone.BAD}


def regression_document(check: RegressionCheck) -> Document:
    """Return the report; the same check gives the same document."""
    names = run_names([*check.new_ids, *(p.run_id for row in check.judgements for p in row.good)])
    problems = (Message(text, tone=Tone.BAD) for text in check.problems)
    sections = (
        message_section("problems", "Why it is invalid", problems),
        _figures_section(check),
        _runs_section(check, names),
        _rule_section(check),
        message_section("notes", "Notes", (Message(text, tone=Tone.PLAIN) for text in check.notes)),
    )
    sure = f"{share(check.false_failures)} false failures"
    facts = (check.command, check.host_class, f"{plural(len(check.good_ids), 'good run')}", sure)
    return Document(
        kind="Gate",
        title=check.model,
        facts=tuple(word for word in (*facts, when(check.started_at)) if word),
        verdict=_verdict(check, names),
        tone=_WHOLE[check.outcome],
        figures=tuple(_cards(check)),
        sections=tuple(section for section in sections if section is not None),
    )


def _verdict(check: RegressionCheck, names: Mapping[str, str]) -> str:
    new = _listed(check.new_ids, names)
    who = f"Run{'s' if len(check.new_ids) > 1 else ''} {new}"
    good = f"the last {plural(len(check.good_ids), 'good run')} ({_listed(check.good_ids, names)})"
    if check.problems:
        return f"{who} cannot be judged: {check.problems[0]}."
    if not check.judgements:
        return f"{who} cannot be judged: it has no figures."
    bad = [row for row in check.judgements if row.outcome == FAILED]
    if bad:
        said = "; ".join(f"{row.figure} {row.found}" for row in bad)
        return f"Regression in {who[0].lower()}{who[1:]}, against {good}: {said}."
    undecided = [row for row in check.judgements if row.outcome == INCONCLUSIVE]
    if undecided and not check.good_ids:
        return (
            f"{who} cannot be judged yet: {FEWEST_GOOD} comparable good runs are needed, and there are none."
        )
    if undecided:
        said = "; ".join(f"{row.figure}: {row.found}" for row in undecided)
        return f"Inconclusive: {who[0].lower()}{who[1:]} against {good}: {said}."
    least = [row.excluded_percent for row in check.judgements if row.excluded_percent is not None]
    seen = f" of {_range(least)}" if least else ""
    return f"{who} show{'s' if len(check.new_ids) == 1 else ''} no regression{seen} against {good}."


def _range(least: list[float]) -> str:
    low, high = (share(_rounded_up(end) / 100) for end in (min(least), max(least)))
    return f"{low} or more" if low == high else f"{low} or more ({high} for the noisiest figure)"


def _rounded_up(percent: float) -> float:
    return math.ceil(percent) if percent > 9 else math.ceil(percent * 10) / 10


def _listed(ids: tuple[str, ...], names: Mapping[str, str]) -> str:
    if len(ids) <= LISTED:
        return ", ".join(names[row] for row in ids)
    return f"{names[ids[0]]} to {names[ids[-1]]}"


def _cards(check: RegressionCheck) -> Iterator[Figure]:
    for row in check.judgements[:CARDS]:
        value = NONE if row.percent is None else f"{signed(row.percent.value)} %"
        where = f"{row.figure} at {level_label(row.mode, row.value)}"
        yield Figure(where, value, row.outcome, _TONES[row.outcome])


def _figures_section(check: RegressionCheck) -> Section | None:
    if not check.judgements:
        return None
    columns = (
        Column("Figure", is_number=False, is_name=True),
        *text_columns("Load"),
        Column("Expected"),
        Column("New"),
        Column("Change"),
        Column("Fails from", rank=1),
        *text_columns("Outcome"),
    )
    rows = tuple(_row(row) for row in check.judgements)
    tones = tuple(_TONES[row.outcome] for row in check.judgements)
    lead = "Distance of the new run from the last good ones, with the interval explained by chance."
    return Section("figures", "The figures", lead, (Table("The figures", columns, rows, tones=tones),))


def _row(row: FigureJudgement) -> tuple[str, ...]:
    new = sum(point.value for point in row.new) / len(row.new)
    cells = (row.figure, level_label(row.mode, row.value))
    if row.percent is None:
        return (*cells, NONE, figure_text(row.figure, new), NONE, NONE, row.found)
    expected = new / (1 + row.percent.value / 100)
    return (
        *cells,
        figure_text(row.figure, expected),
        figure_text(row.figure, new),
        difference(row.percent),
        NONE if row.visible_percent is None else _visible(row.visible_percent),
        row.outcome if row.rule == ANY else f"{row.outcome}: {row.rule}",
    )


def _visible(percent: float) -> str:
    return f"{signed(percent)} %" if abs(percent) < NEVER else "never"


def _runs_section(check: RegressionCheck, names: Mapping[str, str]) -> Section | None:
    charts: list[Chart] = []
    for row in check.judgements:
        if row.good:
            history = FigureHistory(row.figure, row.mode, row.value, (*row.good, *row.new))
            charts.append(history_chart(history, (), names, [point.run_id for point in row.new]))
    if not charts:
        return None
    return Section("runs", "The runs", "The good runs, and the judged ones.", tuple(charts))


def _rule_section(check: RegressionCheck) -> Section:
    looks = max(1, len(check.judgements))
    lead = (
        "The gate uses the spread of the good runs, not the interval of a single run. A run fails if it is so far "
        f"on the bad side that chance causes this in at most about {share(check.false_failures)} of all gates, for "
        f"all {plural(looks, 'figure')} together and even with heavy-tailed noise. A run that is merely unusual is "
        "suspicious and undecided; if the next one is unusual too, both fail."
    )
    return Section("rule", "The rule", lead, is_detail=True)
