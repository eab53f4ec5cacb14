"""What only `find` is asked, and what it has no use for."""

from collections.abc import Mapping

from inferometer.base.frozen import frozen
from inferometer.options.groups import ENDINGS, OTHER_LOADS, OWN_LOADS
from inferometer.options.option import option, ours
from inferometer.options.outputs import inconclusive_allowed
from inferometer.options.values import above_zero, choice, duration, label

FIND_REFUSED: Mapping[str, str] = {
    **dict.fromkeys((*OTHER_LOADS, "concurrency"), f"{OWN_LOADS}: --by says which, --start where"),
    **dict.fromkeys(
        ENDINGS, "the promise decides how long a load is measured; --duration is for the whole search"
    ),
    **dict.fromkeys(
        ("warmup_s", "warmup_request_count"), "warm the server up with a short `inferometer measure` before"
    ),
    "ramp_s": "use it with `inferometer measure`",
    "max_error_rate": "put it into the promise, such as 'p99<50ms, errors<1%'",
}


@frozen
class FindOptions:
    """What only `find` is asked."""

    slo: str = option(
        "--slo",
        "What to keep, such as 'p99<50ms, errors<0.1%'",
        label("PROMISE"),
        default="",
        group="Search",
        is_required=True,
        is_main=True,
    )
    by: str = option(
        "--by",
        "What to raise: rate or concurrency",
        choice("WHAT", "rate", "concurrency"),
        default="rate",
        is_main=True,
    )
    allow_inconclusive: bool = inconclusive_allowed()
    start: float | None = option(
        "--start",
        "The first to try (default: from a short look)",
        above_zero("VALUE", "rate or a concurrency", "give the first to try, such as 100"),
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
