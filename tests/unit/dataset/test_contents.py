"""Contents of a file by columns."""

import json
from pathlib import Path

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S
from inferometer.dataset.contents import (
    Contents,
    read_contents,
)
from inferometer.dataset.tokens import open_tokenizer
from inferometer.dataset.trace_tokens import TraceTokens, cacheable_in_blocks


@pytest.fixture
def contents(tmp_path: Path):
    def read(text: str, name: str = "file") -> Contents:
        path = tmp_path / name
        path.write_text(text)
        return read_contents(str(path), open_tokenizer(None))

    return read


def lines(*rows: dict) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_trace(contents):
    found = contents(
        lines(
            {
                "timestamp": 1000,
                "input_length": 600,
                "output_length": 3,
                "hash_ids": [1, 2],
                "session_id": "a",
            },
            {"timestamp": 0, "input_length": 512, "output_length": 0, "hash_ids": [1], "session_id": "a"},
        )
    )
    assert found == Contents(
        format="Mooncake",
        counted_in="the trace",
        requests=2,
        times_ns=(0, NS_PER_S),
        inputs=(512, 600),
        outputs=(0, 3),
        cacheable_tokens=512,
        sessions=(2,),
        findings=("1 requests have an answer without tokens",),
    )


def test_a_trace_with_only_times(contents):
    found = contents(lines({"timestamp": 0}, {"timestamp": 5}))
    assert (found.requests, found.inputs, found.cacheable_tokens) == (2, (), None)


@pytest.mark.parametrize(
    ("text", "name", "inputs", "outputs"),
    [
        ("one two\nthree\n", "text", (2, 1), ()),
        ("prompt\none two\n", "CSV", (2,), ()),
        (lines({"prompt": "one two", "max_tokens": 9}), "JSON lines", (2,), (9,)),
        (lines({"timestamp": 5, "prompt": "one two"}), "JSON lines", (2,), ()),
        (
            lines(
                {"body": {"messages": [{"role": "user", "content": "one two"}], "max_completion_tokens": 4}}
            ),
            "OpenAI batch",
            (2,),
            (4,),
        ),
        (
            json.dumps(
                [{"conversations": [{"from": "human", "value": "a b"}, {"from": "gpt", "value": "c"}]}]
            ),
            "ShareGPT",
            (2,),
            (1,),
        ),
        ('{"data": [{"payload": [{"prompt": "a b c", "max_tokens": 2}]}]}', "payloads", (3,), (2,)),
    ],
)
def test_files_of_prompts(text: str, name: str, inputs: tuple[int, ...], outputs: tuple[int, ...], contents):
    found = contents(text)
    assert (found.format, found.inputs, found.outputs) == (name, inputs, outputs)
    assert (found.counted_in, found.times_ns) == ("words", ())


def test_conversations_are_sessions(contents):
    turns = [{"from": who, "value": "x"} for who in ("human", "gpt", "human")]
    found = contents(json.dumps([{"conversations": turns}, {"conversations": turns[:1]}]))
    assert (found.requests, found.sessions) == (3, (2, 1))


def test_mistakes_are_those_of_the_reader(contents):
    with pytest.raises(UsageError, match=r"line 2 of .* has no time"):
        contents(lines({"timestamp": 0}, {"input_length": 3}))


BLOCKS = [
    ("nothing is known of the first", [(512, (1,))], 0),
    ("a whole block", [(512, (1,)), (512, (1,))], 512),
    ("only leading ones", [(1024, (1, 2)), (1024, (3, 2))], 0),
    ("only after the same beginning", [(1024, (1, 2)), (1024, (1, 3)), (1024, (1, 2))], 512 + 1024),
    ("of a short block, what was there", [(600, (1, 2)), (700, (1, 2)), (650, (1, 2))], 600 + 650),
    ("and nothing behind it", [(100, (1,)), (1024, (1, 2)), (1024, (1, 2))], 100 + 1024),
    ("names of one kind only", [(512, (1,)), (512, ("1",))], 0),
]


@pytest.mark.parametrize(("prompts", "expected"), [row[1:] for row in BLOCKS], ids=[row[0] for row in BLOCKS])
def test_cacheable_tokens(prompts: list[tuple[int, tuple[int | str, ...]]], expected: int):
    assert cacheable_in_blocks([TraceTokens(size, 1, blocks) for size, blocks in prompts]) == expected
