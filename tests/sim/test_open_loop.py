"""Open plans on a simulated clock: requests go out when they are due, whatever the server does."""

from inferometer.base import status
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.load.plan import Closed, Constant, Intervals, Listed, Open
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad


def load(script, *, servers=None, timeout_ns=0):
    clock = FakeClock(0)
    return clock, SimulatedLoad(FakeServer(script, servers), clock, timeout_ns=timeout_ns)


def collect(clock, simulated, until_ns):
    parts = []
    while clock() < until_ns:
        collected = simulated.collect(until_ns)
        parts.append(collected.records)
        if collected.is_finished:
            break
    return parts


def column(parts, name):
    return [int(value) for part in parts for value in getattr(part, name)]


def always(service_ms):
    return lambda number, sent: Reply(service_ms * NS_PER_MS)


def test_constant_rate_sends_each_request_when_it_is_due():
    clock, simulated = load(always(50))  # slower than the period: several are outstanding
    simulated.apply(Open(Constant(100)))
    parts = collect(clock, simulated, NS_PER_S)
    assert column(parts, "due_ns") == [10 * NS_PER_MS * (k + 1) for k in range(95)]
    assert column(parts, "sent_ns") == column(parts, "due_ns")


def test_cap_makes_requests_wait_and_the_wait_counts():
    clock, simulated = load(always(20))
    simulated.apply(Open(Constant(100), cap=1))
    parts = collect(clock, simulated, NS_PER_S)
    due, sent, ended = (column(parts, name) for name in ("due_ns", "sent_ns", "end_ns"))
    assert due[:4] == [10 * NS_PER_MS, 20 * NS_PER_MS, 30 * NS_PER_MS, 40 * NS_PER_MS]
    assert sent[:4] == [10 * NS_PER_MS, 30 * NS_PER_MS, 50 * NS_PER_MS, 70 * NS_PER_MS]
    assert ended[3] - due[3] == 50 * NS_PER_MS


def test_server_that_stalls_does_not_stop_the_schedule():
    def stalls(number, sent):
        wake = 500 * NS_PER_MS if sent < 500 * NS_PER_MS else sent
        return Reply(wake - sent + NS_PER_MS)

    clock, simulated = load(stalls)
    simulated.apply(Open(Constant(200)))
    parts = collect(clock, simulated, NS_PER_S)
    latencies = [end - due for end, due in zip(column(parts, "end_ns"), column(parts, "due_ns"), strict=True)]
    assert max(latencies) == 496 * NS_PER_MS
    assert len(latencies) == 199


def test_count_ends_the_plan_and_the_schedule_ends_it_too():
    clock, simulated = load(always(5))
    simulated.apply(Open(Constant(100), count=7))
    assert len(column(collect(clock, simulated, NS_PER_S), "due_ns")) == 7
    simulated.apply(Open(Listed((NS_PER_MS, 2 * NS_PER_MS, 30 * NS_PER_MS))))
    begun = clock()
    parts = collect(clock, simulated, begun + NS_PER_S)
    assert [due - begun for due in column(parts, "due_ns")] == [NS_PER_MS, 2 * NS_PER_MS, 30 * NS_PER_MS]


def test_worker_without_a_share_of_the_count_sends_nothing():
    clock, simulated = load(always(1))
    simulated.apply(Open(Constant(100), count=1).share(1, 2))
    assert column(collect(clock, simulated, NS_PER_S), "end_ns") == []
    assert clock() < NS_PER_S  # it was over before


def test_intervals_repeat():
    schedule = Intervals((100, 300, 800))
    assert [schedule.due_ns(number) for number in range(5)] == [100, 300, 800, 900, 1100]


def test_failures_do_not_pause_the_schedule():
    clock, simulated = load(lambda number, sent: Reply(1000, status.CONNECT, received=0))
    simulated.apply(Open(Constant(100)))
    assert len(column(collect(clock, simulated, NS_PER_S), "due_ns")) == 99


def test_plans_follow_each_other():
    clock, simulated = load(always(10))
    simulated.apply(Closed(4))
    collect(clock, simulated, 95 * NS_PER_MS)
    simulated.apply(Open(Constant(100)))
    parts = collect(clock, simulated, 295 * NS_PER_MS)
    assert len([due for due in column(parts, "due_ns") if due > 95 * NS_PER_MS]) == 19
    simulated.apply(Closed(2))
    simulated.collect(clock() + 20 * NS_PER_MS)
    parts = collect(clock, simulated, clock() + 100 * NS_PER_MS)
    assert len(column(parts, "due_ns")) == 20


def test_time_out_counts_from_the_send_not_from_the_wait_before_it():
    clock, simulated = load(always(20), timeout_ns=50 * NS_PER_MS)
    simulated.apply(Open(Constant(100), cap=1))
    parts = collect(clock, simulated, NS_PER_S)
    assert set(column(parts, "status")) == {status.OK}


def test_workers_share_a_schedule_without_gap_or_overlap():
    whole = Open(Constant(100), cap=5, count=10)
    parts = [whole.share(index, 3) for index in range(3)]
    numbers = sorted(part.first + k * part.stride for part in parts for k in range(part.count))
    assert numbers == list(range(10))
    assert sum(part.cap for part in parts) == 5
