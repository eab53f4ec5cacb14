"""A study as a document: the recommended configuration, the alternatives tried, and how far to trust it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from inferometer.report.document import (
    Chart,
    ChartAxis,
    ChartLine,
    ChartPoint,
    Code,
    Column,
    Document,
    Facts,
    Figure,
    Section,
    Span,
    Spread,
    Table,
    Tone,
)
from inferometer.report.documents import study_facts as facts
from inferometer.report.documents.levels import LOG_RATIO, error_bar, few_words, rate_axis
from inferometer.report.documents.study import (
    LISTED,
    effects_section,
    expected_section,
    not_done_section,
    pareto,
    search_section,
    servers_section,
)
from inferometer.report.format import NONE, change_text, difference, interval, plain_number, plural, quantity
from inferometer.stats.figures import BY_TAG, LATENCY_P99, THROUGHPUT, TOKEN_TAGS, TOKENS
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN, is_too_wide, signed, wide_words
from inferometer.tune.keeping import by_ruling, keeps
from inferometer.tune.knobs import knob_words, knobs_of
from inferometer.tune.knobs import worded as knobs_worded
from inferometer.tune.scoring import Constraint, RankedVariant, gain, pool
from inferometer.tune.study import MissedGain, Recommendation, Study, recommend
from inferometer.tune.trial import ClientLoad, Status, Trial
from inferometer.tune.variant import ModelVariant, normal

BEST = 5  # configurations in the first table, besides the model's own
OWN = "own config"
_SLO_WORDS = {SHOWN: "met", NOT_SHOWN: "violated", INCONCLUSIVE: "undecided"}
_SLO_TONES = {SHOWN: Tone.GOOD, NOT_SHOWN: Tone.BAD, INCONCLUSIVE: Tone.WARNING}
_LIMIT_TONES = {**_SLO_TONES, SHOWN: Tone.PLAIN}  # of a figure that the SLO limits
_GAIN_TONES = {SHOWN: Tone.GOOD, NOT_SHOWN: Tone.PLAIN, INCONCLUSIVE: Tone.WARNING}
NAME = Column("Configuration", is_number=False, is_name=True)


def tuning_document(study: Study) -> Document:
    """Return the report; the same study gives the same document."""
    study = replace(study, variants=tuple(map(_checked, study.variants)))
    found = recommend(study)
    return Document(
        kind="Tuning",
        title=facts.models(study),
        facts=tuple(_facts(study)),
        verdict=_verdict(study, found),
        tone=_tone(study, found),
        figures=tuple(_figures(study, found)),
        sections=tuple(_sections(study, found)),
    )


def _checked(variant: ModelVariant) -> ModelVariant:
    """Normalize configurations: a file may contain anything."""
    parts = tuple(map(_checked, variant.composing))
    return replace(variant, config=normal(variant.config), composing=parts)


# --- words


def label(study: Study, name: str) -> str:
    """The name of a configuration on the page: `config 4`, or the values of a launched server; with several models,
    all their names."""
    if facts.is_launched(study):
        return knob_words(facts.knobs_of_name(study, name))
    if len(study.models) > 1:
        return name.replace(",", " + ")
    return worded(study, name)


def worded(study: Study, text: str) -> str:
    """Replace names of configurations by those on the page."""
    if facts.is_launched(study):
        return knobs_worded(text, {variant.name: variant.config for variant in study.variants})
    if len(study.models) > 1:
        return text
    numbered = study.default_name.removesuffix("default")
    return text.replace(study.default_name, OWN).replace(numbered, "config ")


def _load(trial: Trial) -> str:
    return ", ".join(dict.fromkeys(map(_load_words, trial.loads)))


def _load_words(load: ClientLoad) -> str:
    batch = "" if load.batch == 1 else f" with batches of {load.batch}"
    if load.concurrency is not None:
        return f"concurrency {load.concurrency:,}{batch}"
    if load.request_rate is not None:
        return f"request rate {plain_number(load.request_rate)}{batch}"
    return f"the intervals in {load.intervals}{batch}"


def _promise(study: Study) -> str:
    """`p99 ≤ 10 ms, errors ≤ 0.1 %`; empty without constraints."""
    several = len(study.goals) > 1
    return "; ".join(
        (f"{goal.model}: " if several else "") + ", ".join(map(_limit, goal.constraints))
        for goal in study.goals
        if goal.constraints
    )


def _limit(row: Constraint) -> str:
    metric = BY_TAG[row.tag]
    name = metric.short or metric.title
    parts = [f"{name} ≤ {plain_number(row.high)} {metric.unit}"] if row.high is not None else []
    parts += [f"{name} ≥ {plain_number(row.low)} {metric.unit}"] if row.low is not None else []
    return ", ".join(parts).strip() or name


def _shape(variant: ModelVariant) -> str:
    """`2 CPU instances, batches up to 8, dynamic batching`, or the values of a launched server."""
    if (values := knobs_of(variant.config)) is not None:
        return knob_words(values)
    size = facts.batch_size(variant)
    batches = "no batches" if size in ("0", "1") else f"batches up to {size}"
    return f"{facts.instance_words(variant)}, {batches}" + (
        ", dynamic batching" if facts.batching(variant) == "Enabled" else ""
    )


def _instances(variant: ModelVariant) -> str:
    return " + ".join(f"{count} {kind}" for kind, count in facts.kinds(variant))


def _shapes(study: Study, name: str) -> str:
    return shape_words(facts.variants_of(study, name))


def shape_words(variants: Sequence[ModelVariant]) -> str:
    """Describe variants; several models with their names: `first with 2 CPU instances, ..., and second with ...`."""
    rows = [part for variant in variants for part in variant.with_members if not part.is_ensemble]
    if len(rows) == 1:
        return _shape(rows[0])
    return ", and ".join(f"{variant.model} with {_shape(variant)}" for variant in rows)


def _working(study: Study, name: str) -> list[ModelVariant]:
    """The models with instances, including members."""
    return [variant for variant in study.loaded(name) if not variant.is_ensemble]


def _has_several(study: Study) -> bool:
    """Whether a configuration covers several models."""
    return any(len(_working(study, row.name)) > 1 for row in study.ranked)


def _gives(study: Study, trial: Trial) -> str:
    """`4,706 infer/s (4,420 to 5,010) with p99 9.2 ms at concurrency 8`."""
    tag, unit = _rate_of(study)
    rate, p99 = trial.combined(tag), trial.combined(LATENCY_P99)
    words = [f"{quantity(rate)} {unit}{_range(trial, tag)}"] if rate is not None else []
    shown = [] if p99 is None else [f"p99 {quantity(p99)} ms"]
    shown += [
        f"{BY_TAG[other].short} {quantity(value)} {BY_TAG[other].unit}"
        for other in _judged_tags(study)
        if other not in (tag, LATENCY_P99) and (value := trial.combined(other)) is not None
    ]
    words += [", ".join(shown)] if shown else []
    return f"{' with '.join(words) or 'neither throughput nor latency'} at {_load(trial)}"


def _rate_of(study: Study) -> tuple[str, str]:
    """The rate that describes a configuration, and its unit: tokens if the goal is about them."""
    is_text = any(tag in TOKEN_TAGS for tag in _judged_tags(study))
    has_tokens = any(trial.combined(TOKENS) is not None for trial in study.measured)
    return (TOKENS, "tokens/s") if is_text and has_tokens else (THROUGHPUT, study.rate_unit)


def _judged_tags(study: Study) -> list[str]:
    """Metrics with a short name that the objectives or constraints of a launched server use."""
    if not facts.is_launched(study):
        return []
    tags = [tag for goal in study.goals for tag, _ in goal.objectives]
    tags += [row.tag for goal in study.goals for row in goal.constraints]
    return [tag for tag in dict.fromkeys(tags) if BY_TAG[tag].short and tag != "perf_error_rate"]


def _range(trial: Trial, tag: str) -> str:
    """The range in which another run is expected; unknown for several models together."""
    rate = facts.estimate(trial, tag)
    if rate is None or rate.limits is None:
        return ""
    low, high = map(quantity, rate.limits)
    return f" ({low} to {high})"


def _facts(study: Study) -> Iterator[str]:
    yield from facts.gpu_texts(study) or (facts.hardware(study),)
    yield f"{plural(facts.count(study), 'measurement')} of {plural(len(study.ranked), 'configuration')}"
    if study.search:
        yield f"{study.search} search"
    if promise := _promise(study):
        yield f"SLO: {promise}"


def _open_words(trial: Trial) -> str:
    """Why a trial does not decide whether its configuration meets the SLO."""
    if trial.is_client_limited:
        return "measured while this client was the limit"
    return "too near the limit for so few requests; a longer budget can decide it"


def _verdict(study: Study, found: Recommendation | None) -> str:
    """State the recommendation in one sentence."""
    if found is None:
        why = next((f": {trial.reason}" for trial in study.not_done if trial.reason), "")
        return f"No measurement of {facts.models(study)} succeeded, so there is nothing to recommend{why}."
    best, name = found.best.best, label(study, found.best.name)
    if found.slo == INCONCLUSIVE:
        which = f"{name} meets" if found.does_pass else "any configuration meets"
        where = f"{'its figures are' if found.does_pass else f'the nearest is {name}:'} {_gives(study, best)}"
        return f"Inconclusive whether {which} the SLO ({_promise(study)}): {where}, {_open_words(best)}."
    if not found.does_pass:
        best_words = f"the best without it is {name}: {_gives(study, best)}"
        return f"No configuration meets the SLO ({_promise(study)}); {best_words}."
    if found.best.name == study.default_name:
        return _own_best_words(study, found)
    verb = "Run" if len(_working(study, found.best.name)) > 1 else "Run it with"
    own = _own_words(study)
    shapes = name if facts.is_launched(study) else f"{_shapes(study, found.best.name)} ({name})"
    words = f"{verb} {shapes}: {_gives(study, best)}"
    if found.gain is None:
        why = "does not meet the SLO" if found.has_default else "was not measured"
        if found.default_slo == INCONCLUSIVE:
            own_trial = next(row.best for row in study.ranked if row.name == study.default_name)
            why = f"may meet the SLO or not: {_open_words(own_trial)}"
        return f"{words}; {own} {why}."
    if found.is_spoilt:
        return (
            f"Inconclusive: the best figures are those of {shapes}: {_gives(study, best)}. Their difference from "
            f"{own}, {difference(found.gain)}, may not be the server's: {_spoilt_words(study, found)}"
        )
    if not found.is_sure:
        lead = difference(found.gain)
        if found.ruling == NOT_SHOWN:
            return f"No relevant gain over {own}: the best is {shapes}, {lead}."
        return (
            f"Inconclusive: the best figures are those of {shapes}: {_gives(study, best)}; its gain over {own} "
            f"is {lead}. A longer budget can decide it."
        )
    what = " by the objectives" if facts.has_other_objectives(study) else ""
    lead = f"{difference(found.gain)} against {own}{what}"
    if not found.is_repeated:
        return f"{words}; {lead} is from one run, which may have been lucky: measure it again before relying on it."
    return f"{words}, {lead}."


def _own_best_words(study: Study, found: Recommendation) -> str:
    """Say how sure it is that nothing beats the configuration that all others are compared with."""
    own, gives = _own_words(study), _gives(study, found.best.best)
    if len(study.ranked) == 1:
        return f"Only {own} was measured: {gives}."
    lead = f"Inconclusive whether anything beats {own}: nothing gave more than its {gives}, but"
    if found.is_spoilt:
        return f"{lead} {_spoilt_words(study, found)}"
    if found.ruling == INCONCLUSIVE and found.missed is not None:
        return f"{lead} {_missed_words(study, found.missed)}. A longer --budget can decide it."
    words = f"Keep {own}: nothing tried beats its {gives}"
    near = [label(study, row.name) for row in _near(study, found.best)]
    return (
        f"{words}; within the spread of the measurements, {few_words(near)} may be as good."
        if near
        else f"{words}."
    )


def _missed_words(study: Study, missed: MissedGain) -> str:
    """Say how much more another configuration may give."""
    name, gain_of_other = label(study, missed.name), missed.gain
    if gain_of_other.high is None or is_too_wide(gain_of_other):
        return f"the measurements are too imprecise to rule out that {name} does"
    return f"{name} may give up to {signed(gain_of_other.high)} %"


def _spoilt_words(study: Study, found: Recommendation) -> str:
    """Say for which configurations this client was the limit or other programs ran, and what to do."""
    names = [
        _own_words(study) if name == study.default_name else label(study, name)
        for name in found.limited or found.disturbed
    ]
    which = few_words(names) if len(names) > 2 else " and ".join(names)
    why = (
        f"this client was the limit for {which}"
        if found.limited
        else f"other programs used the cores while {which} {'were' if len(names) > 1 else 'was'} measured"
    )
    return f"{why}. Repeat the search while no other program uses the cores, or from another machine."


def _own_words(study: Study) -> str:
    """Name of the configuration that all others are compared with."""
    if facts.is_launched(study):
        return label(study, study.default_name)
    return "the model's own configuration"


def _near(study: Study, own: RankedVariant) -> Iterator[RankedVariant]:
    """Variants whose interval overlaps that of the model's own configuration."""
    for row in study.ranked:
        is_other = row.name != own.name and row.does_pass
        if is_other and gain(study.goals, own.best, row.best, is_least=True) <= 0:
            yield row


def _tone(study: Study, found: Recommendation | None) -> Tone:
    """Red if the exit code reports a failure; green for a certain gain."""
    if found is not None and found.slo == INCONCLUSIVE:
        return Tone.WARNING
    if found is None or not found.does_pass:
        return Tone.BAD
    if found.is_spoilt:
        return Tone.WARNING
    if found.best.name == study.default_name:
        return Tone.WARNING if found.ruling == INCONCLUSIVE else Tone.PLAIN
    if found.gain is None:
        return Tone.WARNING if found.ruling == INCONCLUSIVE else Tone.GOOD
    return _GAIN_TONES[found.ruling]


def _best_words(found: Recommendation) -> str:
    """The role of the best configuration, which is recommended only if the intervals support it."""
    return "recommended" if found.is_supported else "best figures"


def _figures(study: Study, found: Recommendation | None) -> Iterator[Figure]:
    if found is None:
        return
    best = found.best.best
    yield Figure(_best_words(found).capitalize(), label(study, best.name), _shapes(study, best.name))
    tag, unit = _rate_of(study)
    rate, p99 = facts.estimate(best, tag), facts.estimate(best, LATENCY_P99)
    if rate is not None:
        yield Figure(
            "Throughput", f"{quantity(rate.value)} {unit}", f"{interval(rate)} at {_load(best)}".strip()
        )
    if p99 is not None:
        limits = [row for goal in study.goals for row in goal.constraints if "latency" in row.tag]
        tone = _LIMIT_TONES[keeps(study.goals, best)] if limits else Tone.PLAIN
        yield Figure("p99 latency", f"{quantity(p99.value)} ms", ", ".join(map(_limit, limits)), tone)
    if found.gain is not None and best.name != study.default_name:
        detail = "no certain gain"
        if found.limited:
            detail = "this client was the limit"
        elif found.disturbed:
            detail = "other programs ran"
        elif found.is_sure:
            own = _own_words(study) if facts.is_launched(study) else "the model's own"
            detail = f"against {own}" if found.is_repeated else "from one run"
        value = difference(found.gain)
        if (wide := wide_words(found.gain)) is not None:
            value, detail = INCONCLUSIVE, wide
        yield Figure("Gain", value, detail, _GAIN_TONES[found.ruling])


# --- sections


def _sections(study: Study, found: Recommendation | None) -> Iterator[Section]:
    if study.ranked:
        yield _best_section(study)
        yield from _front_section(study, found)
        yield from _users_section(study)
        yield _configuration_section(study, found)
    yield from _trials_section(study, found)
    yield from expected_section(study, partial(worded, study))
    yield from effects_section(study)
    yield from not_done_section(study, partial(worded, study))
    yield from servers_section(study)
    yield search_section(study)


def _best_section(study: Study) -> Section:
    rows = facts.selected(study, BEST)
    own = next((row for row in study.ranked if row.name == study.default_name), None)
    shape: tuple[Column, ...] = ()  # a launched server: its values are its name
    if not facts.is_launched(study):
        shape = (
            Column("Instances"),
            Column("Max batch"),
            Column("Dynamic batching", is_number=False, rank=1),
        )
    tag, unit = _rate_of(study)
    judged = [other for other in _judged_tags(study) if other not in (tag, THROUGHPUT, LATENCY_P99)]
    columns = (
        NAME,
        *((Column("Models", is_number=False),) if _has_several(study) else shape),
        Column("At", is_number=False, is_name=True),
        *map(Column, (unit.capitalize(), "±95 %", "p99 ms")),
        *(Column(f"{BY_TAG[other].short} {BY_TAG[other].unit}".strip()) for other in judged),
        Column("vs. own"),
        *((Column("SLO", is_number=False),) if _promise(study) else ()),
    )
    cells = tuple(tuple(_best_cells(study, row, own, judged)) for row in rows)
    tones = tuple(_SLO_TONES[keeps(study.goals, row.best)] for row in rows) if _promise(study) else ()
    lead = f"{len(rows)} of {plural(len(study.ranked), 'configuration')}, each at its best load."
    title = "The best configurations"
    return Section("best", title, lead, (Table(title, columns, cells, tones=tones),))


def _best_cells(
    study: Study, row: RankedVariant, own: RankedVariant | None, judged: Sequence[str]
) -> Iterator[str]:
    best = row.best
    yield label(study, row.name)
    if _has_several(study):
        yield "; ".join(f"{variant.model}: {_shape(variant)}" for variant in _working(study, row.name))
    elif not facts.is_launched(study):
        (variant,) = _working(study, row.name)
        yield from (_instances(variant), facts.batch_size(variant), facts.batching(variant).lower())
    yield _load(best)
    yield from _rate_cells(study, best)
    yield _number(best.combined(LATENCY_P99))
    yield from (_number(best.combined(tag)) for tag in judged)
    is_other = own is not None and own.name != row.name
    yield change_text(gain(study.goals, best, own.best) / 100) if own is not None and is_other else NONE
    if _promise(study):
        yield _SLO_WORDS[keeps(study.goals, row.best)]


def _rate_cells(study: Study, trial: Trial) -> tuple[str, str]:
    rate = facts.estimate(trial, _rate_of(study)[0])
    return (NONE, NONE) if rate is None else (quantity(rate.value), interval(rate))


def _number(value: float | None) -> str:
    return NONE if value is None else quantity(value)


def _front_section(study: Study, found: Recommendation | None) -> Iterator[Section]:
    """Throughput over latency for all measurements; no measurement beats the front in both."""
    trials = [trial for trial in pool(study.trials) if _place(trial) is not None]
    if len(trials) < 2 or found is None:
        return
    best = found.best.best
    own = [trial for trial in trials if trial.name == study.default_name]
    others = [trial for trial in trials if trial.name != study.default_name]
    chosen = [trial for trial in trials if trial.setting == best.setting]
    lines = [
        _line(study, "front", pareto(study), "blue", is_joined=True),
        _line(study, "measured", others, "grey"),
        _line(study, OWN, own, "orange"),
        _line(study, _best_words(found), chosen, "green", has_labels=True),
    ]
    series = tuple(line for line in lines if line.runs)
    xs = [point.x for line in series for run in line.runs for point in run if point.x > 0]
    is_log = bool(xs) and max(xs) / min(xs) > LOG_RATIO
    x = ChartAxis(
        f"p99 latency (ms{', log scale' if is_log else ''})",
        plain_number,
        Spread.LOG if is_log else Spread.LINEAR,
    )
    limit = study.goals[0].limit(LATENCY_P99) if len(study.goals) == 1 else None
    note = "On the front, no other measurement has more throughput at the same or a lower latency."
    if any(keeps(study.goals, trial) != SHOWN for trial in trials):
        note += " Hollow points violate the SLO, or leave it undecided."
    spans: tuple[Span, ...] = ()
    if limit is not None and max(xs, default=0.0) > limit:
        spans = (Span(limit, max(xs), f"beyond {plain_number(limit)} ms", is_faded=True),)
    y = rate_axis(study.rate_unit)
    chart = Chart("Throughput against p99 latency", x, y, series, spans, height=340, note=note)
    yield Section("front", "Throughput against latency", "", (chart,), is_detail=True)


USER_TOKENS = "output_token_throughput_per_user"


def users_front(study: Study) -> tuple[Trial, ...]:
    """Trials from the most tokens per user down; each has more tokens per second than all before it."""
    rows = [
        (user, rate, trial)
        for trial in pool(study.trials)
        if (user := trial.combined(USER_TOKENS)) is not None and (rate := trial.combined(TOKENS)) is not None
    ]
    found: list[tuple[float, Trial]] = []
    for _, rate, trial in sorted(rows, key=lambda row: (-row[0], -row[1])):
        if not found or rate > found[-1][0]:
            found.append((rate, trial))
    return tuple(trial for _, trial in found)


def _users_section(study: Study) -> Iterator[Section]:
    """Chart of tokens per second of the server over those per user, a trade-off."""
    front = users_front(study)
    if not facts.is_launched(study) or len(front) < 2:
        return
    others = [trial for trial in pool(study.trials) if trial.setting not in {row.setting for row in front}]
    series = (
        _users_line(study, "front", front, "blue"),
        _users_line(study, "measured", others, "grey"),
    )
    chart = Chart(
        "Tokens per server against tokens per user",
        ChartAxis("tokens/s per user", plain_number),
        ChartAxis("tokens/s of the server"),
        tuple(line for line in series if line.runs),
        height=340,
        note="On the front, no other measurement has more of one without having less of the other.",
    )
    cells = tuple(
        (
            label(study, trial.name),
            _load(trial),
            _number(trial.combined(USER_TOKENS)),
            _number(trial.combined(TOKENS)),
            _number(trial.combined("time_to_first_token_p99")),
        )
        for trial in front
    )
    columns = (
        NAME,
        Column("At", is_number=False, is_name=True),
        *map(Column, ("Per user/s", "Tokens/s", "ttft p99 ms")),
    )
    table = Table("On the front", columns, cells)
    yield Section("users", "Tokens per user against tokens per server", "", (chart, table), is_detail=True)


def _users_line(study: Study, name: str, trials: Sequence[Trial], colour: str) -> ChartLine:
    points = [
        ChartPoint(user, rate, f"{label(study, trial.name)}: {_gives(study, trial)}")
        for trial in trials
        if (user := trial.combined(USER_TOKENS)) is not None and (rate := trial.combined(TOKENS)) is not None
    ]
    runs = (tuple(points),) if name == "front" else tuple((point,) for point in points)
    return ChartLine(name, runs if points else (), colour)


def _place(trial: Trial) -> tuple[float, float] | None:
    p99, rate = trial.combined(LATENCY_P99), trial.combined(THROUGHPUT)
    return None if p99 is None or rate is None else (p99, rate)


def _line(
    study: Study,
    name: str,
    trials: Sequence[Trial],
    colour: str,
    *,
    is_joined: bool = False,
    has_labels: bool = False,
) -> ChartLine:
    points = []
    for trial in trials:
        place, rate = _place(trial), facts.estimate(trial, THROUGHPUT)
        if place is None or rate is None:
            continue
        tip = f"{label(study, trial.name)}: {_gives(study, trial)}"
        shown = label(study, trial.name) if has_labels else ""
        is_doubtful = keeps(study.goals, trial) != SHOWN
        limits = error_bar(rate) if has_labels else None
        points.append(ChartPoint(*place, tip, shown, y_limits=limits, is_doubtful=is_doubtful))
    runs = (tuple(points),) if is_joined else tuple((point,) for point in points)
    return ChartLine(name, runs if points else (), colour)


def _configuration_section(study: Study, found: Recommendation | None) -> Section:
    best = study.ranked[0].name
    which = "recommended" if found is not None and found.is_supported else "best measured"
    if facts.is_launched(study):
        then = tuple(("Then", line) for line in study.call_lines(best))
        command = Facts("Command", (("Run", study.command_line(best)), *then))
        return Section("configuration", f"The {which} command", "", (command,))
    blocks = tuple(Code(f"{part.model}/config.pbtxt", part.text) for part in study.loaded(best))
    lead = f"{label(study, best)}: {_shapes(study, best)}. Copy it into the model repository."
    return Section("configuration", f"The {which} configuration", lead, blocks)


def _trials_section(study: Study, found: Recommendation | None) -> Iterator[Section]:
    """Every trial in order; skipped trials have their own section."""
    trials = [trial for trial in study.trials if trial.status is not Status.SKIPPED]
    if not trials:
        return
    has_servers = any(trial.server is not None for trial in trials)
    columns = (
        NAME,
        Column("At", is_number=False, is_name=True),
        *((Column("Server"),) if has_servers else ()),
        *map(Column, (_rate_of(study)[1].capitalize(), "±95 %", "Expected", "p99 ms")),
        Column("Outcome", is_number=False),
    )
    rows, tones = [], []
    for trial in trials[:LISTED]:
        outcome, tone = _outcome(study, trial, found)
        figures = _rate_cells(study, trial) if trial.is_measured else (NONE, NONE)
        expected = _number(dict(trial.predicted).get(_rate_of(study)[0]))
        p99 = _number(trial.combined(LATENCY_P99)) if trial.is_measured else NONE
        server = (NONE if trial.server is None else str(trial.server),) if has_servers else ()
        rows.append((label(study, trial.name), _load(trial), *server, *figures, expected, p99, outcome))
        tones.append(tone)
    lead = f"The first {LISTED} of {len(trials):,}. " if len(trials) > LISTED else ""
    lead += "Intervals are those of each trial alone; those of the best configurations include the spread of runs."
    table = Table("All trials", columns, tuple(rows), tones=tuple(tones))
    yield Section("trials", "All trials", lead, (table,), is_detail=True)


def _outcome(study: Study, trial: Trial, found: Recommendation | None) -> tuple[str, Tone]:
    if not trial.is_measured:
        return "failed", Tone.BAD
    if found is not None and found.does_pass and trial.setting == found.best.best.setting:
        return _best_words(found), Tone.GOOD if found.is_supported else Tone.WARNING
    limits = by_ruling(study.goals, trial)
    if broken := limits[NOT_SHOWN]:
        return f"violates {', '.join(map(_limit, broken))}", Tone.WARNING
    if undecided := limits[INCONCLUSIVE]:
        return f"undecided: {', '.join(map(_limit, undecided))}", Tone.WARNING
    return "ok", Tone.PLAIN
