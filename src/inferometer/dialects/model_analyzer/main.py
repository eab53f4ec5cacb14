"""The script `model-analyzer`, and the same commands as `inferometer profile | analyze | report`."""

import sys
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING

from inferometer.base.collecting import collect_rarely
from inferometer.base.errors import InferometerError
from inferometer.base.signals import drop_output, interrupted_code, interruptible, was_hung_up
from inferometer.base.text import to_stderr
from inferometer.base.threads import limit_threads
from inferometer.dialects.model_analyzer import FAILURE, OK

if TYPE_CHECKING:
    from inferometer.dialects.model_analyzer.commands import Profile


def main(argv: list[str] | None = None, *, profile: "Profile | None" = None) -> int:
    """Run the script; tests replace the search with `profile`."""
    collect_rarely()
    limit_threads()
    from inferometer.dialects.model_analyzer.command_line import CLASSIC, UnknownKeys, parser, read_command

    mark, is_verbose = f"[{CLASSIC.mark}]", False
    try:
        with interruptible():
            config = read_command(sys.argv[1:] if argv is None else argv, CLASSIC)
            if config is None:
                parser(CLASSIC).print_help()
                return OK
            is_verbose = config.is_verbose
            from inferometer.dialects.model_analyzer.commands import run

            return run(config, CLASSIC, profile=profile)
    except InferometerError as error:
        if is_verbose:
            to_stderr("".join(traceback.format_exception(error)).rstrip())
        if isinstance(error, UnknownKeys):
            for key in error.keys:
                to_stderr(f"{mark} the key '{key}' is unknown")
        to_stderr(f"{mark} Model Analyzer encountered an error: {_words_of(error)}")
        return FAILURE
    except KeyboardInterrupt:
        return interrupted_code() if was_hung_up() else FAILURE
    except BrokenPipeError:
        return drop_output()


def _words_of(error: InferometerError) -> str:
    """Return the sentence with the options of requests as in `perf_analyzer_flags`."""
    from inferometer.dialects.perf_analyzer.options import COMMAND

    error.use_classic_remedy()
    return error.spelled(COMMAND.spell)


def our_command(name: str, argv: list[str], *, profile: "Profile | None" = None) -> int:
    """Run `inferometer profile`, `analyze` or `report`."""
    from inferometer.dialects.model_analyzer.command_line import OURS, read_command

    program = replace(OURS, commands=(name,))
    try:
        config = read_command([name, *argv], program)
        assert config is not None
        from inferometer.dialects.model_analyzer.commands import run

        return run(config, program, profile=profile)
    except InferometerError as error:
        to_stderr(f"{program.mark} {name}: {_words_of(error)}")
        return FAILURE
    except KeyboardInterrupt:
        return interrupted_code() if was_hung_up() else FAILURE


if __name__ == "__main__":
    sys.exit(main())
