"""`inferometer check`: check options files and scenarios without running or opening anything that they name."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.text import printable, to_stderr
from inferometer.cli.config import FILE, command_named
from inferometer.options.command_line import Command, Request
from inferometer.options.stored import CheckOptions

COMMAND = Command(
    "inferometer check",
    "[FILE ...]",
    f"Check {FILE}, other options files and scenario files, for example before a commit. Sends nothing, runs none "
    "of their code, and opens no file that they name.",
    CheckOptions,
    examples=(
        ("", f"{FILE} in the working directory"),
        ("inferometer.yaml shop.yaml", "an options file and a scenario"),
    ),
    epilog="Exit status: 0 if all files are valid, else 2.",
    takes_words=True,
)


def run(request: Request[CheckOptions]) -> int:
    mistakes = 0
    for name in request.words or (FILE,):
        try:
            print(printable(f"{name}: {_checked(Path(name))}"))
        except UsageError as error:
            mistakes += 1
            to_stderr(f"{COMMAND.program}: {error}")
    return UsageError.exit_code if mistakes else 0


def _checked(path: Path) -> str:
    """Return the kind of the file; raise a UsageError that names the mistake."""
    from inferometer.cli.main import WITH_FILES
    from inferometer.options.config_file import ConfigFile, read_options

    text = read_options(path)[0]
    if _is_scenario(text):
        from inferometer.scenario.checks import check_scenario
        from inferometer.scenario.spec import parse_scenario

        check_scenario(parse_scenario(text.decode(), str(path)), str(path))
        return "valid scenario"
    commands = {name: partial(command_named, name) for name in WITH_FILES}
    needs = ConfigFile(path, commands, text=text).needs()
    trust = f"; requires trust, values not checked: {', '.join(need.key for need in needs)}" if needs else ""
    return f"valid options file{trust}"


def _is_scenario(text: bytes) -> bool:
    """Return whether a file has traffic classes or phases, which options files do not have."""
    from inferometer.base.yaml_text import YamlError, load_yaml

    try:
        document = load_yaml(text.decode())
    except (YamlError, UnicodeDecodeError):
        return False  # reported by the reader of options files
    return isinstance(document, Mapping) and not document.keys().isdisjoint(("classes", "phases"))
