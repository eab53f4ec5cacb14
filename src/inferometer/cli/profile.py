"""`inferometer profile`: the tuner with all its options, out of words or a YAML file."""

from dataclasses import replace

from inferometer.base.errors import InferometerError
from inferometer.cli.tuner import FAILURE, Profile, complain, run
from inferometer.cli.tuner_console import Console

MARK = "inferometer"


def main(argv: list[str], *, command: str = "profile", profile: Profile | None = None) -> int:
    from inferometer.tune.dialect.asked import OURS, ask

    dialect = replace(OURS, commands=(command,))
    try:
        asked = ask([command, *argv], dialect)
        assert asked is not None
        console = Console(MARK, is_quiet=asked.is_quiet, is_verbose=asked.is_verbose)
        return run(asked, dialect, console, profile=profile)
    except InferometerError as error:
        complain(f"{MARK} {command}: {error}")
        return FAILURE
    except KeyboardInterrupt:
        return FAILURE
