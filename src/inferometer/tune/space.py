"""The search space of a model: parameters and their choices.

A parameter is one field of the model's configuration with all its possible values, fully written out. A sweep at any
depth below the field is expanded into such values first, so a space is a plain product.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import is_digits
from inferometer.options.names import option_name
from inferometer.options.varying import Vary
from inferometer.tune import model_config
from inferometer.tune.condition import Condition
from inferometer.tune.knobs import KNOBS, knobs_of
from inferometer.tune.model_config import Fields

BATCH = "max_batch_size"
INSTANCES = "instance_group"
BATCHING = "dynamic_batching"
DELAY = "max_queue_delay_microseconds"

ChoiceNumbers = tuple[int, ...]
"""The index of the choice of each parameter."""


@frozen
class Parameter:
    """A field of the configuration and its choices; None leaves the field unchanged."""

    field: str
    choices: tuple[Any, ...]


@frozen
class Space:
    """All variants of one model. The last parameter varies fastest; `max_batch_size`, if present, is the last."""

    model: str
    base: Fields
    parameters: tuple[Parameter, ...] = ()
    is_manual: bool = False
    cpu_only: bool = False
    conditions: tuple[Condition, ...] = ()  # that every point meets
    live: frozenset[str] = frozenset()  # parameters of a launched server that need no restart
    knows_default: bool = False  # the base has values that a launched server uses by default

    @property
    def is_launched(self) -> bool:
        """Whether the parameters are placeholders in the command line of a server."""
        return knobs_of(self.base) is not None

    @property
    def choices(self) -> Mapping[str, tuple[Any, ...]]:
        return {parameter.field: parameter.choices for parameter in self.parameters}

    def points(self) -> Iterator[ChoiceNumbers]:
        for point in itertools.product(*(range(len(parameter.choices)) for parameter in self.parameters)):
            if all(condition.holds(self._chosen(point)) for condition in self.conditions):
                yield point

    def overrides(self, point: ChoiceNumbers) -> Fields:
        """Return the changed fields of the point; none for choices of None."""
        found = {field: value for field, value in self._chosen(point).items() if value is not None}
        return {KNOBS: found} if self.is_launched else found

    def _chosen(self, point: ChoiceNumbers) -> Mapping[str, Any]:
        pairs = zip(self.parameters, point, strict=True)
        return {parameter.field: parameter.choices[number] for parameter, number in pairs}

    @property
    def has_batch_sweep(self) -> bool:
        return bool(self.parameters) and self.parameters[-1].field == BATCH


@frozen
class SearchBounds:
    """Bounds of the automatic search."""

    instances: tuple[int, int] = (1, 5)
    batch: tuple[int, int] = (1, 128)
    concurrency: tuple[int, int] = (1, 1024)
    request_rate: tuple[int, int] = (16, 8192)
    delays_us: tuple[int, ...] = ()  # in addition to the model's own


def automatic(model: str, base: Fields, bounds: SearchBounds, *, cpu_only: bool) -> Space:
    """Return the space of instance counts, doubling batch sizes and, if given, delays of the dynamic batcher."""
    kind = "KIND_CPU" if cpu_only else "KIND_GPU"
    counts = range(bounds.instances[0], bounds.instances[1] + 1)
    parameters = [Parameter(INSTANCES, tuple([{"count": count, "kind": kind}] for count in counts))]
    if model_config.max_batch_size(base):
        if not model_config.is_sequence(base):
            delays = tuple({DELAY: delay} for delay in bounds.delays_us)
            parameters.append(Parameter(BATCHING, ({}, *delays)))
        parameters.append(Parameter(BATCH, tuple(doubling(*bounds.batch))))
    return Space(model, base, tuple(parameters), cpu_only=cpu_only)


def launched(
    server: str,
    rows: Sequence[Vary],
    conditions: tuple[Condition, ...],
    default: Fields,
    live: frozenset[str] = frozenset(),
) -> Space:
    """Return the space of a server that is started by a command line. Its own configuration has the default values, or
    the first ones that meet the conditions."""
    parameters = tuple(Parameter(row.name, row.values) for row in rows)
    space = Space(server, {KNOBS: {}}, parameters, is_manual=True, conditions=conditions, live=live)
    values = next((space.overrides(point)[KNOBS] for point in space.points()), None)
    if values is None:
        shown = " and ".join(f"{option_name('--where')} '{condition.text}'" for condition in conditions)
        raise UsageError(f"no combination of the values meets {shown}", remedy="vary more, or relax it")
    wanted = {**values, **{name: value for name, value in default.items() if value in space.choices[name]}}
    is_allowed = all(condition.holds(wanted) for condition in conditions)
    base = wanted if is_allowed else values
    return replace(space, base={KNOBS: base}, knows_default=is_allowed and set(default) == set(values))


def doubling(low: int, high: int) -> Iterator[int]:
    """Yield low, 2 low, 4 low ... up to high; 0 counts as 1."""
    value = max(low, 1)
    while value <= high:
        yield value
        value *= 2


def manual(model: str, base: Fields, swept: Mapping[str, Any], *, where: str, cpu_only: bool) -> Space:
    """Return the product of all choices listed by the user; `where` begins the dotted path in messages."""
    found = message_choices(model_config.message().DESCRIPTOR, swept, where)
    batch_last = sorted(found, key=lambda row: row.field == BATCH)
    return Space(model, base, tuple(batch_last), is_manual=True, cpu_only=cpu_only)


# --- expanding a user's sweep, field by field of the message


def message_choices(descriptor: Any, swept: object, where: str) -> tuple[Parameter, ...]:
    """Return one parameter per field, in the user's order."""
    if not isinstance(swept, Mapping):
        raise _wrong(where, swept, f"the fields of {descriptor.name} as a mapping")
    return tuple(
        Parameter(str(name), _choices(_field(descriptor, name, where), value, f"{where}.{name}"))
        for name, value in swept.items()
    )


def _field(descriptor: Any, name: object, where: str) -> Any:
    field = descriptor.fields_by_name.get(name) if isinstance(name, str) else None
    if field is None:
        allowed = ", ".join(sorted(descriptor.fields_by_name))
        raise UsageError(
            f"{where}.{name} is not a field of {descriptor.name}", remedy=f"its fields are {allowed}"
        )
    return field


def _choices(field: Any, value: object, where: str) -> tuple[Any, ...]:
    if value is None:
        return (None,)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _several(value, where, lambda item: _map_choices(field, item, where))
    if _is_repeated(field):
        return _repeated_choices(field, value, where)
    return _several(value, where, lambda item: _one_choices(field, item, where))


def _several(value: object, where: str, expand: Any) -> tuple[Any, ...]:
    """Expand a list into several choices; each may hold further sweeps."""
    if not isinstance(value, list):
        return tuple(expand(value))
    if not value:
        raise UsageError(f"{where} is an empty list", remedy="give at least one choice, or leave it out")
    return tuple(choice for item in value for choice in ((None,) if item is None else expand(item)))


def _repeated_choices(field: Any, value: object, where: str) -> tuple[Any, ...]:
    """Expand a repeated field: a list is one choice, a list of lists several."""
    if not isinstance(value, list):
        raise _wrong(where, value, "a list, because the field is repeated")
    if not any(isinstance(item, list) for item in value):
        value = [value]
    return _several(value, where, lambda item: _list_choices(field, item, where))


def _list_choices(field: Any, items: object, where: str) -> list[Any]:
    if not isinstance(items, list):
        raise _wrong(where, items, "a list in each choice, because the first choice is a list")
    parts = [_one_choices(field, item, f"{where}[{number}]") for number, item in enumerate(items)]
    return [list(choice) for choice in itertools.product(*parts)]


def _map_choices(field: Any, value: object, where: str) -> list[Any]:
    if not isinstance(value, Mapping):
        raise _wrong(where, value, "a mapping")
    inner = field.message_type.fields_by_name["value"]
    return _combined(
        Parameter(str(name), _choices(inner, item, f"{where}.{name}")) for name, item in value.items()
    )


def _one_choices(field: Any, value: object, where: str) -> list[Any]:
    """Expand a single value: a message, an enumeration or a scalar."""
    if field.message_type is not None:
        return _combined(message_choices(field.message_type, value, where))
    return [_scalar(field, value, where)]


def _combined(rows: Iterable[Parameter]) -> list[Any]:
    """Return every combination as a mapping, without unchanged fields."""
    pairs = [[(row.field, choice) for choice in row.choices] for row in rows]
    return [
        {name: value for name, value in chosen if value is not None} for chosen in itertools.product(*pairs)
    ]


def _scalar(field: Any, value: object, where: str) -> object:
    """Convert the value to the type of the field. In YAML, numbers may be quoted and strings may not be."""
    if field.enum_type is not None:
        names = [row.name for row in field.enum_type.values]
        if value not in names:
            raise _wrong(where, value, f"one of {', '.join(names)}")
        return value
    kind, words = _SCALARS[field.cpp_type]
    if kind is str and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if kind is int and isinstance(value, str) and is_digits(value.strip().removeprefix("-")):
        value = int(value)
    is_number_for_truth = isinstance(value, bool) and kind is not bool
    if is_number_for_truth or not isinstance(value, kind):
        raise _wrong(where, value, words)
    if field.cpp_type in _WHOLE and isinstance(value, int):
        low, high = _WHOLE[field.cpp_type]
        if not low <= value < high:
            raise _wrong(where, value, f"a whole number from {low} to {high - 1}")
    return value


# By FieldDescriptor.CPPTYPE_...: 1 int32, 2 int64, 3 uint32, 4 uint64, 5 double, 6 float, 7 bool, 9 string.
_SCALARS: dict[int, tuple[Any, str]] = {
    **dict.fromkeys((1, 2, 3, 4), (int, "a whole number")),
    **dict.fromkeys((5, 6), ((int, float), "a number")),
    7: (bool, "true or false"),
    9: (str, "a string, quoted where YAML would read another type"),
}
_WHOLE = {1: (-(2**31), 2**31), 2: (-(2**63), 2**63), 3: (0, 2**32), 4: (0, 2**64)}


def _is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)  # older protobuf only has the label
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _wrong(where: str, value: object, allowed: str) -> UsageError:
    return UsageError(f"{where} is {value!r}", remedy=f"it must be {allowed}")
