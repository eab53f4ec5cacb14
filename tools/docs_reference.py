"""Hooks of mkdocs: the tables of both references, generated from the table of options, and offline pages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from griffe import Module, ModuleFinder
from mkdocs.structure.files import File, Files

import inferometer
from inferometer.api.arguments import REFUSED, arguments
from inferometer.cli import (
    capacity,
    clients,
    compare,
    demo,
    diagnose,
    find,
    inspect,
    interfere,
    measure,
    selftest,
    serve,
    tune,
    view,
)
from inferometer.cli.main import COMMANDS
from inferometer.options.command_line import Command
from inferometer.options.option import Groups, Option

SCHEMAS = Path(inferometer.__file__).parent / "schemas"
PAGE, PYTHON = "command-line.md", "python-api.md"
MODULES = (
    measure,
    find,
    capacity,
    inspect,
    view,
    compare,
    interfere,
    diagnose,
    tune,
    serve,
    selftest,
    clients,
    demo,
)


def on_startup(**_: object) -> None:
    """Inspect only the package that a page shows, not all four hundred modules."""
    every = ModuleFinder.submodules

    def shown(self: ModuleFinder, module: Module) -> list[tuple[tuple[str, ...], Path]]:
        return [(parts, path) for parts, path in every(self, module) if parts[0] == "api"]

    ModuleFinder.submodules = shown  # type: ignore[method-assign]


def on_files(files: Files, *, config: Any) -> Files:
    """Add the JSON Schemas of our files, under the names that they have in the package."""
    for path in sorted(SCHEMAS.glob("*.json")):
        files.append(File.generated(config, f"schemas/{path.name}", content=path.read_text()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    if page.file.src_path == PYTHON:
        return "\n".join([markdown, *_arguments()])
    if page.file.src_path != PAGE:
        return markdown
    shown = (command for module in MODULES for command in _command(module.COMMAND))
    return "\n".join([markdown, *_commands(), *shown])


def _commands() -> Iterator[str]:
    yield "\n| command | |\n|---|---|"
    for name, text in COMMANDS.items():
        yield f"| `{name}` | {_cell(text)} |"


def _command(command: Command[Any]) -> Iterator[str]:
    yield f"\n## Options of `{command.program}`\n\n{command.description} {command.epilog}"
    yield from _tables(command.groups[:-1])  # the last group is about the help itself


def _arguments() -> Iterator[str]:
    yield "\n## Arguments of a measurement\n\nAll functions take these arguments, unless one does not apply.\n"
    yield "| argument | takes | | not in |\n|---|---|---|---|"
    for row in arguments():
        without = ", ".join(command for command, refused in REFUSED.items() if row.field in refused)
        yield f"| `{row.name}` | {_cell(f'`{row.taken}`')} | {_cell(row.help)} | {without} |"


def _tables(groups: Groups) -> Iterator[str]:
    for title, options in groups:
        yield f"\n### {title}\n\n| option | |\n|---|---|"
        for option in options:
            yield f"| {_names(option)} | {_cell(option.text)} |"


def _names(option: Option) -> str:
    value = f" {option.metavar}" if option.values is not None else ""
    return "<br>".join(f"`{name}{value}`" for name in option.names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def on_post_page(output: str, **_: object) -> str:
    """Make the page work offline: the search of the theme uses a local script."""
    return output.replace("https://unpkg.com/iframe-worker/shim", "scripts/offline-search.js")


def on_post_template(output_content: str, **_: object) -> str:
    return on_post_page(output_content)
