"""Tensors in wire format, and the server's description of a model."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from inferometer.base.frozen import frozen


@frozen
class Tensor:
    """A value for one input or output. BYTES elements are length-prefixed, as on the wire."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@frozen
class TensorSpec:
    """An input or output: `shape` has no batch dimension; -1 means any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    optional: bool = False
    is_shape_tensor: bool = False

    @property
    def is_dynamic(self) -> bool:
        return any(dim < 0 for dim in self.shape)


ANY_BATCH = 2**31 - 1
"""Batch limit of a server without model configurations, which does not report one."""


@frozen
class ModelSpec:
    """A model with its composing models; inputs and outputs are sorted by name."""

    name: str
    version: str  # as requested; "" leaves the choice to the server
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch_size: int = 0
    is_ensemble: bool = False
    is_decoupled: bool = False
    is_sequence: bool = False
    has_cache: bool = False
    composing: tuple["ModelSpec", ...] = ()  # direct members, sorted by (name, version)
    is_plain: bool = False  # from a KServe v2 server without configurations: only metadata is known
    config: Mapping[str, Any] = field(default_factory=dict)  # as the server sent it

    def family(self) -> Iterator["ModelSpec"]:
        """Yield the model itself, then all its composing models."""
        yield self
        for member in self.composing:
            yield from member.family()

    @property
    def any_cache(self) -> bool:
        return any(model.has_cache for model in self.family())

    @property
    def any_sequence(self) -> bool:
        return any(model.is_sequence for model in self.family())
