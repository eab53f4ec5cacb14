"""Files uploaded with the form, stored in the store, where runs read them."""

import os
import re
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.writing import writing
from inferometer.store.private import ensure_folder, make_folder, open_file

MOST_NAME = 80
_ODD = re.compile(r"[^\w.+-]+", re.ASCII)


def folder_of(store: Path) -> Path:
    return store / "uploads"


def plain_name(name: str) -> str:
    """The name without characters that are special to a file system, a shell or a pattern."""
    found = _ODD.sub("-", name.replace("\\", "/").rpartition("/")[2]).strip(".-")[-MOST_NAME:]
    if not found:
        raise UsageError(f"'{name}' is not a valid file name", remedy="rename the file")
    return found


async def keep(store: Path, name: str, body: AsyncIterator[bytes]) -> Path:
    """Write the file piece by piece; remove it if the upload is incomplete."""
    place = folder_of(store) / secrets.token_hex(4) / plain_name(name)
    with writing(place):
        ensure_folder(folder_of(store))
        make_folder(place.parent)
        try:
            with open(open_file(place, os.O_WRONLY | os.O_EXCL), "wb") as file:
                async for piece in body:
                    file.write(piece)
        except BaseException:
            place.unlink(missing_ok=True)
            os.rmdir(place.parent)
            raise
    return place
