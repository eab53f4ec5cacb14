"""Whether a file was opened, by whom and however: inotify(7) also sees what C libraries and other processes open."""

import ctypes
import os
from pathlib import Path
from types import TracebackType
from typing import Self

_IN_OPEN = 0x20
_libc = ctypes.CDLL(None, use_errno=True)


class Opens:
    """Watches files and folders, from the start of the block on."""

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
        """Whether one of them was opened since the last call."""
        try:
            return bool(os.read(self._queue, 1 << 16))
        except BlockingIOError:
            return False
