"""Write the type stubs of the Python API: `python -m tools.build_api`.

The arguments are generated from the table of options when the package is imported, which no type checker can follow. A
test fails when the stubs are stale.
"""

import inspect
import re
from pathlib import Path

import inferometer
from inferometer.api import functions

HEAD = '''"""What type checkers see of the Python functions. Made by tools/build_api.py: do not edit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from inferometer.api import aio as aio
from inferometer.base.answer_file import Answer
from inferometer.capacity.plan import CapacityPlan
from inferometer.compare.comparison import Comparison
from inferometer.compare.interference import Interference
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.options.options import DataOptions
from inferometer.options.values import Range
from inferometer.stats.inspection import Inspection
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher
from inferometer.tune.study import Study
from inferometer.twin.twin import Twin
'''
COMMANDS = ("measure", "scenario", "interfere", "find", "tune", "compare", "diagnose")
OTHERS = (
    "capacity",
    "twin_fit",
    "twin_predict",
    "twin_check",
    "inspect",
    "load",
    "save",
    "to_html",
    "to_markdown",
)


def stub(*, is_async: bool) -> str:
    """Return the text of `__init__.pyi` or `aio.pyi`."""
    names = COMMANDS if is_async else (*COMMANDS, *OTHERS)
    head = HEAD.replace("from inferometer.api import aio as aio\n", "") if is_async else HEAD
    parts = [_function(name, is_async=is_async) for name in names]
    text = "\n".join([head, *parts])
    return (
        re.sub(r"from \S+ import (?:Answer|Inspection|CapacityPlan|Twin)\n", "", text) if is_async else text
    )


def _function(name: str, *, is_async: bool) -> str:
    signature = inspect.signature(getattr(functions, name))
    words: list[str] = []
    is_named = False
    for row in signature.parameters.values():
        if row.kind is row.KEYWORD_ONLY and not is_named and not any(word.startswith("*") for word in words):
            words.append("*")
        is_named |= row.kind is row.KEYWORD_ONLY
        default = "" if row.default is row.empty else " = ..."
        star = "*" if row.kind is row.VAR_POSITIONAL else ""
        words.append(f"{star}{row.name}: {_annotation(row.annotation)}{default}")
    result = _annotation(signature.return_annotation)
    body = "".join(f"    {word},\n" for word in words)
    return f"{'async ' if is_async else ''}def {name}(\n{body}) -> {result}: ...\n"


def _annotation(found: object) -> str:
    text = found if isinstance(found, str) else inspect.formatannotation(found)
    text = re.sub(r"\b(?:collections\.abc|pathlib(?:\._local)?|typing)\.", "", text)
    return text.strip("'\"")


def files() -> dict[Path, str]:
    folder = Path(inferometer.__file__).parent / "api"
    return {folder / "__init__.pyi": stub(is_async=False), folder / "aio.pyi": stub(is_async=True)}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
