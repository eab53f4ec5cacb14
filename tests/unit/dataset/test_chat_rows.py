"""Files of prompts and chats in common formats, and the requests from each row."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from inferometer.base.errors import UsageError
from inferometer.dataset import rows
from inferometer.dataset.build import build
from inferometer.dataset.chat_rows import Reading, read_requests
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.options import DataOptions

MODEL = ModelSpec("gpt", "", (TensorSpec("payload", "JSON", (1,)),), ())


def said(human: str, *others: str) -> list[dict[str, str]]:
    whom = ("human", "gpt")
    return [{"from": whom[turn % 2], "value": text} for turn, text in enumerate((human, *others))]


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def table(*rows: tuple[str, ...]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def as_parquet(*rows: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), sink)
    return sink.getvalue()


@pytest.fixture
def read(tmp_path: Path):
    """Return the steps of a file with this content, as texts by name, and the findings."""

    def call(
        data: bytes, name: str = "data", **reading: Any
    ) -> tuple[str, list[dict[str, Any]], tuple[str, ...]]:
        path = tmp_path / name
        path.write_bytes(data)
        found = read_requests(str(path), data, Reading(**reading))
        steps = [{tensor.name: tensor.data.decode() for tensor in step} for step in found.steps]
        return found.format, steps, found.findings

    return call


def messages(*texts: str) -> str:
    roles = ("user", "assistant")
    rows = [{"role": roles[turn % 2], "content": text} for turn, text in enumerate(texts)]
    return json.dumps(rows, separators=(",", ":"))


READ = [
    ("text", b"one\ntwo\n", [{"prompt": "one"}, {"prompt": "two"}]),
    ("text", b"[INST] one\n", [{"prompt": "[INST] one"}]),
    ("JSON lines", lines({"prompt": "a", "output_length": 7}), [{"prompt": "a", "max_tokens": "7"}]),
    ("JSON lines", lines({"question": "a"}, {"text": "b"}), [{"prompt": "a"}, {"prompt": "b"}]),
    (
        "JSON lines",
        lines({"messages": [{"role": "user", "content": "a"}], "max_tokens": 3}),
        [{"messages": messages("a"), "max_tokens": "3"}],
    ),
    (
        "JSON lines",
        lines({"prompt": "a", "session_id": "s", "delay": 5}),
        [{"prompt": "a", "session_id": "s", "delay": "5.0"}],
    ),
    ("JSON", json.dumps([{"prompt": "a"}], indent=2).encode(), [{"prompt": "a"}]),
    (
        "OpenAI batch",
        lines({"custom_id": "1", "method": "POST", "url": "/v1/x", "body": {"model": "m", "max_tokens": 9}}),
        [{"payload": '{"model":"m","max_tokens":9}'}],
    ),
    ("CSV", table(("id", "prompt"), ("1", "a, b"), ("2", "c\nd")), [{"prompt": "a, b"}, {"prompt": "c\nd"}]),
    ("CSV", table(("prompt", "output_tokens"), ("a", "5")), [{"prompt": "a", "max_tokens": "5"}]),
    ("Parquet", as_parquet({"prompt": "a", "other": 1}, {"prompt": "b"}), [{"prompt": "a"}, {"prompt": "b"}]),
    ("ShareGPT", as_parquet({"conversations": said("a", "b")}), [{"messages": messages("a")}]),
    ("ShareGPT", json.dumps([{"conversations": said("a", "b")}]).encode(), [{"messages": messages("a")}]),
    (
        "ShareGPT",
        lines({"conversations": said("a", "b", "c", "d")}),
        [{"messages": messages("a")}, {"messages": messages("a", "b", "c")}],
    ),
    (
        "ShareGPT",
        lines({"conversations": [{"role": "user", "content": "a"}]}),
        [{"messages": messages("a")}],
    ),
    (  # messages before the first user turn are left out
        "ShareGPT",
        lines({"conversations": [{"from": "gpt", "value": "x"}, *said("a", "b")]}),
        [{"messages": messages("a")}],
    ),
]


@pytest.mark.parametrize(("name", "data", "steps"), READ)
def test_requests_from_a_row(name: str, data: bytes, steps: list[dict[str, str]], read):
    assert read(data)[:2] == (name, steps)


@pytest.mark.parametrize(
    "data", [table(("a", "b"), ("1", "x")), as_parquet({"a": 1, "b": "x"}), lines({"a": 1, "b": "x"})]
)
def test_a_column_can_be_named(data: bytes, read):
    assert read(data, column="b")[1] == [{"prompt": "x"}]


def test_a_system_prompt_goes_with_the_first_turn(read):
    rows = [{"from": "system", "value": "s"}, *said("a", "b", "c")]
    _, steps, _ = read(lines({"id": "x", "conversations": rows}), has_sessions=True)
    assert [json.loads(step.pop("messages")) for step in steps] == [
        [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}],
        [{"role": "user", "content": "c"}],
    ]
    assert steps == [{"session_id": "x", "delay": "0"}] * 2


def test_lengths_of_answers_in_the_file_are_requested_if_counted(read):
    data = lines({"conversations": said("a", "one two", "b")})
    _, steps, findings = read(data, count=lambda text: len(text.split()))
    assert [step.get("max_tokens") for step in steps] == ["2", None]
    assert "as many tokens as the file's answer has" in findings[-1]


def test_omissions_are_reported(read):
    _, steps, findings = read(lines({"conversations": []}, {"conversations": said("a")}))
    assert len(steps) == 1
    assert [text.partition(": ")[2] for text in findings] == [
        "1 conversations without a user turn were left out"
    ]


REFUSED = [
    (b"", "is empty"),
    (lines({"prompt": "a"}, {"x": 1}), "line 2 of {} has neither 'prompt' nor 'messages', only 'x'"),
    (lines({"timestamp": 0, "input_length": 5}), "line 1 of {}: this is a line of a trace"),
    (
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n",
        "{} is a trace without prompts; replay a trace with --replay",
    ),
    (lines({"messages": "a"}), "line 1 of {}: 'messages' is not a list"),
    (lines({"body": []}), "line 1 of {}: 'body' is not an object"),
    (lines({"method": "GET", "body": {}}), "line 1 of {}: 'method' is 'GET'"),
    (
        lines({"url": "/v1/a", "body": {}}, {"url": "/v1/b", "body": {}}),
        "line 2 of {}: 'url' is /v1/b, but earlier rows have /v1/a",
    ),
    (
        lines({"conversations": [{"from": "cat", "value": "x"}]}),
        "message 1 of 'conversations': 'from' is 'cat'",
    ),
    (lines({"conversations": [{"from": "gpt"}]}), "message 1 of 'conversations' has no text 'value'"),
    (lines({"conversations": []}), "no row has a user turn"),
    (lines({"prompt": "a", "max_tokens": -3}), "line 1 of {}: 'max_tokens' is -3"),
    (lines({"prompt": "a", "session_id": 1, "delay": "x"}), "line 1 of {}: 'delay' is 'x'"),
    (b'[{"prompt": "a"}, 3]', "entry 2 of {} is not an object"),
    (b'[{"prompt": "a"', "{} begins like a JSON list, but is invalid: "),
    (table(("prompt", "b"), ("1", "2"), ("3",)), "line 3 of {} has 1 cells, but the header has 2"),
    (table(("prompt", "b"), ("1", "2"), ("", "3")), "line 3 of {}: 'prompt' is empty"),
    (b"PAR1 and no more", "{} cannot be read as Parquet: "),
    (as_parquet({"a": 1}), "{} has the columns a, but none named body or messages"),
]


@pytest.mark.parametrize(("data", "sentence"), REFUSED)
def test_mistakes_name_place_and_field(data: bytes, sentence: str, read, tmp_path: Path):
    with pytest.raises(UsageError) as caught:
        read(data)
    assert sentence.format(tmp_path / "data") in str(caught.value)
    assert caught.value.remedy


def test_data_files_may_contain_any_format(tmp_path: Path):
    one, two, three = tmp_path / "a.jsonl", tmp_path / "b.csv", tmp_path / "c.json"
    one.write_bytes(lines({"prompt": "a"}))
    two.write_bytes(table(("prompt",), ("b",)))
    three.write_text('{"data": [{"payload": [{"n": 1}]}]}')
    dataset = build(MODEL, DataOptions(sources=(str(one), str(two), str(three))))
    assert [[step[0].data for step in stream] for stream in dataset.streams] == [[b"a", b"b", b'{"n":1}']]


def test_a_dictionary_is_counted_by_the_rows_that_use_it(read, monkeypatch: pytest.MonkeyPatch):
    """A value that many rows share is stored once in the file and once per row in memory."""
    monkeypatch.setattr(rows, "DATA", 10_000)
    _, steps, _ = read(shared("x" * 100, 99))
    assert len(steps) == 99
    with pytest.raises(UsageError, match=r"holds 256 rows with 25,600 bytes of text"):
        read(shared("x" * 100, 300))


def shared(text: str, count: int) -> bytes:
    sink = io.BytesIO()
    values = pyarrow.DictionaryArray.from_arrays([0] * count, [text])
    parquet.write_table(pyarrow.table({"prompt": values}), sink)
    return sink.getvalue()


def test_a_dictionary_inside_a_list_is_refused(read):
    sink = io.BytesIO()
    kind = pyarrow.list_(pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    parquet.write_table(pyarrow.table({"prompt": pyarrow.array([["a"]], kind)}), sink)
    with pytest.raises(UsageError, match="has a column of type list"):
        read(sink.getvalue())
