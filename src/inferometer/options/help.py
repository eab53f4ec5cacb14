"""What a command says of its options: to people, and to programs that make documentation or a form of it."""

from collections.abc import Iterator, Sequence
from typing import Any

from inferometer.options.option import Ask, Groups
from inferometer.options.words import Command, read


def read_or_answer(argv: Sequence[str], command: Command) -> dict[str, Any] | None:
    """What was given, by field; None where the help or the version was asked for, which is printed."""
    given = read(argv, command)
    if given is Ask.HELP:
        print_help(command)
        return None
    if given is Ask.VERSION:
        from inferometer import __version__

        print(f"inferometer {__version__}")
        return None
    return given


def print_help(command: Command) -> None:
    """The help of a command; `argparse` is only its typesetter."""
    import argparse

    from rich_argparse import RichHelpFormatter

    parser = argparse.ArgumentParser(
        prog=command.program,
        usage="\n       ".join(f"%(prog)s {line}" for line in command.usage.splitlines()),
        description=command.description,
        epilog=command.epilog,
        formatter_class=RichHelpFormatter,
        add_help=False,
    )
    for title, members in command.groups:
        group = parser.add_argument_group(title)
        for row in members:
            text = row.text.replace("%", "%%")
            if row.values is None:
                group.add_argument(*row.names, action="store_true", help=text)
            else:
                group.add_argument(*row.names, metavar=row.metavar, help=text)
    parser.print_help()


def described(groups: Groups) -> Iterator[dict[str, Any]]:
    """Every option as plain data: what a page of documentation shows, or a form asks for."""
    for title, members in groups:
        for row in members:
            yield {
                "names": list(row.names),
                "field": row.field,
                "group": title,
                "help": row.help,
                "metavar": row.metavar,
                "default": row.default or "",
                "choices": [] if row.values is None else list(row.values.choices),
                "is_flag": row.values is None,
                "is_repeatable": row.combine is not None,
                "is_required": row.is_required,
                "is_deprecated": row.is_deprecated,
                "is_secret": row.is_secret,
                "is_built": row.is_built,
                "origin": row.origin.value,
            }
