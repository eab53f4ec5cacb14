"""Section on the phases of connections and requests, and on the share of the network."""

from collections.abc import Iterator

from inferometer.report.document import Column, Message, Messages, Section, Table, Tone
from inferometer.report.format import NONE, duration, level_label, plural, share
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import NetworkFigures, PhaseTimes, RequestPhases
from inferometer.stats.measurement import Level, Measurement
from inferometer.stats.result import Result, best, measured

_COLUMNS = (
    Column("Phase", is_number=False),
    Column("First request of a connection"),
    Column("Later requests"),
)
_SCOPE = (
    "A round trip is the minimum time that a request and its reply spend on the network, as measured by TCP "
    "handshakes with the host that accepts the connections: what lies behind a proxy or load balancer counts as "
    "the server's time."
)


def network_section(result: Result, *, is_detail: bool = True, value: float | None = None) -> Section | None:
    """The phases at the level with this load, else at the best one; None if they are unknown."""
    found = next((row for row in measured(result) if row[0].value == value), None) or best(result)
    if found is None or found[0].network is None:
        return None
    level, measurement = found
    network = found[0].network
    sentence = network_sentence(network, measurement)
    lead = _SCOPE if network.share is not None else ""
    table = Table("Medians of the phases", _COLUMNS, tuple(_rows(network)), is_detail=True)
    message = Messages((Message(sentence, tone=Tone.PLAIN),), is_detail=is_detail)
    return Section("network", f"Network at {_label(level)}", lead, (message, table))


def _label(level: Level) -> str:
    return level_label(level.mode, level.value)


def network_sentence(network: NetworkFigures, measurement: Measurement) -> str:
    """State the share of the network in the median latency, or why it is unknown."""
    if network.is_local:
        return "The server runs on this machine: there is no network in the latency."
    trip, p50 = network.round_trip, dict(measurement.latency_intervals).get("p50")
    opened = plural(network.connections, "connection")
    if network.share is None or p50 is None:
        return (
            f"The share of the network in the latency is unknown: a round trip took {duration(trip.value)} "
            f"({opened}), more than the median request."
        )
    few = "" if network.share.limits is not None else f"; {opened}, too few for an interval"
    return (
        f"The network is {_interval(network.share)} of the p50 latency: a round trip takes {duration(trip.value)}, "
        f"the p50 is {duration(p50.value)}{few}."
    )


def _interval(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return f"about {share(found.value)}"
    return f"{share(found.value)} (95 % interval {share(found.low)} to {share(found.high)})"


def _rows(network: NetworkFigures) -> Iterator[tuple[str, ...]]:
    yield "Name resolution, once per client process", duration(network.resolve_ns), NONE
    yield "TCP connect", _spread(network.connect), NONE
    if network.tls is not None:
        yield "TLS handshake", _spread(network.tls), NONE
    for name, field in (
        ("Request sent", "send_ns"),
        ("First byte", "wait_ns"),
        ("Last byte", "receive_ns"),
    ):
        yield name, _phase(network.first, field), _phase(network.later, field)
    source = "" if network.round_trip_source == "kernel" else ", by the time to connect"
    least = f"{duration(network.round_trip.value)} (least {duration(network.least_round_trip_ns)}{source})"
    yield "Round trip of the path", least, NONE


def _spread(found: PhaseTimes) -> str:
    if found.min_ns == found.max_ns:
        return duration(found.p50_ns)
    return f"{duration(found.p50_ns)} ({duration(found.min_ns)} to {duration(found.max_ns)})"


def _phase(found: RequestPhases | None, field: str) -> str:
    return NONE if found is None else duration(getattr(found, field))
