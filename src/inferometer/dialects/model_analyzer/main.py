"""The script `model-analyzer`, and `inferometer profile | analyze | report`, which are its commands under our name."""

import sys
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING

from inferometer.base.errors import InferometerError
from inferometer.base.signals import drop_output, interruptible, shortage
from inferometer.base.text import to_stderr
from inferometer.dialects.model_analyzer import FAILURE, OK

if TYPE_CHECKING:
    from inferometer.dialects.model_analyzer.command_line import Program
    from inferometer.dialects.model_analyzer.commands import Profile
    from inferometer.dialects.model_analyzer.config import Config

MARK = "Model Analyzer"
OUR_MARK = "inferometer"


def main(argv: list[str] | None = None, *, profile: "Profile | None" = None) -> int:
    """`profile` stands in for the real search in tests."""
    from inferometer.dialects.model_analyzer.command_line import CLASSIC, UnknownKeys, parser, read_command

    is_verbose = False
    try:
        config = read_command(sys.argv[1:] if argv is None else argv, CLASSIC)
        if config is None:
            parser(CLASSIC).print_help()
            return OK
        is_verbose = config.is_verbose
        with interruptible():
            return _run(config, CLASSIC, MARK, profile)
    except InferometerError as error:
        if is_verbose:
            to_stderr("".join(traceback.format_exception(error)).rstrip())
        if isinstance(error, UnknownKeys):
            for key in error.keys:
                to_stderr(f"[{MARK}] the key '{key}' is unknown")
        to_stderr(f"[{MARK}] Model Analyzer encountered an error: {error}")
        return FAILURE
    except KeyboardInterrupt:
        return FAILURE
    except BrokenPipeError:
        return drop_output()
    except (OSError, MemoryError) as error:
        to_stderr(f"[{MARK}] Model Analyzer encountered an error: {shortage(error)}")
        return FAILURE


def our_command(name: str, argv: list[str], *, profile: "Profile | None" = None) -> int:
    """`inferometer profile`, `analyze` or `report`."""
    from inferometer.dialects.model_analyzer.command_line import OURS, read_command

    program = replace(OURS, commands=(name,))
    try:
        config = read_command([name, *argv], program)
        assert config is not None
        return _run(config, program, OUR_MARK, profile)
    except InferometerError as error:
        to_stderr(f"{OUR_MARK} {name}: {error}")
        return FAILURE
    except KeyboardInterrupt:
        return FAILURE


def _run(config: "Config", program: "Program", mark: str, profile: "Profile | None") -> int:
    from inferometer.dialects.model_analyzer.commands import run
    from inferometer.dialects.model_analyzer.console import Console

    console = Console(mark, is_quiet=config.is_quiet, is_verbose=config.is_verbose)
    return run(config, program, console, profile=profile)


if __name__ == "__main__":
    sys.exit(main())
