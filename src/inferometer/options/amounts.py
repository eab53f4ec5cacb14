"""Large amounts as people write them: `2M` requests per second, `64kB`, `10Gbit`."""

import math
import re
from collections.abc import Mapping
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.options.values import Values, plain_rate

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
