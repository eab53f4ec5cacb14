"""The command `inferometer`: picks the subcommand and turns errors into messages."""

import shlex
import sys
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from inferometer import __version__
from inferometer.base.collecting import collect_rarely
from inferometer.base.errors import InferometerError, UsageError
from inferometer.base.signals import drop_output, interrupted_code, interruptible
from inferometer.base.text import nearest, to_stderr
from inferometer.base.threads import limit_threads

if TYPE_CHECKING:
    from inferometer.options.command_line import Command, Request

GROUPS = {
    "How much can it take?": {
        "quick": "find the servers on this machine and measure each, in a minute",
        "measure": "measure latency and throughput under load, and where the time goes",
        "find": "find the highest load that meets an SLO, such as p99<50ms",
        "capacity": "plan replicas and cost for given traffic and an SLO",
        "inspect": "summarize a trace or prompt file: rates, lengths, cacheable prefixes",
    },
    "What limits it?": {
        "diagnose": "find the bottleneck and what would help; --apply tries it",
        "tune": "search for the best configuration that meets an SLO",
        "interfere": "measure how much models sharing a server slow each other down",
        "twin": "fit a simulation to saved runs and predict other loads",
    },
    "Did it get better or worse?": {
        "compare": "compare models, servers or saved runs, with their outputs",
        "gate": "fail a CI job when the latest run is worse than its history",
        "runs": "list, show, tag, remove and export saved runs",
        "view": "render a saved run as a web page, Markdown, CSV or a picture",
        "ui": "start, watch and compare runs in a browser",
    },
    "Setup": {
        "demo": "try everything on an embedded server, in about a minute",
        "serve": "start an embedded Triton on a model repository",
        "selftest": "check the accuracy and the limits of this machine as a client",
        "clients": "estimate how many client machines a load needs",
        "check": "check inferometer.yaml and scenario files, for example before a commit",
        "trust": "let this folder's inferometer.yaml name hosts and files and run code",
        "completion": "print a completion script for bash, zsh or fish",
        "help": "show this text, a command's options, or a topic",
    },
    "Model Analyzer compatibility": {
        "profile": "search configurations with model-analyzer's options and YAML files",
        "analyze": "rebuild the reports of a profile",
        "report": "write detailed reports of profiled configurations",
    },
}
COMMANDS = {name: what for group in GROUPS.values() for name, what in group.items()}

KEPT = (
    "measure",
    "find",
    "compare",
    "interfere",
    "diagnose",
    "tune",
    "demo",
)  # commands whose runs are stored
CLASSIC_TUNER = ("profile", "analyze", "report")  # the commands of model-analyzer
ABOUT = ("completion", "help")
OTHER_TOOLS = {
    name: ours
    for ours, names in {
        "measure": "attack bench benchmark exec go hit hammer latency load load-test loadtest perf run start stress "
        "stress-test test throughput",
        "measure --sweep": "sweep",
        "find": "max search",
        "capacity": "plan size",
        "inspect": "dataset",
        "tune": "optimize optimise",
        "twin": "predict simulate",
        "compare": "diff",
        "runs": "history list ls",
        "view": "open plot show",
        "ui": "dashboard gui web",
        "serve": "server",
        "check": "lint validate",
        "--version": "version -V -v",
        "help": "-help -? man usage",
    }.items()
    for name in names.split()
}
"""Our commands by their names in other tools."""
OURS = tuple(name for name in COMMANDS if name not in (*CLASSIC_TUNER, *ABOUT))
WITH_FILES = tuple(
    name for name in OURS if name not in ("check", "trust")
)  # commands whose options inferometer.yaml may set


def main(argv: list[str] | None = None) -> int:
    collect_rarely()
    limit_threads()
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
        return interrupted_code()


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        words = ["help"]
    if words[0] == "--version":
        print(f"inferometer {__version__}")
        return 0
    name, *rest = words
    if name not in COMMANDS:
        from inferometer.options.words import is_address

        close = nearest(name, COMMANDS)
        remedy = f"did you mean '{close}'?" if close else f"the commands are {', '.join(COMMANDS)}"
        if name in OTHER_TOOLS:
            raise UsageError(f"unknown command '{name}'", remedy=_as_ours(OTHER_TOOLS[name], rest))
        if about := nearest(name, ("--version", "--help")):
            raise UsageError(f"unknown option '{name}'", remedy=f"did you mean '{about}'?")
        if name.startswith("-"):
            raise UsageError(f"'{name}' comes before the command", remedy=_command_first(words))
        if is_address(name):
            remedy = f"to measure an address, write: inferometer measure {shlex.join(words)}"
        raise UsageError(f"unknown command '{name}'", remedy=remedy)
    if name in CLASSIC_TUNER:
        from inferometer.dialects.model_analyzer.command_line import check_tool
        from inferometer.dialects.model_analyzer.main import our_command

        check_tool(name, rest)
        return our_command(name, rest)
    if name in ABOUT:
        return _print_about(name, rest)
    return _run_command(name, rest)


def _as_ours(ours: str, words: list[str]) -> str:
    """Return the remedy for another tool's command: our whole command line, or our command and the option to
    change."""
    name, *first = ours.split()
    words = (
        words[1:] if words[:1] in (["serve"], ["run"]) else words
    )  # vllm bench serve, guidellm benchmark run
    if name not in OURS:
        return f"write inferometer {ours} {shlex.join(words)}".rstrip()
    from inferometer.options.command_line import Ask, read

    command: Command[Any] = import_module(f"inferometer.cli.{name}").COMMAND
    try:
        request = read([*first, *words], command)
        if not isinstance(request, Ask) and "--url" in command.by_name:
            request.target()
    except UsageError as error:
        return f"write inferometer {ours}; there, {error.spelled(command.spell)}"
    return f"write inferometer {ours} {shlex.join(words)}".rstrip()


def _command_first(words: list[str]) -> str:
    """Return the remedy with the command moved to the front; the default command is `measure`."""
    named = next((word for word in words if word in COMMANDS), "")
    rest = [word for word in words if word != named]
    return f"the command comes first: inferometer {named or 'measure'} {shlex.join(rest)}"


def _run_command(name: str, words: list[str]) -> int:
    """Run a command; its module defines `COMMAND`, the command line, and `run`."""
    module = import_module(f"inferometer.cli.{name}")
    command: Command[Any] = module.COMMAND
    try:
        request = _maybe_request(name, words, command)
        if request is None:
            return 0
        if hasattr(module, "maybe_listing") and (listing := module.maybe_listing(request)) is not None:
            print(listing)
            return 0
        if request.asides.dry_run or request.asides.show_reply:
            from inferometer.cli.preview import preview

            return preview(name, request)
        code: int = _kept(name, words, request) if name in KEPT else module.run(request)
    except UsageError as error:
        from inferometer.cli.shell import redirected

        to_stderr(f"{command.program}: {error.spelled(command.spell)}{redirected(words)}")
        return command.usage_code
    return code


def _maybe_request(name: str, words: list[str], command: "Command[Any]") -> "Request[Any] | None":
    """Return the request, completed from files; None if help or the like was printed instead."""
    from inferometer.options.command_line import Ask, read, require

    request = read(words, command)
    if request is Ask.VERSION:
        print(f"inferometer {__version__}")
        return None
    if isinstance(request, Ask):
        from inferometer.options.help import help_text

        print(help_text(command, is_whole=request is Ask.HELP_ALL))
        return None
    if name in WITH_FILES:
        from inferometer.cli.config import with_file

        completed = with_file(name, WITH_FILES, words, request)
        if completed is None:
            return None
        request = completed
    require(request)
    return request


def _kept(name: str, words: list[str], request: "Request[Any]") -> int:
    from inferometer.cli.keep import keeping
    from inferometer.options.asides import Asides
    from inferometer.store.words import kept_words

    module, asides = import_module(f"inferometer.cli.{name}"), request.asides
    if name == "compare" and module.are_saved(request.words, asides.store):
        asides = Asides(no_store=True)  # comparing saved results is not a run
    stored = partial(kept_words, name, words, request.command)
    with keeping(name, stored, asides, is_quiet=request.load.get("quiet", False)) as keeper:
        code: int = module.run(request, keeper)
        keeper.end(code)
    return code


# --- about the program itself


def _print_about(name: str, words: list[str]) -> int:
    """Run `help` or `completion`; both take at most one word."""
    if set(words) & {"-h", "--help"}:
        name, words = "help", [name]
    if name == "help" and len(words) > 1:
        from inferometer.cli.topics import topics

        # "exit codes" is a topic and "coordinated omission" is on a page, but "slo load" is two topics.
        words = words if words[0] in (*topics(), *COMMANDS) else [" ".join(words)]
    if len(words) > 1:
        raise UsageError(f"unexpected argument '{words[1]}'", remedy=f"write inferometer {name} WORD")
    subject = words[0] if words else ""
    if name == "completion":
        print(_completion(subject), end="")
    elif subject in ("", "help"):
        print(_overview())
    elif subject in OURS:
        return _run_command(subject, ["--help"])
    elif subject in CLASSIC_TUNER:
        return _run([subject, "--help"])
    else:
        from inferometer.cli.topics import topic_text

        print(topic_text(subject, (*OURS, *CLASSIC_TUNER)))
    return 0


def _completion(shell: str) -> str:
    from inferometer.cli.completion import SHELLS, Completed, script
    from inferometer.cli.topics import topics

    commands = [
        Completed(name, what, import_module(f"inferometer.cli.{name}").COMMAND if name in OURS else None)
        for name, what in COMMANDS.items()
    ]
    words = {"completion": SHELLS, "help": (*COMMANDS, *topics())}
    return script(shell, [replace(row, words=words.get(row.name, ())) for row in commands])


def _overview() -> str:
    from inferometer.cli.topics import topics

    rows = "\n\n".join(
        "\n".join((question, *(f"  {name:<12}{what}" for name, what in group.items())))
        for question, group in GROUPS.items()
    )
    pages = "\n".join(f"  {name:<12}{what}" for name, what in topics().items())
    return f"""\
inferometer {__version__}: the measuring instrument for inference servers

usage: inferometer COMMAND [options]

{rows}

Topics, for `inferometer help TOPIC`:

{pages}

`inferometer COMMAND --help` shows a command's options. The scripts `perf_analyzer` and
`model-analyzer` behave like the tools of the same names."""


if __name__ == "__main__":
    sys.exit(main())
