"""Whether a reply holds what was expected: replies are opened only when this is asked for."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from inferometer.model.numbers import decode, values
from inferometer.model.spec import Tensor
from inferometer.services.traffic import Validation

FLOATS = ("FP16", "BF16", "FP32", "FP64")


class Checker:
    """Says what is wrong with a reply; decides beforehand whether it will be looked at."""

    def __init__(self, validation: Validation) -> None:
        self._validation = validation
        self._debt = 0.0

    def wants_next(self) -> bool:
        """Evenly spread over the requests, so that every step gets its turn."""
        self._debt += self._validation.share
        if self._debt < 1:
            return False
        self._debt -= 1
        return True

    def check(self, step: int, found: Mapping[str, bytes]) -> str:
        """The first difference in words; empty when there is none."""
        for tensor in self._validation.expected[step]:
            if tensor.name not in found:
                return f"output '{tensor.name}' is missing from the reply"
            if found[tensor.name] != tensor.data:
                difference = self._difference(tensor, found[tensor.name])
                if difference:
                    return f"Output doesn't match expected output: {difference}"
        return ""

    def _difference(self, tensor: Tensor, data: bytes) -> str:
        if tensor.datatype == "BYTES":
            return _string_difference(tensor, data)
        if len(data) != len(tensor.data):
            sizes = f"'{tensor.name}' has {len(data)} bytes, expected {len(tensor.data)}"
            return f"Output size doesn't match expected size: {sizes}"
        wanted, got = (values(tensor.datatype, raw) for raw in (tensor.data, data))
        wrong = wanted != got
        if tensor.datatype in FLOATS:
            wrong &= ~self._near(wanted.astype(np.float64), got.astype(np.float64))
        places = np.flatnonzero(wrong)
        if not len(places):
            return ""
        first = int(places[0])
        where = f"output '{tensor.name}' at index {first}"
        return f"{where}: expected {wanted[first].item()!r}, got {got[first].item()!r} ({len(places)} differ)"

    def _near(self, wanted: NDArray[np.float64], got: NDArray[np.float64]) -> NDArray[np.bool_]:
        limit = self._validation.tolerance + self._validation.relative * np.abs(wanted)
        near: NDArray[np.bool_] = (np.abs(wanted - got) <= limit) | (np.isnan(wanted) & np.isnan(got))
        return near


def _string_difference(tensor: Tensor, data: bytes) -> str:
    try:
        wanted, got = decode("BYTES", tensor.data), decode("BYTES", data)
    except ValueError as error:
        return f"output '{tensor.name}' cannot be read: {error}"
    if len(wanted) != len(got):
        return f"output '{tensor.name}' has {len(got)} elements, expected {len(wanted)}"
    for index, (one, other) in enumerate(zip(wanted, got, strict=True)):
        if one != other:
            return f"output '{tensor.name}' at index {index}: expected {one[:80]!r}, got {other[:80]!r}"
    return ""
