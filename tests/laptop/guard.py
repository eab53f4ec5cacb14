"""The guard without the calls of Linux: guards start isolated, so Python does not run `sitecustomize` in them."""

import importlib
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

importlib.import_module("sitecustomize")
runpy.run_path(str(HERE.parents[1] / "src/inferometer/server/guard.py"), run_name="__main__")
