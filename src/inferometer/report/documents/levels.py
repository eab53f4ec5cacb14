"""The levels of a result: the levels that count, a table of all levels, their failures and notes, latency over
throughput, and the latency distribution. Comparisons and diagnoses draw the same curves.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from inferometer.base.frozen import frozen
from inferometer.base.notes import CLIENT_LIMITS, Note
from inferometer.base.units import UNITS
from inferometer.options.values import Range
from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    ChartRule,
    Column,
    Depth,
    Message,
    Section,
    Spread,
    Table,
    Tone,
    message_section,
    text_columns,
)
from inferometer.report.format import (
    NONE,
    RISING,
    at_percentile,
    average,
    duration,
    interval,
    level_label,
    level_value,
    load_name,
    percentiles,
    plain_number,
    quantity,
    rate,
    share,
)
from inferometer.report.promises import figure_words, judged_levels, outcome_words, verdict_word
from inferometer.report.sentences import failure_sentence, verdict_words
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.intervals import relative_difference
from inferometer.stats.measurement import UNSTATED, Level, Measurement, Rates
from inferometer.stats.result import Result, best, measured
from inferometer.stats.verdict import MATTERS_PERCENT

NEAR = 0.05  # a lighter load this close to the highest throughput does as well
FEWEST_CROWDED, CROWDED = 3, 0.15  # this many levels this close to the best crowd a chart over throughput
LOG_LOADS = 8  # ratio of loads above which a linear axis would crowd the light ones
LOG_RATIO = 30  # ratio of times above which a linear axis would hide the fast ones
COLOURS = ("blue", "orange", "green", "purple", "red", "grey")
CURVES = 5
SHOWN = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
EXACT = frozenset(p / 100 for p in SHOWN)  # shares with a tooltip

_USELESS = {"all failed", "no answer", "no reply", "server gone"}

Rows = Sequence[tuple[Level, Measurement]]


def longest(rows: Rows) -> Rows:
    """Each load once: among repeated measurements, the one with the most requests counts."""
    most = {
        level.value: (level, found) for level, found in sorted(rows, key=lambda row: row[1].request_count)
    }
    return tuple(sorted(most.values(), key=lambda row: row[0].value))


def level_tone(said: str) -> Tone:
    """Tone of a level's verdict, from its words, so that colour and words never contradict each other."""
    if said in ("ok", verdict_word("kept")):
        return Tone.GOOD
    words = said.split(", ")
    return (
        Tone.BAD
        if words[0].startswith(verdict_word("broken")) or not _USELESS.isdisjoint(words)
        else Tone.WARNING
    )


def undrawn_levels_note(result: Result) -> Iterator[str]:
    """Name the levels that have no point in a chart because no request was answered."""
    drawn = [level for level, _ in measured(result)]
    yield from _levels_note(
        "Not drawn because no request succeeded:", (level for level in result.levels if level not in drawn)
    )


def untrusted_points_note(rows: Rows) -> Iterator[str]:
    """Name the levels whose points cannot be trusted."""
    yield from _levels_note("Hollow:", (level for level, _ in rows if is_doubtful(level)))


def _levels_note(words: str, levels: Iterable[Level]) -> Iterator[str]:
    found = [f"{level_label(level.mode, level.value)} ({verdict_words(level)})" for level in levels]
    if found:
        yield f"{words} {few_words(found)}."


def is_doubtful(level: Level) -> bool:
    """Whether the load was not as requested, or interrupted."""
    return not level.is_as_asked or level.has_remark(Note.INTERRUPTED)


def few_words(rows: Sequence[str], most: int = 4) -> str:
    """Join all rows, or the first few followed by the number of the others."""
    more = len(rows) - most
    return ", ".join(rows) if more < 2 else f"{', '.join(rows[:most])} and {more} more"


def load_column(level: Level) -> Column:
    if level.name:
        return Column("Phase")
    if level.mode == UNSTATED:
        return Column("Load")
    return Column("Conc." if level.mode in ("concurrency", RISING) else "Rate")


def levels_section(result: Result) -> Section | None:
    """A row for each level; for open-loop load also a table of rates."""
    # Searches and sweeps visit levels in their own order.
    is_chosen = result.finding is not None or bool(result.asked.get("sweep"))
    levels = sorted(result.levels, key=lambda row: row.value) if is_chosen else result.levels
    if not levels:
        return None
    chosen, unit = result.effective.percentile, result.effective.rate_unit
    shown = percentiles(chosen)
    columns = (
        load_column(levels[0]),
        Column(unit.capitalize()),
        Column("±95 %", rank=1),
        Column("Avg", rank=2),
        *(Column(f"p{p}", rank=2 if p in (90, 95) and p != chosen else 0) for p in shown),
        *(Column(name, rank=4) for name in ("Slowest", "Requests", "Failed")),
        Column("Errors"),
        Column("Client CPU", rank=3),
        *text_columns("Verdict"),
    )
    has_checks = any(level.measurement is not None and level.measurement.checks for level in levels)
    if has_checks:  # beside throughput
        columns = (*columns[:3], Column("Wrong"), *columns[3:])
    periodic = result.effective.periodic
    ramp = "" if periodic is None else f"{plain_number(periodic[0])}..{Range(*periodic).last}"
    words = [verdict_words(level, result.finding) for level in levels]
    rows = tuple(
        (
            ramp or level_value(level.mode, level.value),
            *_cells(level.measurement, shown, has_checks=has_checks),
            said,
        )
        for level, said in zip(levels, words, strict=True)
    )
    tones = tuple(map(level_tone, words))
    blocks = [Table("All levels", columns, rows, tones=tones)]
    rates = tuple(
        _rate_row(level.measurement, level.rates)
        for level in levels
        if level.measurement is not None and level.rates is not None
    )
    if rates:
        times = ("Latency avg", "Latency p99", "Service avg", "Service p99")
        names = tuple(map(Column, ("Due/s", "Sent/s", "Answered/s", *times)))
        blocks.append(Table("Rates, latency and service time", names, rates))
    return Section("levels", "All levels", "", tuple(blocks))


def promise_section(result: Result) -> Section | None:
    """Each figure limited by the SLO at each level; None without an SLO."""
    judged = judged_levels(result)
    if not judged:
        return None
    level, outcome = judged[0]
    terms, unit = outcome.terms, result.effective.rate_unit
    columns = (load_column(level), *(Column(term.text) for term in terms), *text_columns("SLO"))
    rows = tuple(
        (
            level_value(level.mode, level.value),
            *(figure_words(term, unit) for term in outcome.terms),
            outcome_words(outcome),
        )
        for level, outcome in judged
    )
    tones = tuple(level_tone(row[-1]) for row in rows)
    table = Table(f"SLO: {outcome.promise}", columns, rows, tones=tones)
    return Section("promise", table.caption, "", (table,))


def _cells(found: Measurement | None, shown: tuple[int, ...], *, has_checks: bool) -> tuple[str, ...]:
    if found is None:
        return tuple(NONE for _ in range(len(shown) + 8 + has_checks))
    latency = found.latency
    return (
        quantity(found.infer_per_s.value),
        interval(found.infer_per_s) or NONE,
        *((_wrong_cell(found),) if has_checks else ()),
        average(latency),
        *(at_percentile(latency, p) for p in shown),
        duration(latency.max_ns) if latency.count and latency.max_ns is not None else NONE,
        f"{found.request_count:,}",
        f"{found.failed_count:,}",
        share(found.failed_share),
        share(found.client.cpu_share) if found.client.workers else NONE,
    )


def _wrong_cell(found: Measurement) -> str:
    """`3.1 % (2.0 % to 4.6 %)`: the share of wrong answers with its interval."""
    if found.checks is None:
        return NONE
    estimate = found.checks.share
    ends = "" if estimate.limits is None else f" ({' to '.join(map(share, estimate.limits))})"
    return f"{share(estimate.value)}{ends}"


def _rate_row(found: Measurement, rates: Rates) -> tuple[str, ...]:
    """Due, sent and answered rates, and latency next to service time."""
    asked = map(quantity, (rates.asked_per_s, rates.sent_per_s, rates.answered_per_s))
    times = ((average(row), at_percentile(row, 99)) for row in (found.latency, found.service))
    return (*asked, *chain.from_iterable(times))


def errors_section(result: Result) -> Section | None:
    """Failures by kind, each with an example; None if nothing failed."""
    rows = (
        Message(failure_sentence(level, group), tone=Tone.BAD)
        for level in result.levels
        if level.measurement is not None
        for group in level.measurement.failures
    )
    lead = f"{share(result.failed_share)} of all requests failed. Latency excludes them."
    return message_section("errors", "Errors", rows, lead)


# --- latency against throughput


def line_colour(number: int) -> str:
    """Colour of the line with this number."""
    return COLOURS[number % len(COLOURS)]


def is_client_limited(level: Level) -> bool:
    """Return whether a level shows the capacity of this client rather than of the server."""
    return level.has_remark(*CLIENT_LIMITS)


def unlimited(rows: Rows) -> tuple[Rows, Rows]:
    """Split levels into those that show the server and those limited by this client, which no line joins."""
    is_limited = [is_client_limited(level) for level, _ in rows]
    own = tuple(row for row, limited in zip(rows, is_limited, strict=True) if not limited)
    return own, tuple(row for row, limited in zip(rows, is_limited, strict=True) if limited)


def client_line(points: Iterable[ChartPoint]) -> tuple[ChartLine, ...]:
    """Unconnected points of client-limited levels; empty if there are none."""
    runs = tuple((replace(point, is_doubtful=True),) for point in points)
    return (ChartLine("limited by this client", runs, "grey"),) if runs else ()


def throughput_section(result: Result) -> Section | None:
    """Lines for p50, p99 and the requested percentile; a search has its own section."""
    rows = measured(result)
    if not rows or result.finding is not None:
        return None
    chosen, unit = result.effective.percentile, result.effective.rate_unit
    shown = tuple(sorted({50, 99, *(() if chosen is None else (int(chosen),))}))
    name = load_name(rows[0][0].mode)
    remarks = (*untrusted_points_note(rows), *undrawn_levels_note(result))
    if not unlimited(rows)[0]:
        remarks = ("All levels are limited by this client.", *remarks)
    colours = {50: "blue", 99: "orange"}
    own, limited = unlimited(rows)
    lines = [
        *(
            ChartLine(
                f"p{p} latency",
                (load_points(own, p, unit, is_named=p == shown[-1]),),
                colours.get(p, "green"),
            )
            for p in shown
            if own
        ),
        *client_line(load_points(limited, shown[-1], unit)),
    ]
    rules = tuple(_promise_rules(result, lines))
    # A single line has no legend, so the axis says which figure it is.
    axis = "latency" if own else f"p{shown[-1]} latency"
    times = time_axis(axis, lines, [rule.value for rule in rules])
    if is_crowded(rows):
        note = " ".join(remarks)
        charts: tuple[Chart, ...] = _charts_by_load(
            rows, unit, Chart("", rate_axis(unit), times, tuple(lines), rules=rules, note=note)
        )
    else:
        title = "Latency against throughput, one point for each level"
        note = " ".join((f"The numbers are the {name}.", *remarks))
        charts = (Chart(title, rate_axis(unit), times, tuple(lines), rules=rules, note=note),)
    return Section("throughput", "Throughput and latency", _lead(result), charts)


def is_crowded(rows: Rows) -> bool:
    """Whether most levels are near the highest throughput, so that their points would overlap."""
    rates = [found.infer_per_s.value for _, found in rows]
    loads = {level.value for level, _ in rows}
    near = sum(rate >= (1 - CROWDED) * max(rates) for rate in rates)
    modes = {level.mode for level, _ in rows}
    is_one_kind = len(modes) == 1 and modes <= {"concurrency", "request_rate"}
    return is_one_kind and len(loads) == len(rows) and near >= FEWEST_CROWDED and 2 * near > len(rows)


def _charts_by_load(rows: Rows, unit: str, over_rate: Chart) -> tuple[Chart, Chart]:
    """Throughput and latency over the load, which spreads the levels evenly because loads usually double."""
    own, limited = unlimited(rows)
    name, x = load_name(rows[0][0].mode), load_axis(rows)
    throughput = (
        *((ChartLine("throughput", (_rates_by_load(own, unit),), "blue"),) if own else ()),
        *client_line(_rates_by_load(limited, unit)),
    )
    lines = tuple(_by_load(line, limited if line.colour == "grey" else own) for line in over_rate.series)
    return (
        Chart(f"Throughput by {name}", x, rate_axis(unit), throughput, height=260, note=over_rate.note),
        replace(over_rate, title=f"Latency by {name}", x=x, series=lines),
    )


def load_axis(rows: Rows) -> ChartAxis:
    """An axis of loads; logarithmic if they are far apart."""
    values, mode = [level.value for level, _ in rows], rows[0][0].mode
    if max(values) / min(values) > LOG_LOADS:
        return ChartAxis(f"{load_name(mode)} (log scale)", spread=Spread.LOG)
    return ChartAxis(load_name(mode), is_whole=mode == "concurrency")


def _by_load(line: ChartLine, rows: Rows) -> ChartLine:
    """Convert a line over throughput to one over the load of its rows."""
    loads = iter([level.value for level, _ in rows])
    runs = (
        tuple(replace(point, x=next(loads), x_limits=None, label="") for point in run) for run in line.runs
    )
    return replace(line, runs=tuple(runs))


def _rates_by_load(rows: Rows, unit: str) -> tuple[ChartPoint, ...]:
    return tuple(
        ChartPoint(
            level.value,
            found.infer_per_s.value,
            f"{level_label(level.mode, level.value)}: {rate(found.infer_per_s, unit)}",
            y_limits=error_bar(found.infer_per_s),
            is_doubtful=is_doubtful(level),
        )
        for level, found in rows
    )


def _promise_rules(result: Result, lines: Sequence[ChartLine]) -> Iterator[ChartRule]:
    """SLO limits that are near the drawn values."""
    drawn = [point.y for line in lines for run in line.runs for point in run]
    for _, outcome in judged_levels(result)[:1]:
        for term in outcome.terms:
            is_near = min(drawn) / LOG_RATIO < term.limit < max(drawn) * LOG_RATIO
            if is_near and any(line.name == f"{term.name} latency" for line in lines):
                yield ChartRule(term.limit, f"SLO: {term.text}")


def _lead(result: Result) -> str:
    """Name the lightest load that is nearly as good as the best, unless it is the best itself or might be worse."""
    found = best(result)
    if found is None or found[0].mode != "concurrency" or is_client_limited(found[0]):
        return ""
    most = found[1].infer_per_s
    light, per_s = next(
        (level, row.infer_per_s)
        for level, row in measured(result)
        if row.infer_per_s.value >= most.value * (1 - NEAR)
    )
    if light.value >= found[0].value or may_be_more(most, per_s):
        return ""
    return (
        f"Load beyond {level_label(light.mode, light.value)} adds little: it already reaches "
        f"{share(per_s.value / most.value)} of the throughput at {level_label(found[0].mode, found[0].value)}."
    )


def may_be_more(found: Estimate, base: Estimate) -> bool:
    """Return whether the intervals allow a figure to be higher than another by as much as matters."""
    most = relative_difference(base, found).high
    return most is None or most * 100 >= MATTERS_PERCENT


def rate_axis(unit: str) -> ChartAxis:
    return ChartAxis(f"throughput ({unit})")


def verdict_line(verdict: str, points: Iterable[ChartPoint]) -> ChartLine:
    """Points with one SLO verdict, distinguished by shape and name as well as colour."""
    colour = {"kept": "green", "broken": "red"}.get(verdict, "grey")
    rows = tuple((replace(point, is_doubtful=verdict != "kept"),) for point in points)
    return ChartLine(verdict_word(verdict), rows, colour, is_crossed=verdict == "broken")


def time_axis(title: str, lines: Iterable[ChartLine], limits: Iterable[float] = ()) -> ChartAxis:
    """A time axis with one unit, or with a unit for each tick if the times are far apart."""
    values = (*limits, *(point.y for line in lines for run in line.runs for point in run))
    positive = [value for value in values if value > 0]
    most, least = max(positive, default=1.0), min(positive, default=1.0)
    if most / least > LOG_RATIO:
        return ChartAxis(f"{title} (log scale)", time_text, Spread.LOG)
    scale, unit = next((row for row in UNITS[:1:-1] if most >= row[0]), UNITS[1])
    return ChartAxis(f"{title} ({unit})", lambda ns: plain_number(ns / scale))


def time_text(ns: float) -> str:
    """A time without needless digits: `30 ms`."""
    scale, unit = next((row for row in UNITS[::-1] if ns >= row[0] * (1 - 1e-9)), UNITS[0])
    return f"{plain_number(ns / scale)} {unit}"


def load_points(
    rows: Rows, p: int | None, unit: str, *, of: str = "", is_named: bool = True
) -> tuple[ChartPoint, ...]:
    """Throughput and a latency percentile (or the mean) at each level."""
    points = []
    name = "mean" if p is None else f"p{p}"
    for level, found in rows:
        latency_ns = found.latency.mean_ns if p is None else found.latency.maybe_percentile_ns(p)
        if latency_ns is None or not found.latency.count:
            continue
        estimate = dict(found.latency_intervals).get(name, Estimate(latency_ns))
        where = ", ".join(word for word in (of, level_label(level.mode, level.value)) if word)
        tip = f"{where}: {rate(found.infer_per_s, unit)}, {name} {duration(latency_ns)} {interval(estimate)}"
        points.append(
            ChartPoint(
                x=found.infer_per_s.value,
                y=float(latency_ns),
                tip=tip.strip(),
                label=level_value(level.mode, level.value) if is_named else "",
                x_limits=error_bar(found.infer_per_s),
                y_limits=error_bar(estimate),
                is_doubtful=is_doubtful(level),
            )
        )
    return tuple(points)


def error_bar(estimate: Estimate) -> tuple[float, float] | None:
    """Limits of an error bar; None if no interval is known."""
    return None if estimate.limits is None else (max(0.0, estimate.limits[0]), estimate.limits[1])


# --- the latency distribution, on an axis that stretches the tail


def distribution_section(result: Result) -> Section | None:
    """A curve for each of a few levels; the table has all levels."""
    rows = tuple(row for row in measured(result) if row[1].latency.percentiles)
    if not rows:
        return None
    drawn = few(longest(rows), CURVES)
    note = "Each step to the right excludes nine out of ten remaining requests: 90 %, 99 %, 99.9 % ..."
    if len(drawn) < len(rows):
        note += f" The chart shows {len(drawn)} of the {len(rows)} levels; the table has all."
    curves = load_curves([(level, found.latency) for level, found in drawn])
    chart = distribution_chart("Share of requests answered within a latency", curves, note)
    blocks = (chart, _distribution_table(rows))
    return Section("distribution", "Latency distribution", "", blocks, is_detail=True)


def load_curves(rows: Sequence[tuple[Level, Distribution]]) -> Iterator[tuple[str, Distribution, str]]:
    """Name, times and colour of each load's curve, for `distribution_chart`."""
    for number, (level, times) in enumerate(rows):
        shade = 5 if len(rows) == 1 else 1 + round(number * 4 / (len(rows) - 1))
        yield level_label(level.mode, level.value), times, f"load-{shade}"


def few(rows: Rows, most: int) -> Rows:
    """All rows, or `most` of them, evenly chosen with both ends."""
    if len(rows) <= most:
        return rows
    last = len(rows) - 1
    return tuple(rows[round(number * last / (most - 1))] for number in range(most))


@frozen
class Timed:
    """The subject of a distribution: the name of a duration, and the noun for its owner. Times below `least_ns` are not
    drawn."""

    time: str = "latency"
    of: str = "requests"
    least_ns: float = 0.0


LATENCY = Timed()


def distribution_chart(
    title: str, curves: Iterable[tuple[str, Distribution, str]], note: str = "", timed: Timed = LATENCY
) -> Chart:
    """A curve for each (name, distribution, colour)."""
    lines = []
    for name, times, its_colour in curves:
        points = tuple(
            ChartPoint(part, ns, f"{name}: {_percent(part)} within {duration(ns)}" if part in EXACT else "")
            for part, ns in percentile_curve(times)
            if ns >= timed.least_ns
        )
        lines.append(ChartLine(name, (points,), its_colour))
    x = ChartAxis(f"share of {timed.of}", _percent, Spread.TAIL)
    return Chart(title, x, time_axis(timed.time, lines), tuple(lines), note=note)


def _percent(part: float) -> str:
    return f"{plain_number(part * 100)} %"


def percentile_curve(latency: Distribution) -> tuple[tuple[float, float], ...]:
    """(share of requests, ns within which they ended), increasing, as far as the number of requests allows."""
    count = max(1, latency.count)
    last = 1 - 1 / count
    ends = {part: float(ns) for part, ns in ((0.0, latency.min_ns), (last, latency.max_ns)) if ns is not None}
    exact = {p / 100: float(ns) for p, ns in latency.percentiles if p / 100 < last}
    known = sorted({**exact, **ends}.items())
    points = dict(known)
    below = 0
    for bound, number in latency.histogram:
        below += number
        if 0 < below / count < last:
            points.setdefault(below / count, _between(known, below / count, float(bound)))
    return tuple(sorted(points.items()))


def _between(known: list[tuple[float, float]], part: float, ns: float) -> float:
    """Clamp a histogram bound, which is up to 4 % off, to the exact percentiles on both sides."""
    low = max(value for share, value in known if share <= part)
    high = min(value for share, value in known if share >= part)
    return min(max(ns, low), high)


def _distribution_table(rows: Rows) -> Table:
    shown = tuple(
        p for p in SHOWN if any(found.latency.count * (1 - p / 100) >= 1 for _, found in rows) or p <= 99
    )
    lines = []
    for level, found in rows:
        known = dict(found.latency.percentiles)
        cells = (duration(known[p]) if p in known else NONE for p in shown)
        ends = [NONE if ns is None else duration(ns) for ns in (found.latency.min_ns, found.latency.max_ns)]
        lines.append((level_value(level.mode, level.value), ends[0], *cells, ends[1]))
    names = ("Fastest", *(f"p{plain_number(p)}" for p in shown), "Slowest")
    columns = (load_column(rows[0][0]), *map(Column, names))
    return Table("Latency distribution", columns, tuple(lines), Depth.DETAIL)
