"""Arguments of the Python functions, derived from the table of options.

An argument is named after its option's field. Options of a nested part become arguments of the same level: `data`,
`input`, `tls_ca`. Texts are parsed like words of a command line, and all values pass the same checks.
"""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from functools import cache, wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union

from inferometer.base.errors import InferometerError, Name, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import nearest
from inferometer.options.comparing import COMPARE_REFUSED, CompareOptions
from inferometer.options.diagnosing import DIAGNOSE_REFUSED, DiagnoseOptions
from inferometer.options.finding import FIND_REFUSED, FindOptions
from inferometer.options.groups import WINDOWS
from inferometer.options.mixing import INTERFERE_REFUSED, SCENARIO_REFUSED
from inferometer.options.names import with_names
from inferometer.options.option import OWN, Option, rows
from inferometer.options.options import DURATION_S, OPTIONS, REQUEST_TIMEOUT_S, DataOptions, Options, Tls
from inferometer.options.planning import CapacityOptions
from inferometer.options.tuning import TUNE_REFUSED, TuneOptions
from inferometer.options.twin import TwinOptions
from inferometer.options.values import Range
from inferometer.stats.watcher import WATCHER_METHODS

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

REFUSED: Mapping[str, Mapping[str, str]] = {
    "measure": {},
    "interfere": INTERFERE_REFUSED,
    "scenario": SCENARIO_REFUSED,
    "find": FIND_REFUSED,
    "diagnose": DIAGNOSE_REFUSED,
    "compare": COMPARE_REFUSED,
    # Windows are accepted for trials in the style of the classic tool.
    "tune": {name: remedy for name, remedy in TUNE_REFUSED.items() if name not in WINDOWS}
    | {"model_repository": "add it to the repositories"},
}
_FILES = "pass the returned object to api.save, api.to_html or api.to_markdown"
_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("csv", "verbose_csv", "json", "html", "markdown", "junit"), _FILES),
    **dict.fromkeys(("quiet", "verbose"), "nothing is printed; follow the run with a watcher"),
}
"""Command-line options without effect here, and what to do instead."""

# By field: the argument's name if it differs, and the accepted types.
_NAMES = {
    "request_rate": "rate",
    "data.sources": "data",
    "data.files": "input",
    "data.shapes": "shape",
    "tls.ca_file": "tls_ca",
    "tls.certificate_file": "tls_cert",
    "tls.key_file": "tls_key",
    "tls.certificate_type": "tls_cert_type",
    "tls.key_type": "tls_key_type",
}
_PAIRS = "Mapping[str, str] | Sequence[tuple[str, str]]"
_TAKEN = {
    "concurrency": "int | Sequence[int] | str | Range | None",
    "request_rate": "float | Sequence[float] | str | Range | None",
    "periodic_concurrency": "tuple[int, ...] | str | Range | None",
    "workers": 'int | Literal["auto"]',
    "headers": _PAIRS,
    "data.sources": "str | Path | Sequence[str | Path] | DataOptions",
    "data.files": _PAIRS,
    "data.shapes": "Mapping[str, Sequence[int]]",
    "slo": "str | None",
}
_LEVELS = ("concurrency", "request_rate")
_OLD = {"request_rate": "rate"}  # former names, still accepted
_OWN_NAMES = {"model_repository": "repositories", "batch": "batches", "load": "loads"}  # of `tune`


@frozen
class Argument:
    """An argument: the option it sets, its types and its help."""

    name: str
    field: str  # with the prefix "data." or "tls." for a part
    kind: Any  # the type of the field
    taken: str  # accepted types, as an annotation
    default: Any
    option: Option

    @property
    def help(self) -> str:
        return self.option.own_help or self.option.help

    def read(self, value: Any) -> Any:
        """Return the value for the field; UsageError if it is invalid."""
        values = self.option.own_values or self.option.values
        if hasattr(value, "tolist"):  # numbers and arrays of numpy
            value = value.tolist()
        if _fits(value, self.kind):
            return value
        if isinstance(value, Path):
            value = str(value)
        if self.field in _LEVELS:
            return self._levels(value)
        if isinstance(value, str) and values is not None and not _fits(value, self.kind):
            if self.option.combine is None:
                return values.read(self.name, value)
            value = (value,)
        if self.field == "periodic_concurrency" and isinstance(value, tuple):
            value = Range(*value)
        found = _plain(value, self.kind)
        if not _fits(found, self.kind):
            raise UsageError(
                f"{self.name} takes {self.taken}, but is {value!r}", remedy=self.help.split(". ")[0]
            )
        return found

    def _levels(self, value: Any) -> Range:
        """Parse a number, a list of levels, (start, end[, step]), or a text as on the command line."""
        is_row = isinstance(value, Sequence) and not isinstance(value, str)
        numbers = list(value) if is_row else [value]
        if not numbers or any(
            isinstance(row, bool) or not isinstance(row, int | float | str) for row in numbers
        ):
            raise UsageError(
                f"{self.name} takes {self.taken}, but is {value!r}",
                remedy="give a number, or a list such as [1, 2, 4]",
            )
        between = ":" if isinstance(value, tuple) and len(value) in (2, 3) else ","
        reads = self.option.own_values or self.option.values
        assert reads is not None
        found: Range = reads.read(self.name, between.join(map(str, numbers)))
        return found


def _plain(value: Any, kind: Any) -> Any:
    """Convert mappings and lists to the types of the option table."""
    origin = typing.get_origin(kind)
    if origin is tuple and isinstance(value, Mapping):
        return tuple(value.items())
    if origin is tuple and isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(
            tuple(row) if isinstance(row, list) else str(row) if isinstance(row, Path) else row
            for row in value
        )
    if isinstance(value, Mapping):
        return {name: tuple(row) if isinstance(row, list) else row for name, row in value.items()}
    return value


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value has the type of an option's field."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = [inner[0]] * len(value) if inner[1:] == (...,) else list(inner)
        return len(kinds) == len(value) and all(map(_fits, value, kinds))
    if origin is not None and isinstance(value, Mapping):
        return all(_fits(name, inner[0]) and _fits(row, inner[1]) for name, row in value.items())
    if kind is None or kind is type(None):
        return value is None
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    return isinstance(kind, type) and isinstance(value, kind)


@cache
def arguments() -> tuple[Argument, ...]:
    """Return the arguments of a measurement, in the order of the table."""
    table = {
        row.field: row
        for _, members in reversed(OPTIONS)
        for row in reversed(members)
        if not row.is_deprecated
    }
    found = []
    for place in fields(Options):
        part = {"data": DataOptions, "tls": Tls}.get(place.name)
        for field, name in _places(part, place):
            row = table.get(name)
            if row is None or row.instead or name in _ELSEWHERE:
                continue
            found.append(_argument(field, name, row))
    return tuple(found)


def _places(part: type | None, place: "Field[Any]") -> Iterable[tuple["Field[Any]", str]]:
    if part is None:
        return [(place, place.name)]
    return [(field, f"{place.name}.{field.name}") for field in fields(part)]


def _argument(field: "Field[Any]", name: str, row: Option) -> Argument:
    called = _NAMES.get(name, name.replace("tls.", "tls_").replace("data.", ""))
    default = field.default if field.default is not MISSING else {}
    if name == "request_timeout_s":
        default = REQUEST_TIMEOUT_S
    taken = _TAKEN.get(name) or inspect.formatannotation(field.type).replace("typing.", "")
    taken = taken.replace("tuple[str, ...]", "Sequence[str]")
    return Argument(called, name, field.type, taken, default, row)


def arguments_of(command: str) -> tuple[Argument, ...]:
    """Return the arguments that a command supports."""
    refused = REFUSED[command]
    return tuple(row for row in arguments() if row.field not in refused)


# --- given values


def asked(command: str, given: Mapping[str, Any], **fixed: Any) -> Options:
    """Make options from arguments; `fixed` are values that the function sets itself."""
    from inferometer.measure.checks import changed

    known = {row.name: row for row in arguments()}
    changes = dict[str, Any]()
    parts = dict[str, dict[str, Any]]()
    for name, value in given.items():
        row = known[_OLD.get(name, name)]
        if value is None:
            continue
        first, dot, rest = row.field.partition(".")
        if dot and isinstance(value, DataOptions | Tls):
            changes[first] = value
        elif dot:
            parts.setdefault(first, {})[rest] = row.read(value)
        else:
            changes[first] = row.read(value)
    base = Options(request_timeout_s=REQUEST_TIMEOUT_S)
    for first, values in parts.items():
        changes[first] = replace(changes.get(first, getattr(base, first)), **values)
    if changes.get("duration_s") == DURATION_S:  # the default does not count as given
        base = replace(base, duration_s=changes.pop("duration_s"))
    return changed(base, **changes, **fixed)


def read(name: str, value: Any) -> Any:
    """Parse the value of one argument."""
    return next(row for row in arguments() if row.name == name).read(value)


def items(name: str, given: Any) -> tuple[Any, ...]:
    """Return a text or path, or a list of them, as a tuple."""
    is_row = isinstance(given, Iterable) and not isinstance(given, str | Path)
    found = tuple(given) if is_row else (given,)
    if not all(isinstance(row, str | Path) for row in found):
        raise UsageError(
            f"{name} takes one or several strings, but is {given!r}", remedy="give a list of strings"
        )
    return found


def expect(name: str, value: object, *kinds: type) -> None:
    """Raise unless the value has one of these types."""
    if not isinstance(value, kinds):
        known = " or ".join(kind.__name__ for kind in kinds)
        raise UsageError(f"{name} must be a {known}, but is {value!r}", remedy=f"give a {known}")


def checked(kind: type[T], **given: Any) -> T:
    """Make the options of one command; texts are parsed and values checked as the table defines."""
    table = {row.field: row for _, members in rows(kind) for row in members}  # type: ignore[arg-type]
    found = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in given or (value := given[field.name]) is None:
            continue
        name = _OWN_NAMES.get(field.name, field.name)
        row = replace(_argument(field, field.name, table[field.name]), name=name)
        found[field.name] = row.read(value)
        if row.option.values is not None and row.option.combine is None and found[field.name] not in ("", ()):
            row.option.values.check(name, found[field.name])
    return kind(**found)


# --- functions with checked signatures


def worded(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that unexpected arguments raise UsageError, and errors name arguments."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **given: P.kwargs) -> R:
        try:
            _bind(function, signature, args, given)
            return function(*args, **given)
        except InferometerError as error:
            error.spell(argument_name)
            raise

    return call


def _bind(function: Callable[..., Any], signature: inspect.Signature, args: Any, given: Any) -> None:
    try:
        signature.bind(*args, **given)
    except TypeError as error:
        name = f"api.{function.__name__}"
        raise UsageError(f"{name}: {error}", remedy=f"see help(inferometer.{name})") from None


def named(command: str, *hidden: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Replace the `**given` of a function by the arguments of a command, except the `hidden` ones.

    Other arguments raise UsageError.
    """

    def sign(function: Callable[P, R]) -> Callable[P, R]:
        own = [
            row for row in inspect.signature(function).parameters.values() if row.kind is not row.VAR_KEYWORD
        ]
        taken = {*hidden, *(row.name for row in own)}
        rest = [row for row in arguments_of(command) if row.name not in taken]
        signature = inspect.Signature(
            [*own, *(_parameter(row) for row in rest)],
            return_annotation=inspect.signature(function).return_annotation,
        )

        @wraps(function)
        def call(*args: P.args, **given: P.kwargs) -> R:
            try:
                _check_names(command, signature, given)
                _bind(function, signature, args, {_OLD.get(name, name): row for name, row in given.items()})
                _check_watcher(given.get("watcher"))
                return function(*args, **given)
            except InferometerError as error:
                error.spell(argument_name)
                raise

        call.__signature__ = signature  # type: ignore[attr-defined]
        del call.__wrapped__
        call.__doc__ = f"{function.__doc__}\n{_documented(rest)}"
        return call

    return sign


def _parameter(row: Argument) -> inspect.Parameter:
    return inspect.Parameter(
        row.name, inspect.Parameter.KEYWORD_ONLY, default=row.default, annotation=row.taken
    )


def _documented(rows: Iterable[Argument]) -> str:
    return "\n".join(f"    - {row.name}: {row.help}" for row in rows)


def _check_watcher(watcher: object) -> None:
    """Raise UsageError for a watcher without any of the methods; one is enough."""
    if watcher is not None and not any(hasattr(watcher, name) for name in WATCHER_METHODS):
        raise UsageError(
            f"watcher has none of the expected methods: {watcher!r}",
            remedy=f"define one of {', '.join(WATCHER_METHODS)}",
        )


def argument_name(name: Name) -> str:
    """Return the argument for an option in a message, with its value."""
    argument = _by_field().get(name.field)
    if argument is None:
        return str(name)
    return f"{argument}={_literal(name.value)}" if name.value else argument


def _literal(value: str) -> str:
    """Return a value as it is written in Python; placeholders such as `FILE` are left unchanged."""
    is_plain = value.isupper() or value in ("True", "False") or value.replace(".", "", 1).isdigit()
    return value if is_plain else repr(value)


@cache
def _by_field() -> Mapping[str, str]:
    """Return the argument for each option's field."""
    single = (FindOptions, CompareOptions, DiagnoseOptions, TuneOptions, CapacityOptions, TwinOptions)
    own = {
        row.field: _OWN_NAMES.get(row.field.removeprefix(OWN), row.field.removeprefix(OWN))
        for kind in single
        for _, members in rows(kind, prefix=OWN)
        for row in members
    }
    return own | {row.field: row.name for row in arguments()}


def _check_names(command: str, signature: inspect.Signature, given: Mapping[str, Any]) -> None:
    known = {*signature.parameters, *(old for old, name in _OLD.items() if name in signature.parameters)}
    fields = {row.name: row.field for row in arguments()} | {old: old for old in _OLD}
    gone = {row.field: row.instead for _, members in OPTIONS for row in members if row.instead}
    for name in given:
        if name in known:
            continue
        remedy = _ELSEWHERE.get(name) or REFUSED[command].get(fields.get(name, "")) or gone.get(name)
        if remedy is not None:
            raise UsageError(f"'{name}' has no effect in api.{command}", remedy=with_names(remedy))
        near = nearest(name, signature.parameters)
        raise UsageError(
            f"api.{command} has no argument '{name}'",
            remedy=f"did you mean '{near}'?" if near else f"see help(inferometer.api.{command})",
        )
