"""The configurations of a server that is started by a command line: one value for each placeholder that is varied.

Their document is `{"knobs": {"slots": 4, "dtype": "float16"}}`, which no model configuration can be.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from inferometer.tune.model_config import Fields

KNOBS = "knobs"
_WORD_APART = 1.5  # distance between two words, in doublings
_SPREAD = 4.0  # distance between the ends of a narrow range of numbers, in doublings


def knobs_of(config: Fields) -> Mapping[str, Any] | None:
    """Return the values of a configuration; None for the configuration of a model."""
    found = config.get(KNOBS)
    return found if isinstance(found, Mapping) else None


def knob_words(values: Mapping[str, Any]) -> str:
    """Write values in one line: `slots=4 batch=64`."""
    return " ".join(f"{name}={value}" if value != "" else f"{name}=''" for name, value in values.items())


def worded(text: str, configs: Mapping[str, Fields]) -> str:
    """Replace the names of configurations in a message by their values."""
    values = {name: found for name, config in configs.items() if (found := knobs_of(config)) is not None}
    if not values:
        return text
    return re.sub(
        r"\S+_config_\w+", lambda name: knob_words(values[name[0]]) if name[0] in values else name[0], text
    )


Choices = Mapping[str, Sequence[Any]]
"""All values of each placeholder."""


def coordinates(values: Mapping[str, Any], choices: Choices) -> tuple[float, ...]:
    """Return the place of a configuration: doublings for numbers of different magnitude, a share of the range for
    others, and one axis per value for words."""
    found: list[float] = []
    for name, listed in choices.items():
        value = values[name]
        if any(isinstance(one, str) for one in listed):
            found += [_WORD_APART / math.sqrt(2) * (value == one) for one in listed]
        elif len(listed) > 1:
            found.append(_number_place(float(value), [float(one) for one in listed]))
    return tuple(found)


def axes(choices: Choices) -> tuple[tuple[int, ...], ...]:
    """Return the columns of `coordinates` that belong to each placeholder; those of a single value have none."""
    found: list[tuple[int, ...]] = []
    start = 0
    for listed in choices.values():
        count = len(listed) if any(isinstance(one, str) for one in listed) else int(len(listed) > 1)
        if count:
            found.append(tuple(range(start, start + count)))
        start += count
    return tuple(found)


def _number_place(value: float, listed: Sequence[float]) -> float:
    low, high = min(listed), max(listed)
    if low > 0 and high / low >= 4:
        return math.log2(value / low)
    return _SPREAD * (value - low) / (high - low)


# --- what a failed start says about other configurations


def ruled_out(
    rows: Sequence[Mapping[str, Any]], failed: Mapping[int, bool], working: Collection[int]
) -> dict[int, int]:
    """Return the untried configurations that are expected to fail, each with the failed configuration that implies it.

    `failed` has the configurations that failed, each with whether memory was the reason; `working` has those that did
    not fail. Which direction needs more of a resource is not known in advance: it is taken to be the one from a
    working configuration to a failed one. What lies beyond the failed one in that direction fails too. One failure
    for lack of memory shows that, any other reason needs two. A working configuration beyond the failed one refutes
    it.
    """
    good = [rows[number] for number in set(working)]
    tried = {*failed, *working}
    sure = [
        bad
        for bad in failed
        if not any(_is_beyond(other, rows[bad], origin) for other in good for origin in good)
    ]
    found: dict[int, int] = {}
    for number, row in enumerate(rows):
        if number in tried:
            continue
        shown = [bad for bad in sure if any(_is_beyond(row, rows[bad], origin) for origin in good)]
        memory = [bad for bad in shown if failed[bad]]
        if memory or len(shown) > 1:
            found[number] = (memory or shown)[0]
    return found


def _is_beyond(row: Mapping[str, Any], bad: Mapping[str, Any], origin: Mapping[str, Any]) -> bool:
    """Return whether `row` lies beyond `bad` as seen from `origin`, with everything else equal."""
    is_further = False
    for name, reached in bad.items():
        value, start = row[name], origin[name]
        if any(isinstance(one, str) for one in (value, start, reached)):
            if not value == reached == start:
                return False
        elif reached == start:
            if value != reached:
                return False
        elif (value - reached) * (reached - start) < 0:
            return False
        else:
            is_further = is_further or value != reached
    return is_further
