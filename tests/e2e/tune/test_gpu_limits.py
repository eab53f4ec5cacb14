"""GPU limits without readable server metrics: NVML provides the figures on the server's machine."""

import sys
from types import SimpleNamespace

import pytest

from inferometer.measure.checks import changed
from inferometer.options.options import Options
from inferometer.options.tuning import TuneOptions
from inferometer.tune.meter import EngineMeter, TrialError
from inferometer.tune.request import settings_of
from inferometer.tune.search.search import Proposal
from inferometer.tune.settings import Addresses, Effort
from inferometer.tune.trial import ClientLoad
from inferometer.tune.variant import ModelVariant
from tests.support.nvml import FakeNvml
from tests.support.servers import FakeTriton

PROPOSAL = Proposal(
    ((ModelVariant("fake", "fake_config_default", {}, {"name": "fake"}), ClientLoad(concurrency=2)),)
)


def measured(address: str, **given: object):
    options = settings_of(
        TuneOptions(url=address, slo="gpu memory<8GB"), changed(Options(), model="fake", **given)
    )
    deployment = SimpleNamespace(
        addresses=Addresses(address, address, "http://127.0.0.1:9/metrics"),
        pid=None,
        host=lambda model: None,
        warms_by_load=False,
    )
    meter = EngineMeter({"fake": options.models[0].options}, Effort(0.3, 0.5), {})
    try:
        return meter.measure(PROPOSAL, deployment, is_fresh=True)
    finally:
        meter.close()


def test_nvml_provides_figures_that_metrics_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    with FakeTriton() as fake:
        gpus = dict(measured(fake.server.address).gpus)
    assert gpus["GPU-a"].get("gpu_power_usage") == 55.3
    assert gpus["GPU-a"].get("gpu_used_memory") == 0.001


def test_missing_requested_metrics_are_an_error() -> None:
    with FakeTriton() as fake, pytest.raises(TrialError, match="metrics cannot be read"):
        measured(fake.server.address, collect_metrics=True)
