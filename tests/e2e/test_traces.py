"""Traces of lengths, sent as they say: as many tokens, the same shared beginnings, at their times."""

import json
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet
from tokenizers import Tokenizer

from inferometer import api
from inferometer.base.units import NS_PER_MS
from inferometer.selftest.accuracy import judge_schedule, lags
from inferometer.selftest.check import CheckResult
from inferometer.selftest.drive import HelperProcess
from tests.support.openai import FakeOpenAi
from tests.support.vocabularies import byte_level, saved

BLOCK = 512
BY_CHANCE = 16  # tokens: fewer of them fill no block of a server's cache

Line = dict[str, Any]
# Each asks for another number of tokens: that tells them apart at the server, whatever order they come in.
TRACE: tuple[Line, ...] = (
    {"timestamp": 0, "input_length": 1100, "output_length": 20, "hash_ids": [46, 47, 48]},
    {"timestamp": 40, "input_length": 1300, "output_length": 30, "hash_ids": [46, 47, 49]},
    {"timestamp": 90, "input_length": 1060, "output_length": 1, "hash_ids": [46, 47, 48]},
    {"timestamp": 60, "input_length": 600, "output_length": 5, "hash_ids": [46, 50]},
    {"timestamp": 90, "input_length": 512, "output_length": 7, "hash_ids": [51]},
    {"timestamp": 130, "input_length": 1536, "output_length": 8, "hash_ids": [51, 52, 53]},
    {"timestamp": 170, "input_length": 513, "output_length": 9, "hash_ids": [51, 52]},
    {"timestamp": 200, "input_length": 1, "output_length": 2, "hash_ids": [54]},
    {"timestamp": 210, "input_length": 700, "output_length": 3, "hash_ids": []},
)
SENT = sorted(TRACE, key=lambda line: line["timestamp"])


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    return saved(byte_level, tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str], str]:
    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def server() -> Iterator[FakeOpenAi]:
    with FakeOpenAi() as fake:
        yield fake


def mooncake(lines: tuple[Line, ...] = TRACE) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def prompts(fake: FakeOpenAi) -> dict[int, str]:
    """By the number of tokens that is asked for."""
    found = {payload["max_tokens"]: payload["messages"][0]["content"] for payload in fake.payloads}
    assert len(found) == len(fake.payloads)
    return found


def shared(one: Line, other: Line) -> int:
    """Tokens that both begin with, as the trace says."""
    found = 0
    for place, (mine, theirs) in enumerate(zip(one["hash_ids"], other["hash_ids"], strict=False)):
        if mine != theirs:
            break
        size = min(line["input_length"] - BLOCK * place for line in (one, other))
        found += min(size, BLOCK)
        if size < BLOCK:
            break
    return found


def common(one: list[int], other: list[int]) -> int:
    return next(
        (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )


def test_a_mooncake_trace_is_sent_token_by_token_as_it_says(
    run: Callable, file: Callable, tokenizer: Path, server: FakeOpenAi
) -> None:
    path = file("trace.jsonl", mooncake())
    ended = run(
        "inferometer", "measure", server.server.address, "tiny", "--service-kind", "openai",
        "--replay", path, "--tokenizer", str(tokenizer),
    )  # fmt: skip
    assert ended.code == 0, ended.stderr
    encoder = Tokenizer.from_file(str(tokenizer))
    encoder.no_truncation()
    tokens = {
        asked: encoder.encode(text, add_special_tokens=False).ids for asked, text in prompts(server).items()
    }
    lengths = {asked: len(each) for asked, each in tokens.items()}
    assert lengths == {line["output_length"]: line["input_length"] for line in TRACE}
    for one, other in combinations(TRACE, 2):
        wanted = shared(one, other)
        found = common(tokens[one["output_length"]], tokens[other["output_length"]])
        assert wanted <= found < wanted + BY_CHANCE, (one, other)
    assert shared(TRACE[0], TRACE[2]) == 1060  # of a block that is cut, too


@pytest.mark.machine(reason="requests leave on time only with a free core")
def test_it_is_sent_on_time(
    run: Callable, file: Callable, tokenizer: Path, server: FakeOpenAi, tmp_path: Path
) -> None:
    export = tmp_path / "requests.parquet"
    with HelperProcess("bare_loop") as bare:
        bare.ask()
        ended = run(
            "inferometer", "measure", server.server.address, "tiny", "--service-kind", "openai",
            "--replay", file("trace.jsonl", mooncake()), "--tokenizer", str(tokenizer),
            "--speed", "0.5", "--export", str(export),
        )  # fmt: skip
        timer = lags(np.array(bare.ask()["lags_ns"], dtype=np.int64))
    assert ended.code == 0, ended.stderr
    rows = sorted(parquet.read_table(export).to_pylist(), key=lambda row: row["step"])
    due = np.array([row["due_ns"] for row in rows])
    sent = np.array([row["sent_ns"] for row in rows])
    inputs = [json.loads(row["request_inputs"]) for row in rows]
    assert [int(row["max_tokens"]) for row in inputs] == [line["output_length"] for line in SENT]
    assert (due - due[0]).tolist() == [2 * line["timestamp"] * NS_PER_MS for line in SENT]
    assert (sent >= due).all()
    per_s = (len(due) - 1) / int(due[-1] - due[0])
    verdict = judge_schedule(asked_per_s=per_s, achieved_per_s=per_s, sends=lags(sent - due), timer=timer)
    assert verdict is not CheckResult.FAIL, (sent - due, timer)


TABLES = {
    "burst.csv": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n5.02,GPT-4,30,0,30,API log\n5.01,ChatGPT,9,3,12,API log\n",
    "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,472,18\n"
    "2023-11-16 18:15:46.7005900,30,1\n2023-11-16 18:15:46.6905900,9,3\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_traces_in_tables_are_sent_with_their_lengths(
    name: str, run: Callable, file: Callable, server: FakeOpenAi
) -> None:
    path = file(name, TABLES[name])
    address = server.server.address
    ended = run("inferometer", "measure", address, "tiny", "--service-kind", "openai", "--replay", path)
    assert ended.code == 0, ended.stderr
    assert {asked: len(text.split()) for asked, text in prompts(server).items()} == {18: 472, 3: 9, 1: 30}
    assert "counted in words: --tokenizer makes them exact" in ended.stderr


def test_only_the_times_of_a_trace_are_used_with_prompts_of_the_users(
    run: Callable, file: Callable, server: FakeOpenAi
) -> None:
    words = ("--replay", file("trace.jsonl", mooncake()), "--prompts", file("prompts.txt", "one\ntwo\n"))
    ended = run("inferometer", "measure", server.server.address, "tiny", "--service-kind", "openai", *words)
    assert ended.code == 0, ended.stderr
    said = [payload["messages"][0]["content"] for payload in server.payloads]
    assert sorted(said) == ["one"] * 5 + ["two"] * 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--output-tokens", "5"), "--output-tokens describes prompts, but the trace"),
        (("--prefix-tokens", "5"), "--prefix-tokens describes prompts, but the trace"),
        (("--unique-prompts",), "--unique-prompts describes prompts, but the trace"),
    ],
)
def test_what_the_trace_says_itself_cannot_be_asked_for(
    words: tuple[str, ...], sentence: str, run: Callable, file: Callable, server: FakeOpenAi
) -> None:
    path = file("trace.jsonl", mooncake())
    address = server.server.address
    ended = run(
        "inferometer", "measure", address, "tiny", "--service-kind", "openai", "--replay", path, *words
    )
    assert ended.code == 2
    assert sentence in ended.stderr
    assert not server.payloads


SHAREGPT = [
    {
        "id": "a",
        "conversations": [
            {"from": "human", "value": "one"},
            {"from": "gpt", "value": "the first answer"},
            {"from": "human", "value": "two"},
            {"from": "gpt", "value": "the second"},
        ],
    },
    {"id": "b", "conversations": [{"from": "gpt", "value": "nobody asked"}]},
    {"id": "c", "conversations": [{"from": "user", "value": "three"}]},
]


def test_sharegpt_conversations_are_requests_with_their_history(
    run: Callable, file: Callable, tokenizer: Path, server: FakeOpenAi
) -> None:
    path = file("sharegpt.json", json.dumps(SHAREGPT))
    ended = run(
        "inferometer", "measure", server.server.address, "tiny", "--service-kind", "openai",
        "-n", "3", "--prompts", path, "--tokenizer", str(tokenizer),
    )  # fmt: skip
    assert ended.code == 0, ended.stderr
    said = [[message["content"] for message in payload["messages"]] for payload in server.payloads]
    assert said == [["one"], ["one", "the first answer", "two"], ["three"]]
    count = Tokenizer.from_file(str(tokenizer)).encode("the first answer", add_special_tokens=False)
    assert server.payloads[0]["max_tokens"] == len(count.ids)
    assert "max_tokens" not in server.payloads[2]
    assert "2 conversations are sent as 3 requests, one per user turn" in ended.stderr
    assert "1 conversations without a user turn were left out" in ended.stderr


def test_sharegpt_conversations_are_sessions_where_those_are_asked_for(
    run: Callable, file: Callable, server: FakeOpenAi
) -> None:
    path = file("sharegpt.json", json.dumps(SHAREGPT))
    ended = run(
        "inferometer", "measure", server.server.address, "tiny", "--service-kind", "openai",
        "--session-concurrency", "1", "--data", path, "--no-streaming",
    )  # fmt: skip
    assert ended.code == 0, ended.stderr
    said = [[message["content"] for message in payload["messages"]] for payload in server.payloads]
    assert said == [["one"], ["one", "one two three", "two"], ["three"]]  # the server's own answer


def test_the_summary_of_inspect(run: Callable, file: Callable, tmp_path: Path) -> None:
    path, kept = file("trace.jsonl", mooncake()), tmp_path / "inspection.json"
    ended = run("inferometer", "inspect", path, "--json", str(kept), "--html", str(tmp_path / "page.html"))
    assert (ended.code, ended.stderr) == (0, "")
    assert "9 requests in 210 ms (38.1/s)" in ended.stdout
    document = json.loads(kept.read_text())
    cacheable = sum(
        max((shared(SENT[number], earlier) for earlier in SENT[:number]), default=0)
        for number in range(len(SENT))
    )
    assert document["cacheable_tokens"] == cacheable == 1024 + 512 + 1060 + 512 + 513
    assert document["input"]["total"] == sum(line["input_length"] for line in TRACE)
    again = run("inferometer", "view", str(kept), "--html", "-")
    assert again.stdout == (tmp_path / "page.html").read_text()
    assert api.inspect(path).cacheable_tokens == cacheable
