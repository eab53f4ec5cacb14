"""How a request ended, as one integer. 0 is good, WITHDRAWN is neither; everything else is a failure with a kind."""

OK = 0
CONNECT = 1
TLS = 2
RESET = 3
TIMEOUT = 4
MALFORMED = 5
MISMATCH = 6
CANCELLED = 7
REFUSED = 8  # the reply has a good status, and an error inside
WITHDRAWN = 9  # cancelled by the client because it was asked to: --cancel-after
VISIT = 10  # of a visit: its own code, or a value that it took from an answer, was wrong
HTTP = 1000  # HTTP + 503 is a reply with status 503
GRPC = 2000  # GRPC + 14 is a call that ended with UNAVAILABLE

NO_ANSWER = (CONNECT, TLS, RESET, TIMEOUT, CANCELLED)
"""Ends of requests that the server did not answer."""

NOT_SENT = (CONNECT, TLS)
"""Ends of requests for which there was never a connection."""

GRPC_CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
    "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
"""The names of the gRPC status codes, in the order of their numbers."""

_KINDS = {
    OK: "ok",
    CONNECT: "connect",
    TLS: "tls",
    RESET: "reset",
    TIMEOUT: "timeout",
    MALFORMED: "malformed",
    MISMATCH: "mismatch",
    CANCELLED: "cancelled",
    REFUSED: "error in the reply",
    WITHDRAWN: "cancelled by the client",
    VISIT: "visit",
}


def kind(status: int) -> str:
    """The name of a status, as reports show it."""
    if status >= GRPC:
        return f"grpc {GRPC_CODES[status - GRPC]}"
    if status >= HTTP:
        return f"http {status - HTTP}"
    return _KINDS[status]
