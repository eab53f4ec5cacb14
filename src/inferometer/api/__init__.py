"""The Python surface. `from inferometer import api; api.measure("simple", concurrency=[1, 2, 4])`.

What type checkers see of it is in `__init__.pyi`, made by tools/build_api.py.
"""

from inferometer.api import aio
from inferometer.api.functions import (
    compare,
    diagnose,
    find,
    inspect,
    load,
    measure,
    save,
    to_html,
    to_markdown,
    tune,
    twin_check,
    twin_fit,
    twin_predict,
)

__all__ = [
    "aio",
    "compare",
    "diagnose",
    "find",
    "inspect",
    "load",
    "measure",
    "save",
    "to_html",
    "to_markdown",
    "tune",
    "twin_check",
    "twin_fit",
    "twin_predict",
]
