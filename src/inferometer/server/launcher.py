"""Start any server by its command line, once for each set of values, and stop it with everything that it started.

    values -> words, environment, files -> process under a guard -> ready, or the reason why not

The guard (`guard.py`) ends the server if its owner is killed. Every start writes its own log, which is kept.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from inferometer.base.confined import check_command
from inferometer.base.errors import PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import DESCRIPTION, read_text
from inferometer.base.text import printable
from inferometer.base.threads import users_environment
from inferometer.base.writing import write_file
from inferometer.options.names import option_name
from inferometer.server.guard import GRACE_S
from inferometer.server.guarded import MEMORY_WORDS, GuardedProcess, last_lines
from inferometer.server.ports import LOOPBACK, free_ports, is_free
from inferometer.server.ready import ReadyCheck
from inferometer.server.set_call import SetCall
from inferometer.server.template import (
    FOLDER,
    PORT,
    filled,
    filled_file,
    filled_words,
    is_built_in,
    is_port,
    names_in,
)

STUBBORN_GRACE_S = 1.0  # for a server that has ignored SIGTERM before
_LINES = 4  # of a log, in the reason for a failed start
_SEARCHED_LINES = 200  # for a message about memory, which other messages may follow


class StartError(PeerError):
    """A server that did not start; the message has the last lines of its log."""


@frozen
class ServerCommand:
    """A server and how to start it. Texts may have placeholders (`template.py`)."""

    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    files: tuple[
        tuple[str, Path], ...
    ] = ()  # templates, by the placeholder for the path of the rendered file
    address: str = f"http://{LOOPBACK}:{{port}}"  # where requests are sent
    host: str = LOOPBACK  # of the address
    port: int | None = None  # of the address; None: the value of {port}
    ready: ReadyCheck = field(default_factory=ReadyCheck)
    start_s: float = 120.0  # time limit of a start, and of the calls that set values
    calls: tuple[SetCall, ...] = ()  # that set values on the running server, in this order
    logs: Path = Path("inferometer-logs")

    @property
    def texts(self) -> Iterator[str]:
        """All texts that may have placeholders, except the contents of files."""
        yield from self._fixed_texts
        for call in self.calls:
            yield from call.texts

    @property
    def _fixed_texts(self) -> Iterator[str]:
        """The texts that do not change while the server is running."""
        yield from self.words
        yield from (value for _, value in self.environment)
        yield self.address

    @property
    def used(self) -> tuple[str, ...]:
        """The placeholders of values that the user varies."""
        texts = [*self.texts, *(read_template(path) for _, path in self.files)]
        own = {name for name, _ in self.files}
        return tuple(name for name in names_in(texts) if not is_built_in(name) and name not in own)

    @property
    def live(self) -> frozenset[str]:
        """The placeholders of values that can be set on a running server."""
        texts = [*self._fixed_texts, *(read_template(path) for _, path in self.files)]
        return frozenset(self.used) - frozenset(names_in(texts))

    def line(self, values: Mapping[str, Any]) -> str:
        """Return the command line with these values, for a user to run; placeholders such as `{port}` remain."""
        known = self._with_places(values)
        variables = [f"{name}={shlex.quote(filled(text, known))}" for name, text in self.environment]
        line = " ".join((*variables, shlex.join(filled_words(self.words, known))))
        return re.sub(r"'(\{\w+\})'", r"\1", line)

    def call_lines(self, values: Mapping[str, Any]) -> list[str]:
        """Return the commands that set these values on the running server."""
        return [call.line(self._with_places(values)) for call in self.calls]

    def _with_places(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**{name: f"{{{name}}}" for name in names_in(self.texts)}, **values}


def read_template(path: Path) -> str:
    return read_text(path, DESCRIPTION, "the template", remedy=f"check {option_name('--serve-file')}")


def find_program(words: tuple[str, ...]) -> Path:
    """Return the program of a command."""
    found = shutil.which(words[0])
    if found is None:
        raise UsageError(
            f"{option_name('--serve')}: '{words[0]}' is not an executable program",
            remedy="check its name and the PATH; shell syntax needs a shell: sh -c '...'",
        )
    return Path(found).absolute()


class LaunchedServer:
    """A server that is started again for each set of values."""

    def __init__(self, command: ServerCommand, *, grace_s: float = GRACE_S) -> None:
        self.command = command
        self.address = ""
        self._program = find_program(command.words)
        self._guarded: GuardedProcess | None = None
        self._places: Mapping[str, Any] = {}  # ports and files of the running server
        self._values: Mapping[str, Any] | None = (
            None  # that the running server has; None if that is not known
        )
        self._grace_s = grace_s  # between SIGTERM and SIGKILL

    @property
    def pid(self) -> int | None:
        return self._guarded.process.pid if self._guarded is not None and self.is_running() else None

    def start(self, values: Mapping[str, Any], log: Path) -> None:
        """Start the server with these values; return when it is ready, raise StartError if it is not."""
        check_command(option_name("--serve"))
        command = self.command
        guarded = GuardedProcess("server", log)
        ports = self._ports()
        self._places = {
            **ports,
            FOLDER: guarded.runtime,
            **{name: guarded.runtime / path.name for name, path in command.files},
        }
        known = {**values, **self._places}
        self.address = filled(command.address, known)
        words = list(filled_words(command.words, known))
        environment = {name: filled(text, known) for name, text in command.environment}
        with guarded.starting([str(self._program), *words[1:]], {**users_environment(), **environment}):
            guarded.runtime.mkdir(mode=0o700)
            for name, path in command.files:
                write_file(known[name], filled_file(read_template(path), known))
            guarded.open_log()
        self._guarded = guarded
        port = ports[PORT] if command.port is None else command.port
        try:
            reason = guarded.wait_until(
                lambda: command.ready.is_met(command.host, port, log) and self.is_running(), command.start_s
            )
        except BaseException:
            self.stop()
            raise
        if reason:
            if reason.endswith("SIGKILL instead of starting"):
                reason += " (the kernel does that when the machine is out of memory)"
            elif "exited" not in reason:
                reason += f" (check: {command.ready})"
            self.stop()
            raise StartError(f"the server {reason}{_quoted(log)}; see its log {log}")
        try:
            self.set(values)
        except BaseException:
            self.stop()
            raise

    def can_set(self, values: Mapping[str, Any]) -> bool:
        """Return whether the running server can get these values without a restart."""
        held = self._values
        return (
            held is not None
            and self.is_running()
            and all(held[name] == value for name, value in values.items() if name not in self.command.live)
        )

    def set(self, values: Mapping[str, Any]) -> None:
        """Set these values on the running server. If a call fails, only a restart can set others."""
        self._values = None
        for call in self.command.calls:
            call.make({**values, **self._places}, self.command.start_s)
        self._values = values

    def _ports(self) -> dict[str, int]:
        """Return a free port for each placeholder; the fixed port of an address has to be free as well."""
        port = self.command.port
        if port is not None and self.command.host == LOOPBACK and not is_free(port):
            raise StartError(
                f"port {port} of {self.command.address} is used by another process",
                remedy="stop that process, or write {port} in its place to use a free one",
            )
        names = [name for name in names_in(self.command.texts) if is_port(name)]
        for path in (path for _, path in self.command.files):
            names += [name for name in names_in([read_template(path)]) if is_port(name)]
        names = list(dict.fromkeys([PORT, *names]))
        return dict(zip(names, free_ports(len(names)), strict=True))

    def is_running(self) -> bool:
        return self._guarded is not None and self._guarded.process.poll() is None

    def end_words(self) -> str:
        return "ended" if self._guarded is None else self._guarded.end_words()

    def stop(self) -> None:
        """Stop the server, if there is one, and everything that it started."""
        guarded, self._guarded, self._values = self._guarded, None, None
        if guarded is not None and not guarded.end(keep_log=True, grace_s=self._grace_s, is_group=True):
            self._grace_s = min(self._grace_s, STUBBORN_GRACE_S)


def _quoted(log: Path) -> str:
    """Return the lines of a log that explain a failed start: one about memory, if there is one, and the last ones."""
    lines = last_lines(log, _SEARCHED_LINES)
    shown = list(lines[-_LINES:])
    scarce = [line for line in lines if any(words in line.lower() for words in MEMORY_WORDS)]
    if scarce and scarce[-1] not in shown:
        shown.insert(0, scarce[-1])
    return "".join(f"; {printable(line)}" for line in shown) if shown else "; it logged nothing"


def new_log(folder: Path, name: str) -> Path:
    """Return a new file for the log of a start; the folder is created."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        numbers = [int(stem) for path in os.listdir(folder) if (stem := path.partition("-")[0]).isdecimal()]
    except OSError as error:
        raise UsageError(
            f"the folder of logs '{folder}' cannot be used: {error.strerror}",
            remedy=f"give another one with {option_name('--serve-logs')}",
        ) from error
    return folder / f"{max(numbers, default=0) + 1:03}-{name}.log"
