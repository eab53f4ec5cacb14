"""The same functions for programs with an event loop: `result = await api.aio.measure("simple", ...)`.

The run goes on in a thread, and its load in processes of its own, so the loop is free meanwhile. Cancelling the task
ends the run in order, as Ctrl-C does, and returns when nothing of it is left.
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
            run.exception()  # what is left of it is nobody's business
            raise

    call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return call


def _interruptible(given: object, stop: threading.Event) -> Watcher:
    """The user's watcher, which is also interrupted when the task is cancelled."""
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
