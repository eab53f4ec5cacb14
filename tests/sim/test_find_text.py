"""`find` on continuous-batching text servers with long answers. Their limits are from simulations of 1,500 s."""

from copy import deepcopy
from dataclasses import dataclass, field
from statistics import median

import pytest

from inferometer.base.slo import parse_slo
from inferometer.base.units import NS_PER_S
from inferometer.find.run import SearchGoal, find
from inferometer.measure.instrument import Instrument, LevelSettings
from inferometer.model.spec import ModelSpec
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from tests.support.batching import KNOWN_ENGINE, BatchingServer, Lengths, Troubles, between, fixed
from tests.support.clock import FakeClock
from tests.support.llm_engine import EngineSettings
from tests.support.samples import sample
from tests.support.simulation import SimulatedLoad

PROMISE = parse_slo("ttft p99<500ms, tpot p95<40ms")
SEEDS = range(1, sample(2, 21))
SLOW_STEPS = EngineSettings(prefill_per_s=8000.0, step_s=0.0255, step_per_sequence_s=0.0006, slots=64)


@dataclass(frozen=True, slots=True)
class Text:
    """A text server, and the rate at which it just meets the SLO."""

    limit: float
    settings: EngineSettings
    lengths: Lengths = field(default_factory=lambda: between(32, 96))
    distribution: str = "constant"
    troubles: Troubles | None = None

    def search(self, seed: int):
        clock = FakeClock()
        server = BatchingServer(self.lengths, seed, self.settings, deepcopy(self.troubles))
        instrument = Instrument(SimulatedLoad(server, clock), clock, lambda: None, Watcher())
        settings = LevelSettings(
            ModelSpec("", "", (), ()),
            batch=1,
            percentile=None,
            rule=Precision(0.0, NS_PER_S),
            window_ns=NS_PER_S,
            has_tokens=True,
        )
        goal = SearchGoal(PROMISE, 120 * NS_PER_S, distribution=self.distribution, seed=1000 * seed)
        *_, (_, finding) = find(instrument, settings, goal)
        assert finding is not None
        assert finding.high is not None
        return finding


def covers(finding, limit):
    return finding.low <= limit <= finding.high


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_for_a_slot_is_found_to_a_few_percent(seed):
    """A server with 32 slots is saturated at 15.24/s, above which answers wait for their first token."""
    finding = Text(15.27, KNOWN_ENGINE, fixed(64)).search(seed)
    assert covers(finding, 15.27)
    assert finding.high < 1.1 * finding.low
    assert finding.limited_by in ("ttft p99", "overload")


@pytest.mark.only_sampled
def test_the_time_per_token_is_found_from_the_times_themselves():
    findings = [Text(6.52, SLOW_STEPS).search(seed) for seed in range(1, 21)]
    assert sum(covers(finding, 6.52) for finding in findings) >= 18
    assert median(finding.high / finding.low for finding in findings) < 1.4
    assert median(finding.value for finding in findings) > 0.85 * 6.52
    assert {finding.limited_by for finding in findings} == {"tpot p95"}


@pytest.mark.only_sampled
def test_random_arrivals_widen_the_interval_of_a_time_per_token():
    rate = Text(4.92, SLOW_STEPS, distribution="poisson")
    findings = [rate.search(seed) for seed in range(1, 41)]
    assert sum(covers(finding, 4.92) for finding in findings) >= 35
    assert median(finding.high / finding.low for finding in findings) < 2.2


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
def test_compilation_at_each_new_number_of_answers_is_not_saturation(seed):
    finding = Text(6.52, SLOW_STEPS, troubles=Troubles(compile_s=2.0)).search(seed)
    assert covers(finding, 6.52)
    assert finding.value > 0.7 * 6.52


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_start_is_not_the_limit(seed):
    """Steps take four times as long for twenty seconds: the first answers are beyond the limit, one at a time."""
    finding = Text(6.52, SLOW_STEPS, troubles=Troubles(first_slower=4.0, slow_until_s=20.0)).search(seed)
    assert covers(finding, 6.52)
    assert finding.value > 0.85 * 6.52
