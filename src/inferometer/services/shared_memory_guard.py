"""Sees to it that the server forgets a region, even if the run that registered it is killed or left at once.

    owner ---- starts, tells the region ----> guard ---- reads until the owner is gone ----> unregisters

The owner holds the only other end of the guard's standard input. A run that ends in order unregisters by itself
and ends its guard. But Triton (2.50 and later) keeps a region as long as a request uses it, and requests that were
cut off run on at the server: what cannot be forgotten soon is left to the guard, which has more patience.
"""

import pickle
import signal
import subprocess
import sys
import time
from typing import Protocol

from inferometer.base.clock import monotonic_ns
from inferometer.base.errors import PeerError
from inferometer.base.units import NS_PER_S

OWNER_PATIENCE_S = 2.0
GUARD_PATIENCE_S = 600.0
_PAUSE_S = 0.05


class Unregister(Protocol):
    """A server's call to forget a region."""

    def unregister_memory(self, kind: str, region: str) -> None: ...


class Guard:
    """While this is open, somebody else would clean up after us."""

    def __init__(self, registry: Unregister, kind: str, region: str) -> None:
        self._told = (registry, kind, region)
        self._is_needed = False

    def __enter__(self) -> "Guard":
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what ends our whole group must not end the guard
        )
        assert self._process.stdin is not None
        self._process.stdin.write(pickle.dumps(self._told))
        self._process.stdin.flush()
        return self

    def forget(self) -> None:
        """Unregister the region, or leave that to the guard."""
        self._is_needed = not _is_forgotten(*self._told, OWNER_PATIENCE_S)

    def __exit__(self, *_: object) -> None:
        if not self._is_needed:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


def _is_forgotten(registry: Unregister, kind: str, region: str, patience_s: float) -> bool:
    """Tries until the server agrees. Never raises: the error that brought us here matters more."""
    end_ns = monotonic_ns() + round(patience_s * NS_PER_S)
    while True:
        try:
            registry.unregister_memory(kind, region)
        except PeerError as error:
            if isinstance(error.__cause__, OSError):  # a server that is gone has forgotten the region
                return True
            if monotonic_ns() >= end_ns:
                return False
        else:
            return True
        time.sleep(_PAUSE_S)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    told = sys.stdin.buffer.read()  # ends when the owner is gone
    from inferometer.services.shared_memory import remove_file

    registry, kind, region = pickle.loads(told)
    remove_file(region)
    _is_forgotten(registry, kind, region, GUARD_PATIENCE_S)


if __name__ == "__main__":
    main()
