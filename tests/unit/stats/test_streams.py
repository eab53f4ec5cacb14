"""Tokens, the time between them, and which requests keep a promise: exact figures of made-up records."""

from dataclasses import dataclass

import numpy as np
import pytest

from inferometer.base.errors import UsageError
from inferometer.records.records import COLUMNS, Records, from_rows
from inferometer.stats.slo import kept, parse_slo
from inferometer.stats.streams import Tokens, join_tokens

MS = 1_000_000
START = 1000  # when all were sent, and due unless said otherwise


@dataclass(frozen=True, slots=True)
class Answered:
    """A good request; times count from when it was sent: `times` are those of its responses, in milliseconds."""

    end: int
    times: tuple[int, ...] = ()
    tokens: int = 0
    prompt: int = 0
    due: int = 0


def records(*answers: Answered) -> Records:
    rows = []
    for answer in answers:
        first = answer.times[0] if answer.times else answer.end
        row = dict.fromkeys(COLUMNS, 0) | {
            "due_ns": (START + answer.due) * MS,
            "sent_ns": START * MS,
            "first_ns": (START + first) * MS,
            "end_ns": (START + answer.end) * MS,
            "responses": len(answer.times) or 1,
            "stamps": len(answer.times),
            "tokens": answer.tokens,
            "prompt_tokens": answer.prompt,
        }
        rows.append([row[name] for name in COLUMNS])
    times = [(START + time) * MS for answer in answers for time in answer.times]
    return from_rows(np.array(rows, dtype=np.int64), np.array(times, dtype=np.int64))


def tokens(*answers: Answered) -> Tokens:
    found = Tokens()
    found.add(records(*answers))
    return found


def test_the_servers_count_comes_first():
    found = tokens(Answered(50, (10, 20, 40), tokens=7, prompt=5), Answered(60, tokens=3, prompt=1))
    assert found.output.values().tolist() == [7, 3]
    assert found.prompt.values().tolist() == [5, 1]
    assert found.between_ns.values().tolist() == [5 * MS]  # from 10 to 40 came six more
    assert found.from_events == 0


def test_without_it_the_events_of_a_stream_are_counted():
    found = tokens(Answered(50, (10, 20, 40)), Answered(60, (30,)), Answered(70))
    assert found.output.values().tolist() == [3, 1, 0]
    assert found.between_ns.values().tolist() == [15 * MS]
    assert found.from_events == 2


def test_figures_over_windows():
    parts = [
        tokens(Answered(50, (10, 30), tokens=5, prompt=2)),
        tokens(Answered(60, (20, 30))),
    ]
    whole = join_tokens(parts)
    assert whole is not None
    figures = whole.figures(2000 * MS)
    assert (figures.output, figures.output_per_s, figures.prompt, figures.prompt_per_s) == (7, 3.5, 2, 1.0)
    assert (figures.per_answer.min_ns, figures.per_answer.max_ns, figures.from_events) == (2, 5, 1)
    assert (figures.between.min_ns, figures.between.max_ns) == (5 * MS, 10 * MS)
    assert join_tokens([]) is None


@pytest.mark.parametrize(
    ("promise", "count"),
    [
        ("latency<55ms", 1),
        ("latency<1s", 3),
        ("p99<55ms, p50<1s", 1),
        ("ttft<20ms", 1),
        ("ttft p99<25ms", 2),
        ("ttft_p99<25ms", 2),
        ("tpot<12ms", 2),
        ("latency<75ms, tpot<12ms", 2),
        ("latency<75ms, ttft<25ms, tpot<12ms", 1),
        ("errors<1%", 3),
    ],
)
def test_each_request_is_held_to_the_promise(promise: str, count: int):
    found = records(Answered(50, (10, 20, 30)), Answered(60, (20, 50)), Answered(70, (30,)))
    assert kept(found, parse_slo(promise), is_open=False) == count


def test_by_rate_latency_counts_from_the_due_time():
    found = records(Answered(50, due=20))
    limit = parse_slo("latency<40ms")
    assert kept(found, limit, is_open=True) == 1
    assert kept(found, limit, is_open=False) == 0


@pytest.mark.parametrize(
    "text", ["", "p97<5ms", "ttft", "ttft p97<1s", "speed<1s", "ttft<fast", "mean ttft<1s"]
)
def test_promises_that_are_not_understood(text: str):
    with pytest.raises(UsageError):
        parse_slo(text)
