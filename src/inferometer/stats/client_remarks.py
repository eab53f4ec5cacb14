"""Which clients of a level stand out, and what is to be said of them."""

from collections.abc import Iterator, Sequence

from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS, duration, share
from inferometer.stats.clients import ClientFigures, LostClient
from inferometer.stats.doubts import BUSY, LATE_SHARE

FEWEST = 50  # requests of a client whose floor says something
FAR = 1.5  # times the floor of the others,
FAR_NS = NS_PER_MS // 5  # and at least so much above it
UNSURE = 0.1  # of the median latency: a clock that may be off by more


def client_remarks_by_name(
    clients: Sequence[ClientFigures], *, is_open: bool, is_capped: bool = False, asked: int | None = None
) -> Iterator[Remark]:
    """Those that were lost, that are the limit, that are far away, and whose clocks are not known well enough.

    `is_capped`: it was the user's choice that requests wait before they are sent. `asked`: how many requests the level
    was to have, where that was given."""
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
        return Remark(Note.FEWER_CLIENTS, f"{client.title} {words}: {lost.why}; the others sent its share")
    effect = "the others sent its share from then on" if lost.is_taken_over else "its share is missing"
    text = f"{client.title} was lost {lost.after_s:.1f} s into the level: {lost.why}; {effect}"
    if lost.outstanding:
        requests = "request" if lost.outstanding == 1 else "requests"
        text += f"; of its {lost.outstanding:,} outstanding {requests} nothing is known"
    return Remark(Note.CLIENT_LOST, text)


def _shortfall(clients: Sequence[ClientFigures], asked: int) -> Iterator[Remark]:
    """What is missing from the figures of a level that was to have so many requests."""
    counted = sum(client.request_count + client.failed_count for client in clients)
    if counted < asked:
        text = (
            f"{counted:,} of {asked:,} requests are in the figures; the other {asked - counted:,} were not sent, "
            "or a lost client did not report them, though the server may have answered them"
        )
        yield Remark(Note.CLIENT_LOST, text)


def _limit_words(client: ClientFigures, *, is_capped: bool) -> str:
    if client.cpu_share > BUSY:
        return f"its busiest worker used {share(client.cpu_share)} of a core"
    if client.own_cpu_share > BUSY:
        return f"the process that answers for its workers used {share(client.own_cpu_share)} of a core"
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
            text = (
                f"{client.title} is far away: none of its answers took less than {duration(client.floor_ns)}"
            )
            yield Remark(Note.CLIENT_FAR, f"{text}, those of the others {duration(usual_ns)}")


def _clock_words(client: ClientFigures, *, is_open: bool) -> str:
    clock, latency_ns = client.clock, client.percentile_ns(50)
    if clock.jumps:
        times = "once" if clock.jumps == 1 else f"{clock.jumps} times"
        return f"the clock of {client.title} jumped {times}"
    if is_open and latency_ns and clock.uncertainty_ns > UNSURE * latency_ns:
        return (
            f"the clock of {client.title} is known to {duration(clock.uncertainty_ns)}, "
            f"and its latency is {duration(latency_ns)}"
        )
    return ""
