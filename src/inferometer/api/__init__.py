"""The Python API: `from inferometer import api; api.measure("simple", concurrency=[1, 2, 4])`.

Type checkers read `__init__.pyi`, which tools/build_api.py generates.
"""

from inferometer.api import aio
from inferometer.api.functions import (
    capacity,
    compare,
    diagnose,
    find,
    inspect,
    interfere,
    load,
    measure,
    save,
    scenario,
    to_html,
    to_markdown,
    tune,
    twin_check,
    twin_fit,
    twin_predict,
)

__all__ = [
    "aio",
    "capacity",
    "compare",
    "diagnose",
    "find",
    "inspect",
    "interfere",
    "load",
    "measure",
    "save",
    "scenario",
    "to_html",
    "to_markdown",
    "tune",
    "twin_check",
    "twin_fit",
    "twin_predict",
]
