"""How a started server shows that it is ready: its port accepts connections, a path answers, or a line is logged."""

import http.client
import re
import socket
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen

_CALL_S = 1.0
_LOG = "log:"
TCP = "tcp"


@frozen
class ReadyCheck:
    """One check; without a path and a line, the port has to accept connections."""

    path: str = ""
    line: str = ""

    def __str__(self) -> str:
        return self.path or (f"{_LOG}{self.line}" if self.line else TCP)

    def is_met(self, host: str, port: int, log: Path) -> bool:
        if self.line:
            return _has_line(log, self.line)
        return _answers(host, port, self.path) if self.path else _accepts(host, port)


def parse_ready(name: str, word: str) -> ReadyCheck:
    """Parse `tcp`, `/PATH` or `log:TEXT`."""
    if word == TCP:
        return ReadyCheck()
    if re.fullmatch(r"/[!-~]*", word):
        return ReadyCheck(path=word)
    if word.startswith(_LOG) and word.removeprefix(_LOG).strip():
        return ReadyCheck(line=word.removeprefix(_LOG).strip())
    raise UsageError(
        f"{name} '{word}' is not a check", remedy="write a path such as /health, or tcp, or log:TEXT"
    )


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _CALL_S).close()
    except OSError:
        return False
    return True


def _answers(host: str, port: int, path: str) -> bool:
    """Return whether a GET of the path succeeds."""
    connection = http.client.HTTPConnection(host, port, timeout=_CALL_S)
    try:
        connection.request("GET", path)
        return 200 <= connection.getresponse().status < 300
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _has_line(log: Path, text: str) -> bool:
    try:
        with log.open("rb") as file:
            return any(text.encode() in line for line in file)
    except OSError:
        return False
