"""A loop that only waits for the timer during a measurement, to show how late this machine wakes processes.

Started as `python -m inferometer.selftest.bare_loop`. It answers each line on stdin with the lags since the last one,
and ends with its stdin. It waits as a worker does, a few hundred times a second, which takes about one per cent of a
core.
"""

import contextlib
import json
import os
import signal
from array import array

from inferometer.base.units import NS_PER_MS, monotonic_ns
from inferometer.load.reactor import READ, SocketReactor

PERIOD_NS = 4 * NS_PER_MS
STDIN = 0


class _BareLoop:
    def __init__(self) -> None:
        self._lags_ns = array("q")
        self._is_over = False
        self._reactor = SocketReactor(monotonic_ns)
        self._reactor.add(STDIN, READ, self._asked)

    def run(self) -> None:
        due = monotonic_ns()
        while not self._is_over:
            due += PERIOD_NS
            while monotonic_ns() < due and not self._is_over:
                self._reactor.wait(due)
            now = monotonic_ns()
            self._lags_ns.append(now - due)
            due = max(due, now - PERIOD_NS)  # do not catch up after a long sleep

    def _asked(self, mask: int) -> None:
        if not os.read(STDIN, 4096):
            self._is_over = True
            return
        print(json.dumps({"lags_ns": self._lags_ns.tolist()}), flush=True)
        del self._lags_ns[:]


def main() -> None:
    # Sent by a terminal to the whole group; stdin shows the end.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print("{}", flush=True)
    _BareLoop().run()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
