"""Several models under load at the same time: one line of workers each, all for the same time."""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from inferometer.tune.launch.site import Site
from inferometer.tune.search.search import Effort, Proposal

if TYPE_CHECKING:
    from inferometer.stats.measurement import Level
    from inferometer.tune.meter import EngineMeter


def measure_together(
    meter: "EngineMeter", proposal: Proposal, site: Site, effort: Effort, *, is_fresh: bool
) -> "list[Level]":
    """Levels in the order of the parts; none stops early, or the others would have the server to themselves."""
    whole = Effort(effort.duration_s, precision=0.0)
    for variant, load in proposal.parts:
        meter.make_ready(variant.model, load, site, is_fresh=is_fresh)
    with ThreadPoolExecutor(len(proposal.parts)) as pool:
        running = [
            pool.submit(meter.level, variant.model, load, site, whole) for variant, load in proposal.parts
        ]
        return [future.result() for future in running]
