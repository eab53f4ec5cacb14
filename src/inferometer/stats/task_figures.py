"""Figures of tasks: graphs of calls, with their turns and timelines."""

from inferometer.base.frozen import frozen
from inferometer.stats.estimate import Distribution, Estimate


@frozen
class TurnFigures:
    """Calls of tasks with the same turn number, which is the number of calls that led to each, itself included."""

    turn: int  # the last row also has all later turns
    calls: int
    failed: int
    latency: Distribution  # of successful calls, from the send
    first: Distribution | None  # from the send to the first response; None without streams
    prompt_tokens: Estimate  # mean per call
    output_tokens: Estimate


@frozen
class CallLane:
    """A call of a task on its timeline; times are nanoseconds after the level started."""

    step: str
    turn: int
    due_ns: int
    sent_ns: int
    first_ns: int
    end_ns: int
    is_good: bool
    is_critical: bool  # on the critical path


@frozen
class TaskLane:
    """Timeline of one task; times are nanoseconds after the level started."""

    number: int  # from 1
    name: str  # in a recording
    due_ns: int
    end_ns: int
    outcome: str  # complete, limited (by the number of turns) or failed
    calls: tuple[CallLane, ...]


@frozen
class TaskFigures:
    """Tasks that ended in the measured time. Means and shares are per complete task.

    The times in the model, in tools and waiting are those on the critical path: they add up to the duration.
    """

    complete: int
    limited: int  # of these, ended by the limit of turns
    failed: int
    retries: int  # calls made again after a failure
    answers: str  # that later calls carry: live or recorded
    duration: Distribution  # from the due time to the end of the last call, tools included
    calls: Estimate
    tokens: Estimate  # of all answers
    prompt_tokens: Estimate  # of all prompts, as counted by the server
    path_calls: Estimate  # on the critical path
    model_ns: Estimate
    tool_ns: Estimate
    wait_ns: Estimate
    model_share: Estimate
    tool_share: Estimate
    wait_share: Estimate
    prefix_expected: int  # tokens that continued conversations repeat
    prefix_found: int  # prompt tokens of these calls that the server found in its cache
    turns: tuple[TurnFigures, ...] = ()
    sample: tuple[TaskLane, ...] = ()  # the last tasks

    @property
    def ended(self) -> int:
        return self.complete + self.failed
