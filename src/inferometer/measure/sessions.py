"""From the turns of a data file to sessions."""

from collections.abc import Sequence

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS
from inferometer.dataset.dataset import Step
from inferometer.load.sequences import SequencePlan


def session_plan(steps: Sequence[Step], concurrency: int) -> SequencePlan:
    """Turns of the same `session_id` are one session, in the order of the file."""
    sessions: dict[str, list[int]] = {}
    delays: list[int | None] = []
    for number, step in enumerate(steps):
        said = {tensor.name: tensor.data.decode() for tensor in step}
        if "session_id" not in said:
            raise UsageError(
                f"step {number} of the data has no 'session_id', which --session-concurrency needs",
                remedy='write {"session_id": ["a"], "delay": [0], "payload": [{...}]}',
            )
        sessions.setdefault(said["session_id"], []).append(number)
        delays.append(round(float(said["delay"]) * NS_PER_MS) if "delay" in said else None)
    for name, turns in sessions.items():
        for place, number in enumerate(turns[:-1], start=1):
            if delays[number] is None:
                raise UsageError(
                    f"turn {place} of session '{name}' has no 'delay' (step {number} of the data)",
                    remedy="give each turn but the last the milliseconds until the next one, or 0",
                )
    if len(sessions) < concurrency:
        raise UsageError(
            f"--session-concurrency is {concurrency}, but the data has {len(sessions)} sessions",
            remedy=f"give at least {concurrency} sessions, or ask for fewer in parallel",
        )
    return SequencePlan(
        streams=tuple(map(tuple, sessions.values())),
        is_given=True,
        is_once=True,
        delays_ns=tuple(delay or 0 for delay in delays),
    )
