"""Compute a capacity plan from saved results, traffic and an SLO."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import inferometer
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.notes import CLIENT_LIMITS
from inferometer.base.slo import STREAMED, Slo, Term
from inferometer.base.units import NS_PER_S, plain_number, share
from inferometer.capacity.autoscaling import Autoscaling, Scaler, autoscale
from inferometer.capacity.doubt import maybe_doubt
from inferometer.capacity.energy import energy_use
from inferometer.capacity.fleet import BALANCERS, AnyReplica
from inferometer.capacity.keeping import NoNumber, Simulator, check_promise
from inferometer.capacity.over_time import MOST_SIMULATED, needed_over_time
from inferometer.capacity.plan import (
    BasedFigure,
    Basis,
    CapacityPlan,
    FleetFigures,
    NeededRange,
    PlannedOption,
    PlannedTerm,
    ReplicaFigures,
)
from inferometer.capacity.replica import End, check_fixed_loads, is_near, replica_of
from inferometer.capacity.text_replica import (
    FEWEST_LOADS,
    TextReplica,
    text_observations,
    text_replica_of,
    with_reuse,
)
from inferometer.capacity.traffic import ExpectedTraffic
from inferometer.diagnose.text_fit import is_text_run
from inferometer.diagnose.text_lengths import mean_lengths, requested_pairs
from inferometer.options.names import option_name
from inferometer.stats.result import Result

WIDE = 0.05  # relative half-width of an interval from which a remark is made


@frozen
class SavedOption:
    """A measured kind of machine, with its price per hour."""

    name: str
    result: Result
    price_per_h: float | None = None


@frozen
class CapacityRequest:
    """Everything that a capacity plan depends on."""

    traffic: ExpectedTraffic
    promise: Slo
    options: tuple[SavedOption, ...]
    scaler: Scaler
    balancer: str = BALANCERS[0]
    seed: int = 1
    prompt_tokens: int | str | None = (
        None  # lengths of text requests, as `measure` takes them; None as measured,
    )
    output_tokens: int | str | None = None  # or as in the trace
    carbon: float | None = None  # grams of CO2 per kWh


def plan_capacity(request: CapacityRequest) -> CapacityPlan:
    """Plan every option and pick the best one."""
    if not request.options:
        raise UsageError(
            "no saved result given", remedy=f"give one with {option_name('--options')} machine.json"
        )
    has_text = all(is_text_run(option.result) for option in request.options)
    check_promise(request.promise, has_text=has_text)
    if not has_text and (request.prompt_tokens is not None or request.output_tokens is not None):
        other = next(option for option in request.options if not is_text_run(option.result))
        raise UsageError(
            f"'{other.name}' does not generate text, so its requests have no lengths in tokens",
            remedy=f"leave out {option_name('--prompt-tokens')} and {option_name('--output-tokens')}",
        )
    traffic = request.traffic
    options = tuple(_planned(option, request) for option in request.options)
    is_single = traffic.times_s is not None
    return CapacityPlan(
        tool=f"inferometer {inferometer.__version__}",
        promise=request.promise.text,
        traffic=traffic.name,
        form=traffic.form,
        stretches=traffic.stretches,
        arrivals="as in the trace" if is_single else "independently of each other (Poisson)",
        balancer=request.balancer,
        spare=request.scaler.spare,
        seed=request.seed,
        options=options,
        best=_best(options),
        carbon=request.carbon,
    )


def _best(options: Sequence[PlannedOption]) -> int | None:
    """Return the index of the cheapest option, or of the one with the fewest replicas if a price is missing."""
    able = [number for number, option in enumerate(options) if option.whole is not None]
    if not able:
        return None
    costs = [options[number].cost_per_h for number in able]
    if all(cost is not None for cost in costs):
        return min(able, key=lambda number: options[number].cost_per_h or 0.0)
    return min(able, key=lambda number: options[number].replicas)


def _planned(option: SavedOption, request: CapacityRequest) -> PlannedOption:
    replica = _replica(option, request)
    if isinstance(replica, TextReplica) and not replica.has_streams:
        check_promise(request.promise)
    simulator = Simulator(
        replica, request.traffic, request.promise, balancer=request.balancer, seed=request.seed
    )
    empty = PlannedOption(
        name=option.name,
        model=str(option.result.model.get("name", "")),
        server=str(option.result.server.get("url", "")),
        replica=_behaviour(replica),
        price_per_h=option.price_per_h,
        remarks=tuple(_remarks(option.result, replica)),
        lengths=mean_lengths(replica.pairs) if isinstance(replica, TextReplica) else None,
    )
    term = simulator.broken_alone()
    if term is not None:
        return _without_number(empty, option, request, _reason(term, replica))
    try:
        sized = _sized(empty, simulator, request, option)
    except NoNumber as reason:
        return _without_number(empty, option, request, str(reason))
    use = energy_use(
        option.result,
        replica,
        request.traffic,
        sized.replicas,
        output_tokens=None if sized.lengths is None else sized.lengths[1],
        carbon=request.carbon,
    )
    return replace(sized, energy=use)


def _without_number(
    empty: PlannedOption, option: SavedOption, request: CapacityRequest, reason: str
) -> PlannedOption:
    """Return an option without a planned number of replicas, with the range that the intervals leave open."""
    stretches = request.traffic.stretches
    place = max(range(len(stretches)), key=lambda at: stretches[at].rate)
    doubt = "" if _is_text(option, request) else maybe_doubt(option.result, request.promise)
    low = _fewest_at("best", option, request, place)
    return replace(empty, reason=reason, needed=NeededRange(low, None, doubt))


def _needed(option: SavedOption, request: CapacityRequest, place: int, planned: int) -> NeededRange:
    """Return the range of replicas that the intervals of the measured figures allow."""
    low, high = (_fewest_at(end, option, request, place, planned) for end in ("best", "worst"))
    return NeededRange(
        low=planned if low is None else min(low, planned),
        high=None if high is None else max(high, planned),
        doubt="" if _is_text(option, request) else maybe_doubt(option.result, request.promise),
    )


def _fewest_at(
    end: End, option: SavedOption, request: CapacityRequest, place: int, guess: int = 0
) -> int | None:
    """Return the replicas that a stretch needs at one end of every interval; None if no number is enough."""
    simulator = Simulator(
        _replica(option, request, end),
        request.traffic,
        request.promise,
        balancer=request.balancer,
        seed=request.seed,
        has_margin=end != "best",
    )
    if simulator.broken_alone() is not None:
        return None
    try:
        return simulator.needed(place, guess)
    except NoNumber:
        return None


def _needs_tokens(request: CapacityRequest) -> bool:
    """Whether the plan depends on individual tokens, and not only on whole requests."""
    lengths = (request.prompt_tokens, request.output_tokens, request.traffic.pairs)
    return any(row is not None for row in lengths) or any(
        term.figure in STREAMED for term in request.promise.terms
    )


def _is_text(option: SavedOption, request: CapacityRequest) -> bool:
    """Whether the plan simulates an engine that generates text."""
    if not is_text_run(option.result):
        return False
    return _needs_tokens(request) or len(text_observations(option.result)) >= FEWEST_LOADS


def _replica(option: SavedOption, request: CapacityRequest, end: End = "planned") -> AnyReplica:
    if not _is_text(option, request):
        return replica_of(option.result, option.name, end)
    check_fixed_loads(option.result, option.name)
    found = text_replica_of(option.result, option.name, request.traffic.pairs, end)
    if request.prompt_tokens is None and request.output_tokens is None:
        return with_reuse(found, request.traffic)
    if request.traffic.pairs is not None:
        raise UsageError(
            f"the trace '{request.traffic.name}' has the lengths of its requests",
            remedy=f"leave out {option_name('--prompt-tokens')} and {option_name('--output-tokens')}",
        )
    pairs = requested_pairs(request.prompt_tokens, request.output_tokens, found.pairs)
    return text_replica_of(option.result, option.name, pairs, end)


def _reason(term: Term, replica: AnyReplica) -> str:
    if term.figure == "errors":
        return f"the error rate violates '{term.text}' even at the lightest load"
    if replica.mode == "concurrency" and replica.loads[0].load == 1:
        return f"a single request without queueing already violates '{term.text}'"
    words = "concurrency" if replica.mode == "concurrency" else "rate"
    lightest = plain_number(replica.loads[0].load)
    return f"requests violate '{term.text}' at {words} {lightest}, and no lighter load was measured"


def _sized(
    empty: PlannedOption, simulator: Simulator, request: CapacityRequest, option: SavedOption
) -> PlannedOption:
    """Return the option with its numbers of replicas."""
    traffic, spare = request.traffic, request.scaler.spare
    needed = needed_over_time(simulator)
    most = max(needed)
    hardest = max(range(len(needed)), key=lambda place: (needed[place], traffic.stretches[place].rate))
    fewest = _figures(simulator, hardest, most, request.promise)
    fewer = _figures(simulator, hardest, most - 1, request.promise) if most > 1 else None
    scaling = _scaling(request, simulator.replica, needed)
    with_spare = tuple(number + spare for number in needed)
    hours = [row.length_s / 3600 for row in traffic.stretches]
    mean = sum(number * length for number, length in zip(with_spare, hours, strict=True)) / sum(hours)
    price = empty.price_per_h
    cost = None if price is None else (most + spare) * price
    per_h = traffic.requests / sum(hours) * (0.0 if empty.lengths is None else empty.lengths[1])
    return replace(
        empty,
        fewest=fewest,
        fewer=fewer,
        needed=_needed(option, request, hardest, most),
        cost_per_million=None if cost is None or not per_h else cost / per_h * 1_000_000,
        whole=_figures(simulator, hardest, most + spare, request.promise) if spare else fewest,
        over_time=with_spare,
        over_time_basis=_over_time_basis(traffic, fewest.basis),
        cost_per_h=cost,
        following_per_h=None if price is None else mean * price,
        autoscaling=scaling,
        scaled_per_h=None if price is None or scaling is None else scaling.replica_hours / sum(hours) * price,
        by_balancer=tuple(
            (name, number)
            for name in BALANCERS
            if (
                number := most
                if name == request.balancer
                else _behind(name, simulator, request, hardest, most)
            )
        ),
    )


def _behind(
    balancer: str, simulator: Simulator, request: CapacityRequest, place: int, guess: int
) -> int | None:
    other = Simulator(
        simulator.replica, request.traffic, request.promise, balancer=balancer, seed=request.seed
    )
    try:
        return other.needed(place, guess)
    except NoNumber:
        return None


def _scaling(request: CapacityRequest, replica: AnyReplica, needed: Sequence[int]) -> Autoscaling | None:
    """Simulate the autoscaler; return None if the traffic never changes."""
    if len(request.traffic.stretches) == 1:
        return None
    return autoscale(request.scaler, replica, request.traffic, needed, request.promise, request.seed)


# --- where figures come from


def _behaviour(replica: AnyReplica) -> ReplicaFigures:
    words = "concurrency" if replica.mode == "concurrency" else "rate"
    best = max(replica.loads, key=lambda row: row.low_per_s)
    lightest = replica.loads[0]
    is_alone = replica.mode == "request_rate" or lightest.load == 1
    if isinstance(replica, TextReplica):
        basis: Basis = "extrapolated" if replica.beyond else "interpolated"
        return ReplicaFigures(
            most_per_s=BasedFigure(replica.most_per_s, basis, "the fitted engine, saturated"),
            alone_ns=BasedFigure(replica.alone_s * NS_PER_S, basis, "the fitted engine, idle"),
            places=replica.places,
            measured=tuple((row.load, row.per_s) for row in replica.loads),
            mode=replica.mode,
            is_growing=replica.is_growing,
        )
    return ReplicaFigures(
        most_per_s=BasedFigure(replica.most_per_s, "measured", f"{words} {plain_number(best.load)}"),
        alone_ns=BasedFigure(
            lightest.mean_s * NS_PER_S,
            "measured" if is_alone else "extrapolated",
            f"{words} {plain_number(lightest.load)}",
        ),
        places=replica.places,
        measured=tuple((row.load, row.per_s) for row in replica.loads),
        mode=replica.mode,
        is_growing=replica.is_growing,
    )


def _figures(simulator: Simulator, place: int, count: int, promise: Slo) -> FleetFigures:
    rate, replica = simulator.traffic.stretches[place].rate, simulator.replica
    trial = simulator.trial(place, count, is_thorough=True)
    basis, source = _basis(replica, rate / count, trial.inside)
    failed_basis, failed_source = _failed_basis(replica, rate / count)
    terms = tuple(
        PlannedTerm(
            text=term.text,
            name=term.label,
            figure=term.figure,
            limit=term.limit,
            expected=BasedFigure(
                value,
                failed_basis if term.figure == "errors" else basis,
                failed_source if term.figure == "errors" else source,
            ),
        )
        for term, value in zip(promise.terms, trial.values, strict=True)
    )
    used = BasedFigure(rate / count / replica.most_per_s, *_used_basis(replica, rate / count))
    return FleetFigures(count, rate / count, used, terms, basis, source)


def _basis(replica: AnyReplica, rate: float, inside: int) -> tuple[Basis, str]:
    """Return the basis of a simulation in which 99 % of the requests find at most `inside` requests in their
    replica."""
    if isinstance(replica, TextReplica) and replica.beyond:
        return "extrapolated", replica.beyond
    if replica.mode == "concurrency":
        low, high = replica.loads[0].load, replica.most_inside
        seen = f"up to {inside} requests in a replica"
        if inside > high:
            return "extrapolated", f"{seen}, but the highest measured concurrency is {high}"
        if low > 1:
            return "extrapolated", f"{seen}, but concurrencies below {plain_number(low)} were not measured"
        return "interpolated", f"{seen}, between concurrency 1 and {high}"
    rates = sorted(row.load for row in replica.loads)
    near = next((row for row in rates if is_near(rate, row)), None)
    if near is not None:
        return "measured", f"rate {plain_number(near)}"
    if rate > rates[-1]:
        return "extrapolated", f"above rate {plain_number(rates[-1])}"
    return _between(rate, rates, "rate")


def _between(rate: float, rates: Sequence[float], words: str) -> tuple[Basis, str]:
    """Return the basis of a rate between measured rates, or below the lightest of them."""
    above = next(row for row in rates if row >= rate)
    below = max((row for row in rates if row < rate), default=0.0)
    ends = " and ".join(plain_number(round(row, 1)) for row in (below, above))
    return "interpolated", f"between {ends} {words}" if words.endswith("/s") else f"between {words} {ends}"


def _used_basis(replica: AnyReplica, rate: float) -> tuple[Basis, str]:
    """Return the basis of a share of the highest measured throughput."""
    if isinstance(replica, TextReplica):
        return (
            "extrapolated" if replica.beyond else "interpolated"
        ), "of the throughput of the fitted engine"
    best = max(replica.loads, key=lambda row: row.low_per_s)
    if rate > best.per_s:
        return "extrapolated", "above the highest measured throughput"
    words = "concurrency" if replica.mode == "concurrency" else "rate"
    return "measured", f"of the throughput at {words} {plain_number(best.load)}"


def _failed_basis(replica: AnyReplica, rate: float) -> tuple[Basis, str]:
    rates = sorted(row.per_s for row in replica.loads)
    near = next((row for row in rates if is_near(rate, row)), None)
    if near is not None:
        return "measured", f"{plain_number(round(near, 1))} requests/s"
    if rate > rates[-1]:
        return "extrapolated", f"above {plain_number(round(rates[-1], 1))} requests/s"
    return _between(rate, rates, "requests/s")


def _over_time_basis(traffic: ExpectedTraffic, basis: Basis) -> Basis:
    """Return the weakest basis of the numbers: interpolated, if not every rate was simulated."""
    is_whole = traffic.times_s is not None or len(traffic.stretches) <= MOST_SIMULATED
    return basis if is_whole or basis == "extrapolated" else "interpolated"


def _remarks(result: Result, replica: AnyReplica) -> Iterator[str]:
    if isinstance(replica, TextReplica):
        yield from replica.remarks
    if replica.is_growing:
        last = plain_number(replica.loads[-1].load)
        words = "concurrency" if replica.mode == "concurrency" else "rate"
        yield (
            f"Throughput was still growing at {words} {last}, the highest measured load: fewer replicas may be enough. "
            "Measure higher loads."
        )
    if replica.mode == "concurrency" and replica.loads[0].load > 1:
        yield "Concurrency 1 was not measured: the latency of a single request is unknown and assumed to be higher."
    wide = [
        half
        for level in result.levels
        if level.measurement is not None
        and (half := level.measurement.infer_per_s.relative_half_width) is not None
        and half > WIDE
    ]
    if wide:
        yield (
            f"A throughput is only known to within ±{share(max(wide))}, and the plan uses the lower end: "
            "fewer replicas may be enough. Measure for longer."
        )
    if any(level.has_remark(*CLIENT_LIMITS) for level in result.levels):
        yield "The client was the limit at some levels: a replica may handle more than was measured."
