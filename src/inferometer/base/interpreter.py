"""Commands that run modules of ours in a new interpreter."""

import sys


def module_command(module: str, *words: str) -> list[str]:
    """Run a module without looking for its imports in the working directory.

    `python -m` puts the working directory first on the search path (-P does not), so a `numpy.py` in a cloned
    repository would run in every worker.
    """
    return [sys.executable, "-P", "-m", module, *words]
