"""Visits: requests of one user, each of which may depend on earlier answers. Objects that a visit yields and receives.

A visit is a generator. It yields calls and receives the answer to each as the value of the `yield`; it may also yield
pauses.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from inferometer.base.errors import UsageError
from inferometer.model.spec import Tensor

LONGEST_PAUSE_S = 24 * 3600.0


class Call(NamedTuple):
    """A request for the named step, with values for its inputs, or with a JSON body."""

    step: str
    inputs: Mapping[str, Any] = {}
    body: Any = None


class Pause(NamedTuple):
    """A delay between the last answer and the next request."""

    seconds: float


def call(step: str, inputs: Mapping[str, Any] | None = None, *, body: Any = None) -> Call:
    """Request this step. Values are numbers or texts, in lists or arrays, or taken from an earlier answer."""
    return Call(step, inputs or {}, body)


def pause(seconds: float) -> Pause:
    """Pause for this long before the next request."""
    if not 0 <= seconds <= LONGEST_PAUSE_S:
        raise UsageError(
            f"a pause of {seconds} s is out of range",
            remedy=f"use 0 to {LONGEST_PAUSE_S:.0f} seconds, such as 0.2",
        )
    return Pause(seconds)


class VisitAnswer(Mapping[str, Any]):
    """The outputs of a model by name: numpy arrays without the batch dimension; texts are bytes."""

    __slots__ = ("_tensors",)

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors

    def __getitem__(self, name: str) -> Any:
        import numpy as np

        from inferometer.model.numbers import decode, values

        tensor = self.tensor(name)
        if tensor.datatype == "BYTES":
            found = np.array(decode("BYTES", tensor.data), dtype=object)
        else:
            found = values(tensor.datatype, tensor.data)
        return found.reshape(tensor.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def tensor(self, name: str) -> Tensor:
        """Return an output as received, to be sent on without decoding."""
        if name not in self._tensors:
            known = ", ".join(f"'{each}'" for each in self._tensors) or "none"
            raise LookupError(f"the answer has no output '{name}', only {known}")
        return self._tensors[name]
