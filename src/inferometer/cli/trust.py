"""`inferometer trust`: allow an options file that is found in the working directory to set restricted options."""

from functools import partial
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.text import printable
from inferometer.cli.config import FILE, command_named
from inferometer.cli.trusted import FoundFile, is_trusted, read_found, revoke, trust, trusted_files
from inferometer.options.command_line import Command, Request
from inferometer.options.stored import TrustOptions

COMMAND = Command(
    "inferometer trust",
    "[FILE] [--revoke]\n--list",
    f"Trust {FILE} after you have reviewed it: it may then name hosts and files and run code without being named with "
    "--config. A change to the file, or to a file it refers to, revokes the trust.",
    TrustOptions,
    examples=(
        ("", f"trust {FILE} in the working directory"),
        ("--revoke", "stop trusting it"),
        ("--list", "list the trusted files"),
    ),
    takes_words=True,
)


def run(request: Request[TrustOptions]) -> int:
    words, options = request.words, request.own
    if len(words) > 1:
        raise UsageError(f"unexpected argument '{words[1]}'", remedy="give one file")
    if options.list:
        _list()
        return 0
    path = Path(words[0] if words else FILE)
    if options.revoke:
        was_trusted = revoke(path)
        print(printable(f"{path} is no longer trusted" if was_trusted else f"{path} was not trusted"))
        return 0
    file = read_found(path)
    _show(file)
    trust(file)
    print(printable(f"{path} is trusted in its current form; `inferometer trust --revoke` undoes that"))
    return 0


def _show(file: FoundFile) -> None:
    """Print the lines that require trust, and why."""
    from inferometer.cli.main import WITH_FILES
    from inferometer.options.config_file import ConfigFile

    commands = {name: partial(command_named, name) for name in WITH_FILES}
    needs = ConfigFile(file.path, commands, text=file.text).needs()
    lines = file.text.decode().splitlines()
    for need in needs:
        print(printable(f"# {need}"))
        for line in lines[need.line - 1 : need.last_line]:
            print(printable(line))
    if not needs:
        print(printable(f"{file.path} sets nothing that requires trust"))


def _list() -> None:
    for name in trusted_files():
        with_state = ""
        try:
            if not is_trusted(read_found(Path(name))):
                with_state = "  (changed since, so no longer trusted)"
        except UsageError:
            with_state = "  (cannot be read)"
        print(printable(f"{name}{with_state}"))
