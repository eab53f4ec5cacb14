"""Live lines of a run for any number of browsers: one reader for its file, Server-Sent Events for each browser."""

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from time import monotonic
from typing import BinaryIO

POLL_S = 0.05  # a run writes five samples a second
ALIVE_S = 10.0  # proxies close a stream that is silent for longer
STATE_S = 1.0  # how often to check whether the process is alive
MOST_SAMPLES = 3000  # ten minutes; earlier ones are no longer drawn
MOST_LINE = 1 << 20
MOST_READ = 8 << 20  # bytes per read


class LiveLines:
    """The lines of a growing file. All its viewers share one reader, and so one read of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        self._is_skipping = False  # inside a line that is too long
        self._lines: list[tuple[int, bytes, bool]] = []  # (number, line, whether it is a sample)
        self._count = 0
        self._samples = 0
        self._read_at_s = float("-inf")
        self.is_over = False  # the run removes its file when it ends

    def since(self, number: int) -> tuple[int, list[bytes]]:
        """The lines after a number, and the number of the last line."""
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
        is_there = self._path.exists()  # before reading, so that nothing written until then is missed
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
    """Open the file, unless it is gone, or a link, pipe or device from an untrusted store."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return open(descriptor, "rb")


async def events(lines: LiveLines, state: Callable[[], str], *, after: int = 0) -> AsyncIterator[bytes]:
    """The event stream of one browser: lines in batches, and finally `over` with the state of the run. An interrupted
    stream resumes `after` the last line that arrived, whose number is the event id.

    `state` may read files, so it runs in a thread.
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
