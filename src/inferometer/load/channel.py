"""Channel between controller and worker over a socket: pickled messages, each preceded by its length.

`multiprocessing` offers such channels, but importing it takes a quarter of a worker's start-up time.
"""

import os
import pickle
import select
from collections.abc import Collection
from struct import Struct
from typing import Any

_LENGTH = Struct("!Q")


class Channel:
    """One end of the channel. Both calls block until the whole message is transferred."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        os.close(self._fd)

    def send(self, message: object) -> None:
        data = pickle.dumps(message)
        unsent = memoryview(_LENGTH.pack(len(data)) + data)
        while unsent:
            unsent = unsent[os.write(self._fd, unsent) :]

    def recv(self) -> Any:
        """Return the next message; raise EOFError when the other end is closed."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return pickle.loads(self._read(length))

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = os.read(self._fd, length - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)


def readable(channels: Collection[Channel], timeout_s: float) -> list[Channel]:
    """Return the channels that become readable or are closed within the time-out."""
    waiting = select.poll()
    for channel in channels:
        waiting.register(channel.fileno(), select.POLLIN)
    ready = {fd for fd, _ in waiting.poll(timeout_s * 1000)}
    return [channel for channel in channels if channel.fileno() in ready]
