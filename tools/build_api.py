"""Write the types of the arguments of the Python API: `python -m tools.build_api`.

The functions take most of their arguments as `**given`, generated from the table of options when the package is
imported, which no type checker can follow. `api/keywords.py` declares them as one TypedDict per function, for
`**given: Unpack[...]`. Arguments that the same functions take are declared together. A test fails when the file is
stale.
"""

import inspect
import re
from pathlib import Path

import inferometer
from inferometer.api import functions

HEAD = '''"""Types of the arguments that the Python functions share. Made by tools/build_api.py: do not edit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from inferometer.options.options import DataOptions
from inferometer.options.values import Range
'''
COMMANDS = ("measure", "scenario", "interfere", "find", "tune", "compare", "diagnose")


def arguments(command: str) -> dict[str, str]:
    """Return the types of the arguments that a function takes as `**given`, by name."""
    function = getattr(functions, command)
    own = inspect.signature(inspect.getclosurevars(function).nonlocals["function"]).parameters
    return {
        row.name: _annotation(row.annotation)
        for row in inspect.signature(function).parameters.values()
        if row.name not in own
    }


def _annotation(found: object) -> str:
    text = found if isinstance(found, str) else inspect.formatannotation(found)
    return re.sub(r"\b(?:collections\.abc|pathlib(?:\._local)?|typing)\.", "", text).strip("'\"")


def keywords_class(command: str) -> str:
    """Return the name of the class of all arguments that a function takes as `**given`."""
    return f"{command.title()}Keywords"


def text() -> str:
    """Return the text of `keywords.py`: a class for each set of functions, and one for each function."""
    commands = {command: arguments(command) for command in COMMANDS}
    shared: dict[tuple[str, ...], dict[str, str]] = {}
    for name in dict.fromkeys(name for found in commands.values() for name in found):
        takers = tuple(command for command, found in commands.items() if name in found)
        shared.setdefault(takers, {})[name] = commands[takers[0]][name]
    parts = [HEAD]
    for takers, found in shared.items():
        fields = "".join(f"    {name}: {kind}\n" for name, kind in found.items())
        parts.append(f"class {_shared(takers)}(TypedDict, total=False):\n{fields}")
    for command in COMMANDS:
        bases = ", ".join(_shared(takers) for takers in shared if command in takers)
        parts.append(
            f'class {keywords_class(command)}(\n    {bases}, total=False\n):\n    """Arguments of `{command}`."""\n'
        )
    return "\n\n".join(parts)


def _shared(takers: tuple[str, ...]) -> str:
    """Return the name of the class of the arguments that exactly these functions take."""
    missing = [command.title() for command in COMMANDS if command not in takers]
    if len(missing) > len(takers):
        return f"_In{''.join(command.title() for command in takers)}"
    return f"_NotIn{''.join(missing)}" if missing else "_InAll"


FILE = Path(inferometer.__file__).parent / "api" / "keywords.py"

if __name__ == "__main__":
    FILE.write_text(text())
