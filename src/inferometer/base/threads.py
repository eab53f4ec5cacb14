"""Numeric libraries start a thread per core when numpy is imported: seconds of CPU on a large machine.

Ours need one thread. Programs that are not ours, such as the model server, keep as many as their user gave them.
"""

import os

_THREADS = "OPENBLAS_NUM_THREADS"
_IS_OURS = "INFEROMETER_SET_THREADS"


def limit_threads() -> None:
    """In a program of ours, before numpy is imported; what the user has set stays."""
    if _THREADS not in os.environ:
        os.environ[_THREADS] = os.environ[_IS_OURS] = "1"


def users_environment() -> dict[str, str]:
    """The environment for programs that are not ours: without what we set."""
    found = dict(os.environ)
    if found.pop(_IS_OURS, None) is not None:
        found.pop(_THREADS, None)
    return found
