"""What this machine does not have enough of: memory, open files, processes. A full disk is base/writing.py's."""

import errno

from inferometer.base.errors import LocalError

_REMEDIES = {
    errno.ENOMEM: ("memory", "raise its limit (ulimit -v), end other programs, or ask for fewer --workers"),
    errno.EMFILE: ("open files", "raise their limit with ulimit -n, or ask for fewer --workers"),
    errno.ENFILE: ("open files", "end other programs: the whole system has too many"),
    errno.EAGAIN: ("processes", "raise their limit with ulimit -u, or ask for fewer --workers"),
}  # fmt: skip
"""By what the system says is wrong: what there is too little of, and what helps."""


def maybe_shortage(error: BaseException) -> LocalError | None:
    """The sentence for it; None where something else is wrong."""
    number = errno.ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None)
    if number not in _REMEDIES:
        return None
    what, remedy = _REMEDIES[number]
    return LocalError(f"this machine has not enough {what} for that", remedy=remedy)
