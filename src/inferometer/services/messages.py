"""The official gRPC messages of Triton, without the rest of their package, which needs grpcio."""

import importlib
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from inferometer.base.errors import LocalError

PACKAGE = "tritonclient.grpc"


@cache
def load_messages() -> Any:
    """The module `service_pb2`. Whoever imports the real package later still gets it whole."""
    if PACKAGE in sys.modules:
        return importlib.import_module(f"{PACKAGE}.service_pb2")
    spec = find_spec("tritonclient")
    if spec is None or not spec.submodule_search_locations:
        raise LocalError(
            "gRPC needs the package tritonclient, which is not installed", remedy="pip install tritonclient"
        )
    stand_in = ModuleType(PACKAGE)
    stand_in.__path__ = [str(Path(next(iter(spec.submodule_search_locations))) / "grpc")]
    sys.modules[PACKAGE] = stand_in
    try:
        return importlib.import_module(f"{PACKAGE}.service_pb2")
    finally:
        for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
            del sys.modules[name]
