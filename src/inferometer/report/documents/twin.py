"""A twin as a document: its predictions, their uncertainty, and their errors where measurements exist."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Column,
    Depth,
    Document,
    Figure,
    Message,
    Section,
    Table,
    Tone,
    message_section,
    text_columns,
)
from inferometer.report.documents.levels import few_words, rate_axis, time_axis
from inferometer.report.format import NONE, duration, plural, quantity, share, signed, when
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN, percent_words
from inferometer.twin.twin import FIRST_P99, THROUGHPUT, TOKENS, Band, LoadForecast, Twin, TwinModel

TAIL = "p99"
CONFIDENCE = "90 %"  # of every interval of this report
COVERED = 0.8  # smallest share of figures inside their interval


def twin_document(twin: Twin) -> Document:
    """Return the report; the same twin gives the same document."""
    sections = (
        *_chart_sections(twin),
        _table_section(twin),
        _models_section(twin),
        _errors_section(twin),
        message_section("notes", "Notes", (Message(f"{note}.", tone=Tone.PLAIN) for note in twin.notes)),
    )
    names = ", ".join(model.name for model in twin.models)
    return Document(
        kind="Twin",
        title=names,
        facts=(twin.command, plural(len(twin.anchors), "measured load"), when(twin.started_at)),
        verdict=_verdict(twin),
        tone=_tone(twin),
        figures=tuple(_cards(twin)),
        sections=tuple(section for section in sections if section is not None),
    )


def _errors(twin: Twin, figure: str) -> list[float]:
    return [abs(error) for row in twin.forecasts if (error := row.error(figure)) is not None]


def _covered(twin: Twin) -> tuple[int, int]:
    """Number of measured figures inside their predicted interval, and number of measured figures."""
    found = [
        row.is_covered(name)
        for row in twin.forecasts
        for name in twin.within
        if row.is_covered(name) is not None
    ]
    return sum(map(bool, found)), len(found)


def _has_text(twin: Twin) -> bool:
    return any(model.text is not None for model in twin.models)


def _verdict(twin: Twin) -> str:
    inside, count = _covered(twin)
    if count:
        worst = " and ".join(
            f"{_name(name)} by at most {share(max(errors))}"
            for name in twin.within
            if (errors := _errors(twin, name))
        )
        loads = sum(row.measured is not None for row in twin.forecasts)
        how = (
            "each load predicted from the others" if twin.command == "twin fit" else "predicted and measured"
        )
        return (
            f"Predictions miss {worst} at {plural(loads, 'load')}, {how}; {inside} of {count} "
            f"figures are inside their {CONFIDENCE} interval.{_ruling_words(twin)}"
        )
    if twin.is_check:
        return "Inconclusive: no load has both a prediction and a measurement."
    if not twin.forecasts:
        return "No prediction was requested."
    last = twin.forecasts[-1]
    return f"{_where(last)}: {_prediction_words(last, twin.rate_unit)}, {last.basis}."


def _ruling_words(twin: Twin) -> str:
    """Name the figures of a check whose error is, or may be, larger than that of a good prediction."""
    if not twin.is_check or twin.ruling == NOT_SHOWN:
        return ""
    rows = [
        f"{_name(name)} at {row.part.text} (by {percent_words(percent)})"
        for row in twin.forecasts
        for name, most in twin.within.items()
        if row.misses(name, most) == twin.ruling and (percent := row.error_percent(name)) is not None
    ]
    limits = " and ".join(f"{share(most)} in {_name(name)}" for name, most in twin.within.items())
    named = few_words(rows)
    if twin.ruling == SHOWN:
        return f" Off by more than {limits}: {named}."
    return (
        f" Inconclusive whether a prediction is off by more than {limits}: {named}; measure longer with -d."
    )


def _prediction_words(row: LoadForecast, unit: str) -> str:
    words = [f"{quantity(row.bands[THROUGHPUT].value)} {unit}"] if THROUGHPUT in row.bands else []
    if TOKENS in row.bands:
        words.append(f"{quantity(row.bands[TOKENS].value)} tokens/s")
    if row.may_keep_up:
        band = row.bands[THROUGHPUT]
        words[0] += f" ({quantity(band.low)} to {quantity(band.high)})"
        return ", ".join((*words, "so it is not certain whether the server keeps up with the rate"))
    if row.is_overloaded:
        return ", ".join((*words, "below the requested rate, so latency keeps growing"))
    for name in (FIRST_P99, TAIL):
        if name in row.bands:
            band = row.bands[name]
            words.append(
                f"{_name(name)} {duration(band.value)} ({duration(band.low)} to {duration(band.high)})"
            )
    return ", ".join(words)


def _where(row: LoadForecast) -> str:
    beside = [f"{part.model} at {part.text}" for part in row.load.parts if part.model != row.model]
    words = f"{row.model} at {row.part.text}"
    words += f" next to {', '.join(beside)}" if beside else ""
    settings = ", ".join(setting.text for setting in row.load.settings)
    return f"{words} with {settings}" if settings else words


def _tone(twin: Twin) -> Tone:
    inside, count = _covered(twin)
    if twin.is_check and twin.ruling != NOT_SHOWN:
        return Tone.BAD if twin.ruling == SHOWN else Tone.WARNING
    if not count:
        return Tone.PLAIN
    within = twin.within.items()
    is_near = all(all(error <= most for error in _errors(twin, name)) for name, most in within)
    if is_near and inside >= COVERED * count:
        return Tone.GOOD
    return Tone.PLAIN if twin.is_check else Tone.WARNING


def _error_tone(twin: Twin, name: str, most: float, worst: float) -> Tone:
    """Rate the errors of a figure: those of a check by their intervals, those of a fit by the worst."""
    if twin.is_check:
        rulings = {row.misses(name, most) for row in twin.forecasts}
        if SHOWN in rulings:
            return Tone.BAD
        return Tone.WARNING if INCONCLUSIVE in rulings else Tone.GOOD
    return Tone.GOOD if worst <= most else Tone.WARNING


def _cards(twin: Twin) -> Iterator[Figure]:
    for name, most in twin.within.items():
        errors = sorted(_errors(twin, name))
        if errors:
            yield Figure(
                f"{_name(name)} error",
                share(errors[len(errors) // 2]),
                f"at most {share(errors[-1])}",
                _error_tone(twin, name, most, errors[-1]),
            )
    inside, count = _covered(twin)
    if count:
        tone = Tone.GOOD if inside >= COVERED * count else Tone.WARNING
        yield Figure(
            "Inside the interval",
            share(inside / count),
            f"{inside} of {count} figures; {CONFIDENCE} is expected",
            tone,
        )
    elif twin.forecasts:
        far = sum(row.basis == "extrapolated" for row in twin.forecasts)
        yield Figure("Loads", str(len(twin.forecasts)), f"{far} of them extrapolated")


def _name(figure: str) -> str:
    """Return the name of a figure in a sentence."""
    if figure == TOKENS:
        return "tokens/s"
    return "throughput" if figure == THROUGHPUT else figure.replace("ttft", "TTFT").replace("tpot", "TPOT")


# --- charts


def _chart_sections(twin: Twin) -> Iterator[Section]:
    """Charts for each model and kind of load that has enough points."""
    kinds = dict.fromkeys((row.model, row.part.mode, row.part.arrivals) for row in twin.forecasts)
    for number, (model, mode, arrivals) in enumerate(kinds):
        rows = [
            row
            for row in twin.forecasts
            if (row.model, row.part.mode, row.part.arrivals) == (model, mode, arrivals)
        ]
        if len(rows) < 2 and not any(row.measured for row in rows):
            continue
        axis = ChartAxis("concurrency", is_whole=True) if mode == "concurrency" else ChartAxis("requests/s")
        lines = _lines(twin, rows, THROUGHPUT, lambda value: f"{quantity(value)} {twin.rate_unit}")
        blocks = [
            Chart(
                f"Throughput of {model}",
                axis,
                rate_axis(twin.rate_unit),
                lines,
                height=290,
                note=_hollow(lines),
                confidence=CONFIDENCE,
            )
        ]
        for figure, name in ((TAIL, "p99 latency"), (FIRST_P99, "TTFT p99")):
            lines = _lines(twin, rows, figure, duration)
            if lines:
                axes = (axis, time_axis(name, lines))
                blocks.append(
                    Chart(
                        f"{name} of {model}",
                        *axes,
                        lines,
                        height=290,
                        note=_hollow(lines),
                        confidence=CONFIDENCE,
                    )
                )
        title = f"{model} by {'concurrency' if mode == 'concurrency' else f'rate, {arrivals} arrivals'}"
        yield Section(f"curve-{number}", title, "", tuple(blocks))


def _hollow(lines: Sequence[ChartLine]) -> str:
    """Note on the meaning of hollow points, if there are any."""
    is_hollow = any(point.is_doubtful for line in lines for run in line.runs for point in run)
    return "Hollow points are extrapolated." if is_hollow else ""


def _lines(
    twin: Twin, rows: Sequence[LoadForecast], figure: str, text: Callable[[float], str]
) -> tuple[ChartLine, ...]:
    """Predicted lines for each mix and setting, and the measurements."""
    found: list[ChartLine] = []
    groups: dict[str, list[LoadForecast]] = {}
    for row in rows:
        groups.setdefault(_beside(row), []).append(row)
    colours = ("blue", "green", "red", "grey")
    for number, (beside, members) in enumerate(groups.items()):
        points = tuple(
            ChartPoint(
                row.part.value,
                band.value,
                f"{_where(row)}: {text(band.value)} ({text(band.low)} to {text(band.high)}), {row.basis}",
                y_limits=(band.low, band.high),
                is_doubtful=row.basis == "extrapolated",
            )
            for row in sorted(members, key=lambda row: row.part.value)
            if (band := row.bands.get(figure)) is not None
        )
        if points:
            name = f"predicted{beside}"
            found.append(ChartLine(name, (points,), colours[number % 4], is_dashed=True, is_banded=True))
    measured = tuple(
        (ChartPoint(row.part.value, value, f"{_where(row)}: {text(value)} measured"),)
        for row in rows
        if row.measured is not None and (value := row.measured.get(figure))
    )
    if found and measured:
        found.append(ChartLine("measured", measured, "orange", is_crossed=True))
    elif found:
        anchors = tuple(_anchor_points(twin, rows[0], figure, text))
        found += [ChartLine("measured for the fit", anchors, "orange")] if anchors else []
    return tuple(found)


def _anchor_points(
    twin: Twin, like: LoadForecast, figure: str, text: Callable[[float], str]
) -> Iterator[tuple[ChartPoint, ...]]:
    for row in twin.anchors:
        part = row.load.parts[0]
        is_alike = (part.mode, part.arrivals) == (like.part.mode, like.part.arrivals)
        value = row.measured.get(figure)
        if row.model == like.model and is_alike and value and not row.load.settings:
            yield (ChartPoint(part.value, value, f"{part.text}: {text(value)} measured"),)


def _beside(row: LoadForecast) -> str:
    """Label that distinguishes a line from other lines of the same model."""
    words = [f"next to {part.model}" for part in row.load.parts if part.model != row.model]
    words += [setting.text for setting in row.load.settings]
    return f", {', '.join(words)}" if words else ""


# --- tables


def _table_section(twin: Twin) -> Section | None:
    if not twin.forecasts:
        return None
    lead = (
        f"With {CONFIDENCE} intervals. A distance of 1 is a factor of e in the load; other models next to it and "
        "other settings add to it."
    )
    if twin.command == "twin fit":
        lead = f"Each measured load as predicted from the others. {lead}"
    measured = [row for row in twin.forecasts if row.measured]
    tables = (_forecast_table(twin), *([_check_table(twin, measured)] if measured else []))
    return Section("forecasts", "Predictions", lead, tables)


_LOAD_COLUMNS = (*text_columns("Model"), Column("Load", is_number=False, is_name=True))
_TEXTS: Mapping[str, Callable[[float], str]] = {THROUGHPUT: quantity, "p50": duration, TAIL: duration}
_TEXT_FIGURES: Mapping[str, Callable[[float], str]] = {
    THROUGHPUT: quantity,
    TOKENS: quantity,
    "mean": duration,
    TAIL: duration,
    FIRST_P99: duration,
    "tpot p99": duration,
}


def _shown(twin: Twin) -> Mapping[str, Callable[[float], str]]:
    return _TEXT_FIGURES if _has_text(twin) else _TEXTS


def _title(figure: str, unit: str) -> str:
    return unit if figure == THROUGHPUT else _name(figure)


def _forecast_table(twin: Twin) -> Table:
    forecasts, shown = twin.forecasts, _shown(twin)
    columns = [*_LOAD_COLUMNS]
    for figure in shown:
        title = _title(figure, twin.rate_unit)
        columns += [Column(title), Column(f"{title}, {CONFIDENCE}", rank=1)]
    columns += [Column("Basis", is_number=False, is_name=True)]
    rows = []
    for row in forecasts:
        cells = [row.model, _load_cell(row)]
        for figure, text in shown.items():
            band = row.bands.get(figure)
            cells += [NONE if band is None else text(band.value), _limits(band, text)]
        rows.append((*cells, f"{row.basis}, {row.distance:.1f} away" if row.distance >= 0.05 else row.basis))
    return Table("Predicted", tuple(columns), tuple(rows))


def _check_table(twin: Twin, forecasts: Sequence[LoadForecast]) -> Table:
    columns, within, shown = [*_LOAD_COLUMNS], twin.within, _shown(twin)
    for figure in within:
        columns += [
            Column(f"{_title(figure, twin.rate_unit)} {word}".strip()) for word in ("predicted", "measured")
        ]
        columns += [Column("error")]
    columns += [Column(f"In the {CONFIDENCE} interval", is_number=False, is_name=True)]
    rows, tones = [], []
    for row in forecasts:
        cells = [row.model, _load_cell(row)]
        for figure in within:
            band, found, error = row.bands.get(figure), (row.measured or {}).get(figure), row.error(figure)
            cells += [
                NONE if value is None else shown[figure](value)
                for value in (None if band is None else band.value, found)
            ]
            cells += [NONE if error is None else signed(100 * error) + " %"]
        outside = [_name(name) for name in within if row.is_covered(name) is False]
        rows.append((*cells, f"not {' and '.join(outside)}" if outside else "yes"))
        tones.append(Tone.WARNING if outside else Tone.PLAIN)
    return Table("Predicted and measured", tuple(columns), tuple(rows), tones=tuple(tones))


def _load_cell(row: LoadForecast) -> str:
    words = [
        row.part.text,
        *(f"{part.model}: {part.text}" for part in row.load.parts if part.model != row.model),
    ]
    return "; ".join((*words, *(setting.text for setting in row.load.settings)))


def _limits(band: Band | None, text: Callable[[float], str]) -> str:
    return NONE if band is None else f"{text(band.low)} to {text(band.high)}"


def _models_section(twin: Twin) -> Section:
    columns = (
        *text_columns("Model", "Step"),
        *map(Column, ("fixed", "per inference", "instances", "on a core", "calls")),
        Column("Batches", is_number=False, is_name=True),
    )
    rows: list[tuple[str, ...]] = []
    tables: list[Table] = []
    for model in twin.models:
        if model.text is not None:
            tables.append(_engine_table(model))
            continue
        for station in model.pipeline().walk():
            batches = f"up to {station.max_batch}" if station.is_batching else "off"
            rows.append(
                (
                    model.name,
                    station.name,
                    duration(station.fixed_s * 1e9),
                    duration(station.item_s * 1e9),
                    str(station.instances),
                    share(station.cpu),
                    quantity(station.calls),
                    batches,
                )
            )
        rows.append((model.name, "outside the steps", duration(model.outside_s * 1e9), *[""] * 5))
    if rows:
        tables.insert(0, Table("Service times", columns, tuple(rows), Depth.DRAWN))
    return Section("models", "What the twin consists of", "", tuple(tables), is_detail=True)


def _engine_table(model: TwinModel) -> Table:
    """Return the parameters of a text server, each with its uncertainty."""
    assert model.text is not None
    engine, others = model.text.engine, model.text.plausible
    names = (
        ("a step", "fixed_s"),
        ("plus for each running answer", "answer_s"),
        ("plus for each token of context", "context_s"),
        ("plus for each token of a prompt", "prompt_s"),
        ("outside the steps, for each request", "outside_s"),
    )
    rows = []
    for title, field in names:
        value = getattr(engine, field)
        off = sum((getattr(other, field) - value) ** 2 for other in others) ** 0.5
        rows.append((title, duration(value * 1e9), f"± {duration(off * 1e9)}"))
    limits = (("slots", engine.slots), ("KV cache, tokens", engine.kv_tokens))
    rows += [(title, "not known" if limit is None else quantity(limit), "") for title, limit in limits]
    rows.append(("prompt tokens in a step, at most", quantity(engine.prefill_tokens or 0), engine.prefill))
    rows.append(("prompt tokens found in the prefix cache", share(engine.cached), ""))
    columns = (Column("Part", is_number=False, is_name=True), Column("Value"), Column("Uncertainty"))
    return Table(f"Steps of {model.name}", columns, tuple(rows), Depth.DRAWN)


def _errors_section(twin: Twin) -> Section:
    columns = (
        *text_columns("Model"),
        Column("Figure", is_number=False, is_name=True),
        Column("at measured loads"),
        Column("plus per unit of distance"),
    )
    rows = tuple(
        (model.name, _name(name), f"± {share(error.base)}", f"± {share(error.per_distance)}")
        for model in twin.models
        for name, error in ((name, twin.errors[model.name][name]) for name in model.figures)
    )
    table = Table("Standard deviations of the error", columns, rows, Depth.DETAIL)
    lead = "Errors of the plain simulation at the measured loads; the intervals are derived from them."
    return Section("errors", "Prediction errors", lead, (table,), is_detail=True)
