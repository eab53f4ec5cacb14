"""The loads of a diagnosis, for any kind of server."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from inferometer.base.errors import PeerError

if TYPE_CHECKING:
    from inferometer.measure.prepare import Setup
    from inferometer.stats.watcher import Watcher

LEVELS = (1, 2, 4, 8)
GROWING = 0.1  # relative growth of throughput per doubling from which it has not saturated


def planned(wanted: Sequence[int] | None, most: int, rates: Callable[[], Sequence[float]]) -> Iterator[int]:
    """Yield the given loads; without any, yield doubling loads as long as `rates`, the measured throughputs, grow."""
    if wanted is not None:
        yield from wanted
        return
    yield from LEVELS
    load = LEVELS[-1]
    while load < most and len(seen := rates()) > 1 and seen[-1] > seen[-2] * (1 + GROWING):
        load *= 2
        yield load


def announce(setup: "Setup", wanted: Sequence[int] | None, watcher: "Watcher") -> None:
    for message in setup.messages:
        watcher.said(message)
    watcher.prepared(setup.result.effective)
    watcher.planned(len(LEVELS if wanted is None else wanted), None)


def nothing_measured(model: str) -> PeerError:
    return PeerError(
        f"no request to '{model}' succeeded, so there is nothing to diagnose",
        remedy=f"run `inferometer measure -m {model}` to see the failures",
    )
