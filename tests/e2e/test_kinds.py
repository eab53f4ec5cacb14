"""An address alone, servers of another kind than was asked for, plain KServe v2 and plain HTTP servers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.openai import FakeOpenAi
from tests.support.servers import (
    Act,
    FakeModel,
    FakeTriton,
    Request,
    ScriptedServer,
    answer,
    answer_json,
)

MISSING = answer_json({"detail": "Not Found"}, 404)
SHORT = ("--duration", "200ms")


def plain(request: Request) -> Act | None:
    """What a server without Triton's extensions has not."""
    if request.path == "/v2":
        return answer_json({"name": "mlserver", "version": "1.7", "extensions": []})
    if request.path == "/v2/repository/index":
        return answer_json([{"name": "fake", "state": "READY"}])
    return MISSING if request.path.endswith(("/config", "/stats")) else None


def no_binary(number: int, request: Request) -> Act | None:
    return None if request.header("Content-Type") == "application/json" else answer(status=422)


# --- an address alone


def test_an_address_alone_is_measured_with_what_is_found_there(run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with FakeTriton(no_binary, control=plain) as fake:
        ended = run("inferometer", "measure", fake.server.address, *SHORT, "--json", str(path))
    assert ended.code == 0, ended.stderr
    address = fake.server.address
    said = f"{address} looks like a plain KServe v2 server over HTTP, model 'fake' (--service-kind triton)."
    assert ended.stderr.splitlines()[0] == said
    found = json.loads(path.read_text())["server"]["findings"]
    assert found[0] == said
    assert found[1] == (
        "A plain KServe v2 server (mlserver 1.7): no model configuration, no statistics, "
        "no binary tensors (sending JSON)."
    )


def test_sizes_that_are_open_become_one(run: Callable) -> None:
    model = FakeModel(inputs=(("INPUT0", "INT32", (-1, 3)),), max_batch_size=0)
    with FakeTriton(model=model) as fake:
        ended = run("inferometer", "measure", fake.server.address, "-m", "fake", *SHORT)
        assert ended.code == 0, ended.stderr
        assert b'"shape":[1,3]' in fake.inferences[0].body


def test_an_openai_style_server_is_found_and_its_only_model(run: Callable) -> None:
    with FakeOpenAi() as fake:
        ended = run("inferometer", "measure", f"http://{fake.server.address}", "--streaming", *SHORT)
    assert ended.code == 0, ended.stderr
    assert "looks like an OpenAI-style server, model 'tiny'" in ended.stderr
    assert fake.payloads[0]["model"] == "tiny"


@pytest.mark.parametrize("name", ["gpt-3.5", "org/llama-3.1-8B", "qwen2.5:7b"])
def test_names_of_models_may_look_like_addresses(name: str, run: Callable) -> None:
    with FakeOpenAi(models=(name, "other")) as fake:
        for words in (
            (fake.server.address, name),
            ("-u", fake.server.address, name),
            (name, fake.server.address),
        ):
            ended = run("inferometer", "measure", *words, *SHORT)
            assert ended.code == 0, ended.stderr
            assert fake.payloads[-1]["model"] == name


def test_several_models_are_listed(run: Callable) -> None:
    with FakeOpenAi(models=("small", "large")) as fake:
        ended = run("inferometer", "measure", fake.server.address, *SHORT)
    assert ended.code == 2
    assert (
        "looks like an OpenAI-style server and has 2 models: large, small; name one with -m" in ended.stderr
    )
    assert not fake.calls


def test_any_other_http_server_is_asked_for_its_page(run: Callable) -> None:
    with ScriptedServer(lambda request: answer(b"hello")) as server:
        ended = run("inferometer", "measure", f"http://{server.address}/page", *SHORT)
    assert ended.code == 0, ended.stderr
    assert "looks like an HTTP server of unknown kind (--service-kind http)" in ended.stderr
    assert {request.path for request in server.requests[-3:]} == {"/page"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("127.0.0.1:1",), "cannot be reached"),
        (("a.b:1", "c.d:2"), "Two addresses are given: a.b:1 and c.d:2"),
        (("a.b:1", "-u", "c.d:2"), "Two addresses are given"),
        (("-u", "c.d:2", "a.b:1"), "Two addresses are given"),
        (("simple",), "'simple' is not an address; write the address first: localhost:8000 simple"),
        (("a.b:1", "simple", "other"), "Two models are given: simple and other"),
        (("-H", "Authorization:", "Bearer.abc"), "quote the header"),
        ((), "Neither a server nor a model is given; write both: localhost:8000 MODEL"),
    ],
)
def test_words_that_are_not_a_single_address(words: tuple[str, ...], sentence: str, run: Callable) -> None:
    ended = run("inferometer", "measure", *words)
    assert ended.code in (2, 3)
    assert sentence in ended.stderr


# --- the wrong kind


def test_a_server_of_another_kind_is_named(run: Callable) -> None:
    with FakeOpenAi() as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address)
    assert ended.code == 99
    assert "failed to get model metadata" in ended.stderr
    assert "looks like an OpenAI-style server: measure it with --service-kind openai -i http" in ended.stderr


def test_the_other_protocol_is_named(run: Callable) -> None:
    with FakeTriton() as fake:
        ended = run("perf_analyzer", "-m", "fake", "-i", "grpc", "-u", fake.server.address)
    assert ended.code == 99
    assert "looks like Triton over HTTP: measure it with --service-kind triton -i http" in ended.stderr


# --- plain KServe v2


@pytest.mark.parametrize("batch", [1, 4])
def test_a_first_dimension_that_is_open_is_the_batch(batch: int, run: Callable) -> None:
    with FakeTriton(control=plain) as fake:
        ended = run(
            "perf_analyzer", "-m", "fake", "-u", fake.server.address, "-b", str(batch), "--request-count", "5"
        )
    assert ended.code == 0, ended.stderr
    assert f'"shape":[{batch},1]'.encode() in fake.inferences[-1].body
    assert "  Server: " not in ended.stdout


def test_json_goes_without_extensions_to_servers_that_have_none(run: Callable) -> None:
    with FakeTriton(no_binary, control=plain) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, "--request-count", "5")
    assert ended.code == 0, ended.stderr
    sent = fake.inferences[-1]
    assert sent.header("Inference-Header-Content-Length") is None
    document = json.loads(sent.body)
    assert document["outputs"] == [{"name": "OUTPUT0"}]
    assert len(document["inputs"][0]["data"]) == 1


def test_a_server_that_takes_neither_form_says_why(run: Callable) -> None:
    refuse = answer_json({"error": "Invalid shape"}, 400)
    with FakeTriton(lambda number, request: refuse, control=plain) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address)
    assert ended.code == 99
    assert "neither as binary data nor as JSON (status 400): Invalid shape" in ended.stderr


def test_a_model_without_inputs_in_its_metadata_is_explained(run: Callable) -> None:
    with FakeTriton(control=plain, model=FakeModel(inputs=(), max_batch_size=0)) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address)
    assert ended.code == 99
    assert "does not describe the inputs of 'fake'" in ended.stderr


# --- plain HTTP


def test_a_request_of_the_users_own(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "body.json").write_text('{"a": 1}')
    with ScriptedServer(lambda request: answer(status=201)) as server:
        ended = run(
            *("inferometer", "measure", "--service-kind", "http", "-u", server.address, "--method", "PUT"),
            *(
                "--path",
                "/score",
                "--body",
                f"@{tmp_path / 'body.json'}",
                "--body",
                "b",
                "--header",
                "X-Key:secret",
            ),
            *("--request-count", "8"),
        )
    assert ended.code == 0, ended.stderr
    assert "PUT /score · http http" in " ".join(ended.stdout.split())
    assert [(request.method, request.path) for request in server.requests] == [("PUT", "/score")] * 8
    assert [request.body for request in server.requests[:2]] == [b'{"a": 1}', b"b"]
    assert {request.header("X-Key") for request in server.requests} == {"secret"}
    assert "secret" not in ended.stdout + ended.stderr


def test_any_other_status_is_a_failure(run: Callable) -> None:
    with ScriptedServer(lambda request: answer(b"moved", status=302)) as server:
        ended = run(
            *("perf_analyzer", "--service-kind", "http", "-u", server.address, "--request-count", "4"),
        )
    assert ended.code == 99
    assert "http 302, 4 requests" in ended.stdout
