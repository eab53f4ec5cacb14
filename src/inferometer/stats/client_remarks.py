"""Clients of a level that stand out, and the remarks on them."""

from collections.abc import Iterator, Sequence

from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS, duration, rough, share
from inferometer.stats.clients import ClientFigures, LostClient
from inferometer.stats.doubts import BUSY, LATE_SHARE

FEWEST = 50  # requests of a client whose minimum latency is meaningful
FAR = 1.5  # multiple of the other clients' minimum,
FAR_NS = NS_PER_MS // 5  # and at least this far above it
UNSURE = 0.1  # share of the median latency: a clock that may be off by more


def client_remarks_by_name(
    clients: Sequence[ClientFigures], *, is_open: bool, is_capped: bool = False, asked: int | None = None
) -> Iterator[Remark]:
    """Yield remarks on clients that were lost, are the limit, are far away, or have an imprecise clock.

    `is_capped`: the user's options make requests wait before they are sent. `asked`: the requested number of requests,
    if any.
    """
    for client in clients:
        if client.lost is not None:
            yield _lost_remark(client, client.lost)
    if asked is not None and any(client.lost is not None for client in clients):
        yield from _shortfall(clients, asked)
    for client in clients:
        limit = _limit_words(client, is_capped=is_capped)
        if limit and len(clients) > 1:
            yield Remark(Note.CLIENT_BUSY, f"{client.title} is the limit: {limit}")
    yield from _far_away(clients)
    for client in clients:
        words = _clock_words(client, is_open=is_open)
        if words:
            yield Remark(Note.CLIENT_CLOCK, words)


def _lost_remark(client: ClientFigures, lost: LostClient) -> Remark:
    if lost.after_s < 0:
        words = "was lost before this level was measured"
        return Remark(
            Note.FEWER_CLIENTS, f"{client.title} {words}: {lost.why}; the other clients sent its share"
        )
    effect = (
        "the other clients have sent its share since then" if lost.is_taken_over else "its share is missing"
    )
    text = f"{client.title} was lost {lost.after_s:.1f} s into the level: {lost.why}; {effect}"
    return Remark(Note.CLIENT_LOST, f"{text}; {_unknown(lost)}")


def _unknown(lost: LostClient) -> str:
    """Report which requests of a lost client no figure includes, although the server may have answered them."""
    since = f"in the {rough(lost.silent_s)} s before that" if lost.silent_s else "after its last report"
    if not lost.outstanding:
        return f"requests that it sent {since} are missing from all figures"
    were = "request that was" if lost.outstanding == 1 else "requests that were"
    still = f"the {lost.outstanding:,} {were} outstanding then"
    return f"requests that it sent {since} and {still} are missing from all figures"


def _shortfall(clients: Sequence[ClientFigures], asked: int) -> Iterator[Remark]:
    """Remark on requests missing from a level with a fixed count."""
    counted = sum(client.request_count + client.failed_count for client in clients)
    if counted < asked:
        text = (
            f"{counted:,} of {asked:,} requests are in the figures; the other {asked - counted:,} were not sent, "
            "or were lost with a client, although the server may have answered them"
        )
        yield Remark(Note.CLIENT_LOST, text)


def _limit_words(client: ClientFigures, *, is_capped: bool) -> str:
    if client.cpu_share > BUSY:
        return f"its busiest worker used {share(client.cpu_share)} of a core"
    if client.own_cpu_share > BUSY:
        return f"the process that coordinates its workers used {share(client.own_cpu_share)} of a core"
    if not is_capped and client.lag_p50_ns > max(NS_PER_MS, LATE_SHARE * client.percentile_ns(50)):
        return f"it sent half of its requests more than {duration(client.lag_p50_ns)} late"
    return ""


def _far_away(clients: Sequence[ClientFigures]) -> Iterator[Remark]:
    from statistics import median

    known = [client for client in clients if client.request_count >= FEWEST and client.floor_ns]
    for client in known:
        others = [other.floor_ns for other in known if other is not client]
        if not others:
            return
        usual_ns = median(others)
        if client.floor_ns > FAR * usual_ns and client.floor_ns - usual_ns > FAR_NS:
            text = f"{client.title} is far away: its fastest answer took {duration(client.floor_ns)}"
            yield Remark(Note.CLIENT_FAR, f"{text}, that of the others {duration(usual_ns)}")


def _clock_words(client: ClientFigures, *, is_open: bool) -> str:
    clock, latency_ns = client.clock, client.percentile_ns(50)
    if clock.jumps:
        times = "once" if clock.jumps == 1 else f"{clock.jumps} times"
        return f"the clock of {client.title} jumped {times}"
    if is_open and latency_ns and clock.uncertainty_ns > UNSURE * latency_ns:
        return (
            f"the clock of {client.title} is known only to within {duration(clock.uncertainty_ns)}, "
            f"while its latency is {duration(latency_ns)}"
        )
    return ""
