"""Help of a command: its main options, or all of them by group."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from inferometer.options.command_line import Command
from inferometer.options.option import Groups, Option

WIDTH = 100  # maximum width
MANY = 24  # options from which on the short help shows only the main ones


def help_text(command: Command[Any], *, is_whole: bool, width: int = 0) -> str:
    """Return the help: the main options, or all of them by group."""
    from shutil import get_terminal_size

    width = min(WIDTH, (width or get_terminal_size().columns) - 1)
    blocks = [
        "\n".join(
            f"{'Usage: ' if not n else '       '}{command.program} {line}" for n, line in enumerate(lines)
        )
        if (lines := command.usage.splitlines())
        else f"Usage: {command.program}",
        textwrap.fill(command.description, width),
    ]
    if command.examples:
        blocks.append("\n".join(["Examples:", *_examples(command, width)]))
    for title, members in command.groups if is_whole else _main(command):
        texts = [(_heading(row), row.text if is_whole else row.brief) for row in members]
        if texts:
            blocks.append("\n".join([f"{title}:", *_columns(texts, width, most=30)]))
    if command.epilog:
        blocks.append(textwrap.fill(command.epilog, width))
    return "\n\n".join(blocks)


def _main(command: Command[Any]) -> Groups:
    """Return the main options as one group, or all options if there are only a few."""
    members = [row for _, group in command.groups for row in group]
    if len(members) > MANY:
        members = [row for row in members if row.is_main or row.field == "ask"]
    return (("Options", tuple(members)),)


def _examples(command: Command[Any], width: int) -> Iterator[str]:
    for line, what in command.examples:
        shown = f"  {command.program} {line}"
        yield f"{shown}  # {what}" if len(shown) + len(what) + 4 <= width else f"  # {what}\n{shown}"


def _heading(row: Option) -> str:
    names = ", ".join(row.names)
    return f"{names if row.names[0][1] != '-' else f'    {names}'} {row.metavar}".rstrip()


def _columns(texts: Sequence[tuple[str, str]], width: int, *, most: int) -> Iterator[str]:
    """Yield lines in two columns; if the first is wider than `most`, the second starts on a new line."""
    left = min(max((len(first) for first, _ in texts), default=0), most) + 4
    for first, second in texts:
        lines = textwrap.wrap(second, max(width - left, 20), break_on_hyphens=False)
        if len(first) > left - 4:
            yield f"  {first}"
        elif lines:
            yield f"  {first:<{left - 2}}{lines.pop(0)}"
        else:
            yield f"  {first}"
        yield from (" " * left + line for line in lines)
