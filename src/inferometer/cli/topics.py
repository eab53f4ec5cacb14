"""The pages of `inferometer help TOPIC`: short Markdown files in `pages`."""

import re
from importlib.resources import files

from inferometer.base.errors import UsageError
from inferometer.base.text import nearest

_PAGES = files(__package__).joinpath("pages")


def topics() -> dict[str, str]:
    """Return all topics with their titles."""
    names = sorted(page.name.removesuffix(".md") for page in _PAGES.iterdir())
    return {name: _text(name).partition("\n")[0].partition(": ")[2] for name in names}


def topic_text(name: str, commands: tuple[str, ...]) -> str:
    """Return the page of a topic; an unknown name raises an error that suggests the nearest topic or command."""
    known = [*topics(), *commands]
    if (page := name.replace(" ", "-")) in topics():
        return _text(page)
    remedy = f"the topics are {', '.join(known)}"
    if close := nearest(name, known):
        remedy = f"did you mean '{close}'?"
    elif pages := _mentioning(name):
        remedy = f"it is mentioned in {', '.join(f'`inferometer help {page}`' for page in pages)}"
    raise UsageError(f"no help on '{name}'", remedy=remedy)


def _mentioning(words: str) -> list[str]:
    """Return the topics whose page has these words, with blanks or hyphens between them."""
    gap = r"[\s_-]+"
    parts = [re.escape(part) for part in re.split(gap, words) if part]
    wanted = re.compile(rf"\b{gap.join(parts)}\b", re.IGNORECASE)
    return [page for page in topics() if words[:1].isalnum() and wanted.search(_text(page))]


def _text(name: str) -> str:
    return _PAGES.joinpath(f"{name}.md").read_text("utf-8").removeprefix("# ").rstrip()
