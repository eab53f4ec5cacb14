"""Detect whether a file was opened: inotify(7) also reports opens by C libraries and other processes."""

import ctypes
import os
from pathlib import Path
from types import TracebackType
from typing import Self

_IN_OPEN = 0x20
_libc = ctypes.CDLL(None, use_errno=True)


class Opens:
    """Watch files and folders while the block lasts."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    def __enter__(self) -> Self:
        self._queue = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._queue >= 0
        for path in self._paths:
            assert _libc.inotify_add_watch(self._queue, os.fsencode(path), _IN_OPEN) >= 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._queue)

    def any(self) -> bool:
        """Whether any of them was opened since the last call."""
        try:
            return bool(os.read(self._queue, 1 << 16))
        except BlockingIOError:
            return False
