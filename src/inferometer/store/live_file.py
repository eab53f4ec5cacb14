"""The file behind the live page of a run, with one JSON object per line."""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from inferometer.store.private import open_file


class LiveFile:
    """A file of lines that others read while it is written."""

    def __init__(self, path: Path, warn: Callable[[Exception], None]) -> None:
        self._path = path
        self._warn = warn
        self._file: int | None = None
        self._is_broken = False

    def tell(self, line: Mapping[str, Any]) -> None:
        if self._is_broken:
            return
        text = json.dumps({**line, "at": round(time.time(), 3)}, separators=(",", ":"), allow_nan=False)
        try:
            if self._file is None:
                self._file = open_file(self._path, os.O_WRONLY | os.O_APPEND)
            data = f"{text}\n".encode()
            if os.write(self._file, data) < len(data):  # an incomplete line would spoil the next one
                self._is_broken = True
        except OSError as error:
            self._is_broken = True
            self._warn(error)

    def end(self, code: int) -> None:
        """Write the last line and remove the file; open readers still see it."""
        self.tell({"kind": "end", "code": code})
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._path.unlink(missing_ok=True)
