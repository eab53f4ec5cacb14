"""Storing of runs: the default unless the user opts out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.text import to_stderr
from inferometer.cli.config import command_named
from inferometer.cli.exporting import exporting
from inferometer.options.command_line import WORDS
from inferometer.store.keeper import Keeper
from inferometer.store.run import FINISHED, Run
from inferometer.store.store import Store, where_kept
from inferometer.store.words import kept_words

_OPTIONS = ("store", "no_store", "tags", "prometheus", "otlp", "ui")


@contextmanager
def keeping(name: str, argv: Sequence[str], given: dict[str, Any]) -> Iterator[Keeper]:
    """Yield the keeper of a command's run; its options are removed from `given`.

    Comparing saved results is not a run: then the options stay, and `compare` judges them.
    """
    is_quiet = given.get("quiet", False) or name == "demo"  # which prints its own last line
    store, is_off, tags, port, collector, is_shown = (given.get(option) for option in _OPTIONS)
    is_saved = name == "compare" and _are_saved(given, store)
    folder = None if is_saved else where_kept(store, is_off=bool(is_off))
    if not is_saved:
        drop_options(given)
    if is_shown and not is_saved:
        from inferometer.cli.ui import check_installed

        check_installed()
        if folder is None:
            raise UsageError(
                "--ui shows a stored run, but this run is not stored", remedy="leave out --ui or --no-store"
            )
    if folder is None:
        keeper = Keeper(Run("", name), None)
        with exporting(keeper, None if is_saved else port, None if is_saved else collector):
            yield keeper
        return
    kept = Store(folder)
    with (
        kept.begin(name, kept_words(name, argv, command_named(name)), tags=tags or ()) as keeper,
        exporting(keeper, port, collector),
    ):
        if is_shown and keeper.is_kept:
            from inferometer.cli.ui import show_live

            show_live(folder, keeper.run.id)
        yield keeper
    if keeper.is_kept and keeper.run.state == FINISHED and not is_quiet:
        short = kept.short(keeper.run)
        to_stderr(f"Stored as run {short}; view it with `inferometer view {short}`")


def _are_saved(given: dict[str, Any], store: Path | None) -> bool:
    from inferometer.cli.compare import are_saved

    return are_saved(given.get(WORDS, ()), store)


def drop_options(given: dict[str, Any]) -> None:
    """Remove the options about storing: previews are not stored."""
    for option in _OPTIONS:
        given.pop(option, None)
