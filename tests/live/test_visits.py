"""Visits to the real server: what we count of each step is what the server counts of its model."""

import json

import numpy as np
import pytest

from inferometer import api
from inferometer.visits import call, pause
from tests.support.commands import call as command
from tests.support.success_counts import success_counts

pytestmark = pytest.mark.live

MODELS = {"add": "simple", "echo": "identity_fp32", "shout": "upper"}
FLOW = [
    {"name": "add", "call": "simple", "inputs": {"INPUT0": ["$visit"] * 16}, "think": "5ms"},
    {"name": "echo", "call": "identity_fp32", "inputs": {"INPUT0": ["$add.OUTPUT0.0", 2, 3]}},
    {"name": "shout", "call": "upper", "inputs": {"INPUT0": ["hello"]}},
]


def visit(number):
    """Every value is checked on its way."""
    ones = np.full(16, number % 1000, dtype=np.int32)
    added = yield call("add", {"INPUT0": ones, "INPUT1": np.arange(16, dtype=np.int32)})
    assert (added["OUTPUT0"] == ones + np.arange(16)).all()
    echoed = yield call("echo", {"INPUT0": added["OUTPUT0"].astype(np.float32)})
    assert (echoed["OUTPUT0"] == added["OUTPUT0"]).all()
    yield pause(0.001)
    shouted = yield call("shout", {"INPUT0": [f"visit {number}"]})
    assert shouted["OUTPUT0"].tolist() == [f"VISIT {number}".encode()]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_server_counts_the_steps_of_visits(triton, protocol):
    before = success_counts(triton.http_address, MODELS.values())
    result = api.scenario(
        {
            "server": triton.http_address if protocol == "http" else triton.grpc_address,
            "classes": {
                "flow": {"flow": FLOW, "rate": 20, "protocol": protocol},
                "code": {
                    "visit": visit, "steps": MODELS, "concurrency": 8, "workers": 2, "protocol": protocol,
                },
            },
            "phases": [{"name": "both", "for": "1s"}],
        }
    )  # fmt: skip
    (level,) = result.levels
    flow, code = level.classes
    assert (
        flow.rates.due_per_s > 0
    )  # a phase takes longer on a busy machine; sim/test_visits.py has the figure
    for row in (flow, code):
        assert row.measurement.request_count > 10
        assert not row.measurement.failed_count, row.measurement.failures
    steps = [step.measurement.request_count for row in (flow, code) for step in row.steps]
    assert level.measurement.request_count == sum(steps)
    after = success_counts(triton.http_address, MODELS.values())
    assert sum(after.values()) - sum(before.values()) == result.account.sent


def test_the_first_request_of_a_visit_is_shown(triton, tmp_path):
    scenario = tmp_path / "shop.yaml"
    scenario.write_text(json.dumps({"classes": {"shop": {"flow": FLOW, "rate": 5}}}))
    done = command(
        "inferometer", "measure", triton.http_address, "--scenario", str(scenario), "--show-request"
    )
    assert done.code == 0, done.stderr
    assert "POST /v2/models/simple/infer" in done.stdout
