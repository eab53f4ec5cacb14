"""The inputs of a run: streams of steps, each step the tensors of one batch-1 request."""

from dataclasses import dataclass

from inferometer.model.spec import Tensor

Step = tuple[Tensor, ...]
Streams = tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, slots=True)
class Dataset:
    """`origin` is random, zero, json, directory or files. Generated steps repeat to fill a batch, given follow on.

    `expected` holds for every step the outputs that must come back; an empty step is not checked. The shape of
    an expected tensor is a guess where neither model nor data gives one: its bytes are what counts. `times_ms` are
    those of a fixed schedule, one for each step of stream 0.
    """

    origin: str
    streams: Streams
    expected: Streams | None = None
    times_ms: tuple[float, ...] | None = None

    @property
    def is_given(self) -> bool:
        return self.origin not in ("random", "zero")
