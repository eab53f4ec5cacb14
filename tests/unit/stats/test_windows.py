"""Summary of a window."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from inferometer.base import status
from inferometer.observe.metrics import MOST_SAMPLES, Queue, Sample
from inferometer.records.records import COLUMNS, from_rows
from inferometer.stats.merge import server_metrics
from inferometer.stats.series import Series
from inferometer.stats.streams import Streams
from inferometer.stats.windows import Expense, Window, WindowRules, condensed, figures, join_expenses


def window(durations):
    values = Series(np.array(durations, dtype=np.int64))
    return Window(0, 10**9, values, values)


@pytest.mark.parametrize(
    ("durations", "p50", "p99"),
    [
        ((), 0, 0),
        ((7,), 7, 7),
        (tuple(range(100, 0, -1)), 51, 99),
    ],
)
def test_percentiles_of_a_window_are_those_of_its_requests(durations, p50, p99):
    row = figures(window(durations), level_start_ns=0, batch=1, chosen=None)
    assert (row.p50_ns, row.p99_ns) == (p50, p99)


def ended(*requests):
    """Records of (end, responses, status), each sent at 0."""
    rows = np.zeros((len(requests), len(COLUMNS)), dtype=np.int64)
    for row, (end_ns, responses, code) in zip(rows, requests, strict=True):
        for name, value in (("end_ns", end_ns), ("responses", responses), ("status", code)):
            row[COLUMNS.index(name)] = value
    return from_rows(rows)


@pytest.mark.parametrize(("drops_empty", "count", "empty"), [(True, 2, 3), (False, 5, 0)])
def test_a_stream_without_a_response_is_not_a_request_of_the_window(drops_empty, count, empty):
    rules = WindowRules(drops_empty=drops_empty)
    found = rules.new_window(0)
    rules.add(found, ended((10, 0, 0), (20, 3, 0), (30, 0, 0), (40, 1, 0), (50, 0, status.RESET), (60, 0, 0)))
    assert (found.count, found.ended_count) == (count, 6)
    found.end_ns = 10**9
    row = figures(found, level_start_ns=0, batch=1, chosen=None)
    assert (row.request_count, row.empty_count, row.failed_count) == (count, empty, 1)
    assert row.latency_ns == (30 if drops_empty else 32)


@pytest.mark.parametrize(
    ("stamps", "gaps"),
    [
        ((1,), []),
        ((0, 1), []),
        ((0, 2), [1]),
        ((2, 0, 2), [1, 1]),
        ((0, 0, 3, 0), [1, 1]),
        ((1, 1, 1), []),
        ((3, 0, 0, 1, 2), [1, 1, 1]),
    ],
)
def test_gaps_are_those_within_a_stream(stamps, gaps):
    """Responses of a request arrive 1 ns apart; some requests have none."""
    rows = np.zeros((len(stamps), len(COLUMNS)), dtype=np.int64)
    rows[:, COLUMNS.index("stamps")] = stamps
    rows[:, COLUMNS.index("end_ns")] = 1000 * np.arange(1, len(stamps) + 1)
    times = [1000 * number + time for number, count in enumerate(stamps, 1) for time in range(count)]
    found = Streams()
    found.add(from_rows(rows, np.array(times, dtype=np.int64)))
    assert found.gap_ns.values().tolist() == gaps


def test_a_stream_that_ended_before_its_window_counts_at_its_start():
    rules = WindowRules()
    found = rules.new_window(10_000)
    rules.add(found, ended((5_000, 1, 0), (12_000, 1, 0)))
    assert found.ends.groups().last_us.tolist() == [0, 2]


def test_joined_windows_sum_their_expenses():
    """Windows of a long run are joined; sums are preserved."""
    sums = [
        field.name for field in dataclasses.fields(Expense) if field.type is int and "file" not in field.name
    ]
    spent: dict[str, Any] = dict.fromkeys(sums, 3)
    part = Expense(**spent, cpu_ns=(3, 3))
    whole = join_expenses([part, part])
    assert whole.cpu_ns == (6, 6)
    assert {name: getattr(whole, name) for name in sums} == dict.fromkeys(sums, 6)
    assert "due" in sums


def test_samples_of_a_long_level_are_bounded_and_keep_what_figures_need() -> None:
    windows: list[Window] = []
    hours, peak = 20, 12_345
    for start in range(0, hours * 3600, 60):
        samples = tuple(
            Sample(at, queues={("m", "1"): Queue(9.0 if at == peak else 1.0, 0.0, float(at))})
            for at in range(start, start + 60)
        )
        windows = condensed([*windows, dataclasses.replace(window([1]), samples=samples)])
        assert sum(len(each.samples) for each in windows) <= MOST_SAMPLES
    kept = [sample for each in windows for sample in each.samples]
    assert (kept[0].at_ns, kept[-1].at_ns) == (0, hours * 3600 - 1)
    (queue,) = server_metrics(kept).queues
    assert (queue.pending_max, queue.requests) == (9, hours * 3600 - 1)
