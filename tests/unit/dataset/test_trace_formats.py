"""Traces of lengths in every format; every error names file, line and field."""

import json
from pathlib import Path

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.dataset.replay import Trace, read_trace
from inferometer.dataset.trace_tokens import TraceTokens

BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


@pytest.fixture
def trace(tmp_path: Path):
    def read(text: str | bytes, **more: float) -> Trace:
        path = tmp_path / "t"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_trace(str(path), **more)

    return read


def rows(found: Trace) -> list[tuple[int, TraceTokens | None]]:
    return [(entry.time_ns, entry.tokens) for entry in found.entries]


def test_a_mooncake_trace(trace):
    lines = (
        {"timestamp": 3000, "input_length": 1100, "output_length": 20, "hash_ids": [0, 1, 2]},
        {"timestamp": 0, "input_length": 512, "output_length": 7, "hash_ids": [0], "session_id": 5},
        {"timestamp": 4000, "input_length": 700},
    )
    found = trace("\n".join(map(json.dumps, lines)))
    assert found.format == "Mooncake"
    assert rows(found) == [
        (0, TraceTokens(512, 7, (0,), "5")),
        (3 * NS_PER_S, TraceTokens(1100, 20, (0, 1, 2))),
        (4 * NS_PER_S, TraceTokens(700)),
    ]
    assert all(entry.is_plain for entry in found.entries)  # so that user data can be sent instead


def test_lines_without_lengths_have_none(trace):
    found = trace('{"timestamp": 0}\n{"timestamp": 1, "step": 0, "input_length": 5}')
    assert found.format == "JSON lines"
    assert [tokens for _, tokens in rows(found)] == [None, None]


def test_a_burstgpt_trace_is_in_seconds(trace):
    found = trace(BURST + "5,ChatGPT,472,18,490,Conversation log\n\n5.25,GPT-4,30,0,30,API log\r\n")
    assert found.format == "BurstGPT"
    assert rows(found) == [(0, TraceTokens(472, 18)), (250 * NS_PER_MS, TraceTokens(30, 0))]


def test_columns_may_be_in_another_order_and_name_sessions(trace):
    found = trace("Session ID,Response tokens,Timestamp,Request tokens\na,1,0,2\n,3,1,4\n")
    assert rows(found) == [(0, TraceTokens(2, 1, session="a")), (NS_PER_S, TraceTokens(4, 3))]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2023-11-16 18:15:46.6805900", "2023-11-16 18:15:50.9951690"),
        ("2024-05-10 00:00:00.009930+00:00", "2024-05-10 00:00:04.324509+00:00"),
        ("2024-05-10T01:59:59+02:00", "2024-05-10 00:00:03.314579+00:00"),
    ],
)
def test_an_azure_trace_has_dates(first: str, second: str, trace):
    found = trace(f"\ufeff{AZURE}{first},374,44\n{second},396,109\n")
    assert found.format == "Azure LLM inference"
    assert rows(found) == [(0, TraceTokens(374, 44)), (4_314_579_000, TraceTokens(396, 109))]


REFUSED = [
    ('{"timestamp": 0, "input_length": 0}', "line 1 of '", "'input_length' is 0"),
    ('{"timestamp": 0, "input_length": "7"}', "line 1 of '", "'input_length' is \"7\""),
    ('{"timestamp": 0, "input_length": 7, "output_length": -1}', "line 1 of '", "'output_length' is -1"),
    ('{"timestamp": 0, "input_length": 99999999}', "line 1 of '", "the limit is 10,000,000"),
    (
        '{"timestamp": 0}\n{"timestamp": 1, "input_length": 7, "hash_ids": 3}',
        "line 2 of '",
        "'hash_ids' is 3",
    ),
    ('{"timestamp": 0, "input_length": 7, "hash_ids": [1.5]}', "line 1 of '", "'hash_ids' is [1.5]"),
    (
        '{"timestamp": 0, "input_length": 513, "hash_ids": [1, 2, 3]}',
        "line 1 of '",
        "'hash_ids' names 3 blocks, but 513 tokens make 2 blocks; a block is 512 tokens",
    ),
    (BURST + "5,a,1,2,3,x\nsoon,a,1,2,3,x\n", "line 3 of '", "'Timestamp' is 'soon'"),
    (BURST + "nan,a,1,2,3,x\n", "line 2 of '", "'Timestamp' is 'nan'; BurstGPT traces require"),
    (BURST + "5,a,0,2,3,x\n", "line 2 of '", "'Request tokens' is '0'"),
    (BURST + "5,a,1,2.5,3,x\n", "line 2 of '", "'Response tokens' is '2.5'"),
    (BURST + "5,a,1,2\n", "line 2 of '", "has 4 cells, but the header has 6 columns"),
    (
        AZURE + "yesterday,1,2\n",
        "line 2 of '",
        "'TIMESTAMP' is 'yesterday'; Azure LLM inference traces require a date",
    ),
    (AZURE + "2023-11-16,1,\n", "line 2 of '", "'GeneratedTokens' is ''"),
    (AZURE, "the trace '", "is empty"),
    ("time,tokens\n1,2\n", "line 1 of '", "is not JSON: "),
    ("time,tokens\n1,2\n", "line 1 of '", "'TIMESTAMP,ContextTokens,GeneratedTokens'"),
]


@pytest.mark.parametrize(("text", "place", "detail"), REFUSED)
def test_mistakes_name_line_and_field(text: str, place: str, detail: str, trace):
    with pytest.raises(UsageError) as caught:
        trace(text)
    assert str(caught.value).startswith(place)
    assert detail in str(caught.value)
