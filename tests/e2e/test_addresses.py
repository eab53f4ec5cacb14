"""Any address gives the truth or an error: what is there is named, with the command to type, before any load."""

import gc
import re
import shlex
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.services.address import read_address
from tests.support.grpc_servers import FakeGrpcTriton, GrpcServer, refuse
from tests.support.listeners import (
    Listener,
    answering,
    closing,
    greeting,
    hanging_up,
    mute,
    resetting,
    tls_or,
)
from tests.support.openai import FakeOpenAi
from tests.support.samples import sample
from tests.support.servers import (
    Act,
    FakeModel,
    FakeTriton,
    Request,
    ScriptedServer,
    answer,
    answer_json,
    reply,
)

UNIMPLEMENTED = 12
SHORT = ("--duration", "100ms")
METRICS = b"# HELP nv_gpu_utilization GPU utilization rate\n# TYPE nv_gpu_utilization gauge\n"
TORCHSERVE_404 = answer_json({"code": 404, "type": "ResourceNotFoundException", "message": "not found"}, 404)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a listener that says nothing costs no more than that."""
    monkeypatch.setattr("inferometer.services.detect.TIMEOUT_S", 0.3)


# --- what listens


def page(request: Request) -> Act:
    return answer(b"<html>hello</html>") if request.path in ("/", "/page") else answer(b"no", 404)


def metrics(request: Request) -> Act:
    """Triton's metrics port answers 200 to everything, with nothing in it."""
    return answer(METRICS if request.path == "/metrics" else b"")


def management(request: Request) -> Act:
    if request.path.startswith("/models"):
        return answer_json({"models": [{"modelName": "resnet", "modelUrl": "resnet.mar"}]})
    return TORCHSERVE_404


ERROR_PAGE = b"<html>\r\n<head><title>Not here</title></head>\r\n<body>no</body>\r\n</html>\r\n"
PROXY = reply(b"<html>The plain HTTP request was sent to HTTPS port</html>", 400)
ALERT = b"\x15\x03\x03\x00\x02\x02\x46"


@dataclass(frozen=True, slots=True)
class Peer:
    """Something at an address; `sent` are the requests that it got, as far as it understood them."""

    address: str
    sent: list[Request] = field(default_factory=list)


@contextmanager
def listening(meeting: Any) -> Iterator[Peer]:
    with Listener(meeting) as listener:
        yield Peer(listener.address)


@contextmanager
def scripted(script: Any, tls: ssl.SSLContext | None = None) -> Iterator[Peer]:
    with ScriptedServer(script, tls=tls) as server:
        yield Peer(server.address, server.requests)


@contextmanager
def fake(made: Any) -> Iterator[Peer]:
    with made:
        server = made.server
        yield Peer(server.address, getattr(server, "requests", []))
        if isinstance(server, GrpcServer):
            forgive(server)


def forgive(server: GrpcServer) -> None:
    """Whoever asks what a port is breaks the rules of those that it is not."""
    gc.collect()  # a command that ran in this process may have left its connections to that
    server.wait_for(lambda: all(wire.is_closed for wire in server.wires))
    for wire in server.wires:
        wire.faults.clear()


@contextmanager
def nobody() -> Iterator[Peer]:
    with Listener(closing) as listener:
        address = listener.address
    yield Peer(address)


@contextmanager
def other_grpc() -> Iterator[Peer]:
    with GrpcServer(lambda call: refuse(UNIMPLEMENTED, "unknown service")) as server:
        yield Peer(server.address)
        forgive(server)


Context = ssl.SSLContext
PEERS: dict[str, Callable[[Context], Any]] = {
    "nobody": lambda context: nobody(),
    "mute": lambda context: listening(mute),
    "closes": lambda context: listening(closing),
    "hangs up": lambda context: listening(hanging_up),
    "resets": lambda context: listening(resetting),
    "SSH": lambda context: listening(greeting(b"SSH-2.0-OpenSSH_9.6\r\n")),
    "Redis": lambda context: listening(answering(b"-ERR wrong number of arguments for 'get' command\r\n")),
    "mail": lambda context: listening(greeting(b"220 mail.example ESMTP\r\n")),
    "noise": lambda context: listening(greeting(bytes(range(256)) * 20)),
    "noise without an end": lambda context: listening(greeting(b"x" * 100)),
    "TLS": lambda context: scripted(page, context),
    "TLS, with an alert": lambda context: listening(tls_or(answering(ALERT), context)),
    "TLS behind a proxy": lambda context: listening(tls_or(answering(PROXY), context)),
    "gRPC with TLS": lambda context: fake(FakeGrpcTriton(tls=context)),
    "gRPC": lambda context: fake(FakeGrpcTriton()),
    "gRPC of another kind": lambda context: other_grpc(),
    "Triton": lambda context: fake(FakeTriton()),
    "Triton with TLS": lambda context: fake(FakeTriton(tls=context)),
    "moved": lambda context: scripted(
        lambda request: answer(b"", 301, {"Location": "http://127.0.0.1:9/there"})
    ),
    "a page of errors": lambda context: scripted(lambda request: answer(ERROR_PAGE, 404)),
    "OpenAI": lambda context: fake(FakeOpenAi()),
    "a page": lambda context: scripted(page),
    "a locked page": lambda context: scripted(lambda request: answer(b"no", 401)),
    "metrics": lambda context: scripted(metrics),
    "management": lambda context: scripted(management),
}


@pytest.fixture
def peer(certificate: Callable) -> Iterator[Callable[[str], Peer]]:
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(PEERS[name](certificate("peer")[1]))


# --- each is named, with the command to type

FAILED, USAGE, PEER = 1, 2, 3
ROWS: tuple[tuple[str, str, int, str, str], ...] = (
    # what is there, the address and options, exit code, what is said, what to type
    ("nobody", "{at} -m fake", PEER, "{at} cannot be reached", ""),
    ("mute", "{at} -m fake", PEER, "{at} accepts connections, but did not answer", ""),
    ("mute", "{at} -m fake -i grpc", PEER, "{at} accepts connections, but did not answer", ""),
    ("closes", "{at} -m fake", PEER, "{at} closes every connection without an answer", ""),
    ("hangs up", "{at}", PEER, "{at} closes every connection without an answer", ""),
    ("resets", "{at} -m fake", PEER, "{at} closes every connection without an answer", ""),
    ("SSH", "{at} -m fake", PEER, "{at} does not speak HTTP: it looks like SSH", ""),
    ("Redis", "{at} -m fake", PEER, "{at} does not speak HTTP: it looks like Redis", ""),
    ("mail", "{at}", PEER, "{at} does not speak HTTP: it looks like mail or FTP", ""),
    ("noise", "{at}", PEER, "{at} does not speak HTTP: its answer begins with", ""),
    ("noise without an end", "{at}", PEER, "{at} does not speak HTTP: its answer begins with", ""),
    ("TLS", "{at} -m fake", USAGE, "{at} is a port with TLS", "https://{at} fake"),
    ("TLS", "http://{at}/page", USAGE, "{at} is a port with TLS", "https://{at}/page"),
    ("TLS", "{at} -m fake -i grpc", USAGE, "{at} is a port with TLS", "https://{at} fake"),
    ("TLS", "-u {at} -m fake", USAGE, "{at} is a port with TLS", "https://{at} fake"),
    ("TLS, with an alert", "{at} -m fake", USAGE, "{at} is a port with TLS", "https://{at} fake"),
    ("TLS behind a proxy", "{at} -m fake", USAGE, "{at} is a port with TLS", "https://{at} fake"),
    ("TLS", "https://{at} -m fake", PEER, "its certificate was rejected", "--tls-ca"),
    ("gRPC with TLS", "{at} -m fake", USAGE, "{at} is a gRPC port with TLS", "grpcs://{at} fake"),
    ("gRPC with TLS", "grpc://{at} -m fake", USAGE, "{at} is a gRPC port with TLS", "grpcs://{at} fake"),
    ("gRPC", "grpcs://{at} -m fake", USAGE, "does not use TLS: it looks like Triton over gRPC", "grpc://{at} fake"),
    ("gRPC", "https://{at} -m fake", USAGE, "does not use TLS: it looks like Triton over gRPC", "grpc://{at} fake"),
    ("gRPC", "{at} -m fake -i http", USAGE, "like Triton over gRPC, but the options request HTTP", "{at} fake --grpc"),
    ("gRPC", "{at} -m fake --service-kind triton", USAGE, "{at} looks like Triton over gRPC", "{at} fake --grpc"),
    ("gRPC", "{at}/deep -m fake", USAGE, "has the path '/deep', but gRPC does not use paths", ""),
    ("gRPC of another kind", "{at} -m fake", USAGE, "{at} looks like a gRPC server of unknown", "{at} --grpc-method"),
    ("Triton", "https://{at} -m fake", USAGE, "{at} does not use TLS: it looks like Triton", "http://{at} fake"),
    ("Triton", "grpc://{at} -m fake", USAGE, "Triton over HTTP, but the options request gRPC", "{at} fake"),
    ("Triton", "{at}/foo -m fake", USAGE, "cannot be measured at '/foo'", "{at} fake"),
    ("Triton", "{at}/v2/health/ready", USAGE, "cannot be measured at '/v2/health/ready'", "{at}"),
    ("Triton", "{at}/v1/models/fake:predict", USAGE, "cannot be measured at '/v1/models/fake", "{at} fake"),
    ("Triton", "{at}/predictions/fake", USAGE, "cannot be measured at '/predictions/fake'", "{at} fake"),
    ("Triton", "{at}/v1/chat/completions -m fake", USAGE, "cannot be measured at '/v1/chat", "{at} fake"),
    ("Triton", "{at}/v2/models/fake?x=1", USAGE, "ends with the query '?x=1'", ""),
    ("Triton", "{at}/v2/models/fake -m other", USAGE, "contains the model 'fake', but 'other' was requested", ""),
    ("Triton", "{at}/v2/models/nope", PEER, "'nope' is not found", ""),
    ("Triton", "{at} -m nope", PEER, "'nope' is not found", ""),
    ("Triton", "{at} -m fake --service-kind http", USAGE, "has no models (--service-kind http)", ""),
    ("Triton", "{at} -m fake --path /x", USAGE, "has no models (--service-kind http)", ""),
    ("Triton", "{at} -m fake --service-kind openai", USAGE, "the options request an OpenAI-style server", "{at} fake"),
    ("OpenAI", "{at} -m nope", PEER, "the server has no model 'nope'; it has tiny", ""),
    ("OpenAI", "{at}/v1 -m nope", PEER, "the server has no model 'nope'; it has tiny", ""),
    ("OpenAI", "{at}/v1/completions -m tiny --endpoint v1/x", USAGE, "contains the endpoint 'v1/completions'", ""),
    ("a page", "{at} -m fake", PEER, "and does not list its models", "{at}"),
    ("a page", "{at}/page -m fake", PEER, "and does not list its models", "{at}/page"),
    ("a page", "{at}/v2 -m fake", PEER, "and does not list its models: it answers GET /v1/models with", ""),
    ("a page", "https://{at}/page", USAGE, "{at} does not use TLS", "http://{at}/page"),
    ("a page", "{at}/none", PEER, "answers GET /none with status 404", ""),
    ("a locked page", "{at} -m fake", PEER, "it requires authentication; give a key with --api-key-env", ""),
    ("a locked page", "{at}/page", PEER, "it requires authentication; give a key with --api-key-env", ""),
    ("metrics", "{at} -m fake", USAGE, "{at} is a metrics port", "at {below:2}"),
    ("metrics", "{at}/metrics", USAGE, "{at} is a metrics port", "at {below:2}"),
    ("metrics", "{at} -m fake -i grpc", USAGE, "{at} is a metrics port", "at {below:2}"),
    ("metrics", "-u {at} -m fake", USAGE, "{at} is a metrics port", "at {below:2}"),
    ("management", "{at} -m resnet", USAGE, "{at} is TorchServe's management API", "at {below:1}"),
    ("management", "{at} -m resnet --service-kind torchserve --body x", USAGE, "{at} is TorchServe's", "at {below:1}"),
    ("Triton", "{at}/v2/models/fake/stats", USAGE, "cannot be measured at '/v2/models/fake/stats'", "{at} fake"),
    ("Triton", "{at}/v2/models/fake/ready --service-kind triton", USAGE, "cannot be measured at", "{at} fake"),
    ("Triton", "{at} --service-kind triton", USAGE, "requires a model, but none is given", "-m"),
    ("Triton", "fake@{at}", USAGE, "contains a user name or a password", "MODEL"),
    ("Triton with TLS", "grpcs://{at} -m fake -k", USAGE, "but the options request gRPC", "https://{at} fake"),
    ("moved", "{at} -m fake", USAGE, "redirects to http://127.0.0.1:9/there", "http://127.0.0.1:9/there fake"),
    ("moved", "{at}/page", USAGE, "redirects to http://127.0.0.1:9/there", "http://127.0.0.1:9/there"),
    ("moved", "{at} -m fake --service-kind triton", USAGE, "redirects to", "http://127.0.0.1:9/there fake"),
    ("a page of errors", "{at} -m fake --service-kind triton", PEER, "a page 'Not here'; check the address", ""),
    ("a page of errors", "{at} -m fake", PEER, "and does not list its models: it answers GET /v1/models with", ""),
)  # fmt: skip


class Below(str):
    """A port so much below that of the address."""

    def __format__(self, spec: str) -> str:
        host, _, port = self.rpartition(":")
        return f"{host}:{int(port) - int(spec)}"


@pytest.mark.parametrize(
    ("name", "words", "code", "says", "types"), ROWS, ids=[f"{r[0]}: {r[1]}" for r in ROWS]
)
def test_what_is_there_is_named_before_any_load(
    name: str, words: str, code: int, says: str, types: str, run: Callable, peer: Callable
) -> None:
    found = peer(name)
    places = {"at": found.address, "below": Below(found.address)}
    ended = run("inferometer", "measure", *words.format(**places).split(), *SHORT)
    assert ended.code == code, ended.stderr
    assert says.format(**places) in ended.stderr
    if types.startswith(("-", "at ", "MODEL")):
        assert types.format(**places) in ended.stderr
    elif types:
        assert re.search(
            rf"type inferometer measure {re.escape(types.format(**places))}(?=[\s;]|$)", ended.stderr
        )
    assert_harmless(found)


def assert_harmless(found: Peer) -> None:
    """Nothing but a few GETs, and the call for the list of models."""
    assert len(found.sent) < 30
    others = [request.path for request in found.sent if request.method != "GET"]
    assert all(path.endswith("/v2/repository/index") for path in others)


@pytest.mark.parametrize("words", ["{at} -m fake", "{at}/metrics", "{at} -m fake --grpc"])
def test_the_port_beside_that_of_metrics_is_named_if_it_is_the_servers(
    words: str, run: Callable, peer: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, there = peer("metrics").address, peer("Triton").address
    distance = int(at.rpartition(":")[2]) - int(there.rpartition(":")[2])
    monkeypatch.setattr("inferometer.measure.wrong_address._ABOVE", {"metrics": distance})
    ended = run("inferometer", "measure", *words.format(at=at).split(), *SHORT)
    assert ended.code == USAGE
    model = " fake" if "fake" in words else ""
    assert ended.stderr.endswith(f"usually {distance} below: type inferometer measure {there}{model}\n")


def test_a_find_names_its_own_command(run: Callable, peer: Callable) -> None:
    at = peer("TLS").address
    ended = run("inferometer", "find", at, "-m", "fake", "--slo", "p99<50ms")
    assert ended.code == USAGE
    assert f"type inferometer find https://{at} fake --slo 'p99<50ms'" in ended.stderr


def test_pages_are_compared_by_their_addresses_alone(run: Callable, peer: Callable) -> None:
    one, other = peer("a page").address, peer("a page").address
    ended = run("inferometer", "compare", f"http://{one}/page", f"http://{other}/page", *SHORT)
    assert ended.code in (0, 2), ended.stderr
    assert "infer/s" not in ended.stdout + ended.stderr
    assert "looks like" in ended.stderr  # to be known, and no note of the report
    assert "looks like" not in ended.stdout
    refused = run("inferometer", "compare", f"http://{one}/page", f"http://{other}/page", "fake", *SHORT)
    assert refused.code == PEER
    assert f"{one} looks like an HTTP server of unknown kind and does not list its models" in refused.stderr


def test_a_comparison_names_the_variant_to_write(run: Callable, peer: Callable) -> None:
    at, secured = peer("Triton").address, peer("TLS").address
    ended = run("inferometer", "compare", at, secured, "fake", *SHORT)
    assert f"{secured} is a port with TLS; write fake@https://{secured}" in ended.stderr


DOTTED = (
    # what is typed, what shows that the name with dots was taken for the model
    ("measure net.v1.5 {at} --dry-run", "POST /v2/models/net.v1.5/infer"),
    ("find {at} net.v1.5 --slo p99<1s --dry-run", "POST /v2/models/net.v1.5/infer"),
    ("compare {at} net.v1.5 net.v1.5 --dry-run", "POST /v2/models/net.v1.5/infer"),
    ("compare net.v1.5 net.v1.5 --url {at} --dry-run", "POST /v2/models/net.v1.5/infer"),
    ("compare {at} {at} net.v1.5 --dry-run", "POST /v2/models/net.v1.5/infer"),
    ("tune {at} net.v1.5", "the server at {at} does not answer"),
    ("tune {at}/v2/models/net.v1.5", "the server at {at} does not answer"),
    (
        "measure net.v1.5.invalid",
        "if that is the model, write the address first: localhost:8000 net.v1.5.invalid",
    ),
)


@pytest.mark.parametrize(("words", "shown"), DOTTED, ids=[words for words, _ in DOTTED])
def test_a_model_may_have_dots_in_its_name(words: str, shown: str, run: Callable) -> None:
    with FakeTriton(model=FakeModel("net.v1.5")) as server:
        at = server.server.address
        ended = run("inferometer", *words.format(at=at).split())
    assert shown.format(at=at) in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("metrics", "{at} is a metrics port"),
        ("OpenAI", "only Triton models can be tuned; measure it as it is: inferometer measure {at} tiny"),
        ("a page", "does not list its models: it answers GET /v1/models with status 404; check"),
    ],
)  # fmt: skip
def test_only_triton_is_tuned(name: str, says: str, run: Callable, peer: Callable) -> None:
    at = peer(name).address
    ended = run("inferometer", "tune", at, "tiny")
    assert ended.code in (USAGE, PEER)
    assert says.format(at=at) in ended.stderr


# --- what is understood

READ = (
    ("Triton", "{at}/v2/models/fake", "'{at}/v2/models/fake' is interpreted as {at}, model 'fake'."),
    ("Triton", "{at}/v2/models/fake/infer", "is interpreted as {at}, model 'fake'."),
    ("Triton", "{at}/v2/models/fake/versions/1/infer", "is interpreted as {at}, model 'fake', version '1'."),
    ("Triton", "{at}/v2/ -m fake", "is interpreted as {at}."),
    ("Triton", "{at}/v2/models/fake --service-kind triton", "is interpreted as {at}, model 'fake'."),
    ("gRPC", "{at}/v2/models/fake --service-kind triton --grpc", "is interpreted as {at}, model 'fake'."),
    ("Triton", "-u {at}/v2 -m fake", "is interpreted as {at}."),
    ("Triton", "http://{at} -m fake", "{at} looks like Triton over HTTP"),
    ("gRPC", "{at}/v2/models/fake", "is interpreted as {at}, model 'fake'."),
    (
        "gRPC",
        "grpc://{at} -m fake",
        "{at} looks like Triton over gRPC, model 'fake' (--service-kind triton --grpc).",
    ),
    (
        "gRPC",
        "{at} -m fake",
        "{at} looks like Triton over gRPC, model 'fake' (--service-kind triton --grpc).",
    ),
    ("OpenAI", "{at}/v1", "is interpreted as {at}."),
    ("OpenAI", "{at}/v1/chat/completions", "is interpreted as {at}, endpoint 'v1/chat/completions'."),
    ("OpenAI", "{at}/v1/completions -m tiny", "is interpreted as {at}, endpoint 'v1/completions'."),
    ("OpenAI", "{at}/v1/models/tiny", "is interpreted as {at}, model 'tiny'."),
    ("a page", "{at}/page", "{at} looks like an HTTP server of unknown kind (--service-kind http)."),
)


@pytest.mark.parametrize(("name", "words", "says"), READ, ids=[f"{row[0]}: {row[1]}" for row in READ])
def test_what_is_understood_is_said(name: str, words: str, says: str, run: Callable, peer: Callable) -> None:
    at = peer(name).address
    ended = run("inferometer", "measure", *words.format(at=at).split(), *SHORT)
    assert ended.code == 0, ended.stderr
    assert says.format(at=at) in ended.stderr


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_tls_is_spoken_by_its_scheme(scheme: str, run: Callable, certificate: Callable) -> None:
    authority, context = certificate("peer")
    made: Any = FakeTriton(tls=context) if scheme == "https" else FakeGrpcTriton(tls=context)
    with made:
        address = f"{scheme}://{made.server.address}"
        ended = run("inferometer", "measure", address, "-m", "fake", "--cacert", authority, *SHORT)
    assert ended.code == 0, ended.stderr


def test_the_page_is_requested_to_the_letter(run: Callable) -> None:
    with ScriptedServer(lambda request: answer(b"hello")) as server:
        ended = run("inferometer", "measure", f"http://{server.address}/a/b/?x=1&y=%20", *SHORT)
    assert ended.code == 0, ended.stderr
    assert {request.path for request in server.requests[-3:]} == {"/a/b/?x=1&y=%20"}
    assert "requests/s" in ended.stdout
    assert "infer/s" not in ended.stdout


def test_a_request_of_ones_own_goes_to_any_server(run: Callable) -> None:
    with FakeTriton() as fake_triton:
        at = fake_triton.server.address
        ended = run("inferometer", "measure", f"{at}/v2/models/fake/infer", "--body", "{}", *SHORT)
    assert ended.code == 0, ended.stderr
    assert f"{at} looks like Triton over HTTP and receives the given request" in ended.stderr
    assert {request.body for request in fake_triton.inferences} == {b"{}"}


def test_a_model_that_a_plain_kserve_server_does_not_list_is_an_error(run: Callable) -> None:
    """It describes any model, and lists one."""

    def control(request: Request) -> Act | None:
        if request.path == "/v2/repository/index":
            return answer_json([{"name": "other", "state": "READY"}])
        if request.path == "/v2":
            return answer_json({"name": "mlserver", "version": "1", "extensions": []})
        return answer(status=404) if request.path.endswith("/config") else None

    with FakeTriton(control=control, model=FakeModel("fake")) as fake_triton:
        ended = run("inferometer", "measure", fake_triton.server.address, "-m", "fake", *SHORT)
        assert fake_triton.inferences == []
    assert ended.code == PEER
    assert "the server has no model 'fake'; it has other" in ended.stderr


def test_headers_are_not_sent_in_plain_text_where_tls_was_asked_for(run: Callable, peer: Callable) -> None:
    found = peer("Triton")
    ended = run("inferometer", "measure", f"https://{found.address}", "-m", "fake", "-H", "X-Key:secret")
    assert ended.code == USAGE
    assert found.sent
    assert all(request.header("X-Key") is None for request in found.sent)


# --- whatever is there, however it is written

SCHEMES = ("", "http://", "https://", "grpc://", "grpcs://", "ftp://", "HTTP://")
PATHS = (
    "",
    "/",
    "/v2",
    "/v2/models/fake",
    "/v1",
    "/v1/chat/completions",
    "/metrics",
    "/é",
    "//",
    "/a?b=c",
    "#x",
    "/%",
)
WORDS = ("", "-m fake", "-m nope", "-i grpc", "-i http -m fake", "--service-kind triton -m fake")


@pytest.mark.sampled
def test_any_address_gives_the_truth_or_an_error(run: Callable, certificate: Callable) -> None:
    @settings(max_examples=sample(15, 200), deadline=None)
    @given(*map(st.sampled_from, (sorted(PEERS), SCHEMES, PATHS, WORDS)))
    def holds(name: str, scheme: str, path: str, words: str) -> None:
        with PEERS[name](certificate("peer")[1]) as found:
            url = f"{scheme}{found.address}{path}"
            ended = run("inferometer", "measure", url, *words.split(), "--request-count", "3")
        assert "Traceback" not in ended.stderr
        if ended.code == 0:
            assert "nope" not in words
            assert name in ("Triton", "gRPC", "OpenAI", "a page")
            has_answer = "infer/s" in ended.stdout or "tokens/s" in ended.stdout
            assert has_answer == (name != "a page")
            return
        if ended.code == FAILED:  # its path says what it is, and no request ended well
            assert path == "/v1/chat/completions"
            assert "Every request failed" in ended.stdout
            return
        assert ended.code in (USAGE, PEER)
        assert_harmless(found)
        (said,) = ended.stderr.strip().splitlines()
        for command in re.findall(r"type (inferometer measure [^;]+)", said):
            assert read_address(shlex.split(command)[2]).host == "127.0.0.1"

    holds()
