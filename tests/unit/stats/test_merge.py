"""The arithmetic from windows to a measurement, on a handful of requests that can be checked by hand."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from inferometer.base import status
from inferometer.base.slo import parse_slo
from inferometer.model.spec import ModelSpec
from inferometer.records.records import COLUMNS, Records, from_rows
from inferometer.stats.measurement import Measurement
from inferometer.stats.merge import Subject, measurement, start_figures
from inferometer.stats.series import Series
from inferometer.stats.slo import kept
from inferometer.stats.windows import Expense, Window, WindowRules, join_windows

MS = 1_000_000
S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """Build a record from times in milliseconds."""

    due: int
    sent: int
    end: int
    first: int = 0
    wrote: int = 0
    code: int = status.OK
    received: int = 0


def records(*requests: Request) -> Records:
    rows = []
    for request in requests:
        row = dict.fromkeys(COLUMNS, 0) | {
            "due_ns": request.due * MS,
            "sent_ns": request.sent * MS,
            "wrote_ns": (request.wrote or request.sent) * MS,
            "first_ns": (request.first or request.end) * MS,
            "end_ns": request.end * MS,
            "status": request.code,
            "responses": 1,
            "received": request.received,
        }
        rows.append([row[name] for name in COLUMNS])
    return from_rows(np.array(rows, dtype=np.int64))


def window(*requests: Request, start_s: int = 0, expense: Expense | None = None, **options: object) -> Window:
    """Build a window of one second."""
    rules = WindowRules(**options)  # type: ignore[arg-type]
    found = rules.new_window(start_s * S)
    rules.add(found, records(*requests))
    return replace(found, end_ns=(start_s + 1) * S, expense=expense or Expense())


def measured(*windows: Window, batch: int = 1, promise: str = "") -> Measurement:
    spec = ModelSpec("m", "1", max_batch_size=8, inputs=(), outputs=())
    return measurement(join_windows(windows), Subject(spec, batch, None, 0, {}, promise))


TWO = (
    window(Request(0, 10, 30), Request(0, 20, 60), expense=Expense(cpu_ns=(S // 4,), elapsed_ns=S, sent=6)),
    window(
        Request(0, 1000, 1100),
        Request(0, 1010, 1200, code=status.RESET),
        start_s=1,
        expense=Expense(cpu_ns=(S // 2,), elapsed_ns=S, sent=4),
    ),
)


def test_send_rate_is_the_number_sent_over_the_elapsed_time():
    assert measured(*TWO).send_per_s == 5.0


def test_the_lag_of_the_loop_is_that_of_its_rounds():
    lags = Series()
    lags.append(np.array([MS, MS, 3 * MS], dtype=np.int64))
    client = measured(window(Request(0, 10, 30), expense=Expense(elapsed_ns=S, loop_lags_ns=lags))).client
    assert (client.loop_lag_p50_ns, client.loop_lag_max_ns) == (MS, 3 * MS)
    assert measured(*TWO).client.loop_lag_max_ns == 0


def test_throughput_counts_good_requests_and_their_batch():
    found = measured(*TWO, batch=4)
    assert (found.request_count, found.failed_count, found.duration_ns) == (3, 1, 2 * S)
    assert found.infer_per_s.value == 6.0
    assert found.failed_share == 0.25


def test_client_cost_covers_the_busiest_worker_and_all_requests():
    client = measured(*TWO).client
    assert client.cpu_share == 0.375
    assert client.cpu_us_per_request == 750_000 / 4
    two = Expense(cpu_ns=(S // 4, S // 2), elapsed_ns=S)
    assert measured(window(Request(0, 0, 5), expense=two)).client.cpu_share == 0.5
    assert measured(window(Request(0, 0, 5), expense=two)).client.workers == 2


def test_connections_are_timed_individually():
    spent = Expense(elapsed_ns=S, connects=4, connect_ns=4000, reconnects=2, stolen_ns=S // 10)
    client = measured(window(Request(0, 0, 5), expense=spent)).client
    assert (client.connects, client.connect_ns, client.reconnects, client.stolen_cores) == (4, 1000, 2, 0.1)


def test_sending_and_receiving_are_means_of_good_requests():
    found = measured(
        window(
            Request(0, 0, 40, first=30, wrote=2, received=5),
            Request(0, 50, 100, first=80, wrote=56, received=7),
            Request(0, 0, 900, first=1, wrote=800, code=status.RESET, received=1000),
        )
    )
    assert (found.send_ns, found.receive_ns, found.received_bytes) == (4 * MS, 15 * MS, 12)


def test_a_request_answered_before_it_was_sent_in_full_was_being_sent_until_the_reply():
    early = records(Request(0, 50, 100, first=80))
    early.wrote_ns[:] = 0
    rules = WindowRules()
    found = rules.new_window(0)
    rules.add(found, early)
    assert measured(replace(found, end_ns=S)).send_ns == 30 * MS


@pytest.mark.parametrize(("is_open", "mean"), [(False, 30), (True, 45)])
def test_latency_counts_from_the_send_or_from_the_due_time(is_open, mean):
    found = measured(window(Request(0, 10, 30), Request(0, 20, 60), is_open=is_open))
    assert found.latency.mean_ns == mean * MS
    assert found.service.mean_ns == 30 * MS


def test_failures_have_their_own_times():
    found = measured(
        window(
            Request(0, 100, 200, code=status.RESET),
            Request(0, 100, 400, code=status.RESET),
            Request(0, 0, 500),
        )
    )
    (group,) = found.failures
    assert (group.count, group.first_s, group.last_s) == (2, 0.2, 0.4)
    assert (group.mean_ns, group.max_ns) == (200 * MS, 300 * MS)


def test_goodput_is_a_share_of_all_that_ended():
    promise = parse_slo("latency<35ms")
    requests = (Request(0, 0, 30), Request(0, 0, 40), Request(0, 0, 34), Request(0, 0, 50, code=status.RESET))
    found = measured(window(*requests, promise=promise), batch=2, promise=promise.text).goodput
    assert found is not None
    assert (found.count, found.per_s, found.share) == (2, 4.0, 0.5)


def test_time_to_first_token_counts_from_the_send_regardless_of_due_times():
    late = records(Request(due=0, sent=100, first=130, end=200))
    assert kept(late, parse_slo("ttft<31ms"), is_open=True) == 1
    assert kept(late, parse_slo("ttft<30ms"), is_open=True) == 0  # the limit itself does not meet it
    assert kept(late, parse_slo("latency<150ms"), is_open=True) == 0
    assert kept(late, parse_slo("latency<150ms"), is_open=False) == 1


@pytest.mark.parametrize(
    ("promise", "count"),
    [("p50<10ms, p99<50ms", 1), ("p50<50ms, ttft<20ms, ttft p99<9ms", 2), ("errors<1%", 3)],
)
def test_a_request_must_meet_the_strictest_limit_of_a_figure(promise, count):
    found = records(
        Request(0, 100, 109, first=105), Request(0, 100, 120, first=108), Request(0, 100, 140, first=115)
    )
    assert kept(found, parse_slo(promise), is_open=False) == count


def test_start_is_measured_separately():
    found = start_figures(join_windows(TWO), Subject(ModelSpec("m", "1", (), (), 8), 2, None, 0, {}))
    assert (found.duration_ns, found.request_count, found.infer_per_s) == (2 * S, 3, 3.0)
    assert found.latency.max_ns == 100 * MS
