"""A combination of options that is refused, as a row of a table.

Rules see what was given as a mapping from field to value that holds nothing else, so that a command line can be checked
before `Options` are made of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from inferometer.options.options import GENERATED

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """A combination that is refused, and the sentence that says so."""

    is_broken: Callable[[Given], bool]
    message: str


def is_grpc(given: Given) -> bool:
    return bool(given.get("protocol") == "grpc")


def is_async(given: Given) -> bool:
    return "asynchronous" in given or "streaming" in given


def names_data(given: Given) -> bool:
    """Whether a file or a directory of data was given."""
    return any(source not in GENERATED for source in given.get("data.sources", ()))
