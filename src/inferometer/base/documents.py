"""JSON that somebody else wrote: a document, or a ValueError, and nothing else.

What Python's own reader lets through and later code stumbles over is refused or mended here: NaN and infinities,
integers that no float can hold, nesting without end, halves of surrogate pairs.
"""

import json
import math
from typing import Any

from inferometer.base.text import encodable

DEEPEST = 64
_LONGEST = 38  # digits, far below the largest float


def decode(text: bytes | bytearray | str) -> Any:
    """The document; a lone surrogate in a text becomes U+FFFD, as no encoding has it."""
    try:
        return _mended(
            json.loads(text, parse_constant=_refuse, parse_float=_fraction, parse_int=_integer), DEEPEST
        )
    except RecursionError:
        raise _too_deep() from None


def _mended(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, (dict, list)) and not depth:
        raise _too_deep()
    if isinstance(value, dict):
        return {encodable(name): _mended(part, depth - 1) for name, part in value.items()}
    if isinstance(value, list):
        return [_mended(part, depth - 1) for part in value]
    return value


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {DEEPEST} deep")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _fraction(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits[:20]} is too large")
    return value


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST:
        raise ValueError(f"the number {digits[:20]}... has more than {_LONGEST} digits")
    return int(digits)
