"""What a tritonserver log says about a start that failed."""

import re
from collections.abc import Iterator

_LOGGED = re.compile(r"[EF]\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] +(?P<text>.*)")
_PORT = re.compile(r"failed to start (?P<service>\w+) service: .*?:(?P<port>\d+)' already in use")
_BARE = re.compile(
    r"error: |.*: unrecognized option|Unexpected argument|.*error while loading shared libraries|\[libprotobuf ERROR"
)
_HARMLESS = ("CudaDriverHelper", "NVML", "DCGM", "failed to load all models")
_MODEL = re.compile(r"[Ff]ailed to (load|poll)|Poll failed")
_MOST_LINES = 6


def ports_in_use(log: str) -> tuple[int, ...]:
    """The ports the server was refused because somebody else holds them."""
    return tuple(int(match["port"]) for match in _PORT.finditer(log))


def is_about_models(log: str) -> bool:
    """Whether the server gave up over the models it was given, not over itself."""
    return any(_MODEL.search(line) for line in _errors(log))


def telling_lines(log: str) -> tuple[str, ...]:
    """The few lines that say why the server gave up; the last ones where none is marked as an error."""
    errors = tuple(dict.fromkeys(_errors(log)))
    if errors:
        return errors[:_MOST_LINES]
    return tuple(line.strip() for line in log.splitlines() if line.strip())[-_MOST_LINES:]


def _errors(log: str) -> Iterator[str]:
    for line in log.splitlines():
        if any(word in line for word in _HARMLESS):
            continue
        logged = _LOGGED.match(line)
        if logged is not None:
            yield _plain(logged["text"])
        elif _BARE.match(line):
            yield line.rpartition("] ")[2].strip()


def _plain(text: str) -> str:
    # Triton logs a python traceback as one quoted line: the reason, then "At:" and the frames.
    lines = [part.strip() for part in text.strip('"').split("\\n") if part.strip()]
    if len(lines) > 2 and lines[1] == "At:":
        return f"{lines[0]} at {lines[2]}"
    return " ".join(lines[:2])
