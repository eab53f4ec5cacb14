"""One tensor as it travels: name, datatype, shape and raw little-endian bytes."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value for one input or output. BYTES elements are length-prefixed, as on the wire."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def elements(self) -> int:
        return math.prod(self.shape)
