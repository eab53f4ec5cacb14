"""Figures of streamed answers and of text servers."""

from inferometer.base.frozen import frozen
from inferometer.stats.estimate import Distribution, Estimate


@frozen
class Streaming:
    """Figures of requests with streamed responses."""

    responses: int
    per_s: float
    per_request: Distribution  # numbers of responses, not nanoseconds
    first: Distribution  # from the send to the first response
    gaps: Distribution  # between consecutive responses of a request, per choice
    answer: Distribution | None = (
        None  # like `first`, to the first token after the reasoning; None without reasoning
    )
    unanswered: int = 0  # streams that ended while still reasoning
    tool: Distribution | None = None  # like `first`, to the first tool call; None without tool calls


@frozen
class UserRates:
    """Output tokens per second of individual requests: tokens over total time since the send."""

    mean: Estimate
    percentiles: tuple[
        tuple[float, float], ...
    ]  # (p, tokens per second): the slowest users have the low ones

    def percentile(self, p: float) -> float:
        return dict(self.percentiles).get(p, 0.0)


@frozen
class Phase:
    """A part of all streamed answers: prefill (send to first token) or decode (first token to last)."""

    time_ns: int  # of all requests together
    share: float  # of the time of both phases
    tokens: int  # prefill: prompt tokens; decode: tokens after the first
    per_s: float  # tokens per second of one request during this phase


@frozen
class PromptClass:
    """Requests whose prompts have from `low` to `high` tokens."""

    low: int
    high: int
    count: int
    first: Distribution  # from the send to the first token; empty without streams
    between: Distribution  # mean time between tokens of each streamed answer
    per_answer: Distribution  # numbers of tokens, not nanoseconds


@frozen
class AskedLengths:
    """Lengths of answers compared with the most tokens that their requests asked for."""

    asked: int  # requests with a requested length and a counted answer
    early: int  # answers that ended before it
    over: int  # answers that exceeded it
    missing_tokens: int  # missing from the early answers, in total
    extra_tokens: int  # beyond the requested length, in total

    @property
    def exact(self) -> int:
        return self.asked - self.early - self.over


@frozen
class CancelFigures:
    """Requests that the client cancelled on request. They are excluded from all other figures."""

    count: int
    ran: Distribution  # from the send until the cancellation
    tokens: int  # received until then, as stream events
    without_token: int  # cancelled before the first token


@frozen
class Lane:
    """Timeline of one streamed request; times are nanoseconds after the level started."""

    due_ns: int
    sent_ns: int
    first_ns: int
    end_ns: int
    prompt_tokens: int
    output_tokens: int


@frozen
class TokenFigures:
    """Figures of text servers: tokens of successful requests. Lengths are numbers of tokens, not nanoseconds."""

    output: int
    output_per_s: float
    per_answer: Distribution
    between: Distribution  # mean time between tokens of each streamed answer
    prompt: int
    prompt_per_s: float
    per_prompt: Distribution
    from_events: int  # answers whose tokens were counted as events because the server gave no count
    output_interval: Estimate | None = (
        None  # of `output_per_s`; None in older files, like the following fields
    )
    per_user: UserRates | None = None  # only for answers with tokens
    prefill: Phase | None = None  # only for streams
    decode: Phase | None = None
    classes: tuple[PromptClass, ...] = ()  # by prompt length, if the server counts it and lengths differ
    asked: AskedLengths | None = None  # only if requests ask for a length
    reasoning: int = 0  # part of `output`, as reported by the server
    cached: int = 0  # part of `prompt` found in the server's cache
