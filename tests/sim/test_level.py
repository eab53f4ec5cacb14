"""One level on a simulated clock: every figure is exact."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from inferometer.base import status
from inferometer.base.errors import LocalError, PeerError
from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Listed, Open
from inferometer.measure.instrument import LoadPoint
from inferometer.measure.level import measure_level, warm_up
from inferometer.measure.level_run import LevelRun
from inferometer.measure.level_start import start_level
from inferometer.observe.statistics import Counters
from inferometer.records.records import EMPTY, join
from inferometer.stats.stopping import Precision
from tests.support.clock import FakeClock
from tests.support.simulation import Reply

FIRST_NS = FakeClock()()


def closed(concurrency, count=None):
    return LoadPoint("concurrency", concurrency, Closed(concurrency, count))


def notes(level):
    return [remark.note for remark in level.remarks]


def test_steady_server_is_stable_after_three_windows_and_exact(rig, level_settings, constant):
    instrument = rig(constant(2)).instrument
    level = measure_level(instrument, level_settings(), closed(4))
    found = level.measurement
    assert level.is_stable
    assert len(level.windows) == 3
    assert found.request_count == 3 * 4 * 500
    assert found.duration_ns == 3 * NS_PER_S
    assert found.infer_per_s.value == 2000
    assert found.latency.mean_ns == found.latency.percentile_ns(99) == 2 * NS_PER_MS
    assert found.latency.std_ns == 0


def test_batch_counts_inferences_not_requests(rig, level_settings, constant):
    found = measure_level(rig(constant(10)).instrument, level_settings(batch=8), closed(1)).measurement
    assert found.request_count == 300
    assert found.infer_per_s.value == 800


def test_one_server_queues_and_latency_counts_the_wait(rig, level_settings, constant):
    found = measure_level(rig(constant(5), servers=1).instrument, level_settings(), closed(4)).measurement
    assert found.infer_per_s.value == 200
    assert found.latency.percentile_ns(50) == 20 * NS_PER_MS


def test_request_that_ends_on_the_border_belongs_to_the_window_it_closes(rig, level_settings, constant):
    level = measure_level(rig(constant(1000)).instrument, level_settings(), closed(1))
    assert [window.request_count for window in level.windows] == [1, 1, 1]


def test_windows_follow_each_other_and_lose_nothing(rig, level_settings):
    made = rig(lambda number, sent: Reply((3 + number % 5) * NS_PER_MS))
    level = measure_level(
        made.instrument, level_settings(window_ns=7 * NS_PER_MS, percentage=0, max_trials=9), closed(2)
    )
    ends = [window.start_s * 1e3 for window in level.windows]
    assert [round(end) for end in ends] == [7 * k for k in range(9)]
    counted = sum(window.request_count for window in level.windows)
    assert counted == made.server.number - 2  # all but the two that are outstanding


def test_count_windows_end_at_the_count(rig, level_settings, constant):
    level = measure_level(rig(constant(2)).instrument, level_settings(window_count=250), closed(5))
    assert [window.request_count for window in level.windows] == [250, 250, 250]
    assert {window.duration_ns for window in level.windows} == {100 * NS_PER_MS}


def test_request_count_is_exact_and_timed_from_first_send_to_last_end(rig, level_settings, constant):
    made = rig(constant(2))
    level = measure_level(made.instrument, level_settings(window_count=100, is_whole=True), closed(4, 100))
    assert made.server.number == 100
    assert level.measurement.request_count == 100
    assert level.measurement.duration_ns == 50 * NS_PER_MS
    assert level.measurement.infer_per_s.value == 2000
    assert level.is_stable


def test_a_request_count_cut_into_windows_has_the_same_figures(rig, level_settings, constant):
    one, cut = (
        measure_level(
            rig(constant(2)).instrument, level_settings(window_count=size, is_whole=True), closed(4, 100)
        )
        for size in (100, 30)
    )
    assert [window.request_count for window in one.windows] == [100]
    assert [window.request_count for window in cut.windows] == [
        32,
        32,
        36,
    ]  # those that end together stay together; no small rest
    assert cut.measurement.latency == one.measurement.latency
    assert cut.measurement.infer_per_s == one.measurement.infer_per_s
    assert cut.measurement.duration_ns == one.measurement.duration_ns


def test_a_search_looks_as_often_but_closes_a_window_only_with_enough_requests(rig, level_settings, constant):
    looks = []

    def is_enough():
        looks.append(made.clock())
        return len(looks) == 41

    made = rig(constant(100))
    rule = Precision(0.0, 60 * NS_PER_S, is_enough=is_enough)
    level = measure_level(made.instrument, level_settings(window_ns=NS_PER_S // 10, rule=rule), closed(1))
    assert [window.request_count for window in level.windows] == [30, 10]
    assert len(looks) == 41


def test_warm_up_is_sent_and_not_counted(rig, level_settings, constant):
    made = rig(constant(2))
    warm_up(made.instrument, Closed(4, 50))
    assert made.server.number == 50
    level = measure_level(made.instrument, level_settings(window_count=20, is_whole=True), closed(4, 20))
    assert made.server.number == 70
    assert level.measurement.request_count == 20


def test_level_runs_at_its_own_load_also_after_a_higher_one(rig, level_settings, constant):
    instrument = rig(constant(10)).instrument
    rates = [
        measure_level(instrument, level_settings(), closed(n)).measurement.infer_per_s.value
        for n in (1, 8, 2)
    ]
    assert rates == [100, 800, 200]


def test_growing_latency_is_not_stable_and_says_so(rig, level_settings):
    instrument = rig(lambda number, sent: Reply(NS_PER_MS + sent // 100)).instrument
    level = measure_level(instrument, level_settings(max_trials=5, percentage=1), closed(1))
    assert not level.is_stable
    assert len(level.windows) == 5
    assert notes(level) == [Note.NOT_STABLE]
    assert level.measurement is not None


def test_latency_limit_marks_the_level(rig, level_settings, constant):
    level = measure_level(rig(constant(40)).instrument, level_settings(limit_ms=40), closed(1))
    assert level.is_stable
    assert level.is_over_limit
    assert not level.is_reported


def test_limit_is_in_whole_milliseconds(rig, level_settings, constant):
    assert not measure_level(
        rig(constant(39.9)).instrument, level_settings(limit_ms=40), closed(1)
    ).is_over_limit


def test_failures_are_counted_apart_and_never_mix_with_good_latencies(rig, level_settings):
    def every_tenth_fails(number, sent):
        return Reply(NS_PER_MS, status.HTTP + 503) if number % 10 == 9 else Reply(2 * NS_PER_MS)

    found = measure_level(rig(every_tenth_fails).instrument, level_settings(), closed(1)).measurement
    (group,) = found.failures
    assert (group.kind, group.example) == ("http 503", "scripted http 503")
    assert abs(found.failed_share - 0.1) < 0.001
    assert found.latency.min_ns == found.latency.max_ns == 2 * NS_PER_MS
    assert group.mean_ns == group.max_ns == NS_PER_MS  # bad latencies stand apart


def test_all_failing_ends_after_one_window(rig, level_settings):
    level = measure_level(
        rig(lambda number, sent: Reply(NS_PER_MS, status.HTTP + 500)).instrument, level_settings(), closed(3)
    )
    assert len(level.windows) == 1
    assert notes(level) == [Note.FAILURES]
    assert level.measurement.request_count == 0


def test_server_that_refuses_everything_is_not_asked_in_a_spin(rig, level_settings):
    made = rig(lambda number, sent: Reply(1000, status.HTTP + 503))
    measure_level(made.instrument, level_settings(), closed(2))
    assert made.server.number <= 2 * (16 + 100 + 1)  # 16 at once each, then one every 10 ms


def test_answered_failures_between_good_answers_cause_no_pause(rig, level_settings):
    def most_fail(number, sent):
        return Reply(NS_PER_MS, status.OK if number % 15 == 0 else status.HTTP + 503)

    found = measure_level(rig(most_fail).instrument, level_settings(), closed(1)).measurement
    assert found.request_count + found.failed_count == 3000


def test_all_failing_ends_count_windows_too(rig, level_settings):
    instrument = rig(lambda number, sent: Reply(NS_PER_MS, status.HTTP + 500)).instrument
    assert len(measure_level(instrument, level_settings(window_count=50), closed(3)).windows) == 1


def test_server_that_goes_away_ends_the_level_and_keeps_what_was_measured(rig, level_settings):
    def gone_after_four_seconds(number, sent):
        return Reply(NS_PER_MS) if sent < 5 * NS_PER_S else Reply(1000, status.CONNECT, received=0)

    made = rig(gone_after_four_seconds)
    level = measure_level(
        made.instrument,
        level_settings(percentage=0.0001, window_ns=1_700 * NS_PER_MS, max_trials=100),
        closed(2),
    )
    assert level.is_cut_short
    assert level.measurement.request_count > 0
    assert round(level.measurement.infer_per_s.value) == 2000  # the silence does not dilute the rate
    assert [group.kind for group in level.measurement.failures] == ["connect"]
    assert made.clock() < 12 * NS_PER_S


def test_refused_connections_are_tried_again_with_growing_pauses(rig, level_settings):
    made = rig(lambda number, sent: Reply(1000, status.CONNECT, received=0))
    measure_level(made.instrument, level_settings(window_ns=3 * NS_PER_S), closed(1))
    assert made.server.number <= 9  # 10, 20, 40 ... 640, 1000, 1000 ms apart


def test_time_out_is_a_failure_with_its_own_kind(rig, level_settings):
    def one_in_ten_hangs(number, sent):
        return Reply(3600 * NS_PER_S if number % 10 == 0 else NS_PER_MS)

    made = rig(one_in_ten_hangs, timeout_ns=100 * NS_PER_MS)
    found = measure_level(made.instrument, level_settings(), closed(2)).measurement
    (group,) = found.failures
    assert group.kind == "timeout"
    assert "0.1 s" in group.example
    assert found.latency.max_ns == NS_PER_MS


def test_nothing_finishing_gives_no_measurement_but_a_reason(rig, level_settings, constant):
    level = measure_level(rig(constant(10**7)).instrument, level_settings(max_trials=3), closed(1))
    assert level.measurement is None
    assert Note.NO_REPLY in notes(level)


def test_interrupt_lets_the_window_end_and_reports(rig, level_settings, constant):
    made = rig(constant(2), interrupt_after=1)
    level = measure_level(made.instrument, level_settings(), closed(1))
    assert len(level.windows) == 1
    assert notes(level) == [Note.INTERRUPTED]
    assert level.measurement.request_count == 500


def test_precision_stops_after_half_of_the_time_where_the_intervals_are_tight(rig, level_settings, constant):
    rule = Precision(precision=0.02, duration_ns=10 * NS_PER_S)
    level = measure_level(
        rig(constant(2)).instrument, level_settings(rule=rule, window_ns=500 * NS_PER_MS), closed(1)
    )
    assert len(level.windows) == 10
    assert level.measurement.request_count == 2500  # every window counts, not only the last three


def test_precision_always_answers_when_the_time_is_spent(rig, level_settings):
    def wild(number, sent):
        return Reply((1 + (number * 2654435761 >> 7) % 1000) * NS_PER_MS)

    rule = Precision(precision=0.0001, duration_ns=3 * NS_PER_S)
    level = measure_level(
        rig(wild).instrument, level_settings(rule=rule, window_ns=150 * NS_PER_MS), closed(1)
    )
    assert level.is_stable
    assert notes(level) == [Note.NOT_PRECISE]
    assert level.measurement.duration_ns == 3 * NS_PER_S


def test_interrupt_ends_a_long_window_of_the_precision_rule_at_once(rig, level_settings, constant):
    made = rig(constant(2))
    begun = made.clock()
    made.log.is_interrupted = lambda: made.clock() >= begun + 3 * NS_PER_S
    rule = Precision(precision=0.02, duration_ns=3600 * NS_PER_S)
    level = measure_level(made.instrument, level_settings(rule=rule, window_ns=180 * NS_PER_S), closed(1))
    assert notes(level) == [Note.INTERRUPTED]
    assert made.clock() < begun + 4 * NS_PER_S
    assert level.measurement.infer_per_s.value == 500


def test_the_watcher_is_notified_in_order(rig, level_settings, constant):
    made = rig(constant(2))
    measure_level(made.instrument, level_settings(), closed(7))
    assert made.log.events == [("started", 7), ("window", 1), ("window", 2), ("window", 3), ("finished", 7)]


def test_steps_follow_each_other_around_the_dataset(rig, level_settings, constant):
    made = rig(constant(2), requests=4)
    made.instrument.load.apply(Closed(1))
    records = made.instrument.load.collect(made.clock() + 20 * NS_PER_MS).records
    assert list(records.step) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def at_rate(rate, **more):
    return LoadPoint("request_rate", rate, Open(Constant(rate), **more))


def test_rate_is_exact(rig, level_settings, constant):
    level = measure_level(rig(constant(2)).instrument, level_settings(), at_rate(100))
    found = level.measurement
    assert level.is_stable
    assert found.request_count == 299  # the one due at 3 s ends later
    assert found.latency.percentile_ns(99) == found.service.percentile_ns(99) == 2 * NS_PER_MS
    assert found.delayed_count == 0
    assert notes(level) == []


def test_wait_at_the_cap_counts_into_latency_and_the_level_says_so(rig, level_settings, constant):
    level = measure_level(rig(constant(40)).instrument, level_settings(), at_rate(100, cap=2))
    found = level.measurement
    assert round(found.send_per_s) == 50
    assert found.service.max_ns == 40 * NS_PER_MS
    assert found.latency.mean_ns > 500 * NS_PER_MS
    assert found.delayed_count > 0.9 * found.request_count
    assert notes(level) == [Note.NOT_OFFERED]
    assert level.is_stable  # of the service, which is what the server does


def test_server_that_cannot_keep_up_is_called_overloaded_and_is_reported(rig, level_settings, constant):
    level = measure_level(rig(constant(20), servers=1).instrument, level_settings(lenient=True), at_rate(100))
    assert notes(level) == [Note.NOT_STABLE, Note.OVERLOADED]
    assert level.is_reported
    assert not level.is_as_asked
    assert round(level.measurement.infer_per_s.value) == 50


def test_only_the_unstable_figure_is_named(rig, level_settings, constant):
    level = measure_level(rig(constant(20), servers=1).instrument, level_settings(lenient=True), at_rate(100))
    assert "latency ranged from" in level.remarks[0].text
    assert "throughput" not in level.remarks[0].text


def test_a_failed_connection_is_neither_sent_nor_answered(rig, level_settings):
    made = rig(lambda number, sent: Reply(1000, status.CONNECT, received=0))
    level = measure_level(made.instrument, level_settings(), at_rate(100))
    assert level.measurement.failed_count > 0
    assert (level.rates.sent_per_s, level.rates.answered_per_s) == (0, 0)


def test_one_bad_window_among_good_ones_is_not_every_request(rig, level_settings):
    def second_window_fails(number, sent):
        into = (sent - FIRST_NS) // NS_PER_S
        return Reply(NS_PER_MS, status.HTTP + 500 if into == 1 else status.OK)

    level = measure_level(
        rig(second_window_fails).instrument, level_settings(percentage=0.01, max_trials=5), closed(1)
    )
    assert len(level.windows) == 5
    assert Note.FAILURES not in notes(level)


def test_windows_that_fail_after_good_ones_are_named(rig, level_settings):
    def fails_from_the_second_on(number, sent):
        return Reply(NS_PER_MS, status.HTTP + 500 if sent > FIRST_NS + NS_PER_S else status.OK)

    rule = Precision(precision=0.0001, duration_ns=100 * NS_PER_S)
    level = measure_level(rig(fails_from_the_second_on).instrument, level_settings(rule=rule), closed(1))
    failed = sum(window.failed_count for window in level.windows[-3:])
    assert level.remarks[0].text == f"every request of the last 3 windows failed: {failed} of {failed}"


@pytest.mark.parametrize("code", [status.CONNECT, status.HTTP + 503], ids=["away", "refusing"])
def test_a_server_that_comes_back_is_measured_to_the_end(rig, level_settings, code):
    def fails_for_a_second(number, sent):
        is_out = FIRST_NS + 2 * NS_PER_S < sent < FIRST_NS + 3 * NS_PER_S
        return Reply((5 + number % 7) * NS_PER_MS, code if is_out else status.OK)

    rule = Precision(precision=0.0001, duration_ns=6 * NS_PER_S)
    level = measure_level(
        rig(fails_for_a_second).instrument, level_settings(rule=rule, window_ns=100 * NS_PER_MS), closed(1)
    )
    assert notes(level) == [Note.NOT_PRECISE]
    assert level.measurement.duration_ns >= 6 * NS_PER_S
    assert level.measurement.failed_count > 0


def test_a_server_that_stays_away_in_short_windows_is_gone(rig, level_settings):
    def gone(number, sent):
        code = status.CONNECT if sent > FIRST_NS + 2 * NS_PER_S else status.OK
        return Reply((5 + number % 7) * NS_PER_MS, code, received=0 if code else 1)

    for seconds, silent in ((60, 5), (4, 2)):
        made = rig(gone)
        rule = Precision(precision=0.0001, duration_ns=seconds * NS_PER_S)
        level = measure_level(
            made.instrument, level_settings(rule=rule, window_ns=100 * NS_PER_MS), closed(1)
        )
        assert notes(level) == [Note.SERVER_GONE]
        assert 0 <= made.clock() - FIRST_NS - (2 + silent) * NS_PER_S < 2 * NS_PER_S


def test_wrong_answers_do_not_mean_that_the_server_is_gone(rig, level_settings):
    def wrong(number, sent):
        return Reply(NS_PER_MS, status.MISMATCH if number > 100 else status.OK)

    level = measure_level(rig(wrong).instrument, level_settings(window_ns=8 * NS_PER_S), closed(1))
    assert Note.SERVER_GONE not in notes(level)


# --- a server that does not answer


def never(number, sent):
    return Reply(10**6 * NS_PER_S)


@pytest.mark.parametrize(
    "how",
    [
        {"window_count": 5, "is_whole": True},
        {"window_count": 5},
        {"window_ns": 30 * NS_PER_S},
        {"window_ns": NS_PER_S, "rule": Precision(precision=0.02, duration_ns=3600 * NS_PER_S)},
    ],
)
def test_silence_ends_every_kind_of_level(how, rig, level_settings):
    made = rig(never)
    level = measure_level(made.instrument, level_settings(**how), closed(2, 5 if "is_whole" in how else None))
    assert notes(level) == [Note.NO_ANSWER]
    assert level.is_given_up
    assert 60 * NS_PER_S <= made.clock() - FIRST_NS < 62 * NS_PER_S


def test_silence_says_how_many_were_not_sent(rig, level_settings):
    level = measure_level(rig(never).instrument, level_settings(window_count=5, is_whole=True), closed(2, 5))
    (remark,) = level.remarks
    assert remark.text == (
        "the server gave no successful answer, with no answer at all for 60 s; 3 of 5 requests were not sent"
    )


def test_silence_after_good_answers_keeps_them(rig, level_settings):
    def stops(number, sent):
        return Reply(NS_PER_MS) if number < 100 else never(number, sent)

    level = measure_level(
        rig(stops).instrument, level_settings(window_count=500, is_whole=True), closed(1, 500)
    )
    assert "0.1 s into the level" in level.remarks[0].text
    assert "399 of 500 requests were not sent" in level.remarks[0].text
    assert level.measurement.request_count == 100
    assert level.measurement.infer_per_s.value == 1000


def test_time_outs_are_silence_too_and_are_counted(rig, level_settings):
    made = rig(never, timeout_ns=2 * NS_PER_S)
    level = measure_level(made.instrument, level_settings(window_count=500, is_whole=True), closed(1, 500))
    assert notes(level) == [Note.NO_ANSWER]
    assert level.measurement.failed_count > 10


def test_bad_answers_break_the_silence(rig, level_settings):
    slow_and_bad = rig(lambda number, sent: Reply(50 * NS_PER_S, status.HTTP + 503))
    level = measure_level(
        slow_and_bad.instrument, level_settings(window_count=5, is_whole=True), closed(1, 5)
    )
    assert notes(level) == [Note.FAILURES]
    assert level.measurement.failed_count == 5


def test_a_stream_in_progress_is_not_silence(rig, level_settings):
    long = Reply(200 * NS_PER_S, responses_ns=tuple(range(NS_PER_S, 200 * NS_PER_S, 10 * NS_PER_S)))
    level = measure_level(
        rig(lambda number, sent: long).instrument, level_settings(window_count=2, is_whole=True), closed(1, 2)
    )
    assert not level.remarks


def test_an_end_that_is_read_late_does_not_shorten_a_count(rig, level_settings):
    """The first of three streams ends after 1 ms, which is read only after the others, 20 ms later, have ended."""
    times = (NS_PER_MS,)
    first = Reply(NS_PER_MS, responses_ns=times, unread_ns=5 * NS_PER_S)
    made = rig(lambda number, sent: first if number == 0 else Reply(10 * NS_PER_MS, responses_ns=times))
    found = measure_level(
        made.instrument, level_settings(window_count=3, is_whole=True), closed(2, 3)
    ).measurement
    assert (found.request_count, found.duration_ns) == (3, 20 * NS_PER_MS)


def test_a_pause_of_a_schedule_is_not_silence(rig, level_settings, constant):
    plan = Open(Listed((0, 200 * NS_PER_S)), count=2)
    level = measure_level(
        rig(constant(2)).instrument,
        level_settings(window_count=2, is_whole=True),
        LoadPoint("request_rate", 1, plan),
    )
    assert level.measurement.request_count == 2


def test_silence_ends_the_warm_up(rig):
    made = rig(never)
    assert not warm_up(made.instrument, Closed(1, 3))
    assert made.clock() - FIRST_NS < 62 * NS_PER_S


def test_a_server_that_goes_away_in_a_count_leaves_requests_unsent(rig, level_settings):
    def gone(number, sent):
        return Reply(NS_PER_MS) if number < 40 else Reply(1000, status.CONNECT, received=0)

    level = measure_level(
        rig(gone).instrument, level_settings(window_count=100, is_whole=True), closed(1, 100)
    )
    found = level.measurement
    assert notes(level) == [Note.SERVER_GONE]
    unsent = 100 - found.request_count - found.failed_count
    assert unsent > 0
    assert f"; {unsent} of 100 requests were not sent" in level.remarks[0].text


def test_the_export_spans_failures_after_the_last_good_answer(rig, level_settings):
    """They are counted, though the time they took is not."""
    spans = []

    class Journal:
        def add_level(self, mode, value, boundaries_ns, *, start_ns):
            spans.append(boundaries_ns)

        def forget_level(self):
            raise AssertionError

    def gone(number, sent):
        return Reply(NS_PER_MS) if number < 20 else Reply(1000, status.RESET, received=0)

    made = rig(gone)
    instrument = replace(made.instrument, journal=Journal())
    level = measure_level(instrument, level_settings(window_count=100, is_whole=True), closed(1, 100))
    (failures,) = level.measurement.failures
    (first_ns, last_ns) = spans[0]
    assert last_ns - first_ns >= failures.last_s * NS_PER_S > level.measurement.duration_ns


# --- the server's counters


class Counting:
    """A server whose counters are read a while after they were asked for, and that has other clients too."""

    def __init__(self, made, *, others_per_s=0, share=1.0, call_ns=0):
        self._made = made
        self._others_per_s = others_per_s
        self._share = share
        self._call_ns = call_ns

    def read(self):
        clock = self._made.clock
        elapsed_s = (clock() - FIRST_NS) / NS_PER_S
        ours = self._made.server.number - 4 if self._made.server.number > 4 else 0
        count = round(ours * self._share + elapsed_s * self._others_per_s)
        clock.move_to(clock() + self._call_ns)
        return {("fake", "1"): Counters(success_count=count)}


@pytest.mark.parametrize("call_ns", [0, 20 * NS_PER_MS])
@pytest.mark.parametrize(
    ("server", "note"),
    [
        ({}, None),
        ({"others_per_s": 1000}, Note.OTHER_CLIENTS),
        ({"share": 0.5}, Note.NOT_COUNTED),
    ],
)
def test_counts_of_client_and_server_are_compared(server, note, call_ns, rig, level_settings, constant):
    made = rig(constant(2))
    instrument = replace(made.instrument, read_counters=Counting(made, call_ns=call_ns, **server).read)
    level = measure_level(instrument, level_settings(), closed(4))
    assert notes(level) == ([] if note is None else [note])
    assert {window.duration_ns for window in level.windows} == {NS_PER_S}


class LosingLoad:
    """Load whose worker is lost in the third window."""

    def __init__(self, load, clock):
        self._load, self._clock = load, clock

    def __getattr__(self, name):
        return getattr(self._load, name)

    def collect(self, until_ns):
        if self._clock() > FIRST_NS + 2.5 * NS_PER_S:
            raise LocalError("a worker process was killed by SIGKILL")
        return self._load.collect(until_ns)


@pytest.mark.parametrize("server", [{"others_per_s": 1000}, {"share": 0.5}])
def test_after_a_lost_worker_counts_are_not_compared(server, rig, level_settings, constant):
    made = rig(constant(2))
    load = LosingLoad(made.instrument.load, made.clock)
    instrument = replace(made.instrument, load=load, read_counters=Counting(made, **server).read)
    level = measure_level(instrument, level_settings(), closed(4))
    assert notes(level) == [Note.WORKER_LOST]


@pytest.mark.parametrize("how", [{}, {"window_count": 333}, {"window_count": 600, "is_whole": True}])
def test_counters_are_those_of_the_windows_ends(how, rig, level_settings, constant):
    made = rig(constant(2))
    instrument = replace(made.instrument, read_counters=Counting(made).read)
    level = measure_level(instrument, level_settings(**how), closed(4, 600 if "is_whole" in how else None))
    found = level.measurement
    assert abs(found.server.counters.success_count - found.request_count) <= 4


def test_slow_counters_are_read_once_and_not_again_after_a_failure(rig, level_settings, constant):
    made, asked_ns = rig(constant(2)), []

    def slow_then_gone():
        asked_ns.append(made.clock())
        if len(asked_ns) > 1:
            raise PeerError("no answer within 20 s")
        made.clock.move_to(made.clock() + 5 * NS_PER_S)
        return {("fake", "1"): Counters(success_count=0)}

    instrument = replace(made.instrument, read_counters=slow_then_gone)
    level = measure_level(instrument, level_settings(), closed(4))
    assert len(asked_ns) == 2
    assert level.measurement.server is None


def test_stalls_are_seen_through(rig, level_settings):
    """Frozen for 0.5 s in every 2 s, 200 requests a second: a quarter of them wait, evenly from 0 to 0.5 s."""

    def frozen(number, sent):
        into = sent % (2 * NS_PER_S)
        return Reply((500 * NS_PER_MS - into if into < 500 * NS_PER_MS else 0) + NS_PER_MS)

    level = measure_level(rig(frozen).instrument, level_settings(window_ns=2 * NS_PER_S), at_rate(200))
    latency = level.measurement.latency
    for p, expected_ms in ((90, 300), (95, 400), (99, 480)):
        assert abs(latency.percentile_ns(p) / NS_PER_MS - expected_ms) < 10


@dataclass
class SlowSearch:
    """Watches this machine; to find the server's processes takes it a while."""

    rig: Any
    sent_before: int | None = None
    gpu_share: float | None = None
    devices: tuple[()] = ()

    def begin(self):
        self.sent_before = self.rig.server.number
        self.rig.instrument.load.wait(self.rig.clock() + 300 * NS_PER_MS)

    def look(self):
        pass

    def end(self):
        return None

    def ended(self):
        return ""


@pytest.mark.parametrize(
    ("more", "count", "sent_before"),
    [
        pytest.param({}, None, 4, id="after the first requests and before the first window"),
        pytest.param({"window_count": 100, "is_whole": True}, 100, 0, id="before any that counts"),
    ],
)
def test_the_server_is_looked_for_while_no_request_counts(
    rig, level_settings, constant, more, count, sent_before
):
    made = rig(constant(2))
    host = SlowSearch(made)
    level = measure_level(replace(made.instrument, host=host), level_settings(**more), closed(4, count))
    assert host.sent_before == sent_before
    assert {window.infer_per_s for window in level.windows} == {2000}


class SlowEnd:
    """Watches this machine; a last look at it takes a while."""

    gpu_share = None
    devices = ()

    def __init__(self, rig):
        self.rig = rig

    def begin(self):
        pass

    look = begin

    def end(self):
        self.rig.instrument.load.wait(self.rig.clock() + 300 * NS_PER_MS)

    def ended(self):
        return ""


@pytest.mark.parametrize(("ends_load", "is_extra"), [(True, False), (False, True)])
def test_a_level_that_ends_the_load_sends_nothing_while_it_is_concluded(
    rig, level_settings, constant, ends_load, is_extra
):
    made = rig(constant(2))
    rule = Precision(0.0, 2 * NS_PER_S)
    settings = level_settings(rule=rule, window_ns=NS_PER_S, is_timed=True, ends_load=ends_load)
    level = measure_level(replace(made.instrument, host=SlowEnd(made)), settings, closed(4))
    measured = level.measurement.request_count
    assert measured == 4000
    assert (
        made.server.number > measured + 8
    ) == is_extra  # four were in flight when it began and when it ended


class UnevenWorkers:
    """Every second request is reported 5 ms late, as by a worker that answered before the others did."""

    LAG_NS = 5 * NS_PER_MS

    def __init__(self, load):
        self._load, self._kept, self.reported = load, EMPTY, []

    def __getattr__(self, name):
        return getattr(self._load, name)

    def collect(self, until_ns, **how):
        collected = self._load.collect(until_ns, **how)
        seen_ns = collected.seen_ns - self.LAG_NS
        records = join([self._kept, collected.records])
        is_kept = (records.end_ns > seen_ns) & (np.arange(len(records)) % 2 == 1)
        self._kept = records.where(is_kept)
        self.reported.append(records.where(~is_kept))
        return collected._replace(records=self.reported[-1], seen_ns=seen_ns)


@pytest.mark.parametrize("window_count", [30, 10_000])
def test_an_interrupted_count_has_every_request_of_its_time(
    rig, level_settings, constant, monkeypatch, window_count
):
    made = rig(constant(1))
    load = UnevenWorkers(made.instrument.load)
    monkeypatch.setattr(made.log, "is_interrupted", lambda: any(map(len, load.reported)))
    level = (
        replace(made.instrument, load=load),
        level_settings(window_count=window_count, is_whole=True),
        closed(4, 10_000),
    )
    run = LevelRun(*level, start_level(*level))
    run.measure_window()
    load.collect(made.clock() + NS_PER_S)
    ended = join(load.reported)
    assert run.closed.figures[-1].ended_count == (ended.end_ns <= run.spanned_ns[-1]).sum() > 0
