"""Parts that the specifications of scenarios share: strict models, times, and errors with a place."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from inferometer.base.errors import InferometerError, PeerError, UsageError
from inferometer.base.units import NS_PER_S, parse_duration_ns

SEVERAL = "several"  # type of an error with several mistakes


class Strict(BaseModel):
    """A part of a scenario; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def seconds(value: Any) -> float:
    """Parse a duration; a plain number means seconds, and 1:30 minutes and seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and (clock := re.fullmatch(r"(?:(\d+):)?(\d+):([0-5]\d)", value)) is not None:
        hours, minutes, rest = (int(part or 0) for part in clock.groups())
        return float(3600 * hours + 60 * minutes + rest)
    try:
        return parse_duration_ns(str(value), "for") / NS_PER_S
    except (UsageError, OverflowError) as error:
        raise ValueError(f"'{value}' is not a time; write it like 30s or 5m") from error


def located(where: str, said: str, remedy: str = "") -> PydanticCustomError:
    """Return an error located below the validated element."""
    return PydanticCustomError("at", "{said}", {"at": where, "said": said, "remedy": remedy})


def all_located(found: Sequence[tuple[str, str] | tuple[str, str, str]]) -> PydanticCustomError:
    """Return one error for several mistakes below the validated element, each with its place, text and optional
    remedy."""
    return PydanticCustomError(SEVERAL, "{count} mistakes", {"count": len(found), "found": list(found)})


def parsed_by(parse: Callable[[str], object]) -> AfterValidator:
    """Return a validator of texts that a parser must accept."""

    def checked(text: str) -> str:
        try:
            parse(text)
        except UsageError as error:
            raise located("", error.message, error.remedy) from error
        return text

    return AfterValidator(checked)


def raise_all(errors: Sequence[InferometerError], count: str = "mistakes") -> None:
    """Raise one error for all mistakes, if there are any."""
    if not errors:
        return
    if len(errors) == 1:
        raise errors[0]
    said = [error.message + (f" ({error.remedy})" if error.remedy else "") for error in errors]
    kind = UsageError if all(isinstance(error, UsageError) for error in errors) else PeerError
    raise kind(
        f"{len(errors)} {count}: {'; '.join(said)}", remedy="correct them in the scenario"
    ) from errors[0]
