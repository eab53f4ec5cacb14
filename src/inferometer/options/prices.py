"""Prices of replicas, as options take them."""

import re
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.options.values import Values, invalid

_PRICE = re.compile(r"(?:(?P<name>[^=]+)=)?(?P<number>\d+(?:\.\d+)?|\.\d+)(?:/(?P<unit>h|hour|d|day|month))?")
_HOURS = {"h": 1.0, "hour": 1.0, "d": 24.0, "day": 24.0, "month": 730.0}


def _check(name: str, value: Any) -> None:
    is_pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
    if not is_pair or not isinstance(value[1], int | float) or not 0 < value[1] < float("inf"):
        raise UsageError(
            f"{name} is {value!r}",
            remedy="give a price such as '2.50/h', or pairs of an option's name and a price",
        )


def read_price(name: str, word: str) -> tuple[str, float]:
    """Return the option's name, empty if none is given, and the price per hour: `2.50/h`, `a100=1800/month`."""
    found = _PRICE.fullmatch(word.strip())
    if found is None or float(found["number"]) == 0:
        raise invalid(name, word, "write a price above 0 such as 2.50/h, or NAME=2.50/h for one of --options")
    return (found["name"] or "").strip(), float(found["number"]) / _HOURS[found["unit"] or "h"]


price = Values(read_price, "[NAME=]PRICE", check=_check)
