"""What a level says about its own figures: warm-up, doubts, the client's part."""

import tracemalloc

import pytest

from inferometer.base.errors import PeerError
from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Open
from inferometer.measure.stopping import Precision
from inferometer.profile.level import Bench, Point, measure_level
from inferometer.profile.options import Options, Range
from inferometer.profile.points import points
from inferometer.profile.search import Verdicts
from inferometer.testing.clock import FakeClock
from inferometer.testing.target import Reply

BEGIN_NS = FakeClock()()
ONE = Point("concurrency", 1, Closed(1))
TEN_SECONDS = {
    "rule": Precision(precision=0.0001, duration_ns=10 * NS_PER_S),
    "window_ns": 500 * NS_PER_MS,
    "finds_warm_up": True,
}


def varied(number):
    """Up to a tenth, in no order."""
    return 1 + (number * 2654435761 >> 7) % 1000 / 10_000


def test_slow_start_is_left_out_and_reported_apart(rig, recipe):
    def cold(number, sent):
        return Reply(round((50 if sent < BEGIN_NS + 1.2 * NS_PER_S else 5) * varied(number) * NS_PER_MS))

    level = measure_level(rig(cold).bench, recipe(**TEN_SECONDS), ONE)
    assert level.start.duration_ns == 1500 * NS_PER_MS
    assert level.measurement.duration_ns == 8500 * NS_PER_MS
    assert level.measurement.latency.max_ns < 6 * NS_PER_MS
    assert level.start.latency.max_ns > 50 * NS_PER_MS
    counted = sum(window.request_count for window in level.windows)
    assert level.start.request_count + level.measurement.request_count == counted


def test_server_without_a_slow_start_loses_nothing(rig, recipe):
    level = measure_level(
        rig(lambda number, sent: Reply(round(5 * varied(number) * NS_PER_MS))).bench,
        recipe(**TEN_SECONDS),
        ONE,
    )
    assert level.start is None
    assert level.measurement.duration_ns == 10 * NS_PER_S


def test_precision_is_judged_without_the_slow_start(rig, recipe):
    def cold(number, sent):
        return Reply((50 if sent < BEGIN_NS + 1.2 * NS_PER_S else 5) * NS_PER_MS)

    rule = Precision(precision=0.02, duration_ns=10 * NS_PER_S)
    level = measure_level(rig(cold).bench, recipe(**{**TEN_SECONDS, "rule": rule}), ONE)
    assert len(level.windows) == 9  # three cold ones and six
    assert level.measurement.infer_per_s.value == 200
    assert not level.remarks


def test_warm_up_is_left_to_the_classic_rule_where_that_is_asked(rig, recipe):
    level = measure_level(
        rig(lambda number, sent: Reply((50 if sent < BEGIN_NS + NS_PER_S else 5) * NS_PER_MS)).bench,
        recipe(),
        ONE,
    )
    assert level.start is None


def frozen(number, sent):
    """Half a second in every two nothing is answered."""
    into = sent % (2 * NS_PER_S)
    wait = 500 * NS_PER_MS - into if into < 500 * NS_PER_MS else 0
    return Reply(round(wait + 5 * varied(number) * NS_PER_MS))


def slowing(number, sent):
    return Reply(round(5 * varied(number) * NS_PER_MS * (1 + sent / (10 * NS_PER_S))))


def two_kinds(number, sent):
    is_slow = (number * 40503 >> 3) % 4 == 0
    return Reply(round((40 if is_slow else 10) * varied(number) * NS_PER_MS))


def rare(number, sent):
    return Reply(round(200 * varied(number) * NS_PER_MS))


@pytest.mark.parametrize(
    ("script", "kind", "percentile"),
    [
        (frozen, "periodic stalls", None),
        (slowing, "drift", None),
        (two_kinds, "bimodal", None),
        (rare, "too few samples", 99),
    ],
)
def test_level_that_is_not_tight_says_why(rig, recipe, script, kind, percentile):
    level = measure_level(rig(script).bench, recipe(**TEN_SECONDS, percentile=percentile), ONE)
    assert [remark.note for remark in level.remarks] == [Note.NOT_PRECISE]
    assert level.doubt.kind == kind
    assert 1 < len(level.doubt.sparkline) <= 20


def test_tight_level_has_no_doubt(rig, recipe, constant):
    rule = Precision(precision=0.02, duration_ns=10 * NS_PER_S)
    level = measure_level(rig(constant(5)).bench, recipe(**{**TEN_SECONDS, "rule": rule}), ONE)
    assert level.doubt is None


def test_lateness_of_sends_is_in_the_client_cost(rig, recipe, constant):
    point = Point("request_rate", 100, Open(Constant(100), cap=1))
    client = measure_level(rig(constant(20)).bench, recipe(window_ns=2 * NS_PER_S), point).measurement.client
    assert client.lag_p50_ns > NS_PER_S
    assert client.lag_p99_ns > client.lag_p50_ns


def test_requests_sent_when_due_have_no_lateness(rig, recipe, constant):
    point = Point("request_rate", 100, Open(Constant(100)))
    client = measure_level(rig(constant(5)).bench, recipe(), point).measurement.client
    assert (client.lag_p50_ns, client.lag_p99_ns) == (0, 0)


def test_statistics_that_cannot_be_read_are_noted(rig, recipe, constant):
    def refuse():
        raise PeerError("no statistics today")

    made = rig(constant(5))
    bench = Bench(made.bench.load, made.clock, refuse, made.log)
    (remark,) = measure_level(bench, recipe(), ONE).remarks
    assert (remark.note, remark.text) == (Note.STATISTICS_MISSING, "no statistics today")


def test_binary_search_ends_at_the_highest_concurrency_inside_the_limit(rig, recipe, constant):
    """One instance, 5 ms each, 40 ms at most: eight requests in flight take 40 ms."""
    bench = rig(constant(5), servers=1).bench
    options = Options("fake", concurrency=Range(1, 64), binary_search=True, latency_limit_ms=40)
    verdicts, kept = Verdicts(), []
    for point in points(options, 64, verdicts):
        level = measure_level(bench, recipe(limit_ms=40), point)
        verdicts.passed = level.is_stable and not level.is_over_limit
        kept += [level.value] if verdicts.passed else []
    assert max(kept) == 7
    assert level.value in (7, 8)


def test_memory_grows_by_a_few_bytes_a_request(rig, recipe):
    """Ten million must fit into 250 MiB."""

    def peak(count):
        made = rig(lambda number, sent: Reply(NS_PER_MS + number % 5021))
        tracemalloc.start()
        point = Point("concurrency", 8, Closed(8, count))
        level = measure_level(made.bench, recipe(window_count=count, is_whole=True), point)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert level.measurement.request_count == count
        return most

    few, many = 20_000, 120_000
    assert (peak(many) - peak(few)) / (many - few) < 26
