"""Reasons for imprecise figures, each a pure check of windows or latencies, tried in order.

The order is client-limited, too few samples for this percentile, periodic stalls, drift, bimodal, and otherwise too few
samples.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US, duration, rough, share
from inferometer.stats.ends import Groups
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.intervals import student_t
from inferometer.stats.machine_figures import CoreUse, HostUse
from inferometer.stats.measurement import Doubt, Measurement, WindowFigures
from inferometer.stats.series import BINS_PER_OCTAVE

MEAN = "mean latency"
TOKENS = "tokens/s"
BUSY = 0.9  # share of a core above which a worker counts as the limit
RUN_QUEUE_SHARE = 0.3  # share of its runnable time that this tool waited for a core
RUN_QUEUE_FELT = 0.1  # share of the median latency that such a wait may be
RUN_QUEUE_NS = NS_PER_MS // 10  # waits up to this length never count as a limit
STARVED = 0.3  # cores that streams needed and did not get
LATE_SHARE = 0.1  # share of the median latency, or time to first response, that may be our own lateness
SLOW = 5  # times the median: a request that hit a stall
MOST_SLOW = 0.1  # share of request groups that hit a stall
FEWEST_STALLS = 4
REGULAR = {3: 0.05, 4: 0.12, 5: 0.18}  # largest relative spread of periods, by their number,
REGULAR_ENOUGH = 0.2  # and for more of them: 0.9 % of samples with stalls at random times pass
SHORT_STALL = 0.25  # of the period: the longest burst of slow requests
FEWEST_WINDOWS = 6
TREND = 0.5  # share of the variance that a straight line explains
ORDER_SURE = 0.999  # and the order of the windows must be one that chance gives in 0.2 % of independent ones
LEAST_DRIFT = 0.05
LEAST_MODE = 0.05  # share of the requests
FAR_MODES = 1.5  # times
VALLEY = 0.25  # of the lower peak
CLEAR = 4.0  # standard deviations between the counts of a peak and a valley
LEAST_STEP = 0.8  # of the distance between two modes, from a fast request to the slow one that ends next
LEAST_MIXED = 0.05  # of the changes between slow and fast requests that an independent order would have
# Multiple of the measured time: beyond it, individual events determine the width, and the square-root law fails.
MOST_LONGER = 60


@frozen
class DoubtEvidence:
    """Data about a level whose figures are imprecise."""

    windows: Sequence[WindowFigures]
    found: Measurement
    name: str  # of the judged latency, such as "p99 latency"
    latency: Estimate
    ends: Groups  # of all requests
    slow: Groups  # see `slow_requests`
    precision: float | None  # as requested; None with the classic rule
    is_capped: bool  # by rate, with a limit on outstanding requests
    host: HostUse | None = None  # use of this machine's cores
    is_queue: bool = False  # latency moves with a queue whose length varies by chance


def explain(evidence: DoubtEvidence) -> Doubt:
    """Return the most likely reason, with the course of the least precise figure."""
    kind, text = _reason(evidence)
    name, values = courses(evidence.windows)[0]
    rate, latency = _rate(evidence).relative_half_width, evidence.latency.relative_half_width
    if _is_by_tokens(evidence) or (latency is not None and (rate is None or rate > latency)):
        return Doubt(kind, text, name, sparkline(values))
    return Doubt(kind, text, evidence.name, sparkline([float(row.latency_ns) for row in evidence.windows]))


def _is_by_tokens(evidence: DoubtEvidence) -> bool:
    """Return whether tokens/s decide the precision of the level."""
    return evidence.name == MEAN and courses(evidence.windows)[0][0] == TOKENS


def _rate(evidence: DoubtEvidence) -> Estimate:
    tokens = evidence.found.tokens
    if tokens is None or tokens.output_interval is None or not _is_by_tokens(evidence):
        return evidence.found.infer_per_s
    return tokens.output_interval


def _reason(evidence: DoubtEvidence) -> tuple[str, str]:
    found = evidence.found
    limit = client_limit(found, is_capped=evidence.is_capped, host=evidence.host)
    if limit is not None:
        return "client-limited", limit.text
    moving = moving_figure(evidence.windows, is_queue=evidence.is_queue)
    if _is_by_tokens(evidence):
        return ("varies", _longer(evidence)) if moving is None else (moving.kind, moving.text)
    if evidence.latency.low is None and moving is not None:  # the reason why there is no interval
        return moving.kind, moving.text
    if evidence.latency.low is None:
        return "too few samples", f"{found.request_count:,} requests are too few for the {evidence.name}"
    period_s = stall_period_s(evidence.slow)
    if period_s is not None:
        return "periodic stalls", f"requests take more than {SLOW} times the median every {rough(period_s)} s"
    if moving is not None:
        return moving.kind, moving.text
    modes = two_modes(found.latency)
    if modes is not None and are_mixed(evidence.ends, modes):
        return "bimodal", (
            f"{share(modes.share)} of the requests take about {duration(modes.high_ns)}, "
            f"the others {duration(modes.low_ns)}"
        )
    return "too few samples", _longer(evidence)


def moving_figure(windows: Sequence[WindowFigures], *, is_queue: bool = False) -> Doubt | None:
    """Return a doubt if throughput or latency drifts over the level, even if its mean is precise. A latency that only
    shows the length of a queue does not count."""
    for name, values in courses(windows):
        change = None if is_queue and name == "latency" else drift(values)
        if change is not None:
            way = "up" if change > 0 else "down"
            text = (
                f"{name} goes {way} by {share(abs(change))} from the first to the last quarter of the level"
            )
            return Doubt("drift", text, name, sparkline(values))
    return None


def courses(windows: Sequence[WindowFigures]) -> tuple[tuple[str, list[float]], ...]:
    """Return the figures by window that show whether a level is steady.

    A closed load on a text server has few ends per window, but tokens in all of them.
    """
    rates = ("throughput", [row.infer_per_s for row in windows])
    if windows and all(row.due_count is None and row.output_tokens for row in windows):
        return ((TOKENS, [row.output_tokens * NS_PER_S / row.duration_ns for row in windows]),)
    return rates, ("latency", [float(row.latency_ns) for row in windows])


def _longer(evidence: DoubtEvidence) -> str:
    """Estimate how much longer to measure: the width of an interval shrinks with the square root of the time."""
    latency = None if _is_by_tokens(evidence) else evidence.latency.relative_half_width
    widths = (_rate(evidence).relative_half_width, latency)
    width = max((each for each in widths if each is not None), default=None)
    if width is None or evidence.precision is None or not 0 < evidence.precision < width:
        return "the figures vary from window to window"
    times = (width / evidence.precision) ** 2
    if times > MOST_LONGER:
        return "the figures vary too much from window to window for a longer measurement to help"
    needed_s = evidence.found.duration_ns / NS_PER_S * times
    return f"about {float(f'{needed_s:.2g}'):,.0f} s of measurement would be enough"


class ClientLimit(NamedTuple):
    """The way in which this tool, rather than the server, limits the figures."""

    text: str
    is_starved: bool = False  # other processes used the cores it needed, so more workers do not help


def client_limit(
    found: Measurement, *, is_capped: bool = False, host: HostUse | None = None
) -> ClientLimit | None:
    """Return the client's limit; None if it kept up. `host` describes the use of its cores."""
    client, ours = found.client, None if host is None else host.senders
    if client.cpu_share > BUSY:
        return ClientLimit(f"client-limited: the busiest worker used {share(client.cpu_share)} of a core")
    median_ns = found.latency.percentile_ns(50)
    is_short = ours is not None and _waiting_part(ours) >= RUN_QUEUE_SHARE
    holder = _holder(host) if is_short else ""
    if not is_capped and client.lag_p50_ns > max(NS_PER_MS, LATE_SHARE * median_ns):
        late = f"half of the requests were sent more than {duration(client.lag_p50_ns)} late"
        return ClientLimit(f"client-limited: {late}{holder}", is_short)
    waited = run_queue_share(found, ours)
    if waited is not None:
        text = f"client-limited: this tool waited in the run queue for a core {waited}"
        return ClientLimit(f"{text}{holder}", is_starved=True)
    # A stream continues by itself: data read late seems to arrive late, and the next request is sent late. If each
    # request waits for a reply instead, the server waits for us.
    if found.streaming is not None and found.streaming.gaps.count:
        first_ns = found.streaming.first.percentile_ns(50)
        if client.loop_lag_p50_ns > max(NS_PER_MS, LATE_SHARE * first_ns):
            late = f"{duration(client.loop_lag_p50_ns)} behind in reading responses at least half of the time"
            return ClientLimit(f"client-limited: this tool was {late}{holder}", is_short)
        if ours is not None and ours.waiting > STARVED and ours.cores + ours.waiting > BUSY * client.workers:
            waited = f"this tool waited for a core {share(_waiting_part(ours))} of the time it needed one"
            return ClientLimit(f"client-limited: {waited}{holder}", is_starved=True)
    return None


def _waiting_part(ours: CoreUse) -> float:
    """Return the share of its runnable time that this tool spent waiting for a core."""
    needed = ours.cores + ours.waiting
    return ours.waiting / needed if needed > 0 else 0.0


def _holder(host: HostUse | None) -> str:
    """Return a clause that names the main user of the cores that this tool waited for; empty if unknown."""
    if host is None or host.others is None:
        return ""
    users = (
        (host.others, "other programs"),
        (host.server or 0.0, "the server"),
        (host.ours.cores, "this tool"),
    )
    cores, name = max(users)
    return f"; {name} used {rough(cores)} of the machine's {host.cores} cores"


def run_queue_share(found: Measurement, ours: CoreUse | None) -> str | None:
    """Describe how long this tool waited for a core, if latencies contain these waits; None otherwise.

    A reply stays in the socket until its reader has a core, which counts as latency. One wait delays every reply that
    arrives meanwhile, so latencies contain the mean wait, not the waits per request.
    """
    if ours is None or ours.waiting <= 0 or ours.runs <= 0 or not found.request_count:
        return None
    each_ns = ours.waiting / ours.runs * NS_PER_S
    part = _waiting_part(ours)
    is_felt = each_ns > max(RUN_QUEUE_NS, RUN_QUEUE_FELT * found.latency.percentile_ns(50))
    # By rate, a backlog makes latencies long, so that waits seem short beside them.
    is_behind = found.client.lag_p99_ns > 0 and ours.cores + ours.waiting > BUSY * found.client.workers
    if part < RUN_QUEUE_SHARE or not (is_felt or is_behind):
        return None
    return f"{share(part)} of the time that it needed one, {duration(each_ns)} at a time"


def slow_requests(ends: Groups, median_ns: int) -> Groups:
    """Return the requests that took far longer than the median; none if most groups contain some."""
    slow = ends.slowest_ns > SLOW * median_ns
    if not ends.is_exact and float(slow.mean()) > MOST_SLOW:
        slow[:] = False
    return Groups(ends.last_us[slow], ends.counts[slow], ends.slowest_ns[slow])


def stall_period_s(slow: Groups) -> float | None:
    """Return the time between stalls, if slow requests come in short bursts at regular times.

    Splitting at long gaps makes any sample look regular, and few gaps are similar by chance. The limits are calibrated
    on independent slow requests: for 4 to 400 of them at most 1 % of the samples pass (`make trust` reports the rates).
    Slow requests that fill most of the time end at regular times by their length alone, so the pauses between stalls
    must be regular too.
    """
    ends_us = slow.last_us
    if len(ends_us) < FEWEST_STALLS:
        return None
    gaps = np.diff(ends_us)
    # Gaps within a burst are far shorter than between bursts: split at half the longest.
    places = np.flatnonzero(np.concatenate(([True], gaps > gaps.max() / 2)))
    starts, last = ends_us[places], ends_us[np.append(places[1:] - 1, len(ends_us) - 1)]
    if len(starts) < FEWEST_STALLS:
        return None
    periods = np.diff(starts)
    if float((last - starts).max()) > SHORT_STALL * float(periods.mean()):
        return None
    begins = np.minimum.reduceat(ends_us - slow.slowest_ns // NS_PER_US, places)
    if not (_is_regular(periods) and _is_regular(begins[1:] - last[:-1])):
        return None
    return float(periods.mean()) * NS_PER_US / NS_PER_S


def _is_regular(times: NDArray[np.int64]) -> bool:
    """Return whether these positive times differ no more than the limit calibrated for their number."""
    return float(times.std()) <= REGULAR.get(len(times), REGULAR_ENOUGH) * float(times.mean())


def drift(values: Sequence[float]) -> float | None:
    """Return the relative change of a series from its first to its last quarter, if a straight line explains most of
    its course; at least -1."""
    series = np.asarray(values, dtype=np.float64)
    count, centre = len(series), float(series.mean()) if len(series) else 0.0
    if count < FEWEST_WINDOWS or centre <= 0:
        return None
    times = np.arange(count) - (count - 1) / 2
    deviations = series - centre
    slope = float(times @ deviations) / float(times @ times)
    squares = float(deviations @ deviations)
    is_trend = slope * slope * float(times @ times) >= TREND * squares and _has_order(times, series)
    few = max(1, count // 4)
    first, last = float(series[:few].mean()), float(series[-few:].mean())
    if not is_trend or first <= 0:
        return None
    change = last / first - 1
    return change if abs(change) >= LEAST_DRIFT and change * slope > 0 else None


def _has_order(times: NDArray[np.float64], series: NDArray[np.float64]) -> bool:
    """Return whether values go up or down by more than chance, by Student's t of their rank correlation with time. A
    straight line through a few windows explains much of their variance by chance."""
    _, places, counts = np.unique(series, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # equal values share the mean of their ranks
    ranks -= ranks.mean()
    explained = float(times @ ranks) ** 2
    whole = float(times @ times) * float(ranks @ ranks)
    return explained >= _least_order(len(series)) * whole > 0


@cache
def _least_order(count: int) -> float:
    square = student_t(ORDER_SURE, count - 2) ** 2
    return square / (square + count - 2)


class Modes(NamedTuple):
    """Two kinds of requests: the latency of each, and the share of the slow kind."""

    low_ns: float
    high_ns: float
    share: float


def two_modes(latency: Distribution) -> Modes | None:
    """Return two modes if the histogram has two peaks with a valley between them, each with a fair share of the
    requests."""
    if len(latency.histogram) < 2:
        return None
    bins = np.array([round(math.log2(bound) * BINS_PER_OCTAVE) for bound, _ in latency.histogram])
    counts = np.zeros(bins[-1] - bins[0] + 1)
    np.add.at(counts, bins - bins[0], [count for _, count in latency.histogram])
    if len(counts) < 3:  # no room for a valley between two peaks
        return None
    split = _valley(np.convolve(counts, np.ones(3), mode="same"), counts)
    if split is None:
        return None
    centres = 2.0 ** ((bins[0] + np.arange(len(counts)) - 0.5) / BINS_PER_OCTAVE)
    low, high = counts[:split], counts[split:]
    low_ns = float(centres[:split] @ low / low.sum())
    high_ns = float(centres[split:] @ high / high.sum())
    if high_ns < FAR_MODES * low_ns:
        return None
    return Modes(low_ns, high_ns, float(high.sum() / counts.sum()))


def are_mixed(ends: Groups, modes: Modes) -> bool:
    """Return whether both kinds of requests alternate in time, rather than the server being slow for a while.

    In a busy queue, latencies have two peaks by chance, but they change gradually: by less than one service time from
    one request to the next. Between two kinds, they jump.
    """
    slow = ends.slowest_ns > math.sqrt(modes.low_ns * modes.high_ns)
    if not ends.is_exact:
        return _are_spread(float(slow.mean()), modes.share, float(ends.counts.mean()))
    part = float(slow.mean()) if len(slow) else 0.0
    changes = slow[1:] != slow[:-1]
    if not changes.any() or float(changes.mean()) < LEAST_MIXED * 2 * part * (1 - part):
        return False
    rises = np.diff(ends.slowest_ns)[changes & slow[1:]]
    return len(rises) > 0 and float(np.median(rises)) >= LEAST_STEP * (modes.high_ns - modes.low_ns)


def _are_spread(groups: float, part: float, size: float) -> bool:
    """Return whether the share of groups with slow requests is closer to that of an independent order than to that of
    one long run of them."""
    independent: float = 1 - (1 - part) ** size
    return groups - part >= (independent - part) / 2


def _valley(near: NDArray[np.float64], counts: NDArray[np.float64]) -> int | None:
    """Return the deepest place between two peaks, relative to the lower one; `near` also counts neighbouring bins.

    With few requests per bin, some bins are nearly empty by chance: those are not valleys.
    """
    left, right = np.maximum.accumulate(near), np.maximum.accumulate(near[::-1])[::-1]
    hill = np.minimum(left, right)
    depth = near / np.maximum(hill, 1e-9)
    depth[hill - near < CLEAR * np.sqrt(np.maximum(hill + near, 1))] = 1.0
    shares = np.cumsum(counts) / counts.sum()
    inside = (shares >= LEAST_MODE) & (shares <= 1 - LEAST_MODE)
    if not inside.any():
        return None
    place = int(np.argmin(np.where(inside, depth, np.inf)))
    return place + 1 if depth[place] <= VALLEY else None


# --- sparklines

BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 40


def sparkline(values: Sequence[float]) -> str:
    """Draw values from lowest to highest as bars; long series are averaged to fit."""
    if not len(values):
        return ""
    parts = np.array_split(np.asarray(values, dtype=np.float64), min(len(values), MOST_BARS))
    points = np.array([part.mean() for part in parts])
    spread = float(points.max() - points.min())
    if spread == 0:
        return BARS[0] * len(points)
    return "".join(BARS[round(float(point - points.min()) / spread * (len(BARS) - 1))] for point in points)
