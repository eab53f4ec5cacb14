"""Values of options and YAML keys: what is accepted, and the sentence when it is not.

A reader takes the dotted path of the value and the value itself, as YAML or the command line gives it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError

Read = Callable[[str, Any], Any]

MOST_VALUES = 100_000


def wrong(path: str, value: object, allowed: str) -> UsageError:
    return UsageError(f"{path} is {value!r}", remedy=f"it must be {allowed}")


def whole(least: int) -> Read:
    """Whole numbers from `least` on."""

    def read(path: str, value: Any) -> int:
        allowed = f"a whole number from {least} up"
        number = _int(value)
        if number is None or number < least:
            raise wrong(path, value, allowed)
        return number

    return read


def _int(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return int(value.strip()) if isinstance(value, str) else None
    except ValueError:
        return None


def number(*, least: float = 0.0, above: bool = False) -> Read:
    """Numbers from `least` on, or only `above` it."""

    def read(path: str, value: Any) -> float:
        allowed = f"a number {'above' if above else 'from'} {least:g}{'' if above else ' up'}"
        found = maybe_number(value)
        if found is None or not least <= found < float("inf") or (above and found == least):
            raise wrong(path, value, allowed)
        return found

    return read


def maybe_number(value: Any) -> float | None:
    """A number, also one in quotes (YAML reads 1e3 as a text); None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def flag(path: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise wrong(path, value, "true or false")


def text(path: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == "":
        raise wrong(path, value, "a text")
    return str(value)


def maybe_empty(path: str, value: Any) -> str:
    return "" if value == "" else text(path, value)


def path_of(path: str, value: Any) -> Path:
    return Path(text(path, value))


def choice(*values: str) -> Read:
    def read(path: str, value: Any) -> str:
        if value not in values:
            raise wrong(path, value, f"one of {', '.join(values)}")
        return str(value)

    return read


def texts(path: str, value: Any) -> tuple[str, ...]:
    """Comma text, or a list of scalars."""
    if isinstance(value, str):
        return tuple(part for word in value.split(",") if (part := word.strip()))
    if isinstance(value, list):
        return tuple(text(f"{path}[{place}]", item) for place, item in enumerate(value))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (str(value),)
    raise wrong(path, value, "a list of names, or names with commas between them")


def some_texts(path: str, value: Any) -> tuple[str, ...]:
    found = texts(path, value)
    if not found:
        raise wrong(path, value, "at least one name")
    return found


_INTS = "whole numbers above 0: one, several with commas, a list, start:end[:step], or {start, stop, step}"


def ints(path: str, value: Any) -> tuple[int, ...]:
    """All spellings of a list of whole numbers; the end of a range belongs to it."""
    if isinstance(value, Mapping):
        return _range_of(path, value)
    if isinstance(value, str) and ":" in value:
        return _span(path, value)
    rows = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    found = [_int(row) for row in rows]
    numbers = tuple(row for row in found if row is not None)
    if not found or len(numbers) < len(found) or min(numbers) < 1:
        raise wrong(path, value, _INTS)
    return numbers


def _range_of(path: str, value: Mapping[Any, Any]) -> tuple[int, ...]:
    for key in value:
        if key not in ("start", "stop", "step"):
            raise UsageError(f"{path}.{key} is not a key of a range", remedy="those are start, stop and step")
    for key in ("start", "stop"):
        if key not in value:
            raise UsageError(f"{path} has no {key}", remedy="a range needs start and stop")
    parts = [_int(value[key]) for key in ("start", "stop")] + [_int(value.get("step", 1))]
    return _counted(path, dict(value), parts)


def _span(path: str, value: str) -> tuple[int, ...]:
    parts = [_int(word) for word in value.split(":")]
    if len(parts) > 3:
        raise wrong(path, value, _INTS)
    return _counted(path, value, [*parts, *([1] if len(parts) == 2 else [])])


def _counted(path: str, value: object, parts: list[int | None]) -> tuple[int, ...]:
    start, stop, step = parts
    if start is None or stop is None or step is None or start < 1 or step < 1:
        raise wrong(path, value, "a range of whole numbers above 0")
    if start > stop:
        raise UsageError(
            f"{path} is {value!r}: it starts at {start} and stops at {stop}",
            remedy="give a start that is not above the stop",
        )
    if (stop - start) // step > MOST_VALUES:
        raise wrong(path, value, f"a range of at most {MOST_VALUES} numbers")
    return tuple(range(start, stop + 1, step))


def mapping(path: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise wrong(path, value, "a mapping of names to values")
    for key in value:
        if not isinstance(key, str):
            raise wrong(f"{path}.{key}", key, "a name")
    return value


def texts_by_name(path: str, value: Any) -> Mapping[str, str]:
    found = mapping(path, value)
    return {name: _scalar_text(f"{path}.{name}", row) for name, row in found.items()}


def _scalar_text(path: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or not isinstance(value, (str, int, float)):
        raise wrong(path, value, "a text or a number")
    return str(value)


def gpus(path: str, value: Any) -> tuple[str, ...] | None:
    """None is all of them."""
    found = texts(path, value)
    return None if found == ("all",) else tuple(row for row in found if row != "[]")
