"""Every warning the tool can give, each with its advice."""

from enum import Enum

from inferometer.base.frozen import frozen


class Note(Enum):
    """What to know about a result, and what to do about it."""

    OVERLOADED = "the server answers fewer requests than are sent: ask for a lower rate"
    NOT_OFFERED = (
        "fewer requests were sent than asked for: allow more outstanding with --max-outstanding, or more sequences "
        "side by side with --num-of-sequences"
    )
    CLIENT_LIMITED = "add worker processes with --workers auto, or run the tool on another machine"
    CLIENT_STARVED = (
        "more worker processes do not help: stop other programs, keep --workers below the number of cores, or run the "
        "tool on a machine of its own"
    )
    NOT_STABLE = "measure longer: raise --measurement-interval or --max-trials"
    NOT_PRECISE = "measure longer with --duration or -n, or ask for less with --precision"
    INTERRUPTED = "the run was stopped early; what was measured until then is reported"
    TIME_LIMIT = "what was measured until then is reported: raise --time-limit, or ask for fewer levels"
    SERVER_GONE = "check that the server still runs, and its log"
    SERVER_ENDED = "its log may say why; start it again and repeat the measurement"
    HOST_BUSY = "the figures are those of a busy machine: measure again when the other programs have ended"
    NO_ANSWER = (
        "the server takes requests and does not answer them: check its log; where an answer may take longer, "
        "say how long with --request-timeout"
    )
    OTHER_CLIENTS = (
        "the server's figures hold requests of others too: measure when nobody else uses the model"
    )
    NOT_COUNTED = (
        "the server's figures are of a part of the requests: something between may answer them, or share them out "
        "among several servers"
    )
    FAILURES = "see the failure groups; --max-error-rate sets the share that is acceptable"
    NO_REPLY = (
        "the server takes longer to answer than was measured: raise --duration or --measurement-interval"
    )
    NO_RESPONSE = "only their end came, so they are in no figure; check the input data if that was not meant"
    EMPTY_ANSWERS = (
        "they have no first token, and count as beyond any limit of it: check the prompts, the stop words and the "
        "server's log"
    )
    ENDED_REASONING = (
        "nothing of the answer itself came: raise --output-tokens, or ask the model to reason less"
    )
    MEMBER_NOT_CALLED = (
        "no request reached this model while measuring; check the name given to --bls-composing-models"
    )
    SEVERAL_VERSIONS = (
        "its figures may be those of others; name the version, as in --bls-composing-models model:2"
    )
    STATISTICS_MISSING = (
        "the server's part is not known: only client figures are reported, and `twin fit` cannot use this run"
    )
    WORKER_LOST = "a sending process died; what it had reported until then is kept"
    CUT_OFF = "they are in no figure; a longer last window would have seen them end"
    METRICS_MISSING = "figures of the server's metrics are from the other looks; see --metrics-url"
    METRICS_SLOW = "please try a larger querying interval via --metrics-interval"
    NUMPY_TOO_NEW = "install an older one: pip install 'numpy<2'"
    WRONG_KIND = "every request failed, and the server seems to be of another kind than was asked for"
    FEW_PORTS = (
        "connections are opened faster than the system frees their ports: check why the server closes them, "
        "or widen net.ipv4.ip_local_port_range"
    )
    STOLEN = "measure again when the host of this machine is less busy, or on a machine of its own"
    CLIENT_LOST = "what it delivered until then is in the figures; look at its machine"
    FEWER_CLIENTS = "the load was as asked, from fewer machines; look at the one that is missing"
    CLIENT_BUSY = "give each client more worker processes with --workers, or ask for more --clients"
    CLIENT_FAR = "the figures are those of clients at different distances: see each by itself"
    CLIENT_CLOCK = (
        "due times are common to all clients only within that: use clients that are nearer to this machine"
    )
    COMMAND_FAILED = "run the command of the phase by itself and see what it says"
    FEW_FILES = "raise the hard limit of open files (ulimit -Hn), or share the load out with --workers"

    @property
    def advice(self) -> str:
        return self.value

    # Files hold a note's name: its advice may be put in better words.

    @classmethod
    def _missing_(cls, value: object) -> "Note | None":
        return cls.__members__.get(str(value))

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: object) -> dict[str, object]:
        return {"type": "string", "enum": list(cls.__members__)}


CLIENT_LIMITS = (Note.CLIENT_LIMITED, Note.CLIENT_STARVED)
"""The level shows what this client can do, not what the server can."""


@frozen
class Remark:
    """One note about one result, with the figures that caused it."""

    note: Note
    text: str
