"""Prometheus text format of server metrics: lines of the form `name{label="text",...} value [time]`."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class MetricLine(NamedTuple):
    """One line of metrics."""

    name: str
    labels: Mapping[str, str]
    value: float


_MOST = 2.0**63

# Possessive: no backtracking, however many blanks and braces a line has.
_NAME = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*+)\s*+")
_REST = re.compile(r"\s*+(\S++)(?:\s++-?[0-9]++)?\s*+")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*+)\s*+=\s*+"((?:[^"\\]|\\.)*+)"')
_ESCAPE = re.compile(r"\\(.)")


def metric_lines(text: str) -> Iterator[MetricLine]:
    """Yield every line with a number; skip comments, broken lines, NaN and values that no counter can have."""
    return filter(None, map(_maybe_reading, text.split("\n")))


def _maybe_reading(line: str) -> MetricLine | None:
    name = _NAME.match(line)
    if name is None:
        return None
    begin, end = name.end(), name.end()
    if line[begin : begin + 1] == "{":
        end = line.rfind("}") + 1
    elif begin == name.end(1):  # no space between name and value
        return None
    rest = _REST.fullmatch(line, end) if end >= begin else None
    if rest is None:
        return None
    try:
        value = float(rest[1])
    except ValueError:
        return None
    if not abs(value) < _MOST:
        return None
    return MetricLine(name[1], _labels(line[begin:end]), value)


def _labels(text: str) -> dict[str, str]:
    return {
        name: _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], value)
        for name, value in _LABEL.findall(text)
    }
