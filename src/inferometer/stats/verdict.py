"""The rule by which every command claims an effect: shown, not shown, or inconclusive.

An effect is *shown* when its whole interval lies beyond the limit. It is *not shown* when the interval rules out every
effect that matters; a figure whose measurement was too short to show a change does not qualify. Everything
else is *inconclusive*, and the verdict carries the effect that the data could have shown.

Percentages are changes of a ratio, so widths are compared on a logarithmic scale.
"""

import math
from typing import Literal

from inferometer.base.frozen import frozen
from inferometer.stats.estimate import Estimate

Ruling = Literal["shown", "not shown", "inconclusive"]
SHOWN: Ruling = "shown"
NOT_SHOWN: Ruling = "not shown"
INCONCLUSIVE: Ruling = "inconclusive"

EXIT_INCONCLUSIVE = 5  # `compare` and `gate` use 2, as documented since their first release
MATTERS_PERCENT = 10.0  # the smallest difference that a comparison must be able to show
LARGEST_ERROR = 0.2  # largest relative half-width of an interval at which the figure is precise
MOST = 999_999.0  # the largest end of a wide interval that is printed, in percent
WIDEST = 10.0  # ratio of the interval's ends beyond which they are not worth printing
MOST_LONGER = 100  # multiple of the measured time beyond which advice is a guess


@frozen
class ClaimVerdict:
    """A ruling, with the smallest effect that data of this precision can show, in the unit of the estimate."""

    ruling: Ruling
    detectable: float | None = None  # None: no interval, so nothing can be shown


def rule(
    found: Estimate,
    *,
    limit: float = 0.0,
    matters: float = 0.0,
    is_above: bool = True,
    detectable: float | None = None,
) -> ClaimVerdict:
    """Rule whether an effect lies beyond a limit; `matters` is how far beyond it must be to be of interest.

    `detectable` is the effect that would be shown, if a stricter test than the interval decides that.
    """
    if found.limits is None or any(map(math.isnan, found.limits)):
        return ClaimVerdict(INCONCLUSIVE)
    sign = 1.0 if is_above else -1.0
    near, far = sorted(sign * (end - limit) for end in found.limits)
    power = (far - near) / 2 if detectable is None else abs(detectable)
    if near > 0:
        return ClaimVerdict(SHOWN, power)
    is_powerful = detectable is None or power <= matters
    is_ruled_out = math.isfinite(near) and (far < matters or (far == matters == 0))
    return ClaimVerdict(NOT_SHOWN if is_ruled_out and is_powerful else INCONCLUSIVE, power)


def rule_either_way(percent: Estimate, matters: float = MATTERS_PERCENT) -> ClaimVerdict:
    """Rule whether a change in percent differs from zero in either direction."""
    both = [rule(percent, matters=matters, is_above=is_above) for is_above in (True, False)]
    return min(both, key=lambda verdict: (SHOWN, INCONCLUSIVE, NOT_SHOWN).index(verdict.ruling))


def is_precise(found: Estimate) -> bool:
    """Return whether a figure is precise enough to be reported without reservation."""
    half = found.relative_half_width
    return half is not None and half <= LARGEST_ERROR


def times_longer(percent: Estimate, matters: float = MATTERS_PERCENT) -> float | None:
    """Return how many times longer to measure until an effect that matters would show; None if unknown.

    The width of an interval shrinks with the square root of the time.
    """
    if percent.limits is None or is_too_wide(percent):
        return None
    low, high = (math.log1p(end / 100) for end in percent.limits)
    times = ((high - low) / 2 / math.log1p(matters / 100)) ** 2
    return times if 1 < times <= MOST_LONGER else None


# --- changes in percent as text


def is_too_wide(percent: Estimate) -> bool:
    """Return whether the ends of an interval are too far apart to be informative."""
    if percent.limits is None:
        return False
    low, high = percent.limits
    return not math.isfinite(high) or low <= -100 or (100 + high) / (100 + low) > WIDEST


def percent_words(percent: Estimate) -> str:
    """Format a change: `+3.1 % (+1.9 to +4.4)`."""
    words = f"{signed(percent.value)} %"
    if percent.limits is None:
        return words
    if is_too_wide(percent) or percent.limits[1] > MOST:
        return _wide_words(percent)
    return f"{words} ({' to '.join(map(signed, percent.limits))})"


def _wide_words(percent: Estimate) -> str:
    """Format a wide interval by its known end, if it lies on one side of zero."""
    low, high = percent.limits or (0.0, 0.0)
    if low > 0:
        return f"{signed(min(low, MOST))} % or more"
    if high < 0:
        return f"{signed(high)} % or less"
    return f"inconclusive ({_TOO_WIDE})"


_TOO_WIDE = f"interval wider than a factor of {WIDEST:.0f}"


def wide_words(percent: Estimate) -> str | None:
    """Describe an interval on both sides of zero that is too wide to be informative; None for any other."""
    low, high = percent.limits or (0.0, 0.0)
    return _TOO_WIDE if (is_too_wide(percent) or high > MOST) and low <= 0 <= high else None


def signed(value: float) -> str:
    """Format with sign and one decimal: `+3.1`, `-0.4`, `+1,200`."""
    places = 0 if abs(value) >= 99.95 else 1
    return f"{value:+,.{places}f}" if abs(value) >= 0.05 else "0.0"
