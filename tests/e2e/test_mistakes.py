"""Sixty mistakes: each gets one sentence with a remedy and the right exit code, before any load is sent."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import Ended
from tests.support.servers import FakeModel, FakeTriton

MODEL = FakeModel("simple", inputs=(("INPUT0", "INT32", (2,)), ("IMAGE", "FP32", (3, -1, -1))))

MISTAKES = (
    # (what is typed, what the sentence says, what it tells to do, the exit code)
    # --- the command and its words
    ("mesure {url} simple", "unknown command 'mesure'", "'measure'", 2),
    ("{url} simple", "unknown command", "inferometer measure {url} simple", 2),
    ("measure", "Neither a server nor a model", "localhost:8000 MODEL", 2),
    ("measure simple", "'simple' is not an address", "localhost:8000 simple", 2),
    ("measure {url} simple other", "Two models", "give only one", 2),
    ("measure {url} 127.0.0.1:1 simple", "Two addresses", "give only one", 2),
    ("measure {url} simple -m other", "Two models", "give only one", 2),
    ("measure {url} simple --ulr x", "'--ulr'", "did you mean --url?", 2),
    ("measure {url} simple --rat 5 --rat 6", "Both --rate 5 and --rate 6", "give one of them", 2),
    ("measure {url} simple -i http --grpc", "Both --protocol http and --grpc", "give one of them", 2),
    ("measure {url} simple -y", "'-y'", "--help", 2),
    ("measure {url} simple -c", "Missing value for option '-c'", "give one", 2),
    ("measure {url} simple --quiet=yes", "takes no value", "write just --quiet", 2),
    ("measure {url} simple -rate=5", "has only one dash", "write --rate=5", 2),
    ("measure {url} simple --vus 3", "'--vus'", "it is -c here", 2),
    ("help slos", "slos", "slo", 2),
    # --- levels and times
    ("measure {url} simple -c 4:1", "decreasing", "lowest first", 2),
    ("measure {url} simple -c 0", "'0'", "write -c 1", 2),
    ("measure {url} simple -c four", "four", "whole number", 2),
    ("measure {url} simple -c 1,,2", "1,,2", "whole number", 2),
    ("measure {url} simple -c 1,2,1", "twice", "each level once", 2),
    ("measure {url} simple -c 1:8:x1", "no levels", "1:64:x2", 2),
    ("measure {url} simple -r 1:8:x1.0000001", "no levels", "a factor of 1.01 or more", 2),
    ("measure {url} simple -c 1:8:2:2", "1:8:2:2", "", 2),
    ("measure {url} simple -c 2.5", "2.5", "whole number", 2),
    ("measure {url} simple -r -5", "-5", "", 2),
    ("measure {url} simple -r fast", "fast", "number", 2),
    ("measure {url} simple -c 2 -r 5", "mutually exclusive", "--rate", 2),
    ("measure {url} simple -d 10parsecs", "10parsecs", "", 2),
    ("measure {url} simple -d 0", "above 0", "10s", 2),
    ("measure {url} simple --warmup -3s", "-3s", "", 2),
    ("measure {url} simple -n 1.5", "1.5", "whole number", 2),
    ("measure {url} simple -n 3 -c 8", "--requests must not be below", "raise --requests", 2),
    ("measure {url} simple --max-outstanding 4", "--max-outstanding", "--rate", 2),
    ("measure {url} simple --speed 2", "--speed", "--replay", 2),
    ("measure {url} simple --precision 0", "--precision", "2%", 2),
    ("measure {url} simple --max-trials 3 -t 1", "-t", "-c 1:8", 2),
    # --- the server
    ("measure 127.0.0.1:1 simple", "127.0.0.1:1", "", 3),
    ("measure localhost:http simple", "localhost:http", "host:port", 2),
    ("measure ftp://{url} simple", "ftp", "", 2),
    ("measure {url} nosuch", "nosuch", "", 3),
    ("measure {url} simple -x 9", "9", "", 3),
    ("measure {url} simple --grpc", "{url}", "type inferometer measure {url} simple", 2),
    ("measure https://{url} simple", "{url}", "type inferometer measure http://{url} simple", 2),
    ("measure {url} simple --service-kind tritton", "tritton", "triton", 2),
    ("measure {url} simple --streaming", "gRPC", "--grpc", 2),
    ("measure {url} simple --tls-ca none.pem", "none.pem", "readable file", 2),
    ("measure {url} simple --api-key-env NO_SUCH_KEY", "NO_SUCH_KEY", "export NO_SUCH_KEY", 2),
    ("measure {url} simple -H NoColon", "no colon", "Name:Value", 2),
    # --- the data
    ("measure {url} simple --data nothing.json", "nothing.json", "'zero', 'random'", 2),
    ("measure {url} simple --input INPUT9=1", "INPUT9", "", 2),
    ("measure {url} simple --input INPUT0", "INPUT0", "IMAGE=@photo.jpg", 2),
    ("measure {url} simple --input INPUT0=@none.npy", "none.npy", "", 2),
    ("measure {url} simple --shape INPUT0:4", "INPUT0", "", 2),
    ("measure {url} simple --shape IMAGE:3,4", "IMAGE", "", 2),
    ("measure {url} simple --shape NONE:3", "NONE", "", 2),
    ("measure {url} simple --shape IMAGE:0,4,4", "above 0", "", 2),
    ("measure {url} simple -b 0", "-b", "", 2),
    ("measure {url} simple -b 100", "exceeds the max_batch_size of 'simple', which is 8", "-b 8 or less", 2),
    # --- SLOs and reports
    ("measure {url} simple --slo latency<50", "50", "50ms", 2),
    ("measure {url} simple --slo speed<5ms", "speed", "", 2),
    ("find {url} simple", "--slo is required", "p99<50ms", 2),
    ("find {url} simple --slo p99<50ms -c 4", "-c", "--by", 2),
    ("find {url} simple --slo p99<50ms --by speed", "speed", "'rate' or 'concurrency'", 2),
    ("compare one.json two.json", "one.json", "", 64),
    ("compare {url} simple simple --fail-if p99", "p99", "", 64),
    ("tune", "No model", "inferometer tune NAME", 2),
    ("view none.json", "none.json", "check the name", 2),
    ("diagnose {url} simple --keep", "--keep", "--apply", 2),
    ("diagnose {url} simple --budget 5s", "--budget", "--apply", 2),
    (
        "tune {url} simple --service-kind openai",
        "--service-kind",
        "start another kind of server with --serve",
        2,
    ),
    ("diagnose {url} simple -r 5", "-r", "-c", 2),
    ("measure {url} simple --json none/r.json", "none/r.json", "mkdir -p", 2),
    ("measure {url} simple --json - --csv -", "standard output", "give a file", 2),
    ("measure {url} simple --json - --csv /dev/stdout", "standard output", "give a file", 2),
    ("measure {url} simple --export -", "standard output", "give a file name", 2),
    ("measure {url} simple --json r.x --html r.x", "two reports", "different file name", 2),
    ("measure {url} simple -q -v", "mutually exclusive", "Give only one", 2),
    ("measure {url} simple --export .", "already exists", "give the name of a new file", 2),
)


def test_there_are_sixty():
    assert len({line for line, *_ in MISTAKES}) >= 60


@pytest.mark.parametrize(("line", "says", "remedy", "code"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_one_sentence_before_any_load(
    run: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    says: str,
    remedy: str,
    code: int,
):
    monkeypatch.chdir(tmp_path)
    with FakeTriton(model=MODEL) as fake:
        ended = run("inferometer", *line.format(url=fake.server.address).split())
        assert fake.inferences == []
    assert ended.code == code, ended.stderr
    lines = [
        line for line in ended.stderr.splitlines() if not line.startswith("  ")
    ]  # which point at a place
    assert len(lines) == 1, ended.stderr
    for part in (says, remedy):
        assert part.format(url=fake.server.address) in ended.stderr
