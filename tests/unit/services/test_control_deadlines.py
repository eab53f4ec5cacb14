"""Control calls end by their deadline, whatever the peer sends; each would otherwise last for minutes."""

import contextlib
import socket
import threading

import pytest

from inferometer.base.deadline import INTERRUPT, End, ending, within
from inferometer.base.errors import PeerError
from inferometer.base.units import monotonic_ns
from inferometer.measure.address import connection_to
from inferometer.observe.poller import MetricsEndpoint
from inferometer.options.options import Options, Tls
from inferometer.services import timed_socket
from inferometer.services.detect import look
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.http_control import HttpControl
from inferometer.services.openai import OpenAi
from inferometer.services.triton_grpc import TritonGrpc
from inferometer.services.triton_http import TritonHttp
from inferometer.wire.frames import PING, frame
from tests.support.servers import ScriptedServer, Wire, drip, never

SHORT_S = 0.2


@pytest.fixture
def peer():
    """Connect to a server that handles every request like this."""
    with ScriptedServer(lambda request: acts[-1]) as server:
        acts = [never]

        def connection(act, **more) -> Connection:
            acts.append(act)
            host, _, port = server.address.partition(":")
            return Connection(Endpoint(host, int(port), **more), timeout_s=SHORT_S)

        yield connection


DRIPS = {
    "nothing at all": never,
    "the status line": drip(b"HTTP/1.1 200 O"),
    "headers": drip(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "interim replies": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body of known length": drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"),
    "a body until the end": drip(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
    "chunks": drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
}


@pytest.mark.parametrize("name", DRIPS)
def test_a_slow_reply_is_abandoned_with_its_address_and_the_deadline(peer, name):
    connection = peer(DRIPS[name])
    with pytest.raises(
        PeerError, match=rf"{connection.endpoint}/v2 did not send a complete reply within 0.2 s"
    ):
        HttpControl(connection).exchange("GET", "/v2")


CALLS = {
    "server": lambda service: service.server(),
    "metadata": lambda service: service.metadata("m", ""),
    "config": lambda service: service.config("m", ""),
    "index": lambda service: service.index(),
    "load": lambda service: service.load_model("m"),
    "unload": lambda service: service.unload_model("m"),
    "trace settings": lambda service: service.trace_settings(),
}
KINDS = {
    "http": (TritonHttp, drip(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")),
    "grpc": (TritonGrpc, drip(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00", frame(PING, 0, 0, bytes(8)))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_every_call_to_a_triton_has_a_deadline_and_ends_with_the_work_around_it(kind, name):
    """Loading may take minutes, unless the run has to end."""
    make, act = KINDS[kind]
    with _Bytes(act) as address:
        service = make(Connection(address, timeout_s=SHORT_S))
        end = End("the budget of 25 s was spent", monotonic_ns())
        with (
            ending(end, last_s=SHORT_S),
            pytest.raises(PeerError, match=f":{address.port}/.*(within 0.2 s|before the b)"),
        ):
            CALLS[name](service)


class _Bytes:
    """Server that does this with every connection without reading it, for peers that do not speak HTTP/1.1."""

    def __init__(self, act) -> None:
        self._act = act
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Endpoint:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._begin(self._accept)
        return Endpoint("127.0.0.1", self._listener.getsockname()[1])

    def _begin(self, work, *arguments) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                self._begin(self._serve, self._listener.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            self._act(Wire(connection, self._ended))

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


def test_slow_metrics_are_abandoned(peer):
    connection = peer(drip(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"# HELP x\n"), prefix="/metrics")
    with pytest.raises(PeerError, match=r"/metrics did not send a complete reply within 0\.2 s"):
        MetricsEndpoint(connection, clock=monotonic_ns).look()


def test_a_server_that_lists_its_models_too_slowly_is_abandoned(peer):
    with pytest.raises(PeerError, match="/v1/models did not send a complete reply"):
        OpenAi(peer(DRIPS["headers"]), Options(service_kind="openai")).models()


def test_a_slow_address_is_probed_once(peer):
    with pytest.raises(PeerError, match=r"did not answer a GET completely within 0\.2 s"):
        look(peer(DRIPS["headers"]))


def test_a_slow_handshake_is_abandoned():
    """The peer accepts the connection and sends pieces of a record that never ends."""
    with (
        _Bytes(drip(b"\x16\x03\x03\x40\x00", b"\x02")) as address,
        pytest.raises(PeerError, match=r"did not send a complete reply within 0\.2 s"),
    ):
        HttpControl(Connection(address._replace(tls=Tls()), timeout_s=SHORT_S)).exchange("GET", "/v2")


def test_a_name_that_does_not_resolve_is_abandoned(monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(timed_socket, "_looked_up", lambda *_: over.wait(60) or [])
    with pytest.raises(
        PeerError, match=r"http://slow\.example:8000/v2 did not send a complete reply within 0\.2 s"
    ):
        HttpControl(Connection(Endpoint("slow.example", 8000), timeout_s=SHORT_S)).exchange("GET", "/v2")
    over.set()


def test_an_interrupt_ends_a_load_that_never_answers(peer, monkeypatch):
    monkeypatch.setattr(INTERRUPT, "at_ns", monotonic_ns())
    with ending(last_s=SHORT_S), pytest.raises(PeerError, match="before the command was interrupted"):
        TritonHttp(peer(never)).load_model("m")


def test_several_calls_may_share_one_deadline(peer):
    service = TritonHttp(peer(never)._replace(timeout_s=60))
    with within(SHORT_S):
        for _ in range(3):
            with pytest.raises(PeerError, match=r"before 0.2 s had passed"):
                service.server()


@pytest.mark.parametrize(
    ("asked_s", "control_s"),
    [(0, 20), (2, 2), (0.01, 1), (300, 20)],
    ids=["no limit", "short", "shorter than sense", "long"],
)
def test_a_control_call_takes_no_longer_than_a_request_may(asked_s, control_s):
    assert connection_to(Options(url="localhost:8000", request_timeout_s=asked_s)).timeout_s == control_s
