"""Observer of a run, a search or a comparison."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferometer.options.effective import Effective
    from inferometer.stats.level_progress import LevelProgress
    from inferometer.stats.measurement import Level, WindowFigures


class Watcher:
    """Receives progress, and can request an early end. Override the methods of interest; the default ignores
    everything."""

    def prepared(self, effective: "Effective") -> None:
        """Called when the options are resolved."""

    def planned(self, levels: int | None, longest_s: float | None) -> None:
        """Called with the number of levels to come and the time limit; None if unknown."""

    def level_started(self, mode: str, value: float) -> None:
        """Called when a load is applied: requests at a time, or per second."""

    def ticked(self, elapsed_s: float, count: int, failed: int) -> None:
        """Called with the time since the level started and the requests that ended in the current window."""

    def progressed(self, progress: "LevelProgress") -> None:
        """Called with more detail than `ticked`, and during warm-up too."""

    def turn_progressed(self, variant: str, progress: "LevelProgress") -> None:
        """Called like `progressed` during the turn of a variant in a comparison."""

    def window_finished(self, number: int, window: "WindowFigures") -> None:
        """Called when a window of the level is complete."""

    def level_finished(self, level: "Level") -> None:
        """Called when a level is measured."""

    def bracketed(self, low: float, high: float) -> None:
        """Called with the highest load known to meet the SLO, or 0, and the lowest known to violate it, or infinity."""

    def round_finished(self, number: int, rounds: int, rates: tuple[tuple[str, float], ...]) -> None:
        """Called when every variant of a comparison had its turn; `rates` are their requests/s in it."""

    def proposed(self, proposal: Any, *, is_known: bool) -> None:
        """Called when the tuner proposes a configuration, whose figures may already be known."""

    def tried(self, trial: Any) -> None:
        """Called after a configuration was tried: a `ChangeTrial` of a diagnosis, or a `Trial` of the tuner."""

    def led(self, trial: Any, *, does_pass: bool) -> None:
        """Called with the tuner's best trial so far and whether it meets the SLO, before `tried`."""

    def skipped(self, skip: Any) -> None:
        """Called when the tuner skips a configuration."""

    def said(self, text: str, *, is_detail: bool = False, is_warning: bool = False) -> None:
        """Called with any other message."""

    def is_interrupted(self) -> bool:
        """Return whether the user wants to end: results so far are still reported."""
        return False


WATCHER_METHODS = tuple(name for name in vars(Watcher) if not name.startswith("_"))


def until(watcher: Watcher, is_over: Callable[[], bool]) -> Watcher:
    """Return a watcher that also requests an end once `is_over` returns true."""
    found = _with_methods_of(watcher)
    found.is_interrupted = lambda: is_over() or watcher.is_interrupted()  # type: ignore[method-assign]
    return found


def together(*watchers: Watcher) -> Watcher:
    """Combine watchers: each receives the calls it overrides, and any may request an end."""
    whole = Watcher()
    for name in WATCHER_METHODS:
        silent = getattr(Watcher, name)
        methods = [
            getattr(row, name)
            for row in watchers
            if getattr(getattr(row, name), "__func__", None) is not silent
        ]
        if methods and name != "is_interrupted":
            setattr(whole, name, methods[0] if len(methods) == 1 else _call_all(methods))
    whole.is_interrupted = lambda: any(row.is_interrupted() for row in watchers)  # type: ignore[method-assign]
    return whole


def _call_all(methods: list[Callable[..., None]]) -> Callable[..., None]:
    def tell(*what: Any, **how: Any) -> None:
        for method in methods:
            method(*what, **how)

    return tell


def completed(watcher: object) -> Watcher:
    """Return a watcher for an object with some of its methods; the silent watcher for None."""
    return watcher if isinstance(watcher, Watcher) else _with_methods_of(watcher)


def _with_methods_of(watcher: object) -> Watcher:
    whole = Watcher()
    for name in WATCHER_METHODS:
        if hasattr(watcher, name):
            setattr(whole, name, getattr(watcher, name))
    return whole
