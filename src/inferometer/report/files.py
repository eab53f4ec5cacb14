"""Report files: known to be writable before the load starts, written when it is over."""

import os
import signal
from functools import partial
from pathlib import Path

from inferometer.base.answer_file import write
from inferometer.base.errors import UsageError
from inferometer.base.writing import Outputs, write_file
from inferometer.report.csv import composing_csvs, main_csv
from inferometer.stats.result import Result


def writable(path: Path) -> None:
    """Refuses a report file that could not be written later; changes nothing on the disk."""
    try:
        _try_to_write(path)
    except OSError as error:
        raise _refusal(path, error.strerror or str(error), "give another name") from error


def _try_to_write(path: Path) -> None:
    folder = path.parent
    if path.is_dir():
        raise _refusal(path, "it is a folder", "give the name of a file")
    if not folder.exists():
        raise _refusal(path, f"the folder '{folder}' does not exist", f"make it with: mkdir -p {folder}")
    if not folder.is_dir():
        raise _refusal(path, f"'{folder}' is not a folder", "give another name")
    _try_to_open(path.resolve())


def _refusal(path: Path, reason: str, remedy: str) -> UsageError:
    return UsageError(f"'{path}' cannot be written: {reason}", remedy=remedy)


def _try_to_open(target: Path) -> None:
    if target.exists():
        if target.is_file():  # opening a pipe or a device could wait for its reader, or take it away from it
            os.close(os.open(target, os.O_WRONLY | os.O_APPEND))
        return
    mask = signal.pthread_sigmask(
        signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM)
    )  # it would stay there empty
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        target.unlink()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def write_csv(result: Result, path: Path, *, with_tokens: bool = True) -> tuple[Path, ...]:
    """The main file and, beside it, one for each composing model; nothing when no level is reported."""
    text = main_csv(result, with_tokens=with_tokens)
    if not text:
        return ()
    files = [(path, text)]
    if path.is_file() or not path.exists():  # a pipe or a device has no neighbours
        files += [(path.with_name(prefix + path.name), part) for prefix, part in composing_csvs(result)]
    outputs = Outputs()
    for name, part in files:
        outputs.attempt(name, partial(write_file, name, part))
    outputs.settle()
    return tuple(name for name, _ in files)


def write_result(result: Result, name: str | None, outputs: Outputs) -> None:
    """The file with all figures, if one was asked for; a disk that is full now may have room after the next level."""
    if name is not None:
        outputs.attempt(Path(name), partial(write, result, Path(name)))
