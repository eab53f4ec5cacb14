"""`@frozen`: a faster `@dataclass(frozen=True, slots=True)`.

The standard decorator compiles six methods per class, which takes a millisecond, and a command defines a hundred such
classes before its first request. Here only `__init__` is compiled, on first use, and all classes share the other
methods.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

_set = object.__setattr__


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass. All fields become parameters; methods that the class defines are kept."""
    own = vars(cls)
    for name, method in _SHARED.items():
        if own.get(name) is None:  # a class that defines `__eq__` has None for `__hash__`
            setattr(cls, name, method)
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__init__ = _Init(made)
    found: type[T] = made
    return found


class _Init:
    """Placeholder for a class's `__init__`, compiled on first use."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, value: object, kind: type) -> Any:
        self._cls.__init__ = init = _compiled(self._cls)
        return init.__get__(value, kind)


def _compiled(cls: Any) -> Any:
    names: dict[str, Any] = {"__name__": cls.__module__, "_set": _set, "_MISSING": MISSING}
    positional, keywords, body = ["self"], ["*"], []
    for row in fields(cls):
        value = row.name
        if row.default_factory is not MISSING:
            names[f"_of_{row.name}"] = row.default_factory
            value = f"_of_{row.name}() if {row.name} is _MISSING else {row.name}"
        elif row.default is not MISSING:
            names[f"_of_{row.name}"] = row.default
        (keywords if row.kw_only else positional).append(_parameter(row))
        body.append(f" _set(self, {row.name!r}, {value})\n")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()\n")
    parameters = ", ".join(positional + (keywords if len(keywords) > 1 else []))
    made: dict[str, Any] = {}
    exec(f"def __init__({parameters}):\n{''.join(body) or ' pass'}", names, made)
    init = made["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {row.name: row.type for row in fields(cls)} | {"return": None}
    return init


def _parameter(row: "Field[Any]") -> str:
    if row.default_factory is not MISSING:
        return f"{row.name}=_MISSING"
    return row.name if row.default is MISSING else f"{row.name}=_of_{row.name}"


# --- methods shared by all classes


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(row.name for row in fields(kind))


@cache
def _key(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a getter of the fields that take part in comparisons."""
    names = [row.name for row in fields(kind) if row.compare]
    return (
        attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)
    )


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{row.name}={getattr(self, row.name)!r}" for row in fields(self) if row.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    key = _key(self.__class__)
    return key(self) == key(other) if self.__class__ is other.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_key(self.__class__)(self))


def _setattr(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in _names(self.__class__)]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(_names(self.__class__), state, strict=True):
        _set(self, name, value)


_SHARED = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
