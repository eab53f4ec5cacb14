"""Parse the output and the CSV of a perf_analyzer, ours or the real one, into figures by name."""

import csv
import io
import re
from collections.abc import Iterator, Mapping

Figures = dict[str, float]

_BLOCK = re.compile(r"^  (Client|Server): $")
_MEMBER = re.compile(r"^ +(\S+), version: (\S+)$")
_LINE = re.compile(r"^ +([A-Za-z][\w /]*?): ([\d.e+]+)(?: (?:usec|infer/sec))?(?: \((.*)\))? ?$")
_PART = re.compile(r"([a-z(][a-z()/ ]*?) (\d+) usec|([\d.e+]+) (seq/sec)")


def printed_figures(stdout: str) -> Figures:
    """Figures of the last level, named by their block, ensemble member, and parent figure."""
    figures: Figures = {}
    block = ""
    for line in stdout.splitlines():
        if found := _BLOCK.match(line):
            block = found[1]
            if block == "Client":
                figures.clear()
        elif not line.startswith(" "):
            block = block if not line else ""
        elif block and (found := _MEMBER.match(line)):
            block = f"Server {found[1]}"
        elif block and (found := _LINE.match(line)):
            figures.update(_line(f"{block}: {found[1]}", found[2], found[3] or ""))
    return figures


def _line(name: str, value: str, parts: str) -> Iterator[tuple[str, float]]:
    yield name, float(value)
    for part in _PART.finditer(parts):
        yield f"{name}, {part[1] or part[4]}", float(part[2] or part[3])


def csv_figures(text: str) -> Figures:
    """Figures of the last row; cells that are not numbers are left out."""
    rows = list(csv.DictReader(io.StringIO(text)))
    return (
        {f"CSV: {name}": float(cell) for name, cell in rows[-1].items() if _is_number(cell)} if rows else {}
    )


def _is_number(cell: object) -> bool:
    return isinstance(cell, str) and re.fullmatch(r"[\d.]+(e[+-]\d+)?", cell) is not None


def duration_s(figures: Mapping[str, float], batch: int) -> float:
    """Measured time, computed from throughput and count."""
    rate = figures.get("Client: Throughput", 0.0)
    return figures.get("Client: Request count", 0.0) * batch / rate if rate else 0.0
