"""Storing of runs: the default unless the user opts out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inferometer.base.errors import UsageError
from inferometer.base.text import to_stderr
from inferometer.cli.exporting import exporting
from inferometer.options.asides import Asides
from inferometer.store.keeper import Keeper
from inferometer.store.run import FINISHED, Run
from inferometer.store.store import Store, where_kept

Words = Callable[[], tuple[str, ...]]


@contextmanager
def keeping(name: str, words: Words, asides: Asides, *, is_quiet: bool) -> Iterator[Keeper]:
    """Yield the keeper of a command's run, which stores and exports it as the options demand.

    `words` returns the command line in the form in which it is stored."""
    folder = where_kept(asides.store, is_off=asides.no_store)
    if asides.ui:
        from inferometer.cli.ui import check_installed

        check_installed()
        if folder is None:
            raise UsageError(
                "--ui shows a stored run, but this run is not stored", remedy="leave out --ui or --no-store"
            )
    if folder is None:
        keeper = Keeper(Run("", name), None)
        with exporting(keeper, asides.prometheus, asides.otlp):
            yield keeper
        return
    kept = Store(folder)
    with (
        kept.begin(name, words(), tags=asides.tags) as keeper,
        exporting(keeper, asides.prometheus, asides.otlp),
    ):
        if asides.ui and keeper.is_kept:
            from inferometer.cli.ui import show_live

            show_live(folder, keeper.run.id)
        yield keeper
    is_quiet = is_quiet or name == "demo"  # which prints its own last line
    if keeper.is_kept and keeper.run.state == FINISHED and not is_quiet:
        short = kept.short(keeper.run)
        to_stderr(f"Stored as run {short}; view it with `inferometer view {short}`")
