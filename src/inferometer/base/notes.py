"""Every warning the tool can give, each with its advice."""

import re
from enum import Enum

from inferometer.base.frozen import frozen


class Note(Enum):
    """A condition that affects a result, with advice for the user.

    Options are written as `{--workers}` or `{--workers:auto}`, for `options.names.with_names`."""

    OVERLOADED = "the server answers fewer requests than it receives: lower the rate"
    NOT_OFFERED = (
        "fewer requests were sent than requested: raise {--max-outstanding}, or run more sequences in parallel with "
        "{--num-of-sequences}"
    )
    CLIENT_LIMITED = "add worker processes with {--workers:auto}, or run the tool on another machine"
    CLIENT_STARVED = (
        "more workers will not help: stop other programs, keep {--workers} below the number of cores, or run the "
        "tool on a dedicated machine"
    )
    NOT_STABLE = "measure longer: raise {--measurement-interval} or {--max-trials}"
    NOT_PRECISE = "measure longer with {--duration} or {-n}, or relax {--precision}"
    INTERRUPTED = "the run was stopped early; the report covers the time until then"
    TIME_LIMIT = "the report covers the time until then: raise {--time-limit}, or measure fewer levels"
    SERVER_GONE = "check that the server is still running, and check its log"
    SERVER_ENDED = "check its log for the reason, restart it, and repeat the measurement"
    HOST_BUSY = "the figures reflect a busy machine: measure again when the other programs have finished"
    NO_ANSWER = (
        "the server accepts requests but does not answer them: check its log; if an answer may take longer, "
        "set {--timeout}"
    )
    OTHER_CLIENTS = (
        "the server's figures include requests from other clients: measure when nobody else uses the model"
    )
    NOT_COUNTED = (
        "the server's figures cover only some of the requests: a proxy may answer them or spread them over several "
        "servers"
    )
    FAILURES = "see the failure groups; {--max-error-rate} sets the acceptable share"
    NO_REPLY = "answers take longer than the measurement: raise {--duration} or {--measurement-interval}"
    NO_RESPONSE = "they ended without a response and are excluded from all figures; check the input data"
    EMPTY_ANSWERS = (
        "they have no first token and count as violating every TTFT limit: check the prompts, the stop words and the "
        "server's log"
    )
    WRONG_ANSWERS = (
        "throughput includes them: check the server's log and its batching, cache and precision at this load"
    )
    NOT_STREAMED = (
        "the time to the first token is unknown; {--no-streaming} requests whole answers from the start"
    )
    ENDED_REASONING = (
        "they ended before the answer itself: raise {--output-tokens}, or make the model reason less"
    )
    MEMBER_NOT_CALLED = (
        "no request reached this model during the measurement; check the name in {--bls-composing-models}"
    )
    SEVERAL_VERSIONS = (
        "its figures may include other versions; name one in {--bls-composing-models}, such as model:2"
    )
    STATISTICS_MISSING = (
        "server-side times are unknown: only client figures are reported, and `twin fit` cannot use this run"
    )
    WORKER_LOST = "a worker process died; the results it had reported until then are kept"
    CUT_OFF = "they are excluded from all figures; a longer last window would have seen them end"
    SUMMARY_ONLY = "use a file with individual requests, if the tool writes one"
    METRICS_MISSING = "server metrics come from the remaining polls; see {--metrics-url}"
    METRICS_SLOW = "set a larger {--metrics-interval}"
    NUMPY_TOO_NEW = "install an older one: pip install 'numpy<2'"
    WRONG_KIND = (
        "every request failed, and the server seems to be of a different kind than {--service-kind} says"
    )
    FEW_PORTS = (
        "connections are opened faster than the system frees their ports: find out why the server closes them, "
        "or widen net.ipv4.ip_local_port_range"
    )
    STOLEN = "measure again when the host of this virtual machine is less busy, or use a dedicated machine"
    CLIENT_LOST = "the results it delivered until then are included; check its machine"
    FEWER_CLIENTS = "the load was as requested, but from fewer machines; check the missing one"
    CLIENT_BUSY = "give each client more worker processes with {--workers}, or use more {--clients}"
    CLIENT_FAR = (
        "the clients are at different network distances from the server: see the figures of each client"
    )
    CLIENT_CLOCK = (
        "due times agree between clients only to this precision: use clients closer to this machine"
    )
    COMMAND_FAILED = "run the command of the phase by itself to see its error"
    FEW_FILES = "raise the hard limit of open files (ulimit -Hn), or spread the load with {--workers}"

    @property
    def advice(self) -> str:
        """The advice with options as on the command line."""
        return re.sub(
            r"\{(--?[a-z-]+):?(\w*)\}", lambda found: " ".join(filter(None, found.groups())), self.value
        )

    # Files store the name of a note, so its advice can be reworded.

    @classmethod
    def _missing_(cls, value: object) -> "Note | None":
        return cls.__members__.get(str(value))

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: object) -> dict[str, object]:
        return {"type": "string", "enum": list(cls.__members__)}


CLIENT_LIMITS = (Note.CLIENT_LIMITED, Note.CLIENT_STARVED)
"""Notes that say the level shows the capacity of this client rather than of the server."""


@frozen
class Remark:
    """One note about one result, with the figures that caused it."""

    note: Note
    text: str
