"""`@frozen` behaves like `@dataclass(frozen=True, slots=True)`."""

import copy
import inspect
import math
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, astuple, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter

from inferometer.base.frozen import frozen

standard = dataclass(frozen=True, slots=True)


def classes(decorate: Any) -> tuple[Any, ...]:
    @decorate
    class Empty:
        """A class without fields."""

    @decorate
    class One:
        value: float

    @decorate
    class Inner:
        name: str
        secret: str = field(default="", repr=False)

    @decorate
    class Outer:
        """A class with every kind of field."""

        kind: ClassVar[str] = "outer"
        number: int
        inner: Inner | None = None
        rows: tuple[int, ...] = ()
        names: list[str] = field(default_factory=list)
        said: str = field(default="", compare=False)
        extra: int = field(default=3, kw_only=True)

        @property
        def twice(self) -> int:
            return 2 * self.number

    @decorate
    class Checked:
        value: int

        def __post_init__(self) -> None:
            if self.value < 0:
                raise ValueError("below 0")

    @decorate
    class Same:  # noqa: PLW1641
        value: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Same)

        def __repr__(self) -> str:
            return "same"

    return Empty, One, Inner, Outer, Checked, Same


BOTH = tuple(zip(classes(frozen), classes(standard), strict=True))
EMPTY, ONE, INNER, OUTER, CHECKED, SAME = BOTH

Seen = Callable[[Any], object]
CASES: dict[str, tuple[tuple[Any, Any], Seen]] = {
    "fields": (OUTER, lambda kind: [(row.name, row.type, row.repr, row.compare) for row in fields(kind)][:1]),
    "is a dataclass": (OUTER, lambda kind: (is_dataclass(kind), kind.__match_args__, kind.__slots__)),
    "doc and qualified name": (OUTER, lambda kind: (kind.__doc__, kind.__qualname__, kind.__module__)),
    "where __init__ is from": (OUTER, lambda kind: (kind.__init__.__qualname__, kind.__init__.__module__)),
    "parameters": (CHECKED, inspect.signature),
    "parameters of all sorts": (OUTER, lambda kind: list(inspect.signature(kind).parameters)),
    "nothing": (EMPTY, lambda kind: (repr(kind()), kind() == kind(), hash(kind()) == hash(kind()))),
    "one field": (
        ONE,
        lambda kind: (repr(kind(1.0)), kind(1.0) == kind(1), {kind(1.0), kind(1.0)} == {kind(1)}),
    ),
    "a secret is not shown": (INNER, lambda kind: repr(kind("a", "b"))),
    "defaults": (OUTER, lambda kind: astuple(kind(1))),
    "each has its own list": (OUTER, lambda kind: kind(1).names is kind(1).names),
    "all given": (OUTER, lambda kind: repr(kind(1, None, (2,), ["a"], "b", extra=4))),
    "a property": (OUTER, lambda kind: kind(4).twice),
    "what is not compared": (OUTER, lambda kind: kind(1, said="a") == kind(1, said="b")),
    "what differs": (OUTER, lambda kind: kind(1) == kind(2)),
    "another type": (ONE, lambda kind: (kind(1) == 1, kind(1).__eq__(1))),
    "replaced": (OUTER, lambda kind: repr(replace(kind(1, rows=(1,)), number=5, extra=6))),
    "as a dictionary": (OUTER, lambda kind: asdict(kind(1))),
    "one that checks itself": (CHECKED, lambda kind: kind(1).value),
    "its own methods": (
        SAME,
        lambda kind: (repr(kind(1)), kind(1) == kind(2), hash(kind(1)) == hash(kind(1))),
    ),
    "a copy": (
        INNER,
        lambda kind: [make(kind("a", "b")) == kind("a", "b") for make in (copy.copy, copy.deepcopy)],
    ),
    "read by pydantic": (INNER, lambda kind: repr(TypeAdapter(kind).validate_python({"name": "a"}))),
}
REFUSALS: dict[str, tuple[tuple[Any, Any], Seen]] = {
    "an assignment": (ONE, lambda kind: setattr(kind(1), "value", 2)),
    "a deletion": (ONE, lambda kind: delattr(kind(1), "value")),
    "a missing argument": (ONE, lambda kind: kind()),
    "one too many": (ONE, lambda kind: kind(1, 2)),
    "an unknown name": (ONE, lambda kind: kind(1, other=2)),
    "a keyword given by place": (OUTER, lambda kind: kind(1, None, (), [], "", 4)),
    "its own check": (CHECKED, lambda kind: kind(-1)),
    "the hash of a list": (OUTER, lambda kind: hash(kind(1))),
    "a list as default": (EMPTY, lambda kind: _with_list(frozen if kind is EMPTY[0] else standard)),
}


def _with_list(decorate: Any) -> object:
    class Bad:
        rows: list[int] = []  # noqa: RUF012

    return decorate(Bad)


@pytest.mark.parametrize(("pair", "look"), CASES.values(), ids=CASES)
def test_it_behaves_like_the_standard_decorator(pair: tuple[Any, Any], look: Seen) -> None:
    assert look(pair[0]) == look(pair[1])


def test_the_same_nan_is_equal_on_every_python() -> None:
    """The standard ones compare tuples, where it is equal, up to Python 3.12, and field by field from 3.13 on."""
    kind = ONE[0]
    assert kind(math.nan) == kind(math.nan)


@pytest.mark.parametrize(("pair", "attempt"), REFUSALS.values(), ids=REFUSALS)
def test_it_rejects_what_the_standard_decorator_rejects(pair: tuple[Any, Any], attempt: Seen) -> None:
    ours, theirs = (pytest.raises((TypeError, ValueError, AttributeError)) for _ in pair)
    with ours as our_error:
        attempt(pair[0])
    with theirs as their_error:
        attempt(pair[1])
    assert (our_error.type, str(our_error.value)) == (their_error.type, str(their_error.value))


@pytest.mark.parametrize("name", ["value", "other"])
def test_an_assignment_raises_the_standard_error(name: str) -> None:
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(ONE[0](1), name, 2)


@frozen
class Sent:
    number: int
    rows: tuple[int, ...] = ()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_it_can_be_pickled(protocol: int) -> None:
    sent = Sent(1, (2, 3))
    assert pickle.loads(pickle.dumps(sent, protocol)) == sent
