"""Options of `find` alone, and the options of a measurement that it does not support."""

from collections.abc import Mapping

from inferometer.base.frozen import frozen
from inferometer.base.slo import Slo
from inferometer.options.groups import CHECKS, ENDINGS, LEVEL_ACTIONS, OTHER_LOADS, OWN_LOADS, THINKING
from inferometer.options.option import option, ours
from inferometer.options.outputs import inconclusive_allowed
from inferometer.options.values import above_zero, choice, duration, objective

FIND_REFUSED: Mapping[str, str] = {
    **dict.fromkeys((*OTHER_LOADS, "concurrency"), f"{OWN_LOADS}: see {{--by}} and {{--start}}"),
    **dict.fromkeys(
        ENDINGS, "the SLO determines how long a load is measured; {--duration} limits the whole search"
    ),
    **dict.fromkeys(
        ("warmup_s", "warmup_request_count"), "warm up the server first with a short `inferometer measure`"
    ),
    **dict.fromkeys(("ramp_s", *LEVEL_ACTIONS, *THINKING, *CHECKS), "use it with `inferometer measure`"),
    "max_error_rate": "make it part of the SLO, such as 'p99<50ms, errors<1%'",
}


@frozen
class FindOptions:
    """Options of `find` alone."""

    slo: Slo = option(
        "--slo",
        "SLO to meet, such as 'p99<50ms, errors<0.1%'",
        objective(),
        group="Search",
        is_required=True,
        is_main=True,
    )
    by: str = option(
        "--by",
        "Load to raise: rate or concurrency",
        choice("WHAT", "rate", "concurrency"),
        default="rate",
        is_main=True,
    )
    allow_inconclusive: bool = inconclusive_allowed()
    start: float | None = option(
        "--start",
        "First load to try (default: estimated from a short probe)",
        above_zero("VALUE", "rate or a concurrency", "give the first load to try, such as 100"),
        is_main=True,
    )
    duration_s: float = ours(
        "-d --duration",
        "Time for the whole search, such as 90s or 2m",
        duration(zero=False),
        default=60.0,
        shown="1m",
        is_main=True,
    )
