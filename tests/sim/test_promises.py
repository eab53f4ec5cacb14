"""A promise on a simulated clock: for how long a level goes on, and what it can prove."""

from dataclasses import replace

from inferometer.base.slo import parse_slo
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Open
from inferometer.measure.instrument import LoadPoint
from inferometer.measure.level import measure_level
from inferometer.stats.stopping import Precision

ONE = LoadPoint("concurrency", 1, Closed(1))


def promised(level_settings, text, *, is_judged=True, duration_s=10):
    return level_settings(
        rule=Precision(0.02, duration_s * NS_PER_S),
        window_ns=duration_s * NS_PER_S // 20,
        promise=parse_slo(text),
        judges_promise=is_judged,
    )


def test_a_precise_level_continues_until_the_slo_is_decided(rig, level_settings, constant):
    """Fifty requests a second are precise at once; a p99 is only known after 350 of them, none beyond."""
    level = measure_level(rig(constant(20)).instrument, promised(level_settings, "p99<21ms"), ONE)
    short = measure_level(
        rig(constant(20)).instrument, promised(level_settings, "p99<21ms", is_judged=False), ONE
    )
    assert level.promise is not None
    assert level.promise.verdict == "kept"
    assert short.promise is None
    assert short.measurement.request_count < 350 <= level.measurement.request_count < 1000


def test_a_violated_slo_takes_no_longer_than_precise_figures(rig, level_settings, constant):
    settings = promised(level_settings, "p99<5ms")
    level = measure_level(rig(constant(10)).instrument, settings, ONE)
    assert level.promise.verdict == "broken"
    assert level.measurement.duration_ns == 5 * NS_PER_S


def test_an_undecided_slo_takes_exactly_the_available_time(rig, level_settings, constant):
    level = measure_level(rig(constant(10)).instrument, promised(level_settings, "p99.99<50ms"), ONE)
    assert level.promise.verdict == "undecided"
    assert level.measurement.duration_ns == 10 * NS_PER_S


def test_an_interrupted_level_does_not_show_that_it_meets_an_slo(rig, level_settings, constant):
    """After six seconds a p99 is known, and nobody knows what would have come."""
    settings = promised(level_settings, "p99<50ms")
    made = rig(constant(10))
    begun = made.clock()
    made.log.is_interrupted = lambda: made.clock() >= begun + 6 * NS_PER_S
    level = measure_level(made.instrument, replace(settings, rule=Precision(0.0, 10 * NS_PER_S)), ONE)
    assert level.promise.verdict == "undecided"
    assert level.promise.reason == "interrupted"


def test_an_overloaded_level_does_not_show_that_it_meets_an_slo(rig, level_settings, constant):
    """200 requests a second to a server of 100: for a second the mean is within any long limit."""
    point = LoadPoint("request_rate", 200, Open(Constant(200.0)), 200.0)
    made = rig(constant(10), servers=1)
    level = measure_level(made.instrument, promised(level_settings, "latency<60s", duration_s=4), point)
    assert level.promise.verdict == "undecided"
    assert "overloaded" in level.promise.reason
    assert [term.verdict for term in level.promise.terms] == ["kept", "kept"]
    assert level.measurement.latency.mean_ns > 100 * NS_PER_MS
