"""What people who know other tools type first works, or is answered with what to type."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.commands import Ended
from tests.support.servers import FakeModel, FakeTriton


@pytest.fixture
def server() -> Iterator[FakeTriton]:
    with FakeTriton(model=FakeModel("simple")) as fake:
        yield fake


WORK = (
    ("wrk", "measure {url} simple -c 8 -d 300ms"),
    ("vegeta", "measure {url} simple -r 200 --duration=300ms"),
    ("a sweep", "measure {url} simple -c 1,2,4 -d 200ms"),
    ("factors", "measure {url} simple -c 1:4:x2 -d 200ms"),
    ("ab and hey", "measure -n 50 -c 4 http://{url} -m simple"),
    ("aiperf", "measure --model simple --url {url} --concurrency 2 --request-count 20"),
    ("perf_analyzer", "measure -m simple -u {url} --concurrency-range 1:2 -d 200ms --input-data zero"),
    ("curl's habits", "measure {url} simple -n 10 -H X-Team:vision --timeout 5s"),
    ("hyperfine", "measure {url} simple --warmup 200ms -n 20"),
    ("locust", "measure {url} simple -c 4 --time-limit 1s -d 300ms"),
    ("a program", "measure {url} simple -c 2 -n 20 -q --json -"),
    ("a spreadsheet", "measure {url} simple -c 1,2 -n 20 -q -f -"),
    ("wrk's url", "measure -c8 -d300ms http://{url}/v2/models/simple/infer"),
    ("a classic line", "measure -m simple -u {url} -b 1 --percentile=95 -p 100 -s 999 --max-trials 3"),
    ("genai-perf", "measure -m simple -u {url} --request-rate 40 -d 300ms --json -"),
    ("docker compose", "measure --url=http://{url} --model=simple --concurrency=2 --requests=20"),
    ("ab's keep-alive", "measure -n 20 -c 2 -k http://{url}/ simple"),
    ("k6 thresholds", "measure {url} simple -c 2 -n 200 --slo p99<10s"),
    ("a search", "find {url} simple --slo p99<10s -d 2s --by concurrency"),
    ("two models", "compare {url} simple simple -d 300ms --compare-outputs 0"),
)


@pytest.mark.parametrize("line", [line for _, line in WORK], ids=[who for who, _ in WORK])
def test_it_works(server: FakeTriton, run: Callable[..., Ended], line: str):
    ended = run("inferometer", *line.format(url=server.server.address).split())
    inconclusive = {"compare": 2, "find": 5}.get(line.split(maxsplit=1)[0], 0)
    assert ended.code in (0, inconclusive), ended.stderr
    assert len(server.inferences) >= 10
    assert ended.stdout


def test_levels_are_those_that_were_asked_for(server: FakeTriton, run: Callable[..., Ended]):
    words = (server.server.address, "simple", "-n", "8", "-q", "--json", "-")
    for levels, expected in (
        ("2,4,1", [2, 4, 1]),
        ("1:3", [1, 2, 3]),
        ("1:8:x2", [1, 2, 4, 8]),
        ("2:8:3", [2, 5, 8]),
    ):
        found = json.loads(run("inferometer", "measure", *words[:2], "-c", levels, *words[2:]).stdout)
        assert [level["value"] for level in found["levels"]] == expected


def test_by_rate_nothing_is_held_back_unless_asked(server: FakeTriton, run: Callable[..., Ended]):
    words = (server.server.address, "simple", "-r", "100", "-d", "300ms", "-q", "--json", "-")
    assert json.loads(run("inferometer", "measure", *words).stdout)["asked"]["max_outstanding"] is None
    found = json.loads(run("inferometer", "measure", *words, "--max-outstanding", "3").stdout)
    assert found["asked"]["max_outstanding"] == 3


ANSWERED = (
    ("measure simple -c 4", "write the address first: localhost:8000 simple"),
    ("measure {url} simple --vus 8", "it is -c here"),
    ("measure {url} simple --qps 100", "it is --rate here"),
    ("measure {url} simple -rate=200", "write --rate=200"),
    ("measure {url} simple -t 2", "write the levels with -c"),
    ("measure {url} simple --concurency 4", "did you mean --concurrency?"),
    ("measure {url} simple --ulr x", "did you mean --url?"),
    ("mesure {url} simple", "did you mean 'measure'?"),
    ("{url} simple -c 8", "inferometer measure {url} simple -c 8"),
    ("measure {url} simple --max-threads 8", "--max-outstanding"),
    ("measure {url} simple --sync", "--max-outstanding"),
    ("measure {url} simple -z", "write --data zero"),
    ("measure --runs 20 {url} simple", "it is -n here"),
    ("measure --host http://{url} simple --users 4", "it is --url here"),
    ("measure {url} simple --users 4 --run-time 1s", "it is -c here"),
    ("measure {url} simple --run-time 1s", "it is -d here"),
    ("measure --target http://{url} --max-seconds 1", "it is --url here"),
    ("measure {url} simple --max-seconds 1", "it is -d here"),
    ("measure {url} simple --num-prompts 10", "it is -n here"),
    ("measure {url} simple --isl 20 --osl 5", "it is --prompt-tokens here"),
    ("measure {url} simple --osl 5", "it is --output-tokens here"),
    ("measure {url} simple --output out.json", "it is --json here"),
    ("measure {url} simple -o out.json", "it is --json here"),
    ("measure -X POST {url}/v2/models/simple/infer", "it is --method here"),
    ("measure {url} simple --threshold p99<1s", "it is --slo here"),
    ("measure {url} simple --stages 1s:4", "it is --shape-load here"),
    ("bench {url} simple -c 8", "write inferometer measure {url} simple -c 8"),
    ("attack -r 50 {url} simple", "write inferometer measure -r 50 {url} simple"),
    (
        "attack -duration=5s -rate=50 {url} simple",
        "there, '-duration=5s' has only one dash; write --duration=5s",
    ),
    (
        "bench serve --model tiny --num-prompts 10",
        "there, Invalid long option '--num-prompts'; it is -n here",
    ),
    ("benchmark run --target http://{url}", "there, Invalid long option '--target'; it is --url here"),
    ("run script.js", "there, 'script.js' is the name of a file"),
    ("profile -m tiny -u {url} --endpoint-type chat", "write inferometer measure URL MODEL"),
    ("report results.bin", "write inferometer view results.bin"),
    ("measure {url} simple --json {program}", "it is an existing program"),
    ("measure {url} simple -n 9 -f {program}", "it is an existing program"),
    ("bench {url} simple --slo p99<50ms", "write inferometer measure {url} simple --slo 'p99<50ms'"),
)


@pytest.mark.parametrize(("line", "answer"), ANSWERED)
def test_it_is_answered_with_what_to_type(
    server: FakeTriton, run: Callable[..., Ended], tmp_path: Path, line: str, answer: str
):
    (program := tmp_path / "locustfile.py").write_text("pass")
    ended = run("inferometer", *line.format(url=server.server.address, program=program).split())
    assert ended.code == 2
    assert answer.format(url=server.server.address) in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not server.inferences
    assert program.read_text() == "pass"
