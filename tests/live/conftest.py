"""One real Triton for the whole session, serving the example models and the contract's fixture models."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.repository import example_repository

FIXTURE_MODELS = Path(__file__).parent / "models"


@pytest.fixture(scope="session")
def triton() -> Iterator[EmbeddedTriton]:
    # Every configuration is whole; completing them would start each model twice.
    server = EmbeddedTriton(
        (example_repository(), FIXTURE_MODELS),
        extra_args=("--disable-auto-complete-config", "--exit-timeout-secs", "0"),
    )
    with server:
        yield server
