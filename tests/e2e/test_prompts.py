"""Prompts as they arrive: a server that counts with the same tokenizer sees what was asked for."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.support.openai import FakeOpenAi
from tests.support.samples import sample
from tests.support.servers import Act, Request, answer_json
from tests.support.vocabularies import BUILDS, byte_level, saved

COMMAND = ("inferometer", "measure", "--service-kind", "openai", "-m", "tiny")
TEMPLATE = 9  # tokens that the server adds to every chat


class Counting:
    """A server that encodes every prompt, and says how many tokens it had."""

    def __init__(self, path: Path) -> None:
        self.fake = FakeOpenAi(self._speak)
        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()

    def ids(self, payload: dict[str, Any]) -> tuple[int, ...]:
        text = payload["prompt"] if "prompt" in payload else payload["messages"][0]["content"]
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _speak(self, number: int, request: Request) -> Act:
        tokens = len(self.ids(json.loads(request.body))) + TEMPLATE
        usage = {"completion_tokens": 1, "prompt_tokens": tokens}
        return answer_json({"choices": [{"message": {"content": "a"}}], "usage": usage})

    @property
    def prompts(self) -> list[tuple[int, ...]]:
        return [self.ids(payload) for payload in self.fake.payloads]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(byte_level, tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def server(tokenizer: Path) -> Iterator[Counting]:
    made = Counting(tokenizer)
    with made.fake:
        yield made


@pytest.fixture
def measured(run: Callable, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The result of so many requests."""

    def call(server: Counting, count: int, *words: str) -> dict[str, Any]:
        path = tmp_path / "result.json"
        path.unlink(missing_ok=True)
        ended = run(
            *(*COMMAND, "-u", server.fake.server.address, "-n", str(count), "--json", str(path), *words)
        )
        assert ended.code == 0, ended.stderr
        found: dict[str, Any] = json.loads(path.read_text())
        return {**found, "stdout": ended.stdout}

    return call


def cacheable(prompts: list[tuple[int, ...]]) -> int:
    """By looking at every prompt in turn: leading tokens that an earlier one began with."""
    known: set[tuple[int, ...]] = set()
    found = 0
    for prompt in prompts:
        beginnings = [prompt[:length] for length in range(1, len(prompt) + 1)]
        found += sum(beginning in known for beginning in beginnings)
        known.update(beginnings)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("build", sample(["byte_level", "word_level"], sorted(BUILDS)))
def test_every_prompt_has_exactly_the_tokens_asked_for(
    build: str, measured: Callable, tmp_path: Path
) -> None:
    path = saved(BUILDS[build], tmp_path)
    server = Counting(path)
    with server.fake:
        found = measured(
            server, 150, "--tokenizer", str(path), "--prompt-tokens", "70", "--prefix-tokens", "30"
        )
    assert {len(prompt) for prompt in server.prompts} == {100}
    assert len({prompt[:30] for prompt in server.prompts}) == 1
    assert len(set(server.prompts)) == 150
    prompts = found["prompts"]
    assert (prompts["mean"], prompts["p50"], prompts["p99"]) == (100, 100, 100)
    assert (prompts["is_exact"], prompts["tokenizer"]) == (True, str(path))


def test_more_requests_than_rendered_ones_all_begin_differently(
    measured: Callable, server: Counting, tokenizer: Path
) -> None:
    """Two runs with one seed and several workers: no request begins as any other does, in any run."""
    words = ("--tokenizer", str(tokenizer), "--prompt-tokens", "20", "-c", "4", "--workers", "2")
    for _ in range(2):
        found = measured(server, 300, *words)
    prompts = server.prompts
    assert len(prompts) == 600
    assert len({prompt[:12] for prompt in prompts}) == 600
    assert {len(prompt) for prompt in prompts} == {20}
    assert found["prompts"]["is_unique"] is True
    assert found["prompts"]["different"] == 128
    assert found["prompts"]["cacheable"] / found["prompts"]["tokens"] < 0.06
    assert "every prompt started differently" in " ".join(found["stdout"].split())


def test_long_prompts_are_exact_and_unique_too(measured: Callable, server: Counting, tokenizer: Path) -> None:
    """Requests of that size lie in shared memory."""
    measured(server, 5, "--tokenizer", str(tokenizer), "--prompt-tokens", "30000")
    assert [len(prompt) for prompt in server.prompts] == [30000] * 5
    assert len({prompt[:12] for prompt in server.prompts}) == 5
    assert min(len(call.body) for call in server.fake.calls) > 64 * 1024


def test_repeated_prompts_could_have_been_cached(
    measured: Callable, server: Counting, tokenizer: Path
) -> None:
    words = ("--tokenizer", str(tokenizer), "--prompt-tokens", "20", "--repeat-prompts")
    found = measured(server, 256, *words)["prompts"]
    assert Counter(Counter(server.prompts).values()) == {2: 128}
    assert found["cacheable"] == cacheable(server.prompts)
    assert found["tokens"] == 256 * 20
    assert not found["is_unique"]


def test_shared_prefixes_are_those_that_were_asked_for(
    measured: Callable, server: Counting, tokenizer: Path
) -> None:
    words = ("--prefix-tokens", "40", "--prefix-pool", "5", "--prefix-zipf", "1", "--prompt-tokens", "15")
    found = measured(server, 250, "--tokenizer", str(tokenizer), *words)["prompts"]
    used = Counter(prompt[:40] for prompt in server.prompts)
    assert len(used) == 5
    shares = [count / 250 for _, count in used.most_common()]
    weights = [1 / rank / sum(1 / other for other in range(1, 6)) for rank in range(1, 6)]
    assert all(abs(one - other) < 0.1 for one, other in zip(shares, weights, strict=True))
    assert len({prompt[40:55] for prompt in server.prompts}) == 250
    exact = cacheable(server.prompts)
    assert exact >= (250 - 5) * 40
    assert abs(found["cacheable"] - exact) <= 0.01 * found["tokens"]


def test_lengths_of_pairs_reach_the_server(measured: Callable, server: Counting, tokenizer: Path) -> None:
    words = ("--prompt-tokens", "12/3:60, 48/7:40", "--endpoint", "v1/completions")
    found = measured(server, 200, "--tokenizer", str(tokenizer), *words)
    pairs = Counter(
        (len(prompt), payload["max_tokens"])
        for prompt, payload in zip(server.prompts, server.fake.payloads, strict=True)
    )
    assert set(pairs) == {(12, 3), (48, 7)}
    assert 0.5 < pairs[12, 3] / 200 < 0.7
    lengths = sorted(map(len, server.prompts))
    assert found["prompts"]["mean"] == pytest.approx(mean(lengths))
    assert (found["prompts"]["p50"], found["prompts"]["p99"]) == (12, 48)
    counted = found["levels"][0]["measurement"]["tokens"]
    assert counted["prompt"] == found["prompts"]["tokens"] + 200 * TEMPLATE


def test_lengths_of_answers_have_a_distribution_of_their_own(measured: Callable, server: Counting) -> None:
    measured(server, 100, "--prompt-tokens", "5", "--output-tokens", "uniform(10, 12)")
    assert {payload["max_tokens"] for payload in server.fake.payloads} == {10, 11, 12}


def test_lengths_of_a_file_come_in_its_order(
    measured: Callable, server: Counting, tokenizer: Path, tmp_path: Path
) -> None:
    file = tmp_path / "lengths.csv"
    file.write_text("input,output\n3,1\n50,2\n7,3\n")
    measured(server, 6, "--tokenizer", str(tokenizer), "--prompt-tokens", f"@{file}")
    assert [len(prompt) for prompt in server.prompts] == [3, 50, 7] * 2
    assert [payload["max_tokens"] for payload in server.fake.payloads] == [1, 2, 3] * 2


GIVEN = {
    "prompts": '{"prompt": "tell me"}\n',
    "messages": '{"messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]}\n',
}


@pytest.mark.parametrize("lines", list(GIVEN.values()), ids=list(GIVEN))
def test_given_prompts_repeat_unless_unique_starts_are_asked_for(
    lines: str, measured: Callable, server: Counting, tmp_path: Path
) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(lines)
    for words, different in (((), 1), (("--unique-prompts",), 20)):
        found = measured(server, 20, "--prompts", str(file), *words)["prompts"]
        assert len({prompt[:10] for prompt in server.prompts[-20:]}) == different
        assert found["is_unique"] is (different == 20)
        assert found["asked"] == ""
    payload = server.fake.payloads[-1]
    assert payload["messages"][0]["content"].endswith(("\ntell me", "\nbe kind"))
    assert "~" not in json.dumps(server.fake.payloads)


def test_the_report_says_that_words_were_counted(measured: Callable, server: Counting) -> None:
    found = measured(server, 10, "--prompt-tokens", "normal(30, 5)")
    assert (found["prompts"]["tokenizer"], found["prompts"]["is_exact"]) == ("words", False)
    said = " ".join(found["stdout"].split())
    assert "Counted in words because no tokenizer was given" in said
    assert "Requested: normal(30, 5) tokens" in said
    assert "Server's count" in said


REFUSED = [
    ("--prompt-tokens 12/3:1 --output-tokens 5", "conflicts with --output-tokens; remove --output-tokens"),
    ("--output-tokens 12/3:1", "write --prompt-tokens"),
    ("--prefix-pool 3", "set their length with --prefix-tokens"),
    ("--prefix-tokens 3 --prefix-zipf 1", "raise --prefix-pool"),
    ("--unique-prompts --repeat-prompts", "remove one of them"),
    ("--prompt-tokens poisson(5)", "normal(512, 128)"),
    ("--prompt-tokens normal(5)", "write normal(512, 128), with mean and standard deviation"),
    ("--tokenizer nowhere.json", "'nowhere.json' does not exist"),
    ("--prompt-tokens 0", "must be > 0"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_cannot_be_made_is_refused_before_any_load(
    words: str, said: str, run: Callable, server: Counting
) -> None:
    ended = run(*COMMAND, "-u", server.fake.server.address, *words.split(" "))
    assert ended.code == 2
    assert said in ended.stderr
    assert not server.fake.calls
