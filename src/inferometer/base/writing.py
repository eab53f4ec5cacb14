"""What stands in the way of writing a file, said in a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inferometer.base.errors import LocalError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around whatever writes `path`: a full disk or a missing right becomes an error that names it."""
    try:
        yield
    except OSError as error:
        raise LocalError(
            f"'{path}' could not be written: {error.strerror or error}",
            remedy="check the folder and the space left",
        ) from error
