"""Parts that the specifications of scenarios share: strict models, times, and errors with a place."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S, parse_duration_ns

SEVERAL = "several"  # type of an error with several mistakes


class Strict(BaseModel):
    """A part of a scenario; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def seconds(value: Any) -> float:
    """Parse a duration; a plain number means seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return parse_duration_ns(str(value), "for") / NS_PER_S
    except (UsageError, OverflowError) as error:
        raise ValueError(f"'{value}' is not a time; write it like 30s or 5m") from error


def located(where: str, said: str) -> PydanticCustomError:
    """Return an error located below the validated element."""
    return PydanticCustomError("at", "{said}", {"at": where, "said": said})


def all_located(found: Sequence[tuple[str, str]]) -> PydanticCustomError:
    """Return one error for several mistakes below the validated element, as pairs of place and text."""
    return PydanticCustomError(SEVERAL, "{count} mistakes", {"count": len(found), "found": list(found)})
