"""The usage text of the script `perf_analyzer`."""

import textwrap

from inferometer.base.options import Option
from inferometer.cli.parser import GROUPS, describe

_INDENT = " " * 8
_WIDTH = 100


def classic_usage() -> str:
    """Every option with its meaning, as plain text."""
    blocks = ["Usage: perf_analyzer -m NAME [options]\n"]
    for title, options in GROUPS:
        blocks.append(f"{title}:\n" + "\n".join(_entry(option) for option in options) + "\n")
    return "\n".join(blocks)


def _entry(option: Option) -> str:
    names = ", ".join(option.names)
    head = f"  {names} {option.metavar}".rstrip()
    lines = textwrap.wrap(describe(option), width=_WIDTH - len(_INDENT), break_on_hyphens=False)
    return "\n".join([head, *(_INDENT + line for line in lines)])
