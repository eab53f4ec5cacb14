"""Run a command on a pseudo-terminal and record its screens; supports the sequences that our output uses."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass, field

from rich.cells import cell_len

_TOKEN = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])|(\r\n?|\n)|([^\x1b\r\n]+)|(.)", re.DOTALL)
DEADLINE_S = 120


@dataclass
class Screen:
    """Rows of text; the screen never scrolls, as rows are added below without limit."""

    columns: int
    rows: list[str] = field(default_factory=lambda: [""])
    row: int = 0
    column: int = 0
    widest: int = 0
    is_cursor_shown: bool = True
    styles: set[str] = field(default_factory=set)

    def write(self, text: str) -> None:
        for private, numbers, letter, end, plain, other in _TOKEN.findall(text):
            if plain:
                self._put(plain)
            elif end:
                self.column = 0
                self._go(self.row + end.count("\n"))
            elif letter:
                self._obey(private, numbers, letter)
            else:
                raise AssertionError(f"an escape sequence that is not known: {other!r}")

    def _put(self, text: str) -> None:
        old = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = old[: self.column] + text + old[self.column + len(text) :]
        self.column += len(text)
        self.widest = max(self.widest, cell_len(self.rows[self.row]))

    def _go(self, row: int) -> None:
        self.row = max(0, row)
        self.rows += [""] * (self.row + 1 - len(self.rows))

    def _obey(self, private: str, numbers: str, letter: str) -> None:
        if private:
            if numbers == "25":
                self.is_cursor_shown = letter == "h"
        elif letter == "A":
            self._go(self.row - int(numbers or 1))
        elif letter == "K":
            self.rows[self.row] = "" if numbers == "2" else self.rows[self.row][: self.column]
        elif letter == "m":
            self.styles.add(numbers)
        else:
            raise AssertionError(f"an escape sequence that is not known: {numbers}{letter}")

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).rstrip()


@dataclass(frozen=True)
class Seen:
    """A finished command: its exit code, all screens during the run, and the last one."""

    code: int
    shots: tuple[str, ...]
    screen: Screen

    @property
    def last(self) -> str:
        return self.screen.text


def on_terminal(
    words: list[str], *, columns: int = 100, rows: int = 40, interrupt_at: str = "", **environment: str
) -> Seen:
    """Run `inferometer` with these arguments; press Ctrl-C when the screen first shows `interrupt_at`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    before = termios.tcgetattr(slave)
    # Size and colours of this terminal, not of the one that the tests run on.
    own = {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", "COLUMNS": "", "LINES": "", "NO_COLOR": ""}
    wanted = {**os.environ, **own, **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "inferometer.cli.main", *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={name: value for name, value in wanted.items() if value},
    )
    screen, shots = Screen(columns), list[str]()
    is_pressed = not interrupt_at
    deadline = time.monotonic() + DEADLINE_S
    os.set_blocking(master, False)
    rest = b""
    try:
        while True:
            is_over = process.poll() is not None
            try:
                rest += os.read(master, 65536)
            except BlockingIOError:
                if is_over:
                    break
                assert time.monotonic() < deadline, screen.text
                time.sleep(0.02)
                continue
            text, rest = _whole(rest)
            screen.write(text)
            shots.append(screen.text)
            if not is_pressed and interrupt_at in shots[-1]:
                process.send_signal(signal.SIGINT)
                is_pressed = True
        assert termios.tcgetattr(slave) == before
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)
    return Seen(process.returncode, tuple(shots), screen)


def _whole(data: bytes) -> tuple[str, bytes]:
    """Split the data after the last complete character and escape sequence."""
    cut = len(data)
    escape = data.rfind(b"\x1b")
    if escape >= 0 and not re.match(rb"\x1b\[\??[\d;]*[A-Za-z]", data[escape:]):
        cut = escape
    if data[:cut].endswith(b"\r"):
        cut -= 1
    while True:
        try:
            return data[:cut].decode(), data[cut:]
        except UnicodeDecodeError:
            cut -= 1
