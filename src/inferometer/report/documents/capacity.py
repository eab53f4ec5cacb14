"""A capacity plan as a document: number of replicas, over time, their cost, and the basis of each figure."""

from collections.abc import Iterator, Sequence

from inferometer.base.units import NS_PER_S
from inferometer.capacity.plan import (
    HOURS_PER_MONTH,
    BasedFigure,
    CapacityPlan,
    EnergyUse,
    FleetFigures,
    PlannedOption,
    PlannedTerm,
)
from inferometer.options.names import option_name
from inferometer.report.document import (
    Column,
    Depth,
    Document,
    Facts,
    Figure,
    Message,
    Section,
    Table,
    Tone,
    message_section,
    text_columns,
)
from inferometer.report.documents.capacity_charts import clock, day_charts, replica_chart
from inferometer.report.format import (
    NONE,
    curve,
    duration,
    interval,
    plain_number,
    plural,
    quantity,
    share,
    time_span,
)
from inferometer.stats.estimate import Estimate
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN

_TONES = {SHOWN: Tone.GOOD, NOT_SHOWN: Tone.BAD, INCONCLUSIVE: Tone.WARNING}
CURVE_WIDTH = 60  # characters
_TIMES = ("latency", "ttft", "tpot")


def capacity_document(plan: CapacityPlan) -> Document:
    """Return the report of a capacity plan."""
    sections = (
        _answer_section(plan),
        _day_section(plan),
        _scaling_section(plan),
        _energy_section(plan),
        _option_section(plan),
        _basis_section(plan),
        message_section("notes", "Notes", _notes(plan)),
    )
    return Document(
        kind="Capacity",
        title=plan.traffic,
        facts=(plan.form, f"{_most(plan)} requests/s", plan.promise),
        verdict=_verdict(plan),
        sections=tuple(section for section in sections if section is not None),
        tone=_TONES[plan.ruling],
        figures=tuple(_figures(plan)),
    )


def _is_one_trace(plan: CapacityPlan) -> bool:
    """Whether the plan covers a trace as one stretch: its rate is a mean, but its bursts still count."""
    return plan.form == "trace" and len(plan.stretches) == 1


def _most(plan: CapacityPlan) -> str:
    rate = quantity(plan.stretches[plan.peak].rate)
    return f"on average {rate}" if _is_one_trace(plan) else f"at most {rate}"


def money(value: float) -> str:
    """An amount with two decimals, or none for a large sum."""
    return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"


def _verdict(plan: CapacityPlan) -> str:
    chosen = plan.chosen
    if chosen is None or chosen.fewest is None or chosen.whole is None:
        return _no_number(plan)
    fewest, whole = chosen.fewest, chosen.whole
    words = _number_words(plan, chosen)
    words += f" {_where(plan, chosen)} ({fewest.basis})"
    if chosen.ruling == INCONCLUSIVE:
        words += _why_open(chosen)
    elif plan.spare:
        lost = "one is" if plan.spare == 1 else f"{plan.spare} are"
        words += f"; {whole.replicas} still do when {lost} lost, each {share(whole.utilisation.value)} busy until then"
    else:
        words += f", each {share(fewest.utilisation.value)} busy"
    if (
        not _may_suffice(chosen)
        and chosen.fewer is not None
        and (broken := _broken(chosen.fewer)) is not None
    ):
        words += f"; {chosen.fewer.replicas} would not: {broken.name} {_value(broken)}"
    elif chosen.ruling == SHOWN and (between := _between(chosen)):
        words += f"; {between} within the intervals of the measured figures"
    if chosen.cost_per_h is not None:
        words += f"; {money(chosen.cost_per_h)} per hour"
        if chosen.cost_per_million is not None:
            words += f", {money(chosen.cost_per_million)} per million output tokens"
    return f"{words}{_choice_words(plan, chosen)}. Assumed balancer: {plan.balancer}."


def _where(plan: CapacityPlan, chosen: PlannedOption) -> str:
    """Return the traffic that the figures of an option are about."""
    hardest = plan.stretches[plan.hardest(chosen)]
    rate = f"{quantity(hardest.rate)} requests/s"
    if _is_one_trace(plan):
        return f"at {rate} on average"
    if hardest.rate >= plan.stretches[plan.peak].rate:
        return f"at {rate}"
    return f"in bursts from {clock(plan, hardest.start_s)} on, at {rate} on average"


def _no_number(plan: CapacityPlan) -> str:
    reasons = "; ".join(f"{option.name}: {option.reason}" for option in plan.options)
    if plan.ruling == NOT_SHOWN:
        return f"No number of replicas meets '{plan.promise}': {reasons}."
    able = [option for option in plan.options if option.needed is not None and option.needed.low is not None]
    best = "".join(
        f"; {plural(option.needed.low, 'replica')} of {option.name} may"
        for option in able
        if option.needed is not None and option.needed.low is not None
    )
    doubts = "".join(
        f"; {option.name}: {option.needed.doubt}"
        for option in plan.options
        if option.needed is not None and option.needed.doubt
    )
    return (
        f"Inconclusive whether any number of replicas meets '{plan.promise}': {reasons}{best}{doubts}. "
        "Measure for longer."
    )


def _number_words(plan: CapacityPlan, chosen: PlannedOption) -> str:
    assert chosen.fewest is not None
    count = chosen.fewest.replicas
    if chosen.ruling == INCONCLUSIVE:
        return f"Inconclusive how many replicas of {chosen.name} meet '{plan.promise}'"
    return f"{plural(count, 'replica')} of {chosen.name} meet{'s' * (count == 1)} '{plan.promise}'"


def _why_open(chosen: PlannedOption) -> str:
    """Return the range that the measured intervals leave open, and the planned number."""
    assert chosen.fewest is not None
    planned, needed = chosen.fewest.replicas, chosen.needed
    if needed is None:
        return (
            f": {planned} according to the measured figures, but the plan does not state how precise they are"
        )
    if needed.doubt:
        return f": {planned} according to the measured figures, but {needed.doubt}; measure for longer"
    between = _between(chosen)
    return (
        f": {between} within the intervals of the measured figures; the plan is {planned}; measure for longer"
    )


def _between(option: PlannedOption) -> str:
    """`5 to 7`, or `5 or more`; empty if the intervals leave only one number."""
    needed = option.needed
    if needed is None or needed.low is None or needed.low == needed.high:
        return ""
    return f"{needed.low} or more" if needed.high is None else f"{needed.low} to {needed.high}"


def _may_suffice(option: PlannedOption) -> bool:
    """Whether fewer replicas than planned may also meet the SLO, according to the measured figures."""
    needed, fewest = option.needed, option.fewest
    if needed is None or fewest is None or needed.low is None or needed.doubt:
        return True
    return needed.low < fewest.replicas


def _choice_words(plan: CapacityPlan, chosen: PlannedOption) -> str:
    """Return a clause that compares the chosen option with the other options, if there are any."""
    if len(plan.options) < 2:
        return ""
    least = "cheapest" if chosen.cost_per_h is not None else "fewest"
    other = plan.maybe_better
    if other is None or other.needed is None or other.needed.low is None:
        return f", the {least} of {plural(len(plan.options), 'option')}"
    count = other.needed.low + plan.spare
    what = plural(count, "replica")
    if other.price_per_h is not None and chosen.cost_per_h is not None:
        what = f"{money(other.price_of(count))} per hour"
    return f"; inconclusive whether {chosen.name} is the {least}: {other.name} may need only {what}"


def _broken(fleet: FleetFigures) -> PlannedTerm | None:
    """Return a term that this number of replicas is expected to violate; None if there is none."""
    return next((term for term in fleet.terms if term.is_beyond), None)


def _figures(plan: CapacityPlan) -> Iterator[Figure]:
    chosen = plan.chosen
    if chosen is None or chosen.fewest is None or chosen.whole is None:
        return
    yield Figure(
        "Replicas",
        str(chosen.whole.replicas),
        f"{_between(chosen) or chosen.fewest.replicas} plus {plan.spare} spare, {chosen.fewest.basis}",
        _TONES[chosen.ruling] if chosen.ruling == INCONCLUSIVE else Tone.PLAIN,
    )
    used = chosen.whole.utilisation
    yield Figure("Utilisation", share(used.value), f"per replica at the peak, {used.basis}")
    for term in chosen.whole.terms:
        if term.figure in _TIMES:
            of = f"with {plural(chosen.whole.replicas, 'replica')}, {term.expected.basis}"
            yield Figure(term.name, duration(term.expected.value), of)
            break
    if chosen.cost_per_h is not None:
        yield Figure(
            "Cost", f"{money(chosen.cost_per_h)}/h", f"{money(chosen.cost_per_h * HOURS_PER_MONTH)} per month"
        )
    if (
        chosen.energy is not None
        and chosen.energy.kwh_per_h is not None
        and chosen.energy.kwh_per_day is not None
    ):
        per_day = f"{quantity(chosen.energy.kwh_per_day.value)} kWh per day, {chosen.energy.basis}"
        yield Figure("Energy", f"{quantity(chosen.energy.kwh_per_h.value)} kWh/h", per_day)


# --- at the peak


def _answer_section(plan: CapacityPlan) -> Section | None:
    rows = [row for option in plan.options for row in _option_rows(plan, option)]
    if not rows:
        return None
    columns = (
        *text_columns("Option"), Column("Replicas"), Column("Requests/s each"), Column("Utilisation"),
        *(Column(name) for name in _term_names(plan)), Column("Cost per hour"), *text_columns("Basis"),
    )  # fmt: skip
    if len(plan.stretches) > 1:
        lead = " ".join(_hardest_words(plan))
    elif _is_one_trace(plan):
        whole = duration(plan.span_s * NS_PER_S)
        lead = (
            f"Over the whole trace of {whole}; use a shorter {option_name('--stretch')} to look at its parts."
        )
    else:
        lead = "The rate is constant."
    lead += f" Requests arrive {plan.arrivals}; the balancer sends them to replicas {_how(plan.balancer)}."
    charts = () if len(plan.stretches) > 1 else (replica_chart(plan),)
    table = Table("Replicas at the peak", columns, tuple(rows))
    return Section("peak", "At the peak", lead, (table, *charts))


def _hardest_words(plan: CapacityPlan) -> Iterator[str]:
    """Yield a sentence for each stretch that needs the most replicas of some option."""
    options = [option for option in plan.options if option.fewest is not None]
    places = {option.name: plan.hardest(option) for option in options}
    for place in dict.fromkeys(places.values()):
        hardest = plan.stretches[place]
        when = f"{clock(plan, hardest.start_s)} to {clock(plan, hardest.end_s)}"
        is_busiest = hardest.rate >= plan.stretches[plan.peak].rate
        what = "the busiest stretch" if is_busiest else "the stretch with the hardest bursts"
        names = [name for name, other in places.items() if other == place]
        of = "" if len(names) == len(options) else f" for {', '.join(names)}"
        yield f"In {what}{of}, {when}."


def _how(balancer: str) -> str:
    return {
        "round-robin": "in turn (round robin)",
        "random": "at random",
        "least-outstanding": "with the fewest requests in flight (least outstanding)",
    }.get(balancer, balancer)


def _option_rows(plan: CapacityPlan, option: PlannedOption) -> Iterator[tuple[str, ...]]:
    if option.fewest is None or option.whole is None:
        return
    is_open = _may_suffice(option)
    if option.fewer is not None:
        yield _row(plan, option, option.fewer, "perhaps enough" if is_open else "one too few")
    name = "planned" if is_open else "the fewest"
    yield _row(plan, option, option.fewest, name if plan.spare else "")
    if plan.spare:
        yield _row(plan, option, option.whole, f"with {plan.spare} spare")


def _row(plan: CapacityPlan, option: PlannedOption, fleet: FleetFigures, words: str) -> tuple[str, ...]:
    cost = None if option.price_per_h is None else option.price_per_h * fleet.replicas
    name = f"{option.name}, {words}" if words else option.name
    return (
        name,
        str(fleet.replicas),
        quantity(fleet.per_replica),
        share(fleet.utilisation.value),
        *(_value(term) for term in fleet.terms),
        NONE if cost is None else money(cost),
        fleet.basis,
    )


def _term_names(plan: CapacityPlan) -> list[str]:
    found = next((option.fewest for option in plan.options if option.fewest is not None), None)
    return [] if found is None else [term.name for term in found.terms]


def _value(term: PlannedTerm) -> str:
    return duration(term.expected.value) if term.figure in _TIMES else share(term.expected.value)


# --- over the day


def _day_section(plan: CapacityPlan) -> Section | None:
    chosen = plan.chosen
    if chosen is None or len(plan.stretches) == 1:
        return None
    hours = [row.length_s / 3600 for row in plan.stretches]
    mean = sum(number * length for number, length in zip(chosen.over_time, hours, strict=True)) / sum(hours)
    lead = (
        f"{chosen.name} needs between {min(chosen.over_time)} and {max(chosen.over_time)} replicas, {quantity(mean)} "
        f"on average ({chosen.over_time_basis})"
    )
    if chosen.cost_per_h is not None and chosen.following_per_h is not None:
        saved = 1 - chosen.following_per_h / chosen.cost_per_h
        lead += f": {money(chosen.following_per_h)} per hour instead of {money(chosen.cost_per_h)}, {share(saved)} less"
    return Section(
        "day",
        "Over time",
        f"{lead}.",
        (*day_charts(plan, chosen), _curves(plan, chosen), _day_table(plan, chosen)),
    )


def _curves(plan: CapacityPlan, chosen: PlannedOption) -> Facts:
    """The curves of the charts as text, for terminals."""
    return Facts(
        "In one line",
        (
            ("Requests/s", _line([row.rate for row in plan.stretches])),
            ("Replicas", _line([float(number) for number in chosen.over_time])),
        ),
    )


def _line(values: Sequence[float]) -> str:
    """A curve of text; each bar is the maximum of as many values as needed to fit one line."""
    each = -(-len(values) // CURVE_WIDTH)
    groups = [values[start : start + each] for start in range(0, len(values), each)]
    return f"{curve([max(group) for group in groups], CURVE_WIDTH)} {plain_number(round(max(values), 1))} at most"


def _day_table(plan: CapacityPlan, chosen: PlannedOption) -> Table:
    rows = tuple(
        (
            clock(plan, stretch.start_s),
            quantity(stretch.rate),
            str(number),
            share(stretch.rate / number / chosen.replica.most_per_s.value) if number else NONE,
        )
        for stretch, number in zip(plan.stretches, chosen.over_time, strict=True)
    )
    columns = (*text_columns("From"), Column("Requests/s"), Column("Replicas"), Column("Utilisation"))
    return Table("Replicas over time, including spares", columns, rows, Depth.DETAIL)


def _scaling_section(plan: CapacityPlan) -> Section | None:
    rows = []
    for option in plan.options:
        found = option.autoscaling
        if found is None:
            continue
        rows.append(
            (
                option.name,
                share(found.broken_share),
                f"{found.fewest} to {found.most}",
                quantity(found.replica_hours),
                NONE if option.scaled_per_h is None else money(option.scaled_per_h),
                option.over_time_basis,
                "met" if found.is_kept else "violated",
            )
        )
    first = next((option.autoscaling for option in plan.options if option.autoscaling is not None), None)
    if first is None:
        return None
    tones = tuple(Tone.GOOD if row[-1] == "met" else Tone.BAD for row in rows)
    columns = (
        *text_columns("Option"), Column("Requests in violation"), Column("Replicas"),
        Column("Replica hours"), Column("Cost per hour"), *text_columns("Basis", "SLO"),
    )  # fmt: skip
    lead = (
        f"Simulated with the rule {first.rule}; replicas are ready {_span(first.startup_s)} after they "
        f"are started{_basis(first.startup_basis)}. {_scaled(plan)}"
    )
    return Section(
        "autoscaling",
        "With an autoscaler",
        lead.rstrip(),
        (Table("Autoscaling", columns, tuple(rows), tones=tones),),
    )


def _basis(basis: str) -> str:
    """Say where the start-up time comes from."""
    if basis == "assumed":
        return f" (assumed: {option_name('--startup')} sets it)"
    return " (measured, including the warm-up)" if basis == "measured" else ""


def _scaled(plan: CapacityPlan) -> str:
    chosen = plan.chosen
    if chosen is None or chosen.autoscaling is None or chosen.autoscaling.is_kept:
        return ""
    found = chosen.autoscaling
    times = ", ".join(clock(plan, start_s) for start_s in found.broken[:4])
    more = f" and {len(found.broken) - 4} more" if len(found.broken) > 4 else ""
    return f"With {chosen.name}, the SLO is violated from {times}{more}: replicas start too late for the rising load."


def _span(seconds: float) -> str:
    return time_span(seconds) if seconds >= 1 else duration(seconds * NS_PER_S)


# --- energy


def _energy_section(plan: CapacityPlan) -> Section | None:
    """A row for each option with energy figures; None if there is none."""
    found = [(option, option.energy) for option in plan.options if option.energy is not None]
    if not found:
        return None
    of = next((energy.million_of for _, energy in found if not energy.invalid), "requests")
    columns = (
        *text_columns("Option"), Column("Replicas"), Column("kWh per hour"), Column("kWh per day"),
        Column(f"kWh per million {of}"), *(() if plan.carbon is None else (Column(f"gCO2 per million {of}"),)),
        *text_columns("Basis"),
    )  # fmt: skip
    rows = tuple(
        (option.name, str(option.replicas), *_energy_cells(plan, energy)) for option, energy in found
    )
    lead = (
        "Energy of all replicas, spare ones included, averaged over the traffic, from the power that the server's "
        "devices drew at the measured loads."
    )
    if plan.carbon is not None:
        lead += f" A kWh counts as {plain_number(plan.carbon)} g of CO2."
    return Section("energy", "Energy", lead, (Table("Energy", columns, rows),))


def _energy_cells(plan: CapacityPlan, energy: EnergyUse) -> Iterator[str]:
    yield from map(_estimated, (energy.kwh_per_h, energy.kwh_per_day, energy.kwh_per_million))
    if plan.carbon is not None:
        yield _estimated(energy.carbon_g_per_million)
    yield f"invalid: {energy.invalid}" if energy.invalid else f"{energy.basis}: {energy.source}"


def _estimated(found: Estimate | None) -> str:
    return NONE if found is None else f"{quantity(found.value)} {interval(found)}".rstrip()


# --- the options


def _option_section(plan: CapacityPlan) -> Section:
    rows = []
    for option in plan.options:
        replica = option.replica
        rows.append(
            (
                option.name,
                option.model or NONE,
                _based(replica.most_per_s, f"{quantity(replica.most_per_s.value)}"),
                _based(replica.alone_ns, duration(replica.alone_ns.value)),
                str(replica.places),
                NONE if option.price_per_h is None else money(option.price_per_h),
                _by_balancer(option),
            )
        )
    columns = (
        *text_columns("Option", "Model"), Column("Max requests/s"), Column("Unloaded latency"), Column("At once"),
        Column("Price per hour"), *text_columns("Fewest replicas by balancer"),
    )  # fmt: skip
    lead = "What one replica handles, from its saved result; the lower end of each interval counts."
    return Section("options", "One replica", lead, (Table("Options", columns, tuple(rows)),))


def _based(figure: BasedFigure, text: str) -> str:
    return f"{text} ({figure.basis})"


def _by_balancer(option: PlannedOption) -> str:
    return ", ".join(f"{name} {count}" for name, count in option.by_balancer) or option.reason


def _basis_section(plan: CapacityPlan) -> Section:
    rows = [
        ("Traffic", f"given: {plan.traffic} ({plan.form}); requests arrive {plan.arrivals}"),
        ("Balancer", f"assumed: {plan.balancer}"),
    ]
    for option in plan.options:
        words = "concurrency" if option.replica.mode == "concurrency" else "rate"
        levels = ", ".join(
            f"{plain_number(load)}: {quantity(per_s)}/s" for load, per_s in option.replica.measured
        )
        rows.append((f"{option.name}, measured", f"requests/s by {words}: {levels}"))
        for fleet in filter(None, (option.fewest, option.whole if plan.spare else None)):
            rows.append(
                (f"{option.name}, {plural(fleet.replicas, 'replica')}", f"{fleet.basis}: {fleet.source}")
            )
            used = fleet.utilisation
            rows.append((f"{option.name}, utilisation of {fleet.replicas}", f"{used.basis}: {used.source}"))
            rows += [
                (
                    f"{option.name}, {term.name} of {fleet.replicas}",
                    f"{term.expected.basis}: {term.expected.source}",
                )
                for term in fleet.terms
            ]
        if option.over_time and len(plan.stretches) > 1:
            rows.append((f"{option.name}, over time", option.over_time_basis))
    lead = (
        "Measured: at a measured load. Interpolated: between measured loads. Extrapolated: beyond them. Costs "
        "follow from the number of replicas and the given price."
    )
    return Section(
        "basis", "Where the figures come from", lead, (Facts("Basis", tuple(rows)),), is_detail=True
    )


def _notes(plan: CapacityPlan) -> Iterator[Message]:
    for option in plan.options:
        if option.reason:
            yield Message(f"{option.name}: {option.reason}.", tone=_TONES[option.ruling])
        for remark in option.remarks:
            yield Message(f"{option.name}: {remark}")
        counts = [count for _, count in option.by_balancer]
        if counts and max(counts) > min(counts) + 1:
            yield Message(
                f"{option.name}: the balancer matters: {_by_balancer(option)}.",
                f"The plan assumes {plan.balancer}. Several balancers that share no state are nearly random.",
            )
