"""`diagnose` sees the models below an ensemble and below a model that calls others."""

import pytest

from inferometer import api
from inferometer.server.embedded import EmbeddedTriton

pytestmark = pytest.mark.live


@pytest.mark.machine(
    reason="a level of half a second has requests only where other processes leave the server a core"
)
def test_calls_of_a_python_model_are_seen_below_it(triton: EmbeddedTriton) -> None:
    found = api.diagnose(
        "bls",
        url=triton.http_address,
        concurrency=(1, 2),
        duration_s=0.5,
        bls_composing_models=(("addsub", ""),),
    )
    assert [(step.name, step.depth) for step in found.steps] == [("bls", 0), ("addsub", 1)]
    assert found.steps[1].calls == pytest.approx(1, rel=0.2)


@pytest.mark.machine(
    reason="a level of half a second has requests only where other processes leave the server a core"
)
def test_a_nested_ensemble_is_seen_through(triton: EmbeddedTriton) -> None:
    found = api.diagnose("ens_nested", url=triton.http_address, concurrency=2, duration_s=0.5)
    assert {step.name for step in found.steps} <= {"addsub", "addsub_b", "cached"}
    assert len(found.steps) >= 2
