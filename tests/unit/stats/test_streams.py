"""Tokens, the time between them, and requests that meet an SLO: exact figures of synthetic records."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from inferometer.base.errors import UsageError
from inferometer.base.slo import parse_slo
from inferometer.records.records import COLUMNS, Records, from_rows
from inferometer.stats.estimate import Estimate
from inferometer.stats.slo import kept
from inferometer.stats.streams import (
    Streams,
    Tokens,
    answers_ns,
    between_ns,
    gap_counts,
    gaps_ns,
    join_tokens,
    lanes,
    longest_gaps_ns,
    tools_ns,
)
from inferometer.stats.text_figures import AskedLengths, Lane
from inferometer.stats.work import Flow, response_rate

MS = 1_000_000
RATE = Estimate(1.0)
START = 1000  # send time of all requests, and due time unless given


@dataclass(frozen=True, slots=True)
class Answered:
    """Build a successful request; `times` are those of its responses, in milliseconds after the send."""

    end: int
    times: tuple[int, ...] = ()
    tokens: int = 0
    prompt: int = 0
    due: int = 0
    step: int = 0
    reasoning: int = 0
    cached: int = 0
    answer_at: int = 0  # index in its times of the first answer token
    tool_at: int = 0  # position in its times of the first tool call
    is_blank: bool = False


def records(*answers: Answered) -> Records:
    rows = []
    for answer in answers:
        first = min(answer.times) if answer.times else answer.end
        row = dict.fromkeys(COLUMNS, 0) | {
            "due_ns": (START + answer.due) * MS,
            "sent_ns": START * MS,
            "first_ns": (START + first) * MS,
            "end_ns": (START + answer.end) * MS,
            "responses": 0 if answer.is_blank else len(answer.times) or 1,
            "answer_at": answer.answer_at,
            "tool_at": answer.tool_at,
            "stamps": len(answer.times),
            "tokens": answer.tokens,
            "prompt_tokens": answer.prompt,
            "step": answer.step,
            "reasoning_tokens": answer.reasoning,
            "cached_tokens": answer.cached,
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
    assert found.between_ns.values().tolist() == [5 * MS]  # six more arrived from 10 to 40
    assert found.sums.from_events == 0


def test_without_it_the_events_of_a_stream_are_counted():
    found = tokens(Answered(50, (10, 20, 40)), Answered(60, (30,)), Answered(70))
    assert found.output.values().tolist() == [3, 1, 0]
    assert found.between_ns.values().tolist() == [15 * MS]
    assert found.sums.from_events == 2


def test_figures_over_windows():
    parts = [
        tokens(Answered(50, (10, 30), tokens=5, prompt=2)),
        tokens(Answered(60, (20, 30))),
    ]
    whole = join_tokens(parts)
    assert whole is not None
    figures = whole.figures(2000 * MS, RATE)
    assert (figures.output, figures.output_per_s, figures.prompt, figures.prompt_per_s) == (7, 3.5, 2, 1.0)
    assert (figures.per_answer.min_ns, figures.per_answer.max_ns, figures.from_events) == (2, 5, 1)
    assert (figures.between.min_ns, figures.between.max_ns) == (5 * MS, 10 * MS)
    assert join_tokens([]) is None


def test_prefill_runs_to_the_first_token_and_decode_to_the_last():
    found = tokens(
        Answered(60, (10, 20, 40), tokens=7, prompt=100),  # the end mark comes later, and is in neither phase
        Answered(30, (30,), tokens=1, prompt=20),
        Answered(500, tokens=9, prompt=50),  # all at once: it has no phases
    ).figures(1000 * MS, RATE)
    assert found.prefill is not None
    assert found.decode is not None
    assert (found.prefill.time_ns, found.prefill.tokens) == (40 * MS, 120)
    assert (found.prefill.share, found.prefill.per_s) == (40 / 70, 3000.0)
    assert (found.decode.time_ns, found.decode.tokens) == (30 * MS, 6)
    assert (found.decode.share, found.decode.per_s) == (30 / 70, 200.0)


def test_whole_answers_have_no_phases():
    found = tokens(Answered(50, tokens=5)).figures(1000 * MS, RATE)
    assert (found.prefill, found.decode) == (None, None)


def test_a_user_gets_the_tokens_of_an_answer_over_all_its_time():
    found = tokens(Answered(2000, (500, 2000), tokens=100), Answered(1000, tokens=10)).figures(
        1000 * MS, RATE
    )
    assert found.per_user is not None
    assert found.per_user.mean.value == 30.0
    assert (found.per_user.percentile(1), found.per_user.percentile(99)) == (10.0, 50.0)
    assert tokens(Answered(50)).figures(1000 * MS, RATE).per_user is None


def test_answers_are_compared_with_their_requested_length():
    found = Tokens()
    asked = np.array([10, 0])
    answers = [
        Answered(10, tokens=10),
        Answered(10, tokens=4),
        Answered(10, tokens=9),
        Answered(10, tokens=12),
        Answered(10, (1, 2, 3)),  # not counted by the server: an event may hold more than one token
        Answered(10, tokens=3, step=1),  # no requested length
    ]
    found.add(records(*answers), asked)
    figures = found.figures(1000 * MS, RATE)
    assert figures.asked == AskedLengths(asked=4, early=2, over=1, missing_tokens=7, extra_tokens=2)
    assert figures.asked.exact == 1
    assert tokens(*answers).figures(1000 * MS, RATE).asked is None


def test_reasoning_and_cached_tokens_are_added_up():
    found = join_tokens([tokens(Answered(10, tokens=9, prompt=8, reasoning=5, cached=3))] * 2)
    assert found is not None
    figures = found.figures(1000 * MS, RATE)
    assert (figures.output, figures.reasoning, figures.prompt, figures.cached) == (18, 10, 16, 6)


CHOICES = (
    Answered(60, (10, 20, 30)),
    Answered(
        60, (13, 25, 38, 12, 22, 33, 10, 20), tokens=9
    ),  # three choices, in the order of `Records.times`
    Answered(60, is_blank=True),
    Answered(70, (40, 50, 10, 20, 25)),  # consecutive
)


def test_gaps_are_between_tokens_of_the_same_choice() -> None:
    found = records(*CHOICES)
    assert (gaps_ns(found) // MS).tolist() == [10, 10, 12, 13, 10, 11, 10, 10, 10, 5]
    assert gap_counts(found).tolist() == [2, 5, 0, 3]
    assert (longest_gaps_ns(found) // MS).tolist() == [10, 13, -1, 10]
    # 56 ms over the 9 - 3 tokens after the first ones; 25 ms over 5 - 2
    assert between_ns(found).tolist() == [10 * MS, 56 * MS // 6, -1, 25 * MS // 3]


def test_with_choices_decode_runs_from_the_first_token_of_any_to_the_last() -> None:
    found = tokens(Answered(50, (40, 50, 10, 20, 25), prompt=7)).figures(1_000 * MS, RATE)
    assert found.prefill is not None
    assert found.decode is not None
    assert (found.prefill.time_ns, found.decode.time_ns) == (10 * MS, 40 * MS)


def test_the_answer_begins_after_the_reasoning() -> None:
    found = records(
        Answered(60, (10, 20, 30), answer_at=2),
        Answered(60, (15, 25)),
        Answered(60, (10, 20), answer_at=2),  # never reached
        Answered(60, is_blank=True),
    )
    assert answers_ns(found).tolist() == [30 * MS, 15 * MS, -1, -1]
    streams = Streams()
    streams.add(found)
    figures = streams.figures(1_000 * MS)
    assert figures is not None
    assert figures.answer is not None
    assert (figures.first.count, figures.answer.count, figures.unanswered) == (3, 2, 1)
    assert figures.answer.max_ns == 30 * MS
    assert kept(found, parse_slo("ttft<12ms"), is_open=False) == 2
    assert kept(found, parse_slo("ttfo<20ms"), is_open=False) == 1
    assert kept(found, parse_slo("ttfa p99<40ms"), is_open=False) == 2


def test_the_first_tool_call_has_a_time_of_its_own() -> None:
    found = records(
        Answered(60, (10, 20, 30), answer_at=1, tool_at=3),
        Answered(60, (15, 25)),
        Answered(60, (12, 22), tool_at=1),
        Answered(60, is_blank=True),
    )
    assert tools_ns(found).tolist() == [30 * MS, -1, 12 * MS, -1]
    streams = Streams()
    streams.add(found)
    figures = streams.figures(1_000 * MS)
    assert (figures.tool.count, figures.tool.max_ns) == (2, 30 * MS)
    assert kept(found, parse_slo("ttfc<20ms"), is_open=False) == 3  # answers without a call keep it
    assert kept(found, parse_slo("ttfc p90<40ms"), is_open=False) == 4
    plain = Streams()
    plain.add(records(Answered(60, (10, 20))))
    assert plain.figures(1_000 * MS).tool is None


def test_without_reasoning_the_answer_is_not_reported_separately() -> None:
    streams = Streams()
    streams.add(records(Answered(60, (10, 20)), Answered(60, (15, 25))))
    figures = streams.figures(1_000 * MS)
    assert figures is not None
    assert figures.answer is None


def test_prompts_fall_into_classes_of_powers_of_two():
    answers = [Answered(90, (wait, wait + 10), tokens=2, prompt=length) for length, wait in
               ((100, 10), (127, 20), (128, 30), (1000, 40))]  # fmt: skip
    found = tokens(*answers).figures(1000 * MS, RATE).classes
    assert [(row.low, row.high, row.count) for row in found] == [
        (100, 127, 2),
        (128, 128, 1),
        (1000, 1000, 1),
    ]
    assert [row.first.max_ns for row in found] == [20 * MS, 30 * MS, 40 * MS]
    assert [row.between.max_ns for row in found] == [10 * MS] * 3


def test_prompt_classes_are_few_and_none_if_all_are_similar():
    many = [Answered(90, tokens=2, prompt=2**power) for power in range(12)]
    found = tokens(*many).figures(1000 * MS, RATE).classes
    assert len(found) == 6
    assert sum(row.count for row in found) == 12
    assert all(one.high < other.low for one, other in pairwise(found))
    alike = [Answered(90, tokens=2, prompt=length) for length in (128, 255)]
    assert tokens(*alike).figures(1000 * MS, RATE).classes == ()


def test_precision_of_tokens_per_second_combines_requests_and_lengths():
    found = tokens(*[Answered(10, tokens=50)] * 64).figures(1000 * MS, Estimate(64.0, 60.8, 70.4))
    assert found.output_interval is not None
    low, high = found.output_interval.low, found.output_interval.high
    assert (found.output_interval.value, low, high) == pytest.approx((3200.0, 3040.0, 3520.0))


def test_lanes_follow_single_requests():
    found = lanes(records(Answered(60, (10, 50), tokens=7, prompt=3, due=-5)), 990 * MS)
    assert found == (Lane(5 * MS, 10 * MS, 20 * MS, 70 * MS, 3, 7),)


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
        ("gap p50<15ms", 2),  # the longest of each
        ("gap<35ms", 3),
        ("latency<75ms, tpot<12ms", 2),
        ("latency<75ms, ttft<25ms, tpot<12ms", 1),
        ("errors<1%", 3),
    ],
)
def test_each_request_is_judged_by_the_slo(promise: str, count: int):
    found = records(Answered(50, (10, 20, 30)), Answered(60, (20, 50)), Answered(70, (30,)))
    assert kept(found, parse_slo(promise), is_open=False) == count


def test_by_rate_latency_counts_from_the_due_time():
    found = records(Answered(50, due=20))
    limit = parse_slo("latency<40ms")
    assert kept(found, limit, is_open=True) == 1
    assert kept(found, limit, is_open=False) == 0


@pytest.mark.parametrize("text", ["", "p97<5ms", "ttft", "ttft p97<1s", "speed<1s", "ttft<fast"])
def test_slos_that_cannot_be_parsed(text: str):
    with pytest.raises(UsageError):
        parse_slo(text)


@pytest.mark.parametrize("ends_us", [(), (40,), (40, 41)])
def test_the_rate_of_responses_is_known_if_hardly_any_request_ended(ends_us: tuple[int, ...]) -> None:
    came = np.arange(0, 1_000_000, 1000)
    ends, lengths = np.array(ends_us, dtype=np.int64), np.ones(len(ends_us), dtype=np.int64)
    found = response_rate(Flow(came, came, np.arange(1, 1001), ends, lengths, in_flight=2.0))
    assert found.value == pytest.approx(1000)
