"""What people type first, in whole command lines: measured as it is meant, or answered with what to type."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import Ended
from tests.support.servers import FakeModel, FakeTriton, ScriptedServer, answer, answer_json, never

MODEL = FakeModel("simple", inputs=(("INPUT0", "INT32", (2,)),))
NAMES = ("simple", "resnet50", "bert-base")

GUESSES = (
    # (what is typed, what the answer says, the exit code)
    ("measure {url} simpel", "did you mean 'simple'?", 3),
    ("measure {url} Simple", "did you mean 'simple'?", 3),
    ("measure {url} bert_base", "did you mean 'bert-base'?", 3),
    ("measure {url} nothing-like-it", "the server has bert-base, resnet50, simple", 3),
    ("measure {url}/resnet50", "type inferometer measure {url} resnet50", 2),
    ("view zzzz", "neither a file nor the id of a run", 2),
    ("view zzzz", "listed by `inferometer runs`", 2),
    ("-c 4 {url} simple", "inferometer measure -c 4 {url} simple", 2),
    ("--rate=5 {url} simple", "inferometer measure --rate=5 {url} simple", 2),
    ("-d 3s find {url} simple", "inferometer find -d 3s {url} simple", 2),
    ("measure {url} simple -c 1 2 4", "-c 1,2,4", 2),
    ("measure {url} -c 1 2 4 simple", "-c 1,2,4", 2),
    ("measure {url} simple -r 10 20", "-r 10,20", 2),
    ("measure {url} simple -q 100", "-r 100", 2),
    ("measure {url} simple --body {{}}", "type inferometer measure {url}/v2/models/simple/infer", 2),
    ("measure {url} simple --slo p99=50ms", "write 'p99<50ms'", 2),
    ("measure {url} simple --slo throughput:100", "write 'throughput>100'", 2),
    ("measure ::1:8000 simple", "in brackets: [::1]:8000", 2),
    ("measure fe80::1 simple", "the port after it: [fe80::1]:8000", 2),
    ("measure {url}:simple", "a model after a space: {url} simple", 2),
    ("measure 127.0.0.1;8001 simple", "'127.0.0.1;8001' is not host:port", 2),
    ("measure 127.0.0.1,8001 simple", "write 127.0.0.1:8001 for one address", 2),
    ("measure {url} model=simple", "write --model simple", 2),
    ("measure {url} simple --n=10", "write -n", 2),
    ("measure {url} simple --c 4", "write -c", 2),
    ("measure {url} simple -n 10 requests", "only the number after an option", 2),
    ("measure {url} simple -u 10", "10 users are written -c 10", 2),
    ("measure {url} simple --data-binary @b.json", "it is --body here", 2),
    ("measure {url} simple --json {{}}", "for a request body, write --body '{{}}'", 2),
    ("measure {url} simple --data @b.json", "for a whole request body, write --body @b.json", 2),
    (
        "measure {url} simple --data {{}}",
        "--input NAME=1,2; for a whole request body, write --body '{{}}'",
        2,
    ),
    ("measure {url} simple --input INPUT0:1,2", "write INPUT0=1,2", 2),
    ("measure {url} simple --input INPUT0=1;2", "separate numbers with commas: --input INPUT0=1,2", 2),
)


def _index(request):
    if request.path == "/v2/repository/index":
        return answer_json([{"name": name, "version": "1", "state": "READY"} for name in NAMES])
    return None


@pytest.mark.parametrize(("line", "says", "code"), GUESSES, ids=[f"{row[0]} -> {row[1]}" for row in GUESSES])
def test_answered_with_what_to_type(run: Callable[..., Ended], tmp_path: Path, monkeypatch, line, says, code):
    monkeypatch.chdir(tmp_path)
    with FakeTriton(model=MODEL, control=_index) as fake:
        address = fake.server.address
        ended = run("inferometer", *line.format(url=address).split())
        assert fake.inferences == []
    assert says.format(url=address) in ended.stderr
    assert "has no model 'simple'" not in ended.stderr
    assert ended.code == code, ended.stderr


def test_a_json_file_that_is_not_a_result_is_not_replaced(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body, result = tmp_path / "body.json", tmp_path / "result.json"
    body.write_text('{"x": 1}')
    with FakeTriton(model=MODEL) as fake:
        words = ("measure", fake.server.address, "simple", "-n", "4", "-q")
        ended = run("inferometer", *words, "--json", str(body))
        assert fake.inferences == []
        assert [run("inferometer", *words, "--json", str(result)).code for _ in range(2)] == [0, 0]
    assert ended.code == 2
    assert f"for a request body, write --body @{body}" in ended.stderr
    assert body.read_text() == '{"x": 1}'


@pytest.mark.parametrize(
    "slo",
    [
        "p(99)<5s",
        "p99 under 5s",
        "error rate < 5%",
        "http_req_duration p(95)<5s",
        "throughput>1rps",
        "rps > 1",
    ],
)
def test_limits_in_the_words_of_others(slo):
    from inferometer.base.slo import parse_slo

    assert parse_slo(slo).terms


@pytest.mark.parametrize(
    ("path", "words"), [("/v1/models", ("--service-kind openai",)), ("/v2", ("--service-kind",))]
)
@pytest.mark.parametrize("model", [(), ("some-model",)])
def test_a_server_whose_api_fails_is_described_by_what_it_answers(run, path, words, model):
    def act(request):
        return answer_json({"error": "no"}, 500 if request.path == path else 404)

    with ScriptedServer(act) as server:
        ended = run("inferometer", "measure", server.address, *model)
    assert ended.code == 3, ended.stderr
    assert f"it answers GET {path} with status 500" in ended.stderr
    assert "has no model" not in ended.stderr
    assert all(word in ended.stderr for word in words)


@pytest.mark.parametrize("model", [(), ("some-model",)])
def test_a_server_that_does_not_list_its_models_in_time_is_not_measured_as_a_page(run, model):
    def act(request):
        return never if request.path == "/v1/models" else answer_json({"detail": "Not Found"}, 404)

    with ScriptedServer(act) as server:
        ended = run("inferometer", "measure", server.address, *model, "--timeout", "1s")
    assert ended.code == 3, ended.stderr
    assert "it answers GET /v1/models with nothing within 1 s" in ended.stderr
    assert "--service-kind openai" in ended.stderr


PAGE = answer(b"<html>sign in</html>", 200, {"Content-Type": "text/html"})
LISTINGS = (
    (answer_json({"error": "key"}, 401), "requires authentication"),
    (answer_json({"error": "key"}, 403), "requires authentication"),
    (PAGE, "GET /v1/models with a web page"),
    (answer(b"oops"), "GET /v1/models with text that is not JSON"),
    (answer_json({"data": "x"}), "GET /v1/models with JSON of an unknown form"),
    (answer_json({"error": "wait"}, 429), "GET /v1/models with status 429"),
    (answer_json({"detail": "Not Found"}, 404), "GET /v1/models with status 404"),
    (answer(b"", 302, {"Location": "https://login.example/"}), "GET /v1/models with status 302"),
)


@pytest.mark.parametrize(("listing", "says"), LISTINGS, ids=[says for _, says in LISTINGS])
@pytest.mark.parametrize("model", [(), ("tiny",)])
def test_a_server_that_does_not_list_its_models_is_not_said_to_have_none(run, listing, says, model):
    def act(request):
        return listing if request.path == "/v1/models" else answer_json({"detail": "Not Found"}, 404)

    with ScriptedServer(act) as server:
        ended = run("inferometer", "measure", server.address, *model)
    assert ended.code == 3, ended.stderr
    assert says in ended.stderr
    assert "has no model" not in ended.stderr
    assert "--service-kind" in ended.stderr


def test_an_unquoted_limit_is_distinguished_from_a_redirection(tmp_path, monkeypatch):
    import subprocess
    import sys

    line = f"'{sys.executable}' -m inferometer.cli.main measure localhost:1 simple --slo throughput>10"
    ended = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "quote the limit, --slo 'throughput>10', and remove the file '10'" in ended.stderr


def test_serve_without_its_package_is_one_sentence(run, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None)
    ended = run("inferometer", "serve")
    assert ended.code == 2
    assert len(ended.stderr.splitlines()) == 1
    assert "pip install 'inferometer[triton]'" in ended.stderr


@pytest.mark.parametrize("lists_models", [True, False])
def test_every_class_of_a_scenario_without_its_model_is_named(
    lists_models: bool, run: Callable[..., Ended], tmp_path: Path
):
    path = tmp_path / "it.yaml"
    classes = "classes: {a: {model: simpel}, b: {model: nothing, rate: 3}, c: {model: simple}}\n"
    with FakeTriton(model=MODEL, control=_index if lists_models else lambda request: None) as fake:
        path.write_text(f"server: {fake.server.address}\n{classes}")
        ended = run("inferometer", "measure", "--scenario", str(path))
        assert fake.inferences == []
    assert ended.code == 3, ended.stderr
    assert "class 'a': failed to get model metadata: Request for unknown model: 'simpel'" in ended.stderr
    assert ("did you mean 'simple'?" in ended.stderr) == lists_models
    assert "class 'b': failed to get model metadata: Request for unknown model: 'nothing'" in ended.stderr
