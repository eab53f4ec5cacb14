"""Outlives a run that is killed, or left at once, and forgets its region for it.

    owner ---- starts, tells the region ----> guard ---- reads until the owner is gone ----> unregisters

The owner holds the only other end of the guard's standard input. A run that ends in order has cleaned up itself
and ends its guard.
"""

import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from inferometer.base.errors import InferometerError

if TYPE_CHECKING:
    from inferometer.target.shared_memory import Registry


@contextmanager
def guarded(registry: "Registry", kind: str, region: str) -> Iterator[None]:
    """While this is open, somebody else would clean up after us."""
    guard = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # what ends our whole group must not end the guard
    )
    assert guard.stdin is not None
    try:
        guard.stdin.write(pickle.dumps((registry, kind, region)))
        guard.stdin.flush()
        yield
    finally:
        guard.kill()
        guard.wait()
        guard.stdin.close()


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    told = sys.stdin.buffer.read()  # ends when the owner is gone
    from inferometer.target.shared_memory import remove_file

    registry, kind, region = pickle.loads(told)
    remove_file(region)
    with suppress(InferometerError):
        registry.unregister_memory(kind, region)


if __name__ == "__main__":
    main()
