"""One real Triton for the whole session, serving the example models and the contract's fixture models."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from inferometer.base.errors import LocalError
from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.repository import example_repository
from tests.support.commands import Ended
from tests.support.retries import SERVER, allow_retry_after_crash

FIXTURE_MODELS = Path(__file__).parent / "models"
W_CONFIG = """backend: "python"
max_batch_size: 8
dynamic_batching { }
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 64 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 64 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


@pytest.fixture(scope="session")
def triton() -> Iterator[EmbeddedTriton]:
    # Every configuration is whole; completing them would start each model twice.
    server = EmbeddedTriton(
        (example_repository(), FIXTURE_MODELS),
        extra_args=("--disable-auto-complete-config", "--exit-timeout-secs", "0"),
    )
    with server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/live/") and "triton" in getattr(item, "fixturenames", ()):
            allow_retry_after_crash(item)


@pytest.fixture(autouse=True)
def _running_servers(request: pytest.FixtureRequest) -> None:
    """A server that has crashed is started again: one test fails then, not all that follow it."""
    request.node.stash[SERVER] = request.node.funcargs.get("triton")
    for server in _servers(request.node.funcargs.values()):
        if not server.is_running():
            with suppress(LocalError):  # a server that could not be started left no words
                print(f"Triton ended by itself: {server.end_words()}")
            server.stop()
            server.start()


def _servers(values: Iterable[object]) -> Iterator[EmbeddedTriton]:
    for value in values:
        if isinstance(value, EmbeddedTriton):
            yield value
        elif isinstance(value, tuple):
            yield from _servers(value)


@pytest.fixture(scope="module")
def commands_of_the_module() -> dict[tuple[str, ...], Ended]:
    return {}


@pytest.fixture
def known(
    request: pytest.FixtureRequest, commands_of_the_module: dict[tuple[str, ...], Ended]
) -> dict[tuple[str, ...], Ended]:
    """What commands of this module said; a test that is tried again asks again."""
    if getattr(request.node, "execution_count", 1) > 1:
        commands_of_the_module.clear()
    return commands_of_the_module


@pytest.fixture
def models(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A repository with the model W, whose code is the test module's MODEL."""
    folder = tmp_path / "models"
    (folder / "W" / "1").mkdir(parents=True)
    (folder / "W" / "config.pbtxt").write_text(W_CONFIG)
    (folder / "W" / "1" / "model.py").write_text(request.module.MODEL)
    return folder
