"""Names of options in error messages. They carry the option's field, so that each interface can spell them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from inferometer.base.errors import Name
from inferometer.options.option import OWN, Option, rows
from inferometer.options.options import MODERN, OPTIONS

BY_FIELD: Mapping[str, Option] = {row.field: row for _, rows in reversed(OPTIONS) for row in reversed(rows)}
_PLACE = re.compile(r"\{([a-z_.]+|--?[a-zA-Z-]+)(?::(\w+))?\}")


def option_name(option: str, value: str = "") -> Name:
    """Return the name of an option, with a value if one is meant.

    The option is given as our commands write it (`--data`), or by its field, which is then spelled as in the classic
    script."""
    if option.startswith("-"):
        row = _shared_by_name().get(option) or _own_by_name()[option]
        name, field = option, row.field
        if row.values is None and row.value is not True:  # a flag for one value, such as --grpc
            return Name(option, field, str(row.value))
    else:
        row, field = BY_FIELD[option], option
        name = (row.names or row.own or (field,))[0]
    return Name(f"{name} {value}".rstrip(), field, value)


def with_names(text: str) -> str:
    """Put the names of options into a text, such as `{--data}` or `{speed}`; `{protocol:grpc}` has a value."""
    return _PLACE.sub(lambda found: f"{option_name(found[1], found[2] or '')}", text)


@cache
def _shared_by_name() -> Mapping[str, Option]:
    """Return the options of a measurement by name."""
    return _by_name(members for _, members in MODERN)


@cache
def _own_by_name() -> Mapping[str, Option]:
    """Return the options of individual commands by name."""
    from inferometer.options import (
        asides,
        comparing,
        diagnosing,
        finding,
        measuring,
        mixing,
        planning,
        tuning,
        twin,
    )

    kinds = (
        asides.Asides,
        measuring.MeasureOptions,
        finding.FindOptions,
        diagnosing.DiagnoseOptions,
        comparing.CompareOptions,
        tuning.TuneOptions,
        mixing.InterfereOptions,
        planning.CapacityOptions,
        twin.TwinOptions,
    )
    return _by_name(members for kind in kinds for _, members in rows(kind, prefix=OWN))


def _by_name(groups: Iterable[Sequence[Option]]) -> Mapping[str, Option]:
    found = dict[str, Option]()
    for members in groups:
        for row in members:
            for name in row.names:
                found.setdefault(name, row)
    return found
