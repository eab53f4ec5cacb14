"""The command `inferometer`: picks the subcommand and turns errors into sentences."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from inferometer import __version__
from inferometer.base.errors import InferometerError, UsageError
from inferometer.base.signals import INTERRUPTED, drop_output, interruptible
from inferometer.base.text import to_stderr

if TYPE_CHECKING:
    from inferometer.options.command_line import Command

COMMANDS = {
    "measure": "load levels: latency, throughput, where the time goes",
    "find": "the most load inside a promise, such as p99<50ms",
    "view": "the report of a saved result: a page, Markdown, a picture",
    "compare": "variants side by side: which is faster, how alike their outputs are",
    "diagnose": "what limits a model, what would help, and with --apply whether it does",
    "tune": "the best configuration of a model inside a promise, in minutes",
    "profile": "all of the tuner, with the options and YAML files of model-analyzer",
    "analyze": "the reports of profile again, from what it measured",
    "report": "detailed reports of configurations that profile measured",
    "serve": "start the real Triton on a model repository (the example one by default)",
    "selftest": "prove the instrument on this machine, in under a minute",
    "demo": "the whole story on the embedded server, from nothing, in about a minute",
}

CLASSIC_TUNER = ("profile", "analyze", "report")  # the commands of model-analyzer


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    name = words[0] if words and words[0] in COMMANDS else ""
    said = f"inferometer {name}".rstrip()
    try:
        with interruptible():
            return _run(words)
    except InferometerError as error:
        to_stderr(f"{said}: {error}")
        return error.exit_code
    except BrokenPipeError:
        return drop_output()
    except KeyboardInterrupt:
        to_stderr(f"{said}: interrupted")
        return INTERRUPTED


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    if words[0] == "--version":
        print(f"inferometer {__version__}")
        return 0
    name, *rest = words
    if name not in COMMANDS:
        to_stderr(f"inferometer: there is no command '{name}'; the commands are {', '.join(COMMANDS)}")
        return 2
    if name in CLASSIC_TUNER:
        from inferometer.dialects.model_analyzer.main import our_command

        return our_command(name, rest)
    return _run_command(name, rest)


def _run_command(name: str, words: list[str]) -> int:
    """Each module of a command has its `COMMAND` line, and `run` for what was given on it."""
    from inferometer.options.command_line import in_own_words, read_or_answer

    module = import_module(f"inferometer.cli.{name}")
    command: Command = module.COMMAND
    try:
        given = read_or_answer(words, command)
        code: int = 0 if given is None else module.run(given)
    except UsageError as error:
        to_stderr(f"{command.program}: {in_own_words(str(error), command)}")
        return command.usage_code
    return code


def _help() -> str:
    rows = "\n".join(f"  {name:<10}{what}" for name, what in COMMANDS.items())
    return f"""\
inferometer {__version__}: the measuring instrument for inference servers

usage: inferometer COMMAND [options]

{rows}

`inferometer COMMAND --help` lists a command's options. The scripts `perf_analyzer` and
`model-analyzer` speak the classic dialects."""


if __name__ == "__main__":
    sys.exit(main())
