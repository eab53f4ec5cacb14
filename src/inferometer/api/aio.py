"""Coroutine versions of the functions: `result = await api.aio.measure("simple", ...)`.

The run takes place in a thread and its load in separate processes, so the event loop stays free. Cancelling the task
stops the run cleanly, like Ctrl-C, and returns when the run has ended.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from inferometer.api import functions
from inferometer.stats.watcher import Watcher, completed

P = ParamSpec("P")
R = TypeVar("R")


def _awaited(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    @wraps(function)
    async def call(*args: P.args, **given: P.kwargs) -> R:
        stop = threading.Event()
        watcher = _interruptible(given.get("watcher"), stop)
        whole: dict[str, Any] = {**given, "watcher": watcher}
        run = asyncio.get_running_loop().run_in_executor(None, partial(function, *args, **whole))
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([run])
            run.exception()  # mark as retrieved; the task is cancelled anyway
            raise

    call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return call


def _interruptible(given: object, stop: threading.Event) -> Watcher:
    """Return the user's watcher, which also reports an interrupt when the task is cancelled."""
    inner, whole = completed(given), Watcher()
    vars(whole).update({name: getattr(inner, name) for name in dir(Watcher) if not name.startswith("_")})
    vars(whole)["is_interrupted"] = lambda: stop.is_set() or inner.is_interrupted()
    return whole


measure = _awaited(functions.measure)
find = _awaited(functions.find)
tune = _awaited(functions.tune)
compare = _awaited(functions.compare)
scenario = _awaited(functions.scenario)
interfere = _awaited(functions.interfere)
diagnose = _awaited(functions.diagnose)
