"""Status of a finished request, as one integer: 0 is success, WITHDRAWN and TASK_END are neutral, all others are
failures by kind."""

OK = 0
CONNECT = 1
TLS = 2
RESET = 3
TIMEOUT = 4
MALFORMED = 5
MISMATCH = 6
CANCELLED = 7
REFUSED = 8  # a successful status with an error in the reply
WITHDRAWN = 9  # cancelled by the client on request: --cancel-after
VISIT = 10  # a visit failed in its own code, or in a value that it took from an answer
OTHER = 11  # a failure in another tool's file that is none of these
WRONG = (
    12  # a successful answer that a check rejects; only the key of its example, never the status of a request
)
TASK_END = 13  # end of a task written in Python; not a request
HTTP = 1000  # HTTP + 503 is a reply with status 503
GRPC = 2000  # GRPC + 14 is a call that ended with UNAVAILABLE

UNCHECKED, RIGHT, FALSE = 0, 1, 2
"""Verdict of --check on an answer."""

NEUTRAL = (OK, WITHDRAWN, TASK_END)
"""Statuses that are not failures."""

NO_ANSWER = (CONNECT, TLS, RESET, TIMEOUT, CANCELLED)
"""Statuses of requests that the server did not answer."""

NOT_SENT = (CONNECT, TLS)
"""Statuses of requests that never had a connection."""

GRPC_CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
    "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
"""Names of the gRPC status codes, in numerical order."""

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
    OTHER: "other",
    WRONG: "wrong answer",
}


def kind(status: int) -> str:
    """Return the name of a status for reports."""
    if status >= GRPC:
        return f"grpc {GRPC_CODES[status - GRPC]}"
    if status >= HTTP:
        return f"http {status - HTTP}"
    return _KINDS[status]
