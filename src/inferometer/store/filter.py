"""Filters for runs: words such as model=simple, tag=nightly, since=2d."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import nearest

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_AGO = r"(\d+(?:\.\d+)?)([smhdw])"


@frozen
class RunFilter:
    """Conditions on runs; without any, all runs match."""

    model: str = ""  # one of the run's models
    tags: tuple[str, ...] = ()  # the run has all of them
    since_s: float | None = None  # unix seconds: started then or later
    command: str = ""
    server: str = ""  # one of the run's servers: its kind, or kind and version
    host: str = ""
    host_class: str = ""
    state: str = ""
    text: str = ""  # somewhere in its command line, model, tags, server, verdict or id


ALL = RunFilter()
MOST_WORDS = 100  # each one is a condition, and SQLite nests them


def parse_filter(words: Sequence[str], now_s: float) -> RunFilter:
    """Parse words of the form name=value; all other words are searched for as text."""
    if len(words) > MOST_WORDS:
        raise UsageError(f"the search has {len(words)} words", remedy=f"use at most {MOST_WORDS}")
    found, texts = ALL, list[str]()
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            texts.append(word)
        elif name in ("tag", "since"):
            found = (
                replace(found, tags=(*found.tags, value))
                if name == "tag"
                else replace(found, since_s=moment(value, now_s))
            )
        elif name in _PLAIN:
            found = _PLAIN[name](found, value)
        else:
            names = ("tag", "since", *_PLAIN)
            close = nearest(name, names)
            remedy = f"did you mean {close}=?" if close else f"use {', '.join(f'{row}=' for row in names)}"
            raise UsageError(f"runs cannot be filtered by '{name}'", remedy=remedy)
    return replace(found, text=" ".join(texts))


_PLAIN: dict[str, Callable[[RunFilter, str], RunFilter]] = {
    "model": lambda found, value: replace(found, model=value),
    "command": lambda found, value: replace(found, command=value),
    "server": lambda found, value: replace(found, server=value),
    "host": lambda found, value: replace(found, host=value),
    "state": lambda found, value: replace(found, state=value),
}


def moment(text: str, now_s: float) -> float:
    """Unix seconds of `2d` (two days ago), or of a date or time such as 2026-11-01 in this machine's time zone."""
    ago = re.fullmatch(_AGO, text)
    if ago is not None:
        return now_s - float(ago[1]) * _SECONDS[ago[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"since={text} is not a time", remedy="use since=2d, since=6h or since=2026-11-01"
        ) from error
