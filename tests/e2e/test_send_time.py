"""A request counts as being sent for as long as the socket would not take it, and no longer."""

import socket
import threading

from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.load.plan import Closed
from inferometer.load.workers import Workers
from inferometer.records.records import Records, join
from inferometer.services.endpoint import Endpoint
from inferometer.services.traffic import Traffic, Wiring

LARGE = 64 * 1024 * 1024


def records_of(port: int, request: bytes) -> Records:
    with Workers(Traffic(Wiring(Endpoint("127.0.0.1", port)), (request,))) as workers:
        workers.apply(Closed(1, count=1))
        parts = []
        while True:
            collected = workers.collect(monotonic_ns() + NS_PER_S)
            parts.append(collected.records)
            if collected.is_finished:
                return join(parts)


def test_a_large_request_is_sent_when_the_socket_has_taken_all_of_it() -> None:
    times: list[int] = []  # when the server had read half, and all

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            left = LARGE
            while left:
                left -= len(connection.recv(min(left, 65536)))
                if not times and left < LARGE // 2:
                    times.append(monotonic_ns())
            times.append(monotonic_ns())
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # so that it must be read to be taken
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        found = records_of(listener.getsockname()[1], bytes(LARGE))
        server.join()
    half_ns, all_ns = times
    assert found.status.tolist() == [0]
    assert half_ns < found.wrote_ns[0] <= found.first_ns[0] <= found.end_ns[0]
    assert found.sent_ns[0] < half_ns < all_ns < found.end_ns[0]
