"""Tokens and goodput, in words, in the classic block and in the CSV."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from inferometer.base.answer_file import from_json, to_json
from inferometer.dialects.perf_analyzer.report import level_block, token_lines
from inferometer.report.csv import main_csv
from inferometer.report.sentences import token_sentences
from inferometer.stats.estimate import Distribution
from inferometer.stats.measurement import Measurement
from inferometer.stats.result import Result
from inferometer.stats.slo_outcome import Goodput
from inferometer.stats.text_figures import Streaming, TokenFigures

US = 1000
NONE = Distribution(0, 0, 0, 0, 0, ())


def spread(mean: int, low: int, high: int, count: int = 10) -> Distribution:
    return Distribution(count, mean, 0, low, high, ((50.0, mean), (99.0, high)))


TOKENS = TokenFigures(
    output=160,
    output_per_s=80.0,
    per_answer=spread(16, 8, 24),
    between=spread(2000 * US, 1000 * US, 5000 * US),
    prompt=50,
    prompt_per_s=25.0,
    per_prompt=spread(5, 5, 5),
    from_events=0,
)
STREAMING = Streaming(120, 60.0, spread(12, 8, 20), spread(30_000 * US, 0, 90_000 * US), spread(1, 1, 1))


@pytest.fixture
def streamed(build: ModuleType) -> Measurement:
    found: Measurement = build.measurement(10, 5.0, 2000, 30, (1900, 2100, 2200, 2300), send=10, receive=5)
    return replace(found, tokens=TOKENS, streaming=STREAMING)


def test_the_console_shows_rates_lengths_and_the_origin_of_counts(streamed: Measurement):
    assert list(token_sentences(streamed)) == [
        "Tokens: 80.0 tokens/s, 16 (8 to 24) per answer; TPOT p50 2.00 ms, p99 5.00 ms",
        "Prompts: 25.0 tokens/s, 5 per request",
        "Tokens are the server's own count (usage).",
    ]


def test_goodput_counts_requests_at_any_batch_size(streamed: Measurement):
    found = replace(streamed, tokens=None, batch=4, goodput=Goodput("p99<1s", 9, 18.0, 0.9))
    assert list(token_sentences(found)) == [
        "Goodput: 4.50 requests/s within the limits of 'p99<1s', 90 % of all requests"
    ]


@pytest.mark.parametrize(
    ("from_events", "sentence"),
    [
        (
            10,
            "Tokens are counted as stream events: the server reported no usage. An event may hold several tokens.",
        ),
        (
            1,
            "Tokens are the server's own count (usage), except for 1 answer without one, whose events were counted.",
        ),
    ],
)
def test_events_counted_as_tokens_are_mentioned(from_events: int, sentence: str, streamed: Measurement):
    found = replace(streamed, tokens=replace(TOKENS, from_events=from_events))
    assert list(token_sentences(found))[-1] == sentence
    assert f"    [WARNING] {sentence}" in list(token_lines(found))


def test_embeddings_have_only_prompts(streamed: Measurement):
    only = replace(TOKENS, output=0, output_per_s=0.0, per_answer=spread(0, 0, 0), between=NONE)
    found = replace(streamed, tokens=only, streaming=None)
    assert list(token_sentences(found)) == ["Prompts: 25.0 tokens/s, 5 per request"]
    assert list(token_lines(found)) == ["    Input length: 5 tokens per request"]


def test_the_classic_block_appends_lines(build: ModuleType, streamed: Measurement):
    goodput = Goodput("ttft<1s", 9, 4.5, 0.9)
    result = build.result(build.level(replace(streamed, goodput=goodput)), service_kind="openai")
    lines = level_block(result, result.levels[0]).splitlines()
    transport = next(number for number, line in enumerate(lines) if line.startswith("    Avg HTTP time"))
    assert lines[transport + 1 :] == [
        "    Time to first token: 30000 usec (p50 30000 usec, p99 90000 usec)",
        "    Time between tokens: 2000 usec (p50 2000 usec, p99 5000 usec)",
        "    Output token throughput: 80 tokens/sec",
        "    Output length: 16 tokens per request",
        "    Input length: 5 tokens per request",
        "    Goodput: 4.5 infer/sec (90.00 %) within ttft<1s",
    ]


def cells(result: Any) -> dict[str, str]:
    header, row = main_csv(result).splitlines()
    return dict(zip(header.split(","), row.split(","), strict=True))


def test_the_csv_appends_columns(build: ModuleType, streamed: Measurement):
    verbose = {"verbose_csv": True}
    plain = list(cells(build.result(build.level(replace(streamed, tokens=None, streaming=None)), **verbose)))
    row = cells(build.result(build.level(replace(streamed, goodput=Goodput("x", 9, 4.5, 0.9))), **verbose))
    assert list(row)[: len(plain)] == plain
    assert {name: row[name] for name in list(row)[len(plain) :]} == {
        "Avg Time To First Token": "30000",
        "p50 Time To First Token": "30000",
        "p99 Time To First Token": "90000",
        "Avg Time Between Tokens": "2000",
        "p50 Time Between Tokens": "2000",
        "p99 Time Between Tokens": "5000",
        "Output Tokens/Second": "80",
        "Output Tokens/Request": "16",
        "Input Tokens/Request": "5",
        "Goodput": "4.5",
    }


def test_the_script_keeps_the_classic_columns_unless_asked(build: ModuleType, streamed: Measurement):
    result = build.result(build.level(streamed))
    assert list(cells(result))[-1] == "p99 latency"
    assert list(cells(replace(result, command="measure")))[-6:] == [
        "Input Tokens/Request",
        "Output Tokens/Second/User",
        "Input Tokens/Second",
        "p50 Token Gap",
        "p99 Token Gap",
        "Verdict",
    ]


def test_the_result_file_keeps_token_figures(build: ModuleType, streamed: Measurement):
    result = build.result(build.level(replace(streamed, goodput=Goodput("x", 9, 4.5, 0.9))))
    assert from_json(to_json(result), "file", Result).levels == result.levels
