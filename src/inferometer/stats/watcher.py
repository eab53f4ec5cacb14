"""Whoever follows a run, a search or a comparison."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferometer.options.effective import Effective
    from inferometer.stats.level_progress import LevelProgress
    from inferometer.stats.measurement import Level, WindowFigures


class Watcher:
    """Is told how it goes on, and asked whether to end. Override what is of interest: this one stays silent."""

    def prepared(self, effective: "Effective") -> None:
        """It is known what is measured, and how."""

    def planned(self, levels: int | None, longest_s: float | None) -> None:
        """So many levels are to come, in so much time at most; None where nobody can tell."""

    def level_started(self, mode: str, value: float) -> None:
        """A load is applied: so many requests at a time, or per second."""

    def ticked(self, elapsed_s: float, count: int, failed: int) -> None:
        """So long after the level started, so many requests of the window that fills have ended well or badly."""

    def progressed(self, progress: "LevelProgress") -> None:
        """What `ticked` says in more detail, and in the warm-up too."""

    def turn_progressed(self, variant: str, progress: "LevelProgress") -> None:
        """The same in the turn of a variant of a comparison."""

    def window_finished(self, number: int, window: "WindowFigures") -> None:
        """A window of the level is complete."""

    def level_finished(self, level: "Level") -> None:
        """A level is measured."""

    def bracketed(self, low: float, high: float) -> None:
        """A search knows the highest load that keeps its promise, or 0, and the lowest that breaks it, or infinity."""

    def round_finished(self, number: int, rounds: int, rates: tuple[tuple[str, float], ...]) -> None:
        """Every variant of a comparison had its turn; `rates` are their requests/s in it."""

    def proposed(self, proposal: Any, *, is_known: bool) -> None:
        """The tuner wants a configuration measured, or knows its figures already."""

    def tried(self, trial: Any) -> None:
        """A configuration was measured, or could not be: a `ChangeTrial` of a diagnosis, or a `Trial` of the tuner."""

    def led(self, trial: Any, *, does_pass: bool) -> None:
        """Which trial of the tuner is the best so far, and whether it keeps the promise; told before `tried`."""

    def skipped(self, skip: Any) -> None:
        """The tuner leaves a configuration out."""

    def said(self, text: str, *, is_detail: bool = False, is_warning: bool = False) -> None:
        """Anything else to know."""

    def is_interrupted(self) -> bool:
        """Whether the user wants to end: what has been measured is still reported."""
        return False


TOLD = tuple(name for name in vars(Watcher) if not name.startswith("_"))


def until(watcher: Watcher, is_over: Callable[[], bool]) -> Watcher:
    """The same watcher, which also wants to end when it is over."""
    found = _with_methods_of(watcher)
    found.is_interrupted = lambda: is_over() or watcher.is_interrupted()  # type: ignore[method-assign]
    return found


def together(*watchers: Watcher) -> Watcher:
    """All of them as one: each is told everything it asks for, and any may want to end."""
    whole = Watcher()
    for name in TOLD:
        silent = getattr(Watcher, name)
        told = [
            getattr(row, name)
            for row in watchers
            if getattr(getattr(row, name), "__func__", None) is not silent
        ]
        if told and name != "is_interrupted":
            setattr(whole, name, told[0] if len(told) == 1 else _told(told))
    whole.is_interrupted = lambda: any(row.is_interrupted() for row in watchers)  # type: ignore[method-assign]
    return whole


def _told(methods: list[Callable[..., None]]) -> Callable[..., None]:
    def tell(*what: Any, **how: Any) -> None:
        for method in methods:
            method(*what, **how)

    return tell


def completed(watcher: object) -> Watcher:
    """A watcher out of an object that has some of the methods; of None, the silent one."""
    return watcher if isinstance(watcher, Watcher) else _with_methods_of(watcher)


def _with_methods_of(watcher: object) -> Watcher:
    whole = Watcher()
    for name in TOLD:
        if hasattr(watcher, name):
            setattr(whole, name, getattr(watcher, name))
    return whole
