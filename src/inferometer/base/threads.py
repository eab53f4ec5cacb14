"""Thread limits for numeric libraries, which start a thread per core when numpy is imported.

On a large machine this takes seconds of CPU time, although our processes need only one thread. Programs that are not
ours, such as the model server, keep the user's setting.
"""

import os

_THREADS = "OPENBLAS_NUM_THREADS"
_IS_OURS = "INFEROMETER_SET_THREADS"


def limit_threads() -> None:
    """Limit the threads to one unless the user has set a number. Call this before importing numpy."""
    if _THREADS not in os.environ:
        os.environ[_THREADS] = os.environ[_IS_OURS] = "1"


def users_environment() -> dict[str, str]:
    """Return the environment for programs that are not ours, without our settings."""
    found = dict(os.environ)
    if found.pop(_IS_OURS, None) is not None:
        found.pop(_THREADS, None)
    return found
