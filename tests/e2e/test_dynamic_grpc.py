"""Any gRPC service, against a server built with grpcio, whose reflection is the official one."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict
from grpc_reflection.v1alpha import reflection
from grpc_tools import protoc

from tests.support.commands import Ended
from tests.support.servers import DEADLINE_S

Run = Callable[..., Ended]
PROTOS = Path(__file__).parent / "protos"
SERVICE = "greeting.Greeter"
COUNTED = ("--request-count", "12", "--concurrency-range", "2")


def compile_set(folder: Path) -> Path:
    made = folder / "greeting.pb"
    common = Path(str(protoc.__file__)).parent / "_proto"
    words = ["", f"-I{common}", f"-I{PROTOS}", "--include_imports", f"--descriptor_set_out={made}"]
    assert protoc.main([*words, str(PROTOS / "greeting.proto")]) == 0
    return made


@dataclass
class Greeter:
    """Answers as its messages ask; keeps what it has seen."""

    person: Any
    greeting: Any
    port: int = 0
    calls: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def _note(self, name: str, people: list[Any], context: grpc.ServicerContext) -> None:
        with self._news:
            self.calls.append((name, [MessageToDict(person) for person in people]))
            self.metadata.append({str(key): str(value) for key, value in context.invocation_metadata()})
            self._news.notify_all()

    def has_heard(self, name: str, count: int) -> bool:
        with self._news:
            return self._news.wait_for(
                lambda: [row[0] for row in self.calls].count(name) >= count, DEADLINE_S
            )

    def greet(self, person: Any, context: grpc.ServicerContext) -> Any:
        self._note("Greet", [person], context)
        if person.name == "nobody":
            context.abort(grpc.StatusCode.NOT_FOUND, "there is no such person")
        return self.greeting(text=f"hello {person.name}")

    def greet_often(self, person: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self._note("GreetOften", [person], context)
        for number in range(person.times):
            yield self.greeting(text=f"hello {person.name}", count=number)
        if person.name == "nobody":
            context.abort(grpc.StatusCode.NOT_FOUND, "there is no such person")
        if person.name == "listener":  # who gets no end, and has to leave
            left = threading.Event()
            assert context.add_callback(left.set)
            assert left.wait(DEADLINE_S)
            self._note("left", [], context)

    def greet_all(self, people: Iterator[Any], context: grpc.ServicerContext) -> Any:
        known = list(people)
        self._note("GreetAll", known, context)
        return self.greeting(text=" ".join(person.name for person in known), count=len(known))

    def greet_all_often(self, people: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        for person in people:
            yield from self.greet_often(person, context)

    def greet_each(self, people: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        known = []
        for person in people:
            known.append(person)
            yield self.greeting(text=f"hello {person.name}")
        self._note("GreetEach", known, context)


def start(folder: Path, *, reflects: bool, is_careless: bool = False) -> tuple[Greeter, grpc.Server]:
    """A careless server sends as many replies as a message says, also where its methods promise one."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compile_set(folder).read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    classes = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"greeting.{name}"))
        for name in ("Person", "Greeting")
    }
    person, greeting = classes["Person"], classes["Greeting"]
    greeter = Greeter(person, greeting)
    types = {"request_deserializer": person.FromString, "response_serializer": greeting.SerializeToString}
    methods = {
        "Greet": grpc.unary_unary_rpc_method_handler(greeter.greet, **types),
        "GreetOften": grpc.unary_stream_rpc_method_handler(greeter.greet_often, **types),
        "GreetAll": grpc.stream_unary_rpc_method_handler(greeter.greet_all, **types),
        "GreetEach": grpc.stream_stream_rpc_method_handler(greeter.greet_each, **types),
    }
    if is_careless:
        methods["Greet"] = grpc.unary_stream_rpc_method_handler(greeter.greet_often, **types)
        methods["GreetAll"] = grpc.stream_stream_rpc_method_handler(greeter.greet_all_often, **types)
    server = grpc.server(ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, methods)])
    if reflects:
        reflection.enable_server_reflection([SERVICE, reflection.SERVICE_NAME], server, pool=pool)
    greeter.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return greeter, server


@pytest.fixture(scope="module")
def reflecting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Greeter]:
    greeter, server = start(tmp_path_factory.mktemp("protos"), reflects=True)
    yield greeter
    server.stop(None).wait()


@pytest.fixture
def greeter(reflecting: Greeter) -> Greeter:
    reflecting.calls.clear()
    reflecting.metadata.clear()
    return reflecting


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Greeter]:
    """Without reflection."""
    greeter, server = start(tmp_path_factory.mktemp("protos"), reflects=False)
    yield greeter
    server.stop(None).wait()


@pytest.fixture(scope="module")
def careless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Greeter]:
    greeter, server = start(tmp_path_factory.mktemp("protos"), reflects=True, is_careless=True)
    yield greeter
    server.stop(None).wait()


def data_file(folder: Path, *calls: object) -> str:
    path = folder / "calls.json"
    path.write_text(json.dumps({"data": list(calls)}))
    return str(path)


def measured(run: Run, folder: Path, greeter: Greeter, method: str, *words: str) -> dict[str, Any]:
    path = folder / "result.json"
    url = f"127.0.0.1:{greeter.port}"
    ended = run(
        "inferometer", "measure", url, "--grpc-method", f"{SERVICE}/{method}", *words, "--json", str(path)
    )
    assert ended.code == 0, ended.stderr
    found: dict[str, Any] = json.loads(path.read_text())["levels"][0]["measurement"]
    return found


def test_a_unary_method_is_asked_of_the_server(run: Run, greeter: Greeter, tmp_path: Path) -> None:
    data = data_file(tmp_path, {"name": "ada", "scores": {"x": 0.5}}, {"name": "bob", "times": 3})
    found = measured(run, tmp_path, greeter, "Greet", "--input-data", data, *COUNTED)
    assert (found["request_count"], found["failed_count"]) == (12, 0)
    sent = [people[0] for _, people in greeter.calls]
    assert len(sent) == 12
    assert {"name": "ada", "scores": {"x": 0.5}} in sent
    assert {"name": "bob", "times": 3} in sent


def test_a_file_describes_the_method_where_the_server_does_not(
    run: Run, silent: Greeter, tmp_path: Path
) -> None:
    proto = ("--proto", str(PROTOS / "greeting.proto"))
    found = measured(run, tmp_path, silent, "Greet", *proto, "--body", '{"name": "ada"}', *COUNTED)
    assert found["request_count"] == 12
    compiled = ("--proto", str(compile_set(tmp_path)))
    found = measured(run, tmp_path, silent, "Greet", *compiled, "--body", '{"name": "ada"}', *COUNTED)
    assert found["request_count"] == 12


def test_every_response_of_a_stream_has_its_time(run: Run, greeter: Greeter, tmp_path: Path) -> None:
    body = ("--body", '{"name": "ada", "times": 5}')
    found = measured(run, tmp_path, greeter, "GreetOften", *body, *COUNTED)
    assert found["request_count"] == 12
    assert found["streaming"]["responses"] == 60
    assert found["streaming"]["gaps"]["count"] == 48


def test_a_cancelled_stream_is_left_and_what_came_of_it_is_counted(
    run: Run, greeter: Greeter, tmp_path: Path
) -> None:
    data = data_file(tmp_path, {"name": "ada", "times": 2}, {"name": "listener", "times": 3})
    words = ("--data", data, "-n", "8", "-c", "2", "--cancel-after", "150ms")
    found = measured(run, tmp_path, greeter, "GreetOften", *words)
    assert (found["request_count"], found["failed_count"], found["failures"]) == (4, 0, [])
    assert found["streaming"]["responses"] == 8
    cancelled = found["cancelled"]
    assert (cancelled["count"], cancelled["tokens"], cancelled["without_token"]) == (4, 12, 0)
    assert cancelled["ran"]["min_ns"] >= 150_000_000
    assert greeter.has_heard("left", 4)


def test_a_stream_without_responses_is_a_good_call(run: Run, greeter: Greeter, tmp_path: Path) -> None:
    found = measured(run, tmp_path, greeter, "GreetOften", "--body", '{"name": "ada"}', *COUNTED)
    assert (found["request_count"], found["failed_count"]) == (12, 0)


@pytest.mark.parametrize("method", ["Greet", "GreetAll"])
@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_method_with_one_reply_is_good_with_one_only(
    run: Run, careless: Greeter, tmp_path: Path, method: str, times: int
) -> None:
    path = tmp_path / "result.json"
    url, method = f"127.0.0.1:{careless.port}", f"{SERVICE}/{method}"
    body = json.dumps({"name": "ada", "times": times})
    ended = run(
        "inferometer", "measure", url, "--grpc-method", method, "--body", body, *COUNTED, "--json", str(path)
    )
    found = json.loads(path.read_text())["levels"][0]["measurement"]
    assert (found["request_count"], found["failed_count"]) == ((12, 0) if times == 1 else (0, 12))
    assert ended.code == (0 if times == 1 else 1)
    if times != 1:
        assert f"after {times} messages" in found["failures"][0]["example"]


@pytest.mark.parametrize(("method", "responses"), [("GreetAll", 1), ("GreetEach", 3)])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_call_sends_all_its_messages(
    run: Run, greeter: Greeter, tmp_path: Path, method: str, responses: int, compression: str
) -> None:
    data = data_file(tmp_path, [{"name": "a"}, {"name": "b"}, {"name": "c"}])
    words = ("--input-data", data, "--grpc-compression-algorithm", compression, *COUNTED)
    found = measured(run, tmp_path, greeter, method, *words)
    assert found["request_count"] == 12
    assert found["streaming"]["responses"] == 12 * responses
    assert greeter.calls == [(method, [{"name": "a"}, {"name": "b"}, {"name": "c"}])] * 12


def test_without_data_an_empty_message_is_sent_and_reported(
    run: Run, greeter: Greeter, tmp_path: Path
) -> None:
    url = f"127.0.0.1:{greeter.port}"
    ended = run("inferometer", "measure", url, "--grpc-method", f"{SERVICE}/Greet", *COUNTED)
    assert ended.code == 0
    assert "sending an empty greeting.Person" in ended.stdout + ended.stderr
    assert greeter.calls[0] == ("Greet", [{}])


def test_headers_go_with_the_calls(run: Run, greeter: Greeter, tmp_path: Path) -> None:
    measured(run, tmp_path, greeter, "Greet", "-H", "who: we", *COUNTED)
    assert all(sent["who"] == "we" for sent in greeter.metadata)


def test_a_failed_call_has_the_words_of_the_server(run: Run, greeter: Greeter, tmp_path: Path) -> None:
    url = f"127.0.0.1:{greeter.port}"
    body = '{"name": "nobody", "times": 2}'
    for method in ("Greet", "GreetOften"):
        words = ("--grpc-method", f"{SERVICE}/{method}", "--body", body, *COUNTED)
        ended = run("inferometer", "measure", url, *words)
        assert ended.code == 1
        assert "there is no such person" in ended.stdout


def test_replies_are_exported_as_json(run: Run, greeter: Greeter, tmp_path: Path) -> None:
    path = tmp_path / "requests.json"
    words = ("--body", '{"name": "ada", "times": 2}', "--profile-export-file", str(path))
    measured(run, tmp_path, greeter, "GreetOften", *words, *COUNTED)
    requests = json.loads(path.read_text())["experiments"][0]["requests"]
    assert len(requests) == 12
    for request in requests:
        assert [json.loads(output["response"]) for output in request["response_outputs"]] == [
            {"text": "hello ada"},
            {"text": "hello ada", "count": 1},
        ]


def test_the_script_reads_what_a_command_writes(run: Run, greeter: Greeter, tmp_path: Path) -> None:
    maker = tmp_path / "make.py"
    maker.write_text(
        "import struct, sys\n"
        "for name in (b'ada', b'bob'):\n"
        "    message = bytes((10, len(name))) + name\n"
        "    sys.stdout.buffer.write(struct.pack('=I', len(message)) + message)\n"
    )
    data = data_file(tmp_path, {"message_generator": f"python3 {maker}"})
    words = ("--grpc-method", f"{SERVICE}/GreetEach", "--input-data", data, "-u", f"127.0.0.1:{greeter.port}")
    ended = run(
        "perf_analyzer", "--service-kind", "dynamic_grpc", "-i", "grpc", *words, "--request-count", "3"
    )
    assert ended.code == 0, ended.stderr
    assert "Service Kind: DYNAMIC_GRPC" in ended.stdout
    assert greeter.calls == [("GreetEach", [{"name": "ada"}, {"name": "bob"}])] * 3


REFUSED = (
    (f"{SERVICE}/Nod", (), "service 'greeting.Greeter' has no method 'Nod'; it has Greet, GreetAll"),
    ("greeting.Waiter/Serve", (), "does not know 'greeting.Waiter'"),
    ("Greet", (), "'Greet' does not name a method"),
    (f"{SERVICE}/Greet", ("--body", '{"nom": "a"}'), "is not a greeting.Person"),
    (f"{SERVICE}/Greet", ("--body", "{"), "is not a greeting.Person"),
    (f"{SERVICE}/Greet", ("--body", '{"times": "many"}'), "Its fields are name, times, scores"),
    (f"{SERVICE}/Greet", ("--streaming",), "does not stream"),
    (f"{SERVICE}/Greet", ("-b", "4"), "Batching is not supported"),
    (f"{SERVICE}/Greet", ("-i", "http"), "dynamic_grpc requires --grpc"),
    (f"{SERVICE}/Greet", ("--shape", "A:1"), "--shape is not supported"),
    (f"{SERVICE}/Greet", ("--proto-path", "."), "requires --proto"),
    (
        f"{SERVICE}/Greet",
        ("--service-kind", "triton", "-m", "m"),
        "only supported with --service-kind dynamic_grpc",
    ),
)


@pytest.mark.parametrize(("method", "words", "sentence"), REFUSED)
def test_mistakes_are_named(
    run: Run, greeter: Greeter, method: str, words: tuple[str, ...], sentence: str
) -> None:
    url = f"127.0.0.1:{greeter.port}"
    ended = run("inferometer", "measure", url, "--grpc-method", method, *words, *COUNTED)
    assert ended.code == 2
    assert sentence in ended.stderr
    assert not greeter.calls


BAD_FILES: tuple[tuple[object, str], ...] = (
    ({"data": []}, "no list of calls under 'data'"),
    ({"data": [1]}, "neither a message nor a list of messages"),
    ({"data": [[]]}, "neither a message nor a list of messages"),
    ({"data": [{}], "validation_data": [{}]}, "'validation_data', which is not supported"),
    ([], "no list of calls under 'data'"),
    ({"data": [{"message_generator": "exit 3"}]}, "ended with exit code 3"),
    ({"data": [{"message_generator": "printf abc"}]}, "ends in the middle of a message"),
    ({"data": [{"message_generator": "true"}]}, "wrote no messages"),
    ({"data": [{"message_generator": 4}]}, "is not a command"),
    ({"data": [[{"name": "a"}, {"name": "b"}]]}, "has 2 messages, but the method Greet takes one"),
)


@pytest.mark.parametrize(("document", "sentence"), BAD_FILES)
def test_bad_files_are_named(
    run: Run, greeter: Greeter, tmp_path: Path, document: object, sentence: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    words = ("--grpc-method", f"{SERVICE}/Greet", "--input-data", str(path), *COUNTED)
    ended = run("inferometer", "measure", f"127.0.0.1:{greeter.port}", *words)
    assert ended.code == 2
    assert sentence in ended.stderr


def test_a_server_without_reflection_asks_for_the_file(run: Run, silent: Greeter) -> None:
    ended = run(
        "inferometer", "measure", f"127.0.0.1:{silent.port}", "--grpc-method", f"{SERVICE}/Greet", *COUNTED
    )
    assert ended.code == 2
    assert "has no reflection" in ended.stderr
    assert "--proto" in ended.stderr


def test_a_file_that_cannot_be_compiled_is_named(run: Run, silent: Greeter, tmp_path: Path) -> None:
    broken = tmp_path / "broken.proto"
    broken.write_text('syntax = "proto3"; message {')
    words = ("--grpc-method", f"{SERVICE}/Greet", "--proto", str(broken), *COUNTED)
    ended = run("inferometer", "measure", f"127.0.0.1:{silent.port}", *words)
    assert ended.code == 2
    assert "cannot be compiled" in ended.stderr


def test_one_call_is_shown_with_all_its_messages(run: Run, greeter: Greeter, tmp_path: Path) -> None:
    url = f"127.0.0.1:{greeter.port}"
    often = run(
        *("inferometer", "measure", url, "--grpc-method", f"{SERVICE}/GreetOften"),
        *("--body", '{"name": "ada", "times": 3}', "--show-reply"),
    )
    assert often.code == 0, often.stderr
    assert ":path: /greeting.Greeter/GreetOften" in often.stdout
    assert '  name: "ada"\n  times: 3\n' in often.stdout
    assert often.stdout.count("\n# response ") == 3
    each = run(
        *("inferometer", "measure", url, "--grpc-method", f"{SERVICE}/GreetEach"),
        *("--data", data_file(tmp_path, [{"name": "ada"}, {"name": "bob"}]), "--dry-run"),
    )
    assert each.code == 0, each.stderr
    assert each.stdout.count("greeting.Person (5 bytes)") == 2
    assert len(greeter.calls) == 1


def test_two_replies_where_one_is_due_are_an_error(run: Run, careless: Greeter) -> None:
    url = f"127.0.0.1:{careless.port}"
    for method in ("Greet", "GreetAll"):
        ended = run(
            *("inferometer", "measure", url, "--grpc-method", f"{SERVICE}/{method}"),
            *("--body", '{"name": "ada", "times": 2}', "--show-reply"),
        )
        assert ended.code == 1
        assert "the call ended without an error status after 2 messages" in ended.stdout
