"""The unit of throughput: inferences, or requests if the server has no model or generates text.

Reports are written in inferences per second; `in_requests` renames them in a line or in all texts of a document.
"""

import dataclasses
import re
from typing import Any, TypeVar

from inferometer.options.effective import Effective

T = TypeVar("T")

_REQUEST_KINDS = ("http", "dynamic_grpc", "openai")  # service kinds whose requests are not inferences
_INFERENCES = re.compile(r"(?<![\w/])(?:(I)|i)nfer/s(?:ec)?(?![\w/])")  # but not inside a path


def counts_requests(effective: Effective) -> bool:
    """Whether the throughput counts requests rather than inferences, which come in batches."""
    return effective.service_kind in _REQUEST_KINDS


def batch_words(effective: Effective) -> str:
    """The batch size; empty if requests are counted."""
    return "" if counts_requests(effective) else f"batch {effective.batch}"


def in_requests(found: T) -> T:
    """Replace `infer/s` by `requests/s` in all texts."""
    renamed: Any = found
    if isinstance(found, str):
        renamed = _INFERENCES.sub(lambda match: f"{'R' if match[1] else 'r'}equests/s", found)
    elif isinstance(found, tuple):
        renamed = tuple(map(in_requests, found))
    elif dataclasses.is_dataclass(found) and not isinstance(found, type):
        parts = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
        renamed = dataclasses.replace(found, **{name: in_requests(part) for name, part in parts.items()})
    return renamed  # type: ignore[no-any-return]
