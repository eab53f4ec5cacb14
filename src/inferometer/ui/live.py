"""What a run says while it goes, for any number of browsers: one reader of its file, Server-Sent Events for each."""

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from time import monotonic
from typing import BinaryIO

POLL_S = 0.05  # a run writes five samples a second
ALIVE_S = 10.0  # a stream that is silent for longer is given up by what lies between
STATE_S = 1.0  # how often it is asked whether the process is still there
MOST_SAMPLES = 3000  # ten minutes of them; earlier ones are no longer drawn
MOST_LINE = 1 << 20
MOST_READ = 8 << 20  # bytes at once


class LiveLines:
    """The lines of a file that grows. All that watch it share one of these, and so one read of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        self._is_skipping = False  # the rest of a line that is too long
        self._lines: list[tuple[int, bytes, bool]] = []  # (number, line, whether it is a sample)
        self._count = 0
        self._samples = 0
        self._read_at_s = float("-inf")
        self.is_over = False  # the run removes its file when it has ended

    def since(self, number: int) -> tuple[int, list[bytes]]:
        """The lines after that number, and the number of the last."""
        self._read()
        found = []
        for own, line, _ in reversed(self._lines):
            if own <= number:
                break
            found.append(line)
        return self._count, found[::-1]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self) -> None:
        now_s = monotonic()
        if self.is_over or now_s - self._read_at_s < POLL_S / 2:
            return
        self._read_at_s = now_s
        is_there = self._path.exists()  # before the read: what was written until then is seen
        if self._file is None:
            if not is_there:
                return
            self._file = _maybe_opened(self._path)
            if self._file is None:
                return
        read = self._file.read(MOST_READ)
        *lines, self._rest = (self._rest + read).split(b"\n")
        if self._is_skipping and lines:
            self._is_skipping = False
            del lines[0]
        for line in lines:
            self._add(line)
        if len(self._rest) > MOST_LINE:
            self._rest, self._is_skipping = b"", True
        if not is_there and len(read) < MOST_READ:
            self.is_over = True
            self.close()

    def _add(self, line: bytes) -> None:
        if len(line) > MOST_LINE:
            return
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(found, dict):
            return
        is_sample = found.get("kind") == "sample"
        self._count += 1
        self._lines.append((self._count, line.replace(b"\r", b" "), is_sample))
        self._samples += is_sample
        if self._samples > 2 * MOST_SAMPLES:
            self._thin()

    def _thin(self) -> None:
        surplus = self._samples - MOST_SAMPLES
        kept = []
        for row in self._lines:
            if row[2] and surplus > 0:
                surplus -= 1
            else:
                kept.append(row)
        self._lines, self._samples = kept, MOST_SAMPLES


def _maybe_opened(path: Path) -> BinaryIO | None:
    """The file, unless it is gone, or a link, a pipe or a device that a store from elsewhere brought along."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return open(descriptor, "rb")


async def events(lines: LiveLines, state: Callable[[], str], *, after: int = 0) -> AsyncIterator[bytes]:
    """The stream of one browser: lines in batches, and at the end `over` with the state of the run. A stream that was
    broken goes on `after` the last line that arrived, which is the id of its event.

    `state` may read files, so it is asked in a thread.
    """
    seen, said_s, asked_s = after, monotonic(), float("-inf")
    while True:
        last, found = lines.since(seen)
        now_s = monotonic()
        if last > seen:
            seen, said_s = last, now_s
            yield b"".join((*(b"data: " + line + b"\n" for line in found), b"id: %d\n\n" % last))
        elif now_s - said_s > ALIVE_S:
            said_s = now_s
            yield b": still here\n\n"
        if lines.is_over or now_s - asked_s > STATE_S:
            asked_s = now_s
            if (now := await asyncio.to_thread(state)) != "running":
                yield b"event: over\ndata: " + now.encode() + b"\n\n"
                return
        await asyncio.sleep(POLL_S)
