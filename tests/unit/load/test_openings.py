"""How connections open: each delay that is planted on the way is found in its own phase."""

import socket
from contextlib import ExitStack

from inferometer.load import connection
from inferometer.load.http1 import Http1Link
from inferometer.load.link import Callbacks, LinkSetup
from inferometer.load.reactor import SocketReactor
from inferometer.options.options import Tls
from inferometer.services.endpoint import Endpoint
from inferometer.services.traffic import Wiring
from tests.support.certificates import write_certificate
from tests.support.clock import FakeClock
from tests.support.servers import ScriptedServer, answer

MS = 1_000_000
STEP_NS = 5 * MS  # each way
REQUEST = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"


class SlowReactor(SocketReactor):
    """Events arrive 5 ms each way later on a clock of its own, as behind a slow path."""

    def __init__(self, clock):
        super().__init__(clock)
        self._fake = clock

    def wait(self, until_ns=None):
        self._fake.now_ns += 2 * STEP_NS
        super().wait(None)


def sent_once(server, tls=None, *, prepares=False):
    """Send two requests on one connection; return the link and the ends of both."""
    clock, ended = FakeClock(), []
    host, port = server.address.rsplit(":", 1)
    reactor = SlowReactor(clock)
    wiring = Wiring(Endpoint(host, int(port), tls=tls))
    setup = LinkSetup(wiring, [REQUEST], None, reactor, clock)

    def next_step(slot, sent_ns, wrote_ns, now_ns, received):
        ended.append((sent_ns, now_ns))
        return -1, 0

    def finish(slot, status, sent_ns, wrote_ns, first_ns, end_ns, *more):
        assert not status, status
        ended.append((sent_ns, end_ns))

    link = Http1Link(setup, Callbacks(finish, next_step, lambda status, text: None))
    if prepares:
        link.prepare(1)
        while link.opening:
            reactor.wait()
    for number in range(2):
        link.send(0, 0, clock(), None)
        while len(ended) <= number:
            reactor.wait()
    link.close(0)
    return link, ended


def test_delays_are_named_without_tls(monkeypatch):
    monkeypatch.setattr(connection, "handshake_rtt_us", lambda sock: 10_000)
    with ScriptedServer(lambda request: answer(b"ok")) as server:
        link, ended = sent_once(server)
    (opening,) = link.openings
    assert (opening.connect_ns, opening.tls_ns, opening.has_tls) == (2 * STEP_NS, 0, False)
    assert opening.rtt_us == 10_000
    assert link.firsts == [(ended[0][0], opening)]  # only the first of the two requests
    assert [end - sent for sent, end in ended] == [2 * STEP_NS] * 2
    report = link.take_path()
    assert (len(report.openings), len(report.firsts)) == (1, 1)
    assert link.take_path() == (link.resolve_ns, (), ())


def test_the_delay_of_a_tls_handshake_is_not_that_of_the_connect(tmp_path):
    authority, context = write_certificate(tmp_path, "server")
    with ScriptedServer(lambda request: answer(b"ok"), tls=context) as server:
        link, _ = sent_once(server, Tls(ca_file=authority))
    (opening,) = link.openings
    assert opening.connect_ns == 2 * STEP_NS
    assert opening.has_tls
    assert (
        opening.tls_ns % (2 * STEP_NS) == 0
    )  # whole flights; none if the server answers before the client looks
    assert opening.opened_ns == opening.connected_ns + opening.tls_ns


def test_a_connection_opened_in_advance_has_its_first_request_later():
    with ScriptedServer(lambda request: answer(b"ok")) as server:
        link, ended = sent_once(server, prepares=True)
    ((sent_ns, opening),) = link.firsts
    assert sent_ns == ended[0][0]
    assert opening.opened_ns <= sent_ns


def test_the_kernel_knows_the_round_trip_of_a_handshake():
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:
        client = stack.enter_context(socket.create_connection(server.getsockname()))
        assert connection.handshake_rtt_us(client) > 0
    one, other = socket.socketpair()
    with one, other:
        assert connection.handshake_rtt_us(one) == 0
