"""Runs as arguments: a command that takes a saved file also takes the id of a run, or `last`."""

from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.options.names import option_name
from inferometer.store.store import Store, may_be_id, where_kept


def is_run(word: str, given: Path | None) -> bool:
    """Whether the word is the id of a run in the store."""
    folder = where_kept(given)
    return folder is not None and may_be_id(word) and Store(folder).has(word)


def saved_file(word: str, given: Path | None) -> Path:
    """The file of that name, or the answer of the run whose id starts with it."""
    file, folder = Path(word), where_kept(given)
    if file.exists():
        return file
    if "." not in word and "/" not in word and not may_be_id(word):
        raise UsageError(
            f"'{word}' is neither a file nor the id of a run",
            remedy=f"use a file written with {option_name('--json')}, an id listed by `inferometer runs`, or last",
        )
    if folder is None or not may_be_id(word):
        return file
    store = Store(folder)
    run = store.get(word)
    if not store.answer_path(run).exists():
        raise UsageError(
            f"run {word} has no result: it {_WHY.get(run.state, 'has not produced one')}",
            remedy="run it again; `inferometer runs show` prints its command line",
        )
    return store.answer_path(run)


_WHY = {"failed": "failed", "killed": "was killed", "running": "is still running"}
