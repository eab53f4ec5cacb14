"""The pages of `inferometer help TOPIC`: short Markdown files in `pages`."""

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
    if name in topics():
        return _text(name)
    close = nearest(name, known)
    remedy = f"did you mean '{close}'?" if close else f"the topics are {', '.join(known)}"
    raise UsageError(f"no help on '{name}'", remedy=remedy)


def _text(name: str) -> str:
    return _PAGES.joinpath(f"{name}.md").read_text("utf-8").removeprefix("# ").rstrip()
