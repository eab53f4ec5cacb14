"""The search finds the limit of servers with a known limit, with an interval that covers it."""

import heapq
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from inferometer.base import status
from inferometer.base.slo import parse_slo
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.find.fit import Capacity
from inferometer.find.keeping import Counts, Judge, LoadRun
from inferometer.find.run import SearchGoal, find, refined
from inferometer.find.search import known, next_load
from inferometer.report.sentences import finding_sentence
from inferometer.stats.clients import LostClient
from tests.support.client_figures import PLAIN
from tests.support.queues import KNOWN, Known, exponential, fixed, queue, search
from tests.support.samples import sample
from tests.support.simulation import Reply, StarvedHost

SEEDS = range(sample(1, 20))
SEARCHED_S = sample(6.0, 12.0)
SERVERS = sample(KNOWN[::2], KNOWN)


def found(made, level_settings, promise, *, duration_s=30, **more):
    goal = SearchGoal(parse_slo(promise), duration_s * NS_PER_S, **more)
    return [finding for _, finding in find(made.instrument, level_settings(), goal)][-1]


@pytest.fixture(scope="module")
def searches():
    """Yield several servers of each kind, each with its own random times."""
    return {known: [search(known, seed, SEARCHED_S) for seed in SEEDS] for known in SERVERS}


@pytest.mark.sampled
def test_the_interval_covers_the_limit(searches):
    """In 90 or more of 100 searches, here in all but one of a handful; `make trust` runs 100 for each kind of
    server."""
    covered = Counter(
        {known.name: sum(known.covers(row.finding) for row in rows) for known, rows in searches.items()}
    )
    assert covered.total() >= 0.9 * len(SERVERS) * len(SEEDS) - 1, covered
    assert min(covered.values()) >= 0.8 * len(SEEDS) - 1, covered


@pytest.mark.sampled
def test_the_search_ends_on_time(searches):
    """Apart from the last window, and the requests of the last level that are still in flight."""
    assert max(row.took_s for rows in searches.values() for row in rows) < SEARCHED_S + 0.5


@pytest.mark.sampled
def test_verdicts_of_loads_agree_with_the_interval(searches):
    for rows in searches.values():
        for finding in (row.finding for row in rows):
            assert all(row.load <= finding.low for row in finding.judged if row.verdict == "kept")
            assert all(row.load > finding.low for row in finding.judged if row.verdict == "broken")
            assert finding.value >= finding.low
            assert finding.high is None or finding.value <= finding.high


@pytest.mark.sampled
def test_the_knee_is_never_above_the_result(searches):
    assert all(row.finding.knee <= row.finding.value for rows in searches.values() for row in rows)


@pytest.mark.sampled
def test_one_request_at_a_time_is_not_a_rate(searches):
    for server, rows in searches.items():
        modes = {level.mode for row in rows for level in row.levels}
        assert modes == {"request_rate" if server.is_rate else "concurrency"}


def test_more_time_makes_the_interval_narrower():
    known = Known("", "p99<40ms", 200.0, queue(fixed(5)))
    short, long = (search(known, 1, duration_s).finding for duration_s in (3.0, 60.0))
    assert math.log(long.high / long.low) < math.log(short.high / max(short.low, 1.0))
    assert 195 <= long.low <= 200 <= long.high <= 205


def test_a_search_too_short_for_the_percentile_reports_it():
    """At 20 requests per second, three seconds have 60 requests, which cannot prove a p99."""
    finding = search(
        Known("", "p99<500ms", 20.0, queue(exponential(50)), distribution="poisson"), 1, 3.0
    ).finding
    assert finding.low == 0
    assert finding.needed_s > 60


@pytest.mark.parametrize(("service_ms", "servers"), [(5, 1), (10, 4), (2, 1)])
def test_highest_rate_is_within_five_percent_of_the_capacity(rig, level_settings, service_ms, servers):
    made = rig(lambda number, sent: Reply(round(service_ms * NS_PER_MS)), servers=servers)
    finding = found(made, level_settings, "p99<50ms")
    capacity = servers * 1000 / service_ms
    assert 0.95 * capacity <= finding.low <= capacity <= finding.high <= 1.05 * capacity
    assert finding.low <= finding.value <= finding.high


def test_a_server_that_compiles_for_a_new_shape_is_not_taken_for_saturated(rig, level_settings):
    """The first requests that are two at a time take seven times as long."""
    made = rig(lambda number, sent: Reply(round((3.5 if 3 <= number < 8 else 0.5) * NS_PER_S)), servers=16)
    goal = SearchGoal(parse_slo("p95<1s"), 120 * NS_PER_S)
    levels = find(made.instrument, level_settings(), goal)
    first, _ = next(levels)
    assert 0.8 * 32 <= first.value <= 32


def test_highest_concurrency_is_exact(rig, level_settings):
    made = rig(lambda number, sent: Reply(5 * NS_PER_MS), servers=1)
    finding = found(made, level_settings, "p99<41ms", is_rate=False)
    assert (finding.value, finding.low, finding.high) == (8, 8, 9)
    assert finding.limited_by == "p99"


class LosingClients:
    """The figures by client of a load whose second client is lost in every level."""

    def begin(self, rules):
        pass

    def start(self, start_ns):
        pass

    def cut(self, end_ns):
        pass

    def end(self, start_ns, end_ns, *, level_start_ns, batch):
        lost = LostClient(0.1, "its process has ended", 1, is_taken_over=False)
        return (PLAIN, replace(PLAIN, name="client 2", lost=lost))


def test_a_level_that_lost_a_client_proves_nothing(rig, level_settings):
    made = rig(lambda number, sent: Reply(5 * NS_PER_MS), servers=1)
    instrument = replace(made.instrument, clients=(LosingClients(),))
    goal = SearchGoal(parse_slo("p99<41ms"), 5 * NS_PER_S, is_rate=False)
    *_, (_, finding) = find(instrument, level_settings(), goal)
    assert (finding.value, finding.judged) == (0, ())


def test_errors_can_be_the_limit(rig, level_settings):
    """Above 100 requests per second, every tenth is rejected."""
    last = [0]

    def picky(number, sent):
        gap, last[0] = sent - last[0], sent
        if gap < 10 * NS_PER_MS and number % 10 == 0:
            return Reply(NS_PER_MS, status.HTTP + 503)
        return Reply(NS_PER_MS)

    finding = found(rig(picky), level_settings, "p99<50ms, errors<1%", start=20.0)
    assert 90 <= finding.low <= 100 <= finding.high <= 115
    assert finding.limited_by == "errors"


def test_an_slo_that_cannot_be_met_is_reported(rig, level_settings):
    finding = found(
        rig(lambda number, sent: Reply(80 * NS_PER_MS)), level_settings, "p99<50ms", is_rate=False
    )
    assert (finding.value, finding.low, finding.limited_by) == (0, 0, "p99")


def test_a_client_at_its_limit_does_not_show_where_the_server_violates_the_slo(rig, level_settings):
    made = rig(lambda number, sent: Reply(5 * NS_PER_MS), servers=1)
    made = replace(made, instrument=replace(made.instrument, host=StarvedHost(wait_ms=40)))
    finding = found(made, level_settings, "p99<41ms", is_rate=False)
    assert (finding.value, finding.low, finding.high) == (8, 8, None)
    assert finding.limited_by == "p99 and the client's own limit"
    assert {row.verdict for row in finding.judged} == {"kept", "undecided"}
    assert "above that, this client was the limit" in finding_sentence(finding)
    made = rig(lambda number, sent: Reply(80 * NS_PER_MS))
    made = replace(made, instrument=replace(made.instrument, host=StarvedHost(wait_ms=40)))
    finding = found(made, level_settings, "p99<50ms", is_rate=False)
    assert (finding.value, finding.is_broken_at_once) == (0, False)
    assert finding_sentence(finding).startswith("It is undecided whether 'p99<50ms' is met")
    assert "this client was the limit" in finding_sentence(finding)


@pytest.mark.parametrize("is_rate", [True, False])
def test_only_a_server_that_never_answers_is_limited_by_no_answers(rig, level_settings, is_rate):
    finding = found(
        rig(lambda number, sent: Reply(NS_PER_S * 3600)),
        level_settings,
        "p99<50ms",
        start=8.0,
        is_rate=is_rate,
    )
    assert (finding.value, finding.limited_by) == (0, "no answers")


def test_the_knee_is_the_highest_load_before_latency_doubles(rig, level_settings):
    made = rig(lambda number, sent: Reply(5 * NS_PER_MS), servers=2)
    finding = found(made, level_settings, "p99<100ms", is_rate=False)
    assert 2 <= finding.knee < 4
    assert finding.value in (38, 39)


def test_a_server_without_a_limit_has_an_open_interval(rig, level_settings):
    made = rig(lambda number, sent: Reply(100 * NS_PER_MS))
    finding = found(made, level_settings, "p99<200ms", duration_s=10, is_rate=False)
    assert finding.value >= finding.low >= 8
    assert (finding.high, finding.limited_by) == (None, "nothing in the tested range")


def test_a_stopped_search_reports_its_findings(rig, level_settings):
    made = rig(lambda number, sent: Reply(5 * NS_PER_MS))
    steps = find(
        made.instrument, level_settings(), SearchGoal(parse_slo("p99<100ms"), 60 * NS_PER_S, start=10.0)
    )
    assert next(steps)[0].value == 10
    made.log.interrupt_after = 0
    _, finding = list(steps)[-1]
    assert (finding.value, finding.low, finding.high) == (0, 0, None)  # 18 requests decide nothing
    assert [row.verdict for row in finding.judged] == ["undecided"]


# --- the next load


def ran(load, beyond, requests=400.0, sections=16):
    """A run of even sections with this many requests beyond the limit."""
    each = np.full(sections, requests / sections)
    counts = Counts(each, np.full(sections, beyond / sections), each * float(NS_PER_MS))
    nothing = Counts(each, np.zeros(sections), np.zeros(sections))
    return LoadRun(load, 4.0, (counts, nothing), np.full(sections, 1e6))


SLO = parse_slo("p99<40ms")


@pytest.mark.parametrize(
    ("rows", "cap", "least", "most"),
    [
        ({}, None, 100, 100),  # the start
        ({100: 0}, None, 200, 200),  # nothing has missed the SLO, and the capacity is unknown
        ({100: 0}, 130, 101, 115),  # at most half way to the capacity
        ({100: 400}, None, 50, 50),  # nothing has met it
        ({100: 0, 200: 400}, None, 101, 199),
        ({100: 400}, 130, 50, 99),
        ({100: 0, 110: 8, 120: 40}, 200, 95, 112),  # near the limit
    ],
)
def test_the_next_load_is_near_the_likely_limit(rows, cap, least, most):
    capacity = None if cap is None else Capacity(cap)
    found = known(SLO, [ran(load, beyond) for load, beyond in rows.items()], capacity)
    assert least <= next_load(found, 100.0, capacity) <= most


@pytest.mark.parametrize(
    ("capacity", "load"),
    [
        (Capacity(130.0, margin=0.6), 160),  # measured with few requests
        (Capacity(130.0, margin=3.0), 200),
        (Capacity(130.0, is_seen=False), 200),
    ],
)
def test_a_doubtful_capacity_does_not_hold_back_a_load_that_meets_the_slo(capacity, load):
    assert next_load(known(SLO, [ran(100, 0)], capacity), 100.0, capacity) == load


@pytest.mark.parametrize(
    ("rows", "requests", "loads"),
    [
        ({100: 0, 200: 400}, 400.0, {141.4}),
        ({100: 0, 120: 1}, 20.0, {100, 120}),  # neither is proven: no narrower bracket
        ({100: 0, 120: 400}, 4000.0, {109.5}),
        ({100: 0, 101: 400}, 4000.0, {100, 101}),  # close enough
    ],
)
def test_if_the_curve_misfits_both_ends_are_proven_before_the_bracket_narrows(rows, requests, loads):
    runs = [ran(load, beyond, requests) for load, beyond in rows.items()]
    found = known(SLO, runs, None, is_misfit=True)
    assert next_load(found, 100.0, None, least_s=1.0) in loads


def test_a_low_load_is_tried_while_the_interval_is_wide():
    """Loads near the limit cannot rule out pauses that would violate the SLO far below it."""
    rows = [ran(80, 0, requests=30.0), ran(85, 1, requests=30.0), ran(90, 4, requests=30.0)]
    found = known(SLO, rows, Capacity(100.0))
    assert found.posterior.quantile(0.975) > 2 * found.posterior.quantile(0.025)
    assert next_load(found, 80.0, Capacity(100.0)) < 0.95 * found.posterior.quantile(0.5)


@pytest.mark.parametrize(
    ("ends", "busy_s", "value", "margin"),
    [
        (0, 0.0, 100.0, 0.1),
        (1200, 12.0, 100.0, 0.05),
        (1200, 11.5, 1600 / 15.5, 0.05),  # pooled
        (1200, 20.0, 100.0, 0.1),  # pauses, not a busy server: as many end as arrived
    ],
)
def test_levels_refine_the_capacity_while_requests_wait(ends, busy_s, value, margin):
    run = replace(ran(80, 4), busy_ends=ends, busy_s=busy_s)
    found = refined(Capacity(100.0, 0.1, ends=400), [run])
    assert (found.value, found.margin) == pytest.approx((value, margin))


def test_there_is_no_next_load_if_all_miss_the_slo():
    assert next_load(known(SLO, [ran(0.05, 400)], None), 100.0, None) is None


def test_an_interval_is_open_without_evidence():
    guess = Capacity(200.0, is_seen=False)
    met, missed = (known(SLO, [ran(100, beyond)], guess) for beyond in (0, 400))
    assert met.bracket().high == math.inf
    assert met.bracket().low <= met.estimate(met.bracket()) == 100
    assert (missed.bracket().low, missed.estimate(missed.bracket())) == (0, 0)
    assert missed.bracket().high < math.inf


def test_an_interval_ends_at_saturation():
    """Even if a search stays below it, the queue grows beyond any limit there; this does not apply to errors."""
    run = ran(100, 0)
    latency = known(SLO, [run], Capacity(200.0)).bracket()
    errors = known(parse_slo("errors<1%"), [replace(run, terms=run.terms[1:])], Capacity(200.0)).bracket()
    assert 200 < latency.high < 220
    assert errors.high == math.inf


def test_an_undecided_load_does_not_count_as_met():
    found = known(SLO, [ran(100, 2), ran(110, 4), ran(120, 9)], Capacity(200.0))
    bracket = found.bracket()
    verdicts = {row.load: row.verdict for row in found.judged(bracket)}
    assert bracket.low < 110 < bracket.high
    assert verdicts[110] == "undecided"


def test_without_measurements_nothing_is_judged():
    assert Judge(parse_slo("p99<1ms"), [], 0.0).judgements() == ()


def text_server(answer_ms, first_ms=20, tokens=10):
    """Streams with an early first token and a last token much later than any limit on the first."""
    gap = (answer_ms - first_ms) / tokens
    times = tuple(round((first_ms + number * gap) * NS_PER_MS) for number in range(tokens))
    return lambda number, sent: Reply(round(answer_ms * NS_PER_MS), responses_ns=times)


@pytest.mark.parametrize("is_rate", [True, False], ids=["rate", "concurrency"])
@pytest.mark.parametrize("promise", ["ttft p90<100ms", "ttft p90<100ms, tpot p90<200ms"])
def test_unfinished_answers_do_not_violate_an_slo_on_the_first_token(rig, level_settings, promise, is_rate):
    """A server without a limit: no tested load may count as violating, and none may delay the search."""
    finding = found(rig(text_server(1500)), level_settings, promise, is_rate=is_rate, duration_s=60)
    assert [row for row in finding.judged if row.verdict == "broken" or row.broken] == []
    assert finding.high is None
    assert finding.value == max(row.load for row in finding.judged)
    assert finding.value >= 16


@pytest.mark.parametrize("promise", ["tpot p90<500ms", "p90<10s"])
def test_answers_longer_than_a_level_are_awaited(rig, level_settings, promise):
    """A level of the usual length would have no answers, which is neither within the limit nor beyond it."""
    finding = found(rig(text_server(1500)), level_settings, promise, is_rate=False, duration_s=20)
    assert [row for row in finding.judged if row.broken] == []
    assert finding.value >= 4


def test_late_first_tokens_violate_the_slo_although_answers_continue(rig, level_settings):
    """Eight at a time, 500 ms each: beyond eight in flight the first token waits for a slot."""
    free_ns = [0] * 8

    def queued(number, sent):
        start = max(sent, heapq.heappop(free_ns))
        heapq.heappush(free_ns, start + 500 * NS_PER_MS)
        late, usual = start - sent, text_server(500)(number, sent)
        return Reply(late + usual.service_ns, responses_ns=tuple(late + ns for ns in usual.responses_ns))

    made = rig(queued)
    finding = found(made, level_settings, "ttft p90<100ms", is_rate=False, duration_s=60)
    assert (finding.value, finding.limited_by) == (8, "ttft p90")


@pytest.mark.parametrize("is_rate", [True, False], ids=["rate", "concurrency"])
def test_a_single_pause_violates_an_slo_on_every_gap_but_not_on_the_mean(rig, level_settings, is_rate):
    """Up to four at a time there is no pause; beyond that every answer pauses once for 150 ms, in one of nine gaps."""
    ends_ns = [0] * 4

    def halting(number, sent):
        is_busy = min(ends_ns) > sent
        heapq.heapreplace(ends_ns, sent + 400 * NS_PER_MS)
        usual = text_server(400)(number, sent)
        halt_ns = 150 * NS_PER_MS if is_busy else 0
        times = tuple(ns + (halt_ns if place > 4 else 0) for place, ns in enumerate(usual.responses_ns))
        return Reply(usual.service_ns + halt_ns, responses_ns=times)

    finding = found(rig(halting), level_settings, "gap p95<100ms", is_rate=is_rate, duration_s=30)
    assert finding.limited_by == "gap p95"
    assert 3 <= finding.value <= (11 if is_rate else 5)
    finding = found(rig(halting), level_settings, "tpot p95<100ms", is_rate=is_rate, duration_s=30)
    assert finding.value >= 16
