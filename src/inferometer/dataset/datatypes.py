"""Which datatypes data can be made for."""

from collections.abc import Sequence

from inferometer.base.errors import UsageError
from inferometer.model.datatypes import DATATYPES
from inferometer.model.spec import TensorSpec


def require_known_datatypes(model: str, noun: str, specs: Sequence[TensorSpec]) -> None:
    for spec in specs:
        if spec.datatype not in DATATYPES:
            raise UsageError(
                f"{noun} '{spec.name}' of model '{model}' has datatype '{spec.datatype}', which is not supported",
                remedy=f"supported are {', '.join(DATATYPES)}",
            )
