"""Detection of command lines that the shell misinterpreted."""

import os
import re
import stat
from collections.abc import Sequence
from itertools import pairwise

_LIMITED = ("--slo", "--fail-if", "--fail-on", "--threshold")  # options whose values contain < or >
_LIMIT = re.compile(r"=?[+-]?\d[\d.]*\s*(ns|us|µs|ms|s|m|h|%|/s)?,?")


def redirected(words: Sequence[str]) -> str:
    """Return a hint if the shell took the `>10` of an unquoted `--slo throughput>10` for a redirection.

    The hint is empty unless standard output is a regular file named like a limit and an option lacks its comparison.
    """
    option = next((word for word in _without_sign(words)), None)
    name = _output_name() if option is not None else ""
    if option is None or _LIMIT.fullmatch(os.path.basename(name)) is None:
        return ""
    term = f"{option[1]}>{os.path.basename(name)}"
    return (
        f"; the shell took '>{os.path.basename(name)}' for a redirection: quote the limit, "
        f"{option[0]} '{term}', and remove the file '{name}'"
    )


def _without_sign(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the options of conditions whose values contain no comparison, with these values."""
    pairs = list(pairwise(words))
    pairs += [(name, value) for name, equals, value in (word.partition("=") for word in words) if equals]
    return [(name, value) for name, value in pairs if name in _LIMITED and not set(value) & set("<>")]


def _output_name() -> str:
    """Return the relative path of the file that standard output was redirected to; empty if it was not."""
    try:
        if not stat.S_ISREG(os.fstat(1).st_mode):
            return ""
        return os.path.relpath(os.readlink("/proc/self/fd/1"))
    except OSError:
        return ""
