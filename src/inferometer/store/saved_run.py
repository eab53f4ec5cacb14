"""A run in place of a file: wherever a command takes a saved file, it takes the id of a run."""

from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.store.store import Store, may_be_id, where_kept


def is_run(word: str, given: Path | None) -> bool:
    """Whether a run of the store is called so."""
    folder = where_kept(given)
    return folder is not None and may_be_id(word) and Store(folder).has(word)


def saved_file(word: str, given: Path | None) -> Path:
    """The file of that name, or else the answer of the run whose id begins so."""
    file, folder = Path(word), where_kept(given)
    if file.exists():
        return file
    if "." not in word and "/" not in word and not may_be_id(word):
        raise UsageError(
            f"'{word}' is neither a file nor the id of a run",
            remedy="give a file that was written with --json, or an id that `inferometer runs` lists",
        )
    if folder is None or not may_be_id(word):
        return file
    store = Store(folder)
    run = store.get(word)
    if not store.answer_path(run).exists():
        raise UsageError(
            f"run {word} has no answer: it {_WHY.get(run.state, 'has none yet')}",
            remedy="run it again: `inferometer runs show` has its command line",
        )
    return store.answer_path(run)


_WHY = {"failed": "failed", "killed": "was killed", "running": "still runs"}
