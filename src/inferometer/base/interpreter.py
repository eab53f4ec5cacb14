"""Commands that run our modules in a new interpreter."""

import sys


def module_command(module: str, *words: str) -> list[str]:
    """Return the command that runs a module without searching the working directory for imports.

    `python -m` puts the working directory first on the search path (-P prevents it), so a `numpy.py` in a cloned
    repository would run in every worker.
    """
    return [sys.executable, "-P", "-m", module, *words]
