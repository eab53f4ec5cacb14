"""A column that grows: long runs must not be held twice."""

from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Kind = TypeVar("Kind", bound=np.generic)

BLOCK = 1 << 20


class Growing(Generic[Kind]):
    """Values are copied into large blocks, which the system takes back one by one when they are gathered."""

    __slots__ = ("_blocks", "_filled", "_kind")

    def __init__(self, kind: type[Kind]) -> None:
        self._kind = kind
        self._blocks: list[NDArray[Kind]] = []
        self._filled = BLOCK  # values in the last block

    def append(self, values: NDArray[Kind]) -> None:
        while len(values):
            if self._filled == BLOCK:
                self._blocks.append(np.empty(BLOCK, dtype=self._kind))
                self._filled = 0
            part, values = values[: BLOCK - self._filled], values[BLOCK - self._filled :]
            self._blocks[-1][self._filled : self._filled + len(part)] = part
            self._filled += len(part)

    def gather(self) -> NDArray[Kind]:
        """All values as one array; the column is empty afterwards."""
        whole = np.empty(len(self._blocks) * BLOCK - (BLOCK - self._filled), dtype=self._kind)
        while self._blocks:
            start = (len(self._blocks) - 1) * BLOCK
            part = whole[start : start + BLOCK]
            part[:] = self._blocks.pop()[: len(part)]
        self._filled = BLOCK
        return whole
