"""Entry point of runs started by the browser interface: the command line arrives on standard input, as JSON.

Every user of the machine can see the arguments of a process, and words may contain secrets.
"""

import json
import os
import sys

from inferometer.cli.main import main


def started() -> int:
    """Run the command with an empty standard input."""
    words: list[str] = json.load(sys.stdin)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return main(words)


if __name__ == "__main__":
    sys.exit(started())
