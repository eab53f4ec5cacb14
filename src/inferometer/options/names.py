"""Names of options in error messages."""

import re
from collections.abc import Mapping

from inferometer.base.errors import Name
from inferometer.options.option import Option
from inferometer.options.options import OPTIONS

BY_FIELD: Mapping[str, Option] = {row.field: row for _, rows in reversed(OPTIONS) for row in reversed(rows)}
_PLACE = re.compile(r"\{([a-z_.]+)(?::(\w+))?\}")


def option_name(field: str, value: str = "") -> Name:
    """Return the name of a field's option, with a value if one is meant; spelled as in the classic script."""
    row = BY_FIELD[field]
    name = (row.names or row.own or (field,))[0]
    return Name(f"{name} {value}".rstrip(), field, value)


def named(text: str) -> str:
    """Put the names of options into a text: `{speed}` is the option of that field, `{protocol:grpc}` with a value."""
    return _PLACE.sub(lambda found: f"{option_name(found[1], found[2] or '')}", text)
