"""Hooks of mkdocs: the tables of the command-line reference, made from the table of options, and offline pages."""

from collections.abc import Iterator
from typing import Any

from inferometer.base.options import Option
from inferometer.cli.main import COMMANDS
from inferometer.cli.parser import GROUPS, Groups, describe

PAGE = "command-line.md"


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    if page.file.src_path != PAGE:
        return markdown
    return "\n".join([markdown, *_commands(), "\n## Options of `inferometer measure`\n", *_tables(GROUPS)])


def _commands() -> Iterator[str]:
    yield "\n| command | |\n|---|---|"
    for name, text in COMMANDS.items():
        yield f"| `{name}` | {_cell(text)} |"


def _tables(groups: Groups) -> Iterator[str]:
    for title, options in groups:
        yield f"\n### {title}\n\n| option | |\n|---|---|"
        for option in options:
            yield f"| {_names(option)} | {_cell(describe(option))} |"


def _names(option: Option) -> str:
    value = f" {option.metavar}" if option.parse is not None else ""
    return "<br>".join(f"`{name}{value}`" for name in option.names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def on_post_page(output: str, **_: object) -> str:
    """Nothing is fetched from elsewhere: what the theme would load to search in files is ours."""
    return output.replace("https://unpkg.com/iframe-worker/shim", "scripts/offline-search.js")


def on_post_template(output_content: str, **_: object) -> str:
    return on_post_page(output_content)
