"""The continuous-batching station against an independent simulation that takes every step by itself."""

import random

import pytest

from inferometer.diagnose.text_engine import TextEngine, TextRequest, TextServer
from inferometer.diagnose.text_load import open_loop
from tests.support.llm_engine import AskedSequence, Engine, EngineSettings


def stepped(settings, arrivals):
    """The times of the first and last token of each request, step by step."""
    engine, now_s, coming = Engine(settings), 0.0, [(at_s, AskedSequence(*pair)) for at_s, pair in arrivals]
    asked = [row for _, row in coming]
    while coming or not engine.is_idle:
        if engine.is_idle:
            now_s = max(now_s, coming[0][0])
        while coming and coming[0][0] <= now_s:
            engine.add(coming.pop(0)[1])
        now_s += engine.step()
        engine.finish_step(now_s)
    return [(row.token_times[0], row.token_times[-1]) for row in asked], engine.preemptions


def arrivals(count, per_s, seed=1, prompts=(20, 200), answers=(1, 80)):
    source, now_s = random.Random(seed), 0.0
    for _ in range(count):
        now_s += source.expovariate(per_s)
        yield now_s, (source.randint(*prompts), source.randint(*answers))


@pytest.mark.parametrize(
    ("slots", "kv_tokens", "per_s", "preempts"),
    [
        (4, 1_000_000, 3.0, False),  # slots limit
        (64, 1_000_000, 12.0, False),  # nothing waits
        (64, 700, 12.0, True),  # the KV cache limits
        (1, 1_000_000, 1.0, False),
    ],
)
def test_jumps_over_alike_steps_give_the_times_of_single_steps(slots, kv_tokens, per_s, preempts):
    settings = EngineSettings(
        prefill_per_s=10_000,
        step_s=0.02,
        step_per_sequence_s=0.001,
        slots=slots,
        kv_tokens=kv_tokens,
        prefill_budget=300,
    )
    rows = list(arrivals(80, per_s))
    truth, preemptions = stepped(settings, rows)
    assert (preemptions > 0) == preempts
    engine = TextEngine(
        fixed_s=0.019,
        answer_s=0.001,
        prompt_s=0.0001,
        slots=slots,
        kv_tokens=kv_tokens,
        prefill_tokens=300,
        prefill="whole",
    )
    ended = open_loop(engine, [at_s for at_s, _ in rows], [pair for _, pair in rows], seed=1)
    found = [(row.first_s, row.end_s) for row in sorted(ended, key=lambda row: row.user)]
    for one, other in zip(found, truth, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def test_context_makes_later_steps_longer():
    engine = TextEngine(fixed_s=0.01, answer_s=0.0, context_s=1e-5)
    (row,) = open_loop(engine, [0.0], [(100, 50)], seed=1)
    steps = [0.01 + 1e-5 * (100 + made) for made in range(50)]
    assert row.end_s == pytest.approx(sum(steps))
    assert row.first_s == pytest.approx(steps[0])


@pytest.mark.parametrize(("prefill", "first_s"), [("whole", 0.11), ("chunked", 0.14), ("apart", 0.11)])
def test_a_long_prompt_alone(prefill, first_s):
    engine = TextEngine(0.01, 0.0, prompt_s=1e-4, prefill_tokens=300, prefill=prefill)
    (row,) = open_loop(engine, [0.0], [(1000, 5)], seed=1)
    assert row.first_s == pytest.approx(first_s)
    assert engine.alone_s(1000, 5) == pytest.approx((row.first_s, row.end_s))


@pytest.mark.parametrize(
    ("prefill", "delay_s", "first_s"), [("whole", 0.1, 0.21), ("chunked", 0.1, 0.24), ("apart", 0.11, 0.21)]
)
def test_a_running_answer_waits_for_the_prompts_of_others(prefill, delay_s, first_s):
    """Reading 1,000 tokens takes 100 ms of a step, of four steps, or of a step in which no answer gets a token."""
    engine = TextEngine(0.01, 0.0, prompt_s=1e-4, prefill_tokens=301, prefill=prefill)
    server = TextServer(engine)
    first, second = TextRequest(0.0, 0, 30), TextRequest(0.095, 1000, 30)
    server.take(first, 0.0)
    server.take(second, 0.0)
    while server.inside:
        server.advance(float("inf"))
    assert first.end_s == pytest.approx(30 * 0.01 + delay_s, abs=2e-4)
    assert second.first_s == pytest.approx(first_s, abs=2e-4)


def test_prefix_hits_are_not_read_again():
    engine = TextEngine(0.01, 0.0, prompt_s=1e-4, cached=0.75)
    (row,) = open_loop(engine, [0.0], [(1000, 2)], seed=1)
    assert row.first_s == pytest.approx(0.01 + 0.025)
