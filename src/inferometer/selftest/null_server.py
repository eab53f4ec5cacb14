"""A server that answers as fast as Python can, with a constant reply; or stalls, or fails, by a known pattern.

Started as `python -m inferometer.selftest.null_server BEHAVIOUR`. It writes its port to stdout, answers each line on
stdin with a report, and ends with its stdin.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time

from inferometer.base.clock import monotonic_ns
from inferometer.base.units import NS_PER_S
from inferometer.selftest.behaviour import Behaviour, Stall, from_json
from inferometer.selftest.null_wire import BROKEN_OFF, Book, NullGrpc, NullHttp, Peer

BUFFER = 1024 * 1024
BACKLOG = 4096  # while the server is frozen, connections wait here
STDIN = 0


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; our stdin tells us
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    _say({"port": listener.getsockname()[1]})
    gc.freeze()
    gc.disable()
    _Server(listener, from_json(sys.argv[1])).run()


def _say(document: object) -> None:
    print(json.dumps(document), flush=True)


class _Server:
    """One epoll loop. Sockets block: there is always something to read when we do, and replies are small."""

    def __init__(self, listener: socket.socket, behaviour: Behaviour) -> None:
        self._listener = listener
        self._behaviour = behaviour
        self._book = Book(keeps_arrivals=behaviour.keeps_arrivals)
        self._buffer = bytearray(BUFFER)
        self._connections: dict[int, tuple[socket.socket, Peer]] = {}
        self._late_ns = 0
        self._epoll = select.epoll()
        for fd in (listener.fileno(), STDIN):
            self._epoll.register(fd, select.EPOLLIN)

    def run(self) -> None:
        stall = self._behaviour.stall
        while True:
            for fd, _ in self._epoll.poll():
                if stall is not None:
                    self._late_ns = max(self._late_ns, _freeze(stall))
                if fd in self._connections:
                    self._serve(fd)
                elif fd == STDIN:
                    if not os.read(STDIN, 4096):
                        return
                    self._report()
                else:
                    self._accept()

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = self._peer()
        self._connections[sock.fileno()] = (sock, peer)
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        if peer.greeting:
            sock.sendall(peer.greeting)

    def _peer(self) -> Peer:
        if self._behaviour.protocol == "grpc":
            return NullGrpc(self._book)
        return NullHttp(self._book, is_failing=self._behaviour.is_failing)

    def _serve(self, fd: int) -> None:
        sock, peer = self._connections[fd]
        try:
            length = sock.recv_into(self._buffer)
            replies = peer.receive(self._buffer, length) if length else []
            if replies:
                sock.sendall(replies[0] if len(replies) == 1 else b"".join(replies))
        except OSError:  # the client has gone
            length, replies = 0, []
        if not length:
            self._drop(fd)
        elif replies and replies[-1] is BROKEN_OFF:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with RST
            self._drop(fd)

    def _drop(self, fd: int) -> None:
        sock, _ = self._connections.pop(fd)
        self._epoll.unregister(fd)
        sock.close()

    def _report(self) -> None:
        _say(
            {
                "now_ns": monotonic_ns(),
                "cpu_ns": time.process_time_ns(),
                "requests": self._book.requests,
                "late_ns": self._late_ns,
                "arrivals_ns": self._book.take_arrivals(),
            }
        )


def _freeze(stall: Stall) -> int:
    """Wait until the pattern lets us go on; how much longer this machine made us wait."""
    now = monotonic_ns()
    until = stall.thawed_ns(now)
    if until == now:
        return 0
    time.sleep((until - now) / NS_PER_S)
    return monotonic_ns() - until


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # who started us has gone
        main()
