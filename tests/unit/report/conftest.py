"""Hand-built results with the numbers of real runs, and golden files."""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

GOLDEN = Path(__file__).parents[2] / "golden" / "report"


@pytest.fixture(scope="session")
def build() -> ModuleType:
    """The module `builders.py` beside this file; importlib mode puts no folder on the path."""
    name = "report_builders"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("builders.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with a golden file; INFEROMETER_UPDATE_GOLDEN=1 writes the file first."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("INFEROMETER_UPDATE_GOLDEN") == "1":
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare
