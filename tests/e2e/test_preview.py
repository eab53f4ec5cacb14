"""The first request and one reply, shown: the bytes are those of a run, and exactly one request is sent."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from inferometer.cli.measure import COMMAND, asked_load
from inferometer.load.single import messages_of
from inferometer.measure.prepare import Setup, prepare
from inferometer.measure.preview import first_of
from inferometer.options.command_line import Ask, read
from tests.support.grpc_servers import Call, FakeGrpcTriton, asked, error_response, refuse, response, say
from tests.support.openai import FakeOpenAi
from tests.support.servers import FakeModel, FakeTriton, Request, ScriptedServer, answer, answer_json, never
from tests.support.tfserving import FakeTfServing, ServedModel


@dataclass(frozen=True, slots=True)
class SequenceModel(FakeModel):
    def config(self) -> dict[str, Any]:
        return {**FakeModel.config(self), "sequence_batching": {}}


PLAIN, SEQUENCE = FakeModel(), SequenceModel(max_batch_size=0)
WIDE = FakeModel(inputs=(("INPUT0", "FP32", (100_000,)), ("INPUT1", "BYTES", (1,))))

SENT = (
    (PLAIN, ()),
    (PLAIN, ("--async",)),
    (PLAIN, ("-b", "3", "--input-data", "zero", "-H", "x-key:secret")),
    (WIDE, ()),
    (WIDE, ("--async",)),
    (SEQUENCE, ("--sequence-id-range", "7")),
)
OVER_HTTP = (*SENT, (PLAIN, ("--input-tensor-format", "json")))
OVER_GRPC = (
    *SENT,
    (PLAIN, ("--grpc-compression-algorithm", "gzip")),
    (PLAIN, ("--grpc-compression-algorithm", "deflate", "--async")),
    (PLAIN, ("--streaming",)),
    (PLAIN, ("--streaming", "--grpc-compression-algorithm", "gzip")),
    (SEQUENCE, ("--streaming", "--sequence-id-range", "7")),
    (PLAIN, ("--request-parameter", "speed:5:int")),
)


def prepared(*words: str) -> Setup:
    request = read(words, COMMAND)
    assert not isinstance(request, Ask)
    return prepare(asked_load(request)[0], command="measure")


def words_of(fake: FakeTriton | FakeGrpcTriton, words: tuple[str, ...]) -> tuple[str, ...]:
    protocol = "http" if isinstance(fake, FakeTriton) else "grpc"
    return ("-m", "fake", "-i", protocol, "-u", fake.server.address, *words)


def rendered(request: Request) -> bytes:
    """The bytes of a request as it came."""
    lines = [
        f"{request.method} {request.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in request.headers),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + request.body


@pytest.mark.parametrize(("model", "words"), OVER_HTTP)
def test_a_run_begins_with_the_request_that_is_shown_over_http(
    model: FakeModel, words: tuple[str, ...], run: Callable
) -> None:
    with FakeTriton(model=model) as fake:
        shown = first_of(prepared(*words_of(fake, words)))
        assert not fake.inferences
        ended = run("inferometer", "measure", *words_of(fake, words), "--request-count", "1")
    assert ended.code == 0, ended.stderr
    assert rendered(fake.inferences[0]) == shown.data


@pytest.mark.parametrize(("model", "words"), OVER_GRPC)
def test_a_run_begins_with_the_request_that_is_shown_over_grpc(
    model: FakeModel, words: tuple[str, ...], run: Callable
) -> None:
    with FakeGrpcTriton(model=model) as fake:
        shown = first_of(prepared(*words_of(fake, words)))
        assert not fake.inferences
        ended = run("inferometer", "measure", *words_of(fake, words), "--request-count", "1")
    assert ended.code == 0, ended.stderr
    sent = fake.inferences[0]
    ((message, packed_size),) = messages_of(shown.data)
    assert message == sent.message
    assert (packed_size is not None) == sent.is_compressed
    assert shown.metadata == sent.headers


def test_a_schedule_begins_with_its_earliest_step(tmp_path: Path) -> None:
    steps = [{"timestamp": [200], "INPUT0": [1]}, {"timestamp": [0], "INPUT0": [2]}]
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"data": steps}))
    with FakeTriton() as fake:
        shown = first_of(prepared(*words_of(fake, ("--fixed-schedule", "--data", str(data)))))
    assert shown.data.endswith((2).to_bytes(4, "little"))


# --- the commands


def answered(number: int, request: Request) -> Any:
    output = {"name": "OUTPUT0", "datatype": "INT32", "shape": [1, 1], "parameters": {"binary_data_size": 4}}
    header = json.dumps({"model_name": "fake", "outputs": [output]}).encode()
    return answer(
        header + (7).to_bytes(4, "little"), headers={"Inference-Header-Content-Length": str(len(header))}
    )


def test_a_dry_run_shows_the_request_and_sends_no_inference(run: Callable) -> None:
    with FakeTriton() as fake:
        ended = run("inferometer", "measure", fake.server.address, "fake", "--data", "zero", "--dry-run")
    assert ended.code == 0, ended.stderr
    assert not fake.inferences
    header = (
        '{"id":"","inputs":[{"name":"INPUT0","datatype":"INT32","shape":[1,1],"parameters":{"binary_data_size":4}}],'
        '"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}]}'
    )
    assert ended.stdout.splitlines()[1:] == [
        "POST /v2/models/fake/infer HTTP/1.1",
        f"Host: {fake.server.address}",
        "Content-Type: application/octet-stream",
        f"Inference-Header-Content-Length: {len(header)}",
        f"Content-Length: {len(header) + 4}",
        "",
        header,
        "<INPUT0: INT32 [1,1], 4 bytes: 0>",
        "",
    ]


@pytest.mark.parametrize("flag", ["--show-request", "--show-reply"])
def test_one_request_is_sent_and_both_sides_are_shown(flag: str, run: Callable) -> None:
    with FakeTriton(answered) as fake:
        ended = run("inferometer", "measure", fake.server.address, "fake", "-c", "4", flag)
    assert ended.code == 0, ended.stderr
    assert len(fake.inferences) == 1
    assert "POST /v2/models/fake/infer HTTP/1.1" in ended.stdout
    assert re.search(r"# reply after [\d.]+ ms\nHTTP/1.1 200 ", ended.stdout)
    assert "<OUTPUT0: INT32 [1,1], 4 bytes: 7>" in ended.stdout


def test_one_call_is_sent_over_grpc(run: Callable) -> None:
    with FakeGrpcTriton() as fake:
        ended = run("inferometer", "measure", fake.server.address, "fake", "--grpc", "--show-reply")
    assert ended.code == 0, ended.stderr
    assert len(fake.inferences) == 1
    assert ":path: /inference.GRPCInferenceService/ModelInfer\n" in ended.stdout
    assert "gRPC status 0 OK\n" in ended.stdout
    assert "raw_output_contents: <OUTPUT0: INT32 [1], 4 bytes: 0>" in ended.stdout


def test_the_first_responses_of_a_stream_are_shown_and_the_last(run: Callable) -> None:
    def repeat(number: int, call: Call) -> Any:
        name = asked(call).id
        return say(*(response(name, is_final=False) for _ in range(8)), response(name, has_data=False))

    with FakeGrpcTriton(repeat, decoupled=True) as fake:
        ended = run(
            "inferometer", "measure", fake.server.address, "fake", "--grpc", "--streaming", "--show-reply"
        )
    assert ended.code == 0, ended.stderr
    assert re.findall(r"# response (\d) of 9 after", ended.stdout) == ["1", "2", "3", "4", "5", "9"]
    assert "# ... 3 more responses ..." in ended.stdout


REFUSALS = (
    (FakeTriton(lambda number, request: answer_json({"error": "no luck"}, 500)), ()),
    (FakeGrpcTriton(lambda number, call: refuse(3, "no luck")), ("--grpc",)),
    (
        FakeGrpcTriton(lambda number, call: say(error_response(asked(call).id, "no luck"))),
        ("--grpc", "--streaming"),
    ),
)


@pytest.mark.parametrize(("fake", "words"), REFUSALS)
def test_an_error_reply_is_shown_and_is_the_exit_code(
    fake: FakeTriton | FakeGrpcTriton, words: tuple[str, ...], run: Callable
) -> None:
    with fake:
        ended = run("inferometer", "measure", fake.server.address, "fake", *words, "--show-reply")
    assert ended.code == 1
    assert "no luck" in ended.stdout
    assert len(fake.inferences) == 1


def test_an_unreachable_server_is_a_server_error(run: Callable) -> None:
    def silent(number: int, request: Request) -> Any:
        return never

    words = ("fake", "--show-reply", "--timeout", "100ms")
    with FakeTriton(silent) as fake:
        ended = run("inferometer", "measure", fake.server.address, *words)
    assert ended.code == 3
    assert "did not answer within 0.1 s; allow more time with --timeout" in ended.stderr
    with FakeTriton(lambda number, request: lambda wire: wire.close()) as fake:
        ended = run("inferometer", "measure", fake.server.address, *words)
    assert ended.code == 3
    assert "closed the connection before it answered" in ended.stderr


def test_what_came_of_a_stream_that_does_not_end_is_shown(run: Callable) -> None:
    def begin(number: int, call: Call) -> Any:
        return say(response(asked(call).id, is_final=False))

    words = ("fake", "--grpc", "--streaming", "--show-reply", "--timeout", "300ms")
    with FakeGrpcTriton(begin, decoupled=True) as fake:
        ended = run("inferometer", "measure", fake.server.address, *words)
    assert ended.code == 1
    assert "not complete after 0.3 s" in ended.stdout
    assert "inference.ModelStreamInferResponse" in ended.stdout


def test_an_error_inside_a_good_status_is_an_error(run: Callable) -> None:
    words = ("--service-kind", "openai", "-m", "tiny", "--prompt-tokens", "3", "--show-reply")
    with ScriptedServer(lambda request: answer_json({"error": {"message": "no luck"}})) as server:
        ended = run("inferometer", "measure", server.address, *words)
    assert ended.code == 1
    assert "HTTP/1.1 200" in ended.stdout
    with ScriptedServer(lambda request: answer(b"no JSON")) as server:
        ended = run("inferometer", "measure", server.address, *words)
    assert ended.code == 1
    assert "\nno JSON\n" in ended.stdout


@pytest.mark.parametrize("kind", ["grpc", "rest"])
def test_tensors_of_tensorflow_serving_are_shown(kind: str, run: Callable) -> None:
    with FakeTfServing(ServedModel(inputs={"x": ("DT_FLOAT", (-1, 2))})) as fake:
        address = fake.grpc.address if kind == "grpc" else fake.http.address
        ended = run(
            *("inferometer", "measure", address, "-m", "resnet50", "--service-kind", "tfserving"),
            *("-b", "1", "--input", "x=1.5,2.5", "--show-reply", *(["--grpc"] if kind == "grpc" else [])),
        )
    assert ended.code == 0, ended.stderr
    if kind == "grpc":
        assert "tensor_content: <FP32 [1,2], 8 bytes: 1.5 2.5>" in ended.stdout
        assert "float_val: 3 5" in ended.stdout
    else:
        assert '"inputs":{"x":[[1.5,2.5]]}' in ended.stdout
        assert "3.0" in ended.stdout


def test_events_of_a_chat_are_shown(run: Callable) -> None:
    words = ("--service-kind", "openai", "-m", "tiny", "--streaming", "--prompt-tokens", "3", "--show-reply")
    with FakeOpenAi() as fake:
        ended = run("inferometer", "measure", fake.server.address, *words)
    assert ended.code == 0, ended.stderr
    assert len(fake.calls) == 1
    assert "POST /v1/chat/completions HTTP/1.1" in ended.stdout
    assert re.search(r"# response 1 of \d+ after [\d.]+ ms\ndata: \{", ended.stdout)
    assert "data: [DONE]" in ended.stdout


def test_plain_http_is_shown(run: Callable) -> None:
    with ScriptedServer(lambda request: answer(b"\xff\xd8" + bytes(100))) as server:
        ended = run(
            *("inferometer", "measure", server.address, "--service-kind", "http", "--path", "x?y"),
            *("--body", '{"a": 1}', "-H", "X-Key: hidden", "-H", "Accept: image/jpeg", "--show-reply"),
        )
    assert ended.code == 0, ended.stderr
    assert len(server.requests) == 1
    assert "POST /x?y HTTP/1.1" in ended.stdout
    assert '\n{"a": 1}\n' in ended.stdout
    assert "X-Key: ***\nAccept: image/jpeg\n" in ended.stdout
    assert "hidden" not in ended.stdout + ended.stderr
    assert "<102 bytes: ff d8 00 00 00 00 00 00 ...>" in ended.stdout


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_it_is_sent_over_tls(protocol: str, certificate: Callable, run: Callable) -> None:
    chain, context = certificate("server")
    fake = FakeTriton(answered, tls=context) if protocol == "http" else FakeGrpcTriton(tls=context)
    with fake:
        words = ("fake", "--tls-ca", chain, "--show-reply", *(["--grpc"] if protocol == "grpc" else []))
        ended = run("inferometer", "measure", f"https://{fake.server.address}", *words)
    assert ended.code == 0, ended.stderr
    assert ", with TLS\n" in ended.stdout
    assert len(fake.inferences) == 1


def test_a_large_message_waits_for_the_servers_windows(run: Callable) -> None:
    with FakeGrpcTriton(model=WIDE) as fake:
        ended = run("inferometer", "measure", fake.server.address, "fake", "--grpc", "--show-reply")
    assert ended.code == 0, ended.stderr
    assert "<INPUT0: FP32 [1,100000], 400000 bytes: " in ended.stdout
    assert len(ended.stdout) < 3000


def test_other_commands_show_what_they_would_send(run: Callable) -> None:
    with FakeTriton(answered) as fake:
        there = fake.server.address
        find = run("inferometer", "find", there, "fake", "--slo", "p99<5ms", "--dry-run")
        diagnose = run("inferometer", "diagnose", there, "fake", "--dry-run")
        compare = run("inferometer", "compare", f"fake@{there}", f"fake@{there}", "--dry-run")
        both = run("inferometer", "compare", f"fake@{there}", f"fake@{there}", "--show-reply")
        assert len(fake.inferences) == 2
    for ended, count in ((find, 1), (diagnose, 1), (compare, 2), (both, 2)):
        assert ended.code == 0, ended.stderr
        assert ended.stdout.count("POST /v2/models/fake/infer HTTP/1.1") == count


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("measure", "a:1", "m", "--dry-run", "--show-reply"), "give one of them"),
        (("tune", "m", "--dry-run"), "--dry-run is not supported by `inferometer tune`"),
        (("tune", "m", "--show-request"), "--show-request is not supported by `inferometer tune`"),
        (("compare", "a.json", "b.json", "--dry-run"), "Comparing saved results sends nothing"),
        (("serve", "--dry-run"), "Invalid long option '--dry-run'"),
    ],
)
def test_where_it_has_no_meaning_it_is_refused(words: tuple[str, ...], sentence: str, run: Callable) -> None:
    ended = run("inferometer", *words)
    assert ended.code in (2, 64)
    assert sentence in ended.stderr


@pytest.mark.parametrize(
    "option", ["--dry-run", "--show-request", "--show-reply", "--config", "--show-config"]
)
def test_the_classic_script_has_none_of_it(option: str, run: Callable) -> None:
    ended = run("perf_analyzer", "-m", "fake", option)
    assert ended.code != 0
    assert option in ended.stderr + ended.stdout


def test_a_server_without_configurations_is_not_tried_in_a_dry_run(run: Callable) -> None:
    """Whether it takes binary tensors is found out by an inference."""
    with FakeTriton(
        control=lambda request: (
            answer_json({"error": "no"}, 404) if request.path.endswith("/config") else None
        )
    ) as fake:
        ended = run("inferometer", "measure", fake.server.address, "fake", "--dry-run")
    assert ended.code == 0, ended.stderr
    assert not fake.inferences
    assert "unknown until the first inference" in ended.stderr
