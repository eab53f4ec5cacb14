"""Files of the user, whole and in lines."""

from pathlib import Path

from inferometer.base.errors import UsageError


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the data file {path}: {error.strerror or error}") from None


def split_lines(data: bytes) -> list[bytes]:
    """The lines without their ends, which may be those of Windows; the last one needs none."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        del lines[-1]
    return [line.removesuffix(b"\r") for line in lines]
