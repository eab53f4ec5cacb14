"""The path to the server as a worker sees it: how long each connection took to open, and its first requests."""

from typing import NamedTuple

MOST_OPENINGS = 20_000  # kept; later ones are only counted


class Opening(NamedTuple):
    """How a connection was opened. Times are `time.monotonic_ns`."""

    started_ns: int  # attempt at the address that answered
    connected_ns: int  # TCP handshake complete
    opened_ns: int  # TLS handshake complete; without TLS the same moment
    rtt_us: int = 0  # round trip of the TCP handshake by the kernel's clock; 0 if unknown
    has_tls: bool = False

    @property
    def connect_ns(self) -> int:
        return self.connected_ns - self.started_ns

    @property
    def tls_ns(self) -> int:
        return self.opened_ns - self.connected_ns


class PathReport(NamedTuple):
    """Observations of a worker since its last report."""

    resolve_ns: int = 0  # time to resolve the host name, once per worker
    openings: tuple[Opening, ...] = ()
    firsts: tuple[tuple[int, Opening], ...] = ()  # send time of the first request on a connection
