"""The inputs of a run: streams of steps, each step the tensors of one batch-1 request."""

from dataclasses import dataclass

from inferometer.model.tensor import Tensor

Step = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Dataset:
    """`origin` is random, zero or json. Generated steps repeat to fill a batch, given ones follow on."""

    origin: str
    streams: tuple[tuple[Step, ...], ...]

    @property
    def is_given(self) -> bool:
        return self.origin not in ("random", "zero")
