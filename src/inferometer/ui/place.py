"""The address of a store's browser interface: a small file in the store, readable only by its owner."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import KEY, read_regular
from inferometer.base.text import decode_json
from inferometer.store.private import open_file
from inferometer.store.process import is_alive, started

FILE = "ui.json"


@frozen
class UiPlace:
    """A listening server and its token."""

    url: str  # without a trailing slash
    token: str
    pid: int
    process_started: float

    def page(self, path: str = "/") -> str:
        """The address of a page, including the token."""
        return f"{self.url}{path}?token={self.token}"


def here(url: str, token: str) -> UiPlace:
    """The address of this process."""
    return UiPlace(url, token, os.getpid(), started(os.getpid()) or 0.0)


def write(store: Path, place: UiPlace) -> None:
    path = store / f"{FILE}.{place.pid}"
    path.unlink(missing_ok=True)
    descriptor = open_file(path, os.O_WRONLY | os.O_EXCL)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(place), file)
    path.replace(store / FILE)


def maybe_read(store: Path) -> UiPlace | None:
    """The server that is listening now; None if there is none."""
    try:
        found = _place(decode_json(read_regular(store / FILE, KEY, "the file")[0]))
    except (UsageError, ValueError, TypeError, LookupError, OverflowError):
        return None
    return found if is_alive(found.pid, found.process_started) else None


def _place(document: Any) -> UiPlace:
    return UiPlace(
        str(document["url"]),
        str(document["token"]),
        int(document["pid"]),
        float(document["process_started"]),
    )


def remove(store: Path, place: UiPlace) -> None:
    """Remove the file, unless another server has taken over."""
    if maybe_read(store) == place:
        (store / FILE).unlink(missing_ok=True)
