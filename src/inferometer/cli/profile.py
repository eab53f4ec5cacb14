"""`inferometer profile`: the tuner with all its options, out of words or a YAML file."""

from dataclasses import replace

from inferometer.cli.tuner import Profile, run
from inferometer.cli.tuner_console import Console

MARK = "inferometer"


def main(argv: list[str], *, command: str = "profile", profile: Profile | None = None) -> int:
    from inferometer.tune.dialect.asked import OURS, ask

    dialect = replace(OURS, commands=(command,))
    asked = ask([command, *argv], dialect)
    assert asked is not None
    console = Console(MARK, is_quiet=asked.is_quiet, is_verbose=asked.is_verbose)
    return run(asked, dialect, console, profile=profile)
