"""The self-test's own processes: started, asked, stopped; none outlives its context."""

import contextlib
import json
import select
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from inferometer.base.errors import LocalError
from inferometer.selftest.behaviour import Behaviour

ANSWER_S = 15.0


class Child:
    """A process that says hello with a line of JSON and answers each line with another."""

    hello: dict[str, Any]

    def __init__(self, module: str, *words: str) -> None:
        self._module = module
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Child":
        command = [sys.executable, "-m", f"inferometer.selftest.{self._module}", *self._words]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.hello = self._read()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def ask(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer that never comes tells
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process is not None
        out = self._process.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], ANSWER_S)
        line = out.readline() if ready else b""
        if not line:
            raise LocalError(
                f"the self-test's process '{self._module}' does not answer",
                remedy="this machine may be out of memory or far too busy",
            )
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What a built-in server has done since it started."""

    now_ns: int
    cpu_ns: int
    requests: int
    late_ns: int  # the most by which a freeze lasted longer than its pattern says
    arrivals_ns: list[int]  # since the last report


class NullServer(Child):
    """A built-in server on a port of loopback."""

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__("null_server", behaviour.to_json())

    def __enter__(self) -> "NullServer":
        super().__enter__()
        return self

    @property
    def port(self) -> int:
        return int(self.hello["port"])

    def report(self) -> ServerReport:
        return ServerReport(**self.ask())
