"""Amounts with their units: `2M` requests per second, `64kB`, `10Gbit`, `2.50/h`."""

import math
import re
from collections.abc import Mapping
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.options.values import Values, invalid, plain_rate

_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) ?([A-Za-z]*)")
_COUNTS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_BYTES = {"": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_BITS = {"Mbit": 1e6, "Gbit": 1e9, "Tbit": 1e12}


def _amount(metavar: str, units: Mapping[str, float], noun: str, example: str, *, zero: bool) -> Values:
    known = {unit.lower(): factor for unit, factor in units.items()}

    def refusal(name: str, shown: object) -> UsageError:
        return UsageError(f"{name} needs {noun}, but got '{shown}'", remedy=f"write it like {example}")

    def read(name: str, word: str) -> float:
        match = _AMOUNT.fullmatch(plain_rate(word).strip() if units is _COUNTS else word.strip())
        if match is None or match[2].lower() not in known:
            raise refusal(name, word)
        found = float(match[1]) * known[match[2].lower()]
        if not math.isfinite(found) or (found == 0 and not zero):
            raise refusal(name, word)
        return found

    def check(name: str, value: Any) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf or (value == 0 and not zero):
            raise refusal(name, value)

    return Values(read, metavar, check=check)


per_second = _amount("RATE", _COUNTS, "a rate above 0", "20000, 250k or 2M", zero=False)
data_size = _amount("SIZE", _BYTES, "a number of bytes", "512, 64kB or 1MiB", zero=True)
bandwidth = _amount("BITS", _BITS, "a bandwidth with its unit", "10Gbit or 400Mbit", zero=False)


# --- prices of replicas

_PRICE = re.compile(r"(?:(?P<name>[^=]+)=)?(?P<number>\d+(?:\.\d+)?|\.\d+)(?:/(?P<unit>h|hour|d|day|month))?")
_HOURS = {"h": 1.0, "hour": 1.0, "d": 24.0, "day": 24.0, "month": 730.0}


def _check_price(name: str, value: Any) -> None:
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


price = Values(read_price, "[NAME=]PRICE", check=_check_price)
