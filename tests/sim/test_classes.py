"""Classes of traffic on a simulated clock: each has its own figures, whatever happens to the others."""

from dataclasses import replace

import numpy as np
import pytest

from inferometer.base import status
from inferometer.base.notes import Note
from inferometer.base.slo import parse_slo
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.mixture import mixture
from inferometer.load.plan import Closed, Constant, Joint, Open
from inferometer.load.together import Together
from inferometer.measure.instrument import ClassSettings, Instrument, LoadPoint
from inferometer.measure.level import measure_level, warm_up
from inferometer.stats.measurement import MIXED, PHASE
from inferometer.stats.stopping import Precision
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad, StarvedHost


def steady(number, sent_ns):
    return Reply(5 * NS_PER_MS)


def refusing(number, sent_ns):
    return Reply(NS_PER_MS, status=status.HTTP + 500)


def dying(number, sent_ns):
    """Gone from second 2 to second 3 after the start."""
    after_s = (sent_ns - FakeClock()()) / NS_PER_S
    return Reply(NS_PER_MS, status=status.RESET) if 2 <= after_s < 3 else Reply(2 * NS_PER_MS)


@pytest.fixture
def phase(level_settings):
    """A phase of four seconds with two classes, 30/s and 10/s."""

    def make(
        *scripts, promise=None, awaits_answers=False, reading_ns=0, host=None, servers=None, earlier_ns=0
    ):
        clocks = [FakeClock() for _ in scripts]
        loads = [
            SimulatedLoad(FakeServer(script, servers), clock)
            for script, clock in zip(scripts, clocks, strict=True)
        ]
        load = Together(loads, [1] * len(scripts), clocks[0])
        timed = level_settings(
            window_ns=NS_PER_S // 2,
            rule=Precision(0.0, 4 * NS_PER_S),
            is_timed=True,
            judges_promise=True,
            awaits_answers=awaits_answers,
        )
        classes = tuple(
            ClassSettings(name, "http://here", replace(timed, promise=promise)) for name in ("a", "b")
        )
        settings = replace(
            timed,
            classes=classes[: len(scripts)],
            class_of_step=tuple(range(len(scripts))),
            ends_load=True,
        )
        points = [LoadPoint("request_rate", rate, Open(Constant(rate)), rate) for rate in (30, 10)]
        points = points[: len(scripts)]
        point = LoadPoint(
            f"{PHASE}peak",
            1,
            Joint(tuple(Open(Constant(row.value)) for row in points)),
            sum(row.value for row in points),
            name="peak",
            classes=tuple(points),
        )
        from inferometer.stats.watcher import Watcher

        def read_counters():
            clocks[0].now_ns += reading_ns

        instrument = Instrument(
            load, clocks[0], read_counters, Watcher(), examples_of=load.examples_of, host=host
        )
        if earlier_ns:
            warm_up(instrument, point.plan, earlier_ns)
        return measure_level(instrument, settings, point)

    return make


def test_each_class_has_its_rate_and_the_level_their_sum(phase):
    level = phase(steady, steady)
    a, b = level.classes
    # The last of each is due when the phase ends, and ends after it.
    assert (a.measurement.request_count, b.measurement.request_count) == (119, 39)
    assert (a.rates.due_per_s, a.rates.sent_per_s) == (30, 30)
    assert (b.rates.due_per_s, b.rates.sent_per_s) == (10, 10)
    assert level.measurement.request_count == 158
    assert level.rates.sent_per_s == 40
    assert (a.share, b.share) == (119 / 158, 39 / 158)
    assert level.name == "peak"
    assert [len(row.windows) for row in level.classes] == [len(level.windows)] * 2


def test_a_phase_has_no_requests_of_the_phase_before(phase):
    """Of 120 and 40 requests, those due in its last second end after it."""

    def slow(number, sent_ns):
        return Reply(NS_PER_S - NS_PER_MS)

    level = phase(slow, slow, earlier_ns=2 * NS_PER_S)
    assert [row.measurement.request_count for row in level.classes] == [90, 30]


def test_a_phase_counts_requests_that_fail_before_they_are_sent(phase):
    def unreachable(number, sent_ns):
        return Reply(0, status=status.CONNECT, is_unsent=True)

    good, gone = phase(steady, unreachable).classes
    assert (good.measurement.failed_count, gone.measurement.failed_count) == (0, 40)


def test_a_phase_begins_with_its_load_however_long_a_look_at_the_counters_takes(phase):
    assert phase(steady, reading_ns=150 * NS_PER_MS).measurement.request_count == 119


def test_a_class_that_fails_does_not_touch_the_figures_of_another(phase):
    alone, beside = phase(steady), phase(steady, refusing)
    other = beside.classes[1]
    assert other.measurement.failed_count == 39
    assert other.measurement.failures[0].kind == "http 500"
    assert beside.classes[0].measurement.latency == alone.classes[0].measurement.latency
    assert beside.classes[0].measurement.infer_per_s == alone.classes[0].measurement.infer_per_s
    assert beside.classes[0].measurement.failures == ()


def test_a_phase_lasts_for_its_time_though_a_server_is_gone(phase):
    level = phase(dying)
    (outage,) = level.classes[0].outages
    assert 1.9 < outage.gone_s < 2.1
    assert 0.9 < outage.down_s < 1.2
    assert outage.recovery_s == 0
    assert level.windows[-1].start_s + level.windows[-1].duration_ns / NS_PER_S == 4


@pytest.mark.parametrize(("awake_s", "end_s"), [(6.2, 6.5), (60, 9)])
def test_where_answers_are_awaited_it_lasts_until_all_have_answered_or_seem_gone(phase, awake_s, end_s):
    awake_ns = FakeClock()() + round(awake_s * NS_PER_S)

    def asleep(number, sent_ns):
        return Reply(max(awake_ns - sent_ns, 0) + NS_PER_MS)

    level = phase(steady, asleep, awaits_answers=True)
    assert level.windows[-1].start_s + level.windows[-1].duration_ns / NS_PER_S == end_s
    assert (level.classes[1].measurement is not None) == (awake_s < end_s)


def test_each_class_is_judged_by_its_own_slo(phase):
    level = phase(steady, refusing, promise=parse_slo("p50<10ms"))
    assert [row.promise.verdict for row in level.classes] == ["kept", "broken"]
    assert level.promise is None


@pytest.mark.parametrize("is_starved", [True, False])
def test_a_starved_client_does_not_show_that_a_class_violates_its_slo(phase, is_starved):
    """The wait of the client for a core is known only for all classes together."""
    slow = lambda number, sent_ns: Reply(40 * NS_PER_MS)  # noqa: E731
    level = phase(
        slow, steady, promise=parse_slo("p90<20ms"), servers=1, host=StarvedHost(200) if is_starved else None
    )
    assert level.has_remark(Note.CLIENT_STARVED) == is_starved
    assert [row.promise.verdict for row in level.classes] == ["undecided" if is_starved else "broken", "kept"]
    said = {remark.note for row in level.classes for remark in row.remarks}
    assert (Note.OVERLOADED in said) == (not is_starved)


def test_by_weight_classes_share_slots_and_windows(rig, level_settings):
    order = mixture([3, 1], [1, 1])
    made = rig(lambda number, sent: Reply(NS_PER_MS), requests=len(order))
    settings = level_settings()
    classes = tuple(ClassSettings(name, "", settings, weight=1.0, share=0.5) for name in ("a", "b"))
    settings = replace(settings, classes=classes, class_of_step=tuple(owner for owner, _ in order))
    level = measure_level(made.instrument, settings, LoadPoint("concurrency", 4, Closed(4)))
    counts = [row.measurement.request_count for row in level.classes]
    assert sum(counts) == level.measurement.request_count
    assert np.isclose(counts[0] / sum(counts), 0.75, atol=0.001)
    assert {row.mode for row in level.classes} == {MIXED}
    assert level.measurement.server is None
