"""What the workers need to put load on a server: an address and the requests, rendered to bytes once."""

from dataclasses import dataclass

from inferometer.target.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Traffic:
    """`requests[n]` is the whole request of step n, head and body, ready for the socket."""

    endpoint: Endpoint
    requests: tuple[bytes, ...]
