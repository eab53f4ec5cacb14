"""What the workers need to put load on a server: how to reach it, and the requests, rendered to bytes once."""

from dataclasses import dataclass, replace

from inferometer.model.tensor import Tensor
from inferometer.target.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Wiring:
    """How requests travel."""

    endpoint: Endpoint
    protocol: str = "http"  # or grpc
    connections: int = 0  # 0 leaves the number to the link
    block: bytes = b""  # gRPC: the header block of every call
    is_streaming: bool = False  # gRPC: one stream per slot, all its requests on it
    compression: str | None = None  # gRPC: gzip or deflate

    def share(self, index: int, parts: int) -> "Wiring":
        """What worker `index` has of it: its part of the connections, but at least one."""
        if not self.connections:
            return self
        own = self.connections // parts + (index < self.connections % parts)
        return replace(self, connections=max(1, own))


@dataclass(frozen=True, slots=True)
class Validation:
    """What each step's reply must hold, how far floats may be off, and which share of the replies is looked at."""

    expected: tuple[tuple[Tensor, ...], ...]
    tolerance: float = 0.0  # absolute
    relative: float = 0.0  # of the expected value
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """`requests[n]` of step n: over HTTP head and body, over gRPC the message."""

    wiring: Wiring
    requests: tuple[bytes, ...]
    validation: Validation | None = None
