"""Planted limits of a simulated LLM server, with and without its metrics: each is found, over seeds and settings."""

import functools
import itertools
from dataclasses import replace
from typing import Any

import pytest

from inferometer.diagnose.diagnosis import CLIENT, LIGHT, QUEUE, UNKNOWN
from inferometer.diagnose.llm import LlmConclusion, conclude_llm, waits_inside
from inferometer.diagnose.serving import DECODE, KV_CACHE, PREFILL, ServingLevel
from inferometer.observe.llm_metrics import LLAMA_CPP, VLLM
from inferometer.stats.machine_figures import LlmServerFigures
from tests.support.llm_engine import (
    DIALECTS,
    EngineSettings,
    Traffic,
    simulated_level,
    simulated_sweep,
)
from tests.support.samples import sample

PLANTED: dict[str, tuple[str, EngineSettings, Traffic]] = {
    "long prompts": (
        PREFILL,
        EngineSettings(prefill_per_s=3_000, step_s=0.005, step_per_sequence_s=0.00002),
        Traffic(2_000, 20),
    ),
    "medium prompts, several in a step": (
        PREFILL,
        EngineSettings(prefill_per_s=4_000, step_s=0.002, step_per_sequence_s=0.00002),
        Traffic(400, 12),
    ),
    "a step as long as its batch": (
        DECODE,
        EngineSettings(step_s=0.004, step_per_sequence_s=0.004),
        Traffic(100, 100),
    ),
    "a step that grows slowly": (
        DECODE,
        EngineSettings(step_s=0.008, step_per_sequence_s=0.002, prefill_per_s=50_000),
        Traffic(300, 80),
    ),
    "four slots": (QUEUE, EngineSettings(slots=4), Traffic(200, 100)),
    "six slots": (QUEUE, EngineSettings(slots=6), Traffic(200, 60)),
    "sixteen slots": (QUEUE, EngineSettings(slots=16, step_per_sequence_s=0.00005), Traffic(100, 50)),
    "a small KV cache": (KV_CACHE, EngineSettings(kv_tokens=6_000), Traffic(400, 100)),
    "a KV cache that long answers fill": (KV_CACHE, EngineSettings(kv_tokens=8_000), Traffic(100, 300)),
    "nothing": (LIGHT, EngineSettings(step_per_sequence_s=0.0, prefill_per_s=1e7), Traffic(100, 60)),
}
SEEDS = sample((1,), (1, 2))


@functools.cache
def swept(name: str, seed: int, dialect: str | None) -> LlmConclusion:
    _, settings, traffic = PLANTED[name]
    most = 32 if name == "nothing" else 256
    return conclude_llm(simulated_sweep(settings, traffic, seed=seed, dialect=dialect, most=most), "tiny")


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_limit_is_found(name: str, seed: int) -> None:
    kind = PLANTED[name][0]
    for dialect in DIALECTS if seed == SEEDS[0] else (VLLM,):
        found = swept(name, seed, dialect)
        assert found.verdict.kind == kind, (dialect, found.verdict.sentence)
        limiting = [row.kind for row in found.serving.checks if row.state == "limits"]
        assert limiting == ([] if kind == LIGHT else [kind])
        assert found.serving.server == dialect


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PLANTED)
def test_without_metrics_the_limit_is_found_as_far_as_the_client_can_tell(name: str, seed: int) -> None:
    found = swept(name, seed, None)
    kind = PLANTED[name][0]
    # Waiting for memory looks like waiting for a slot, and preemptions look like slow tokens: both are mentioned.
    seen = {KV_CACHE: (QUEUE, DECODE)}.get(kind, (kind,))
    assert found.verdict.kind in seen, found.verdict.sentence
    if kind in (KV_CACHE, QUEUE, DECODE):
        assert "the server does not report" in found.verdict.sentence
    states = {row.kind: row.state for row in found.serving.checks}
    assert states[KV_CACHE] == "not known"
    assert any("metrics are unavailable" in note for note in found.notes)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "seed"), tuple(itertools.product(PLANTED, SEEDS)))
def test_no_bound_or_prediction_is_below_the_measurement(name: str, seed: int) -> None:
    for dialect in (VLLM, None):
        found = swept(name, seed, dialect)
        best = max(level.requests_per_s for level in found.serving.levels)
        assert all(row.bound >= best * (1 - 1e-9) for row in found.serving.checks if row.bound is not None)
        assert all(row.throughput >= best for row in found.suggestions)
        most = (
            max(level.server.running_max or 0 for level in found.serving.levels if level.server)
            if dialect
            else 0
        )
        assert found.serving.fitting is None or found.serving.fitting >= most


@pytest.mark.parametrize("name", ["four slots", "six slots", "sixteen slots"])
@pytest.mark.parametrize("dialect", [VLLM, None])
def test_more_slots_have_the_predicted_effect(name: str, dialect: str | None) -> None:
    _, settings, traffic = PLANTED[name]
    (suggestion,) = swept(name, 1, dialect).suggestions
    assert int(suggestion.change.before) == settings.slots
    wider = replace(settings, slots=int(suggestion.change.after))
    rows = [
        simulated_level(wider, traffic, suggestion.concurrency, seed=seed, dialect=None)
        for seed in range(5, 9)
    ]
    measured = sum(row.requests_per_s for row in rows) / len(rows)
    assert suggestion.throughput == pytest.approx(measured, rel=0.15)


def test_a_larger_kv_cache_has_the_predicted_effect() -> None:
    _, settings, traffic = PLANTED["a small KV cache"]
    (suggestion,) = swept("a small KV cache", 1, VLLM).suggestions
    wider = replace(settings, kv_tokens=2 * settings.kv_tokens)
    row = simulated_level(wider, traffic, suggestion.concurrency, seed=9, dialect=None)
    assert suggestion.throughput == pytest.approx(row.requests_per_s, rel=0.2)


def test_the_number_of_fitting_sequences_is_the_size_over_their_length() -> None:
    traffic = Traffic(400, 100, spread=0.0)
    levels = simulated_sweep(EngineSettings(kv_tokens=60_000, slots=4), traffic, seed=1, dialect=VLLM)
    found = conclude_llm(levels, "tiny")
    assert found.serving.fitting == 120
    check = next(row for row in found.serving.checks if row.kind == KV_CACHE)
    assert "120 sequences of this length fit, 116 more than were running" in check.evidence


def test_slots_beyond_the_kv_cache_are_not_suggested() -> None:
    settings = EngineSettings(kv_tokens=5_000, slots=8)
    found = conclude_llm(simulated_sweep(settings, Traffic(350, 60), seed=1, dialect=VLLM), "tiny")
    assert found.verdict.kind == QUEUE
    (suggestion,) = found.suggestions
    assert (suggestion.change.before, int(suggestion.change.after)) == ("8", found.serving.fitting)


def test_slots_are_not_the_limit_if_more_would_not_help() -> None:
    """Eight slots of a server whose step time is proportional to its batch."""
    settings = EngineSettings(slots=8, step_s=0.004, step_per_sequence_s=0.004)
    found = conclude_llm(simulated_sweep(settings, Traffic(100, 100), seed=1, dialect=VLLM), "tiny")
    assert found.verdict.kind == DECODE


@pytest.mark.parametrize("name", ["four slots", "a small KV cache"])
def test_requests_queued_in_the_server_were_sent_by_the_client(name: str) -> None:
    kind, settings, traffic = PLANTED[name]
    levels = simulated_sweep(settings, traffic, seed=1, dialect=VLLM)
    found = conclude_llm(levels, "tiny", "a worker was busy all the time")
    assert found.verdict.kind == kind
    assert found.suggestions
    client = next(row for row in found.serving.checks if row.kind == CLIENT)
    assert (client.state, client.bound) == ("has room", None)
    assert "a worker was busy all the time, but requests wait inside the server" in client.evidence


@pytest.mark.parametrize(
    ("figures", "waits"),
    [
        ({"waiting_mean": 2.0}, True),
        ({"waiting_mean": 0.4}, False),
        ({"waiting_mean": 1.0}, False),  # of 16: they only pass through
        ({"waiting_mean": 0.0, "queue_ns": 5e8}, False),
        ({"queue_ns": 5e8}, True),  # half a second at 10/s
        ({"queue_ns": 1e7}, False),
        ({}, False),
    ],
)
def test_queueing_is_known_from_gauges_or_queue_times(figures: dict[str, Any], waits: bool) -> None:
    server = LlmServerFigures(VLLM, 10.0, **figures)
    assert waits_inside(ServingLevel(16, 10.0, 1.6e9, server=server)) is waits


def disturbed(levels: tuple[ServingLevel, ...]) -> list[ServingLevel]:
    """As observed on a busy machine: some first tokens of the lightest load are late, so that their mean doubles."""
    light, *others = levels
    assert light.first_ns is not None
    late_ns = light.first_ns + 1.2e9 / light.requests_per_s
    disturbed = replace(
        light, first_ns=late_ns, quick_first_ns=light.first_ns, quick_between_ns=light.between_ns
    )
    return [disturbed, *others]


@pytest.mark.parametrize("name", ["a step as long as its batch", "a step that grows slowly", "long prompts"])
@pytest.mark.parametrize("dialect", [VLLM, None])
def test_late_first_tokens_on_a_busy_machine_do_not_look_like_long_prompts(
    name: str, dialect: str | None
) -> None:
    kind, settings, traffic = PLANTED[name]
    levels = disturbed(tuple(simulated_sweep(settings, traffic, seed=1, dialect=dialect)))
    assert conclude_llm(levels, "tiny").verdict.kind == kind


def test_the_prefill_time_reported_by_the_server_takes_precedence() -> None:
    _, settings, traffic = PLANTED["a step as long as its batch"]
    light, *others = simulated_sweep(settings, traffic, seed=1, dialect=VLLM)
    assert light.server is not None
    assert light.first_ns is not None
    told = replace(light.server, prefill_ns=light.first_ns)
    late = replace(light, first_ns=5 * light.latency_ns, quick_first_ns=4 * light.latency_ns, server=told)
    assert conclude_llm([late, *others], "tiny").verdict.kind == DECODE
    assert conclude_llm([replace(late, server=light.server), *others], "tiny").verdict.kind == PREFILL


def test_a_limiting_client_takes_precedence() -> None:
    levels = simulated_sweep(EngineSettings(slots=4), Traffic(), seed=1, dialect=None)
    found = conclude_llm(levels, "tiny", "a worker was busy all the time")
    assert found.verdict.kind == CLIENT
    assert "a worker was busy all the time" in found.verdict.sentence
    assert found.suggestions == ()


def test_one_load_gives_no_verdict_without_metrics_and_the_queue_with_them() -> None:
    settings, traffic = EngineSettings(slots=4), Traffic(200, 100)
    blind = simulated_level(settings, traffic, 16, seed=1, dialect=None)
    assert conclude_llm([blind], "tiny").verdict.kind == UNKNOWN
    told = simulated_level(settings, traffic, 16, seed=1, dialect=VLLM)
    found = conclude_llm([told], "tiny")
    assert found.verdict.kind == UNKNOWN  # a second load is needed to know whether more slots would help
    assert next(row for row in found.serving.checks if row.kind == QUEUE).evidence.startswith(
        "of 16 requests, 4 run and 12 wait"
    )


def test_without_streaming_prompts_and_tokens_are_unknown() -> None:
    levels = [
        ServingLevel(load, per_s, 1e9 * load / per_s)
        for load, per_s in ((1, 10.0), (2, 19.0), (4, 20.0), (8, 20.0))
    ]
    found = conclude_llm(levels, "tiny")
    assert found.verdict.kind == UNKNOWN
    assert {row.kind: row.state for row in found.serving.checks if row.kind != CLIENT} == dict.fromkeys(
        (PREFILL, DECODE, KV_CACHE, QUEUE), "not known"
    )


def test_prompts_from_the_prefix_cache_are_noted() -> None:
    levels = simulated_sweep(EngineSettings(slots=4), Traffic(), seed=1, dialect=VLLM)
    top = levels[-1]
    assert top.server is not None
    warm = replace(top, server=replace(top.server, prefix_share=0.8))
    notes = conclude_llm([*levels[:-1], warm], "tiny").notes
    assert any("80 % of the prompt tokens came from the prefix cache" in note for note in notes)


def test_falling_throughput_is_noted() -> None:
    levels = simulated_sweep(EngineSettings(slots=4), Traffic(), seed=1, dialect=VLLM)
    slower = replace(levels[-1], requests_per_s=levels[-2].requests_per_s / 2)
    notes = conclude_llm([*levels[:-1], slower], "tiny").notes
    assert [note.startswith("Throughput fell from") for note in notes] == [True]
    assert conclude_llm(levels, "tiny").notes == ()


def test_without_kv_cache_metrics_two_causes_remain() -> None:
    """As in newer llama.cpp, which no longer reports it."""
    levels = simulated_sweep(EngineSettings(slots=4), Traffic(200, 100), seed=1, dialect=LLAMA_CPP)
    silent = [
        replace(level, server=replace(level.server, kv_cache_max=None, kv_cache_mean=None))
        for level in levels
        if level.server is not None
    ]
    found = conclude_llm(silent, "tiny")
    assert found.verdict.kind == QUEUE
    assert "the server does not report which" in found.verdict.sentence
    assert "--parallel" in found.suggestions[0].text
