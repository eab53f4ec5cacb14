"""A combination of options that is refused, as a row of a table.

Rules see what was asked as a mapping from field to value that holds only what was given, so that a command line can
be checked before `Options` are made of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Asked = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """A combination that is refused, and the sentence that says so."""

    broken: Callable[[Asked], bool]
    message: str
    is_classic: bool = False  # a habit of the classic dialect: only its script is held to it


def is_grpc(asked: Asked) -> bool:
    return bool(asked.get("protocol") == "grpc")


def is_async(asked: Asked) -> bool:
    return "asynchronous" in asked or "streaming" in asked


def names_data(asked: Asked) -> bool:
    """Whether a file or a directory of data was given."""
    return any(source not in ("zero", "random") for source in asked.get("data.sources", ()))
