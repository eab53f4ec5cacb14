"""Turns on a simulated clock: nothing is found where nothing is, and ten percent are found."""

import math

import numpy as np

from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.compare.comparison import NO_DIFFERENCE, SLOWER, LevelDifference
from inferometer.compare.differences import of_turns, overall
from inferometer.compare.metrics import metrics
from inferometer.compare.turns import Lane, Pace, measure_point
from inferometer.load.plan import Closed
from inferometer.measure.stopping import Precision
from inferometer.model.spec import ModelSpec
from inferometer.profile.level import Bench, Point, Recipe
from inferometer.testing.clock import FakeClock
from inferometer.testing.target import FakeServer, Reply, SimulatedLoad

RECIPE = Recipe(ModelSpec("fake", "", (), ()), 1, None, Precision(0.02, NS_PER_S))
SERVICE_NS = 8 * NS_PER_MS
RUNS = range(20)


class Follower:
    def __init__(self, rounds=10**9):
        self.rounds = rounds

    def level_started(self, mode, value):
        pass

    def round_finished(self, number, rounds, rates):
        self.rounds -= 1

    def window_finished(self, number, window):
        pass

    def level_finished(self, level):
        pass

    def is_interrupted(self):
        return self.rounds <= 0


class Machine:
    """A machine that gets slower by a fifth while it is watched, breathes, and stalls now and then."""

    def __init__(self, seed):
        random = np.random.RandomState(seed)
        seconds = 200
        breath = np.convolve(random.standard_normal(10 * seconds + 20), np.ones(20) / math.sqrt(20), "valid")
        stalls = 0.8 * (random.uniform(size=len(breath)) < 0.02)
        drift = 0.2 * np.arange(len(breath)) / 200
        self.factors = np.exp(0.08 * breath + stalls + drift)
        self.requests = np.exp(0.1 * random.standard_normal(1 << 16))

    def serve(self, factor):
        def script(number, sent_ns):
            at = min(sent_ns * 10 // NS_PER_S, len(self.factors) - 1)
            return Reply(
                round(SERVICE_NS * factor * self.factors[at] * self.requests[(number * 7919) % (1 << 16)])
            )

        return script


def course(scripts, *, plan=None, servers=2, duration_s=10, follower=None, steps=1):
    clock = FakeClock()
    follower = follower or Follower()
    lanes = [
        Lane(
            name,
            Bench(SimulatedLoad(FakeServer(script, servers), clock), clock, lambda: None, follower),
            RECIPE,
            steps,
        )
        for name, script in scripts.items()
    ]
    plan = plan or Closed(2)
    mode, value = ("concurrency", plan.concurrency) if isinstance(plan, Closed) else ("request_rate", 100)
    point = Point(mode, value, plan)
    return measure_point(lanes, point, Pace(round(duration_s * NS_PER_S)), follower), point


def verdict(seed, factor, **more):
    machine = Machine(seed)
    (base, other), _ = course({"a": machine.serve(1.0), "b": machine.serve(factor)}, **more)
    rows = of_turns(base, other, metrics(None), looks=4)
    return overall([LevelDifference("concurrency", 2, rows)])


def test_alike_variants_raise_at_most_one_alarm_in_twenty():
    verdicts = [verdict(seed, 1.0) for seed in RUNS]
    assert verdicts.count(NO_DIFFERENCE) >= 19, verdicts


def test_ten_percent_are_found_in_eighteen_of_twenty():
    verdicts = [verdict(seed, 1.1) for seed in RUNS]
    assert verdicts.count(SLOWER) >= 18, verdicts
