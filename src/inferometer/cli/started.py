"""The process of a run that the browser interface starts: its command line comes over standard input, as JSON.

Every user of the machine can list the arguments of processes, and words may hold secrets.
"""

import json
import os
import sys

from inferometer.cli.main import main


def started() -> int:
    """Run the command, with nothing left to read on standard input."""
    words: list[str] = json.load(sys.stdin)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return main(words)


if __name__ == "__main__":
    sys.exit(started())
