"""`make changelog`: move the fragments in changes/ into the section of this version in CHANGELOG.md."""

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import inferometer

ROOT = Path(__file__).resolve().parent.parent
CHANGES = ROOT / "changes"
CHANGELOG = ROOT / "CHANGELOG.md"
KINDS = {
    "added": "Added",
    "changed": "Changed",
    "deprecated": "Deprecated",
    "removed": "Removed",
    "fixed": "Fixed",
}
PLACEHOLDER = "Entries are collected in [changes/](changes/README.md) until the release."
WIDTH = 120
_NAME = re.compile(r"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)\.(?P<kind>[a-z]+)\.md")


class Fragment(NamedTuple):
    """One entry of the changelog."""

    name: str
    kind: str
    text: str


class FragmentError(ValueError):
    """A fragment that does not follow changes/README.md."""


def main() -> None:
    fragments = read_fragments(CHANGES)
    if not fragments:
        raise SystemExit("changes/ has no fragments: CHANGELOG.md is up to date")
    CHANGELOG.write_text(with_entries(CHANGELOG.read_text(), inferometer.__version__, fragments))
    for fragment in fragments:
        (CHANGES / f"{fragment.name}.{fragment.kind}.md").unlink()
    print(f"CHANGELOG.md: {len(fragments)} entries added to {inferometer.__version__}")


def read_fragments(folder: Path) -> tuple[Fragment, ...]:
    """Read every fragment, by name; anything else in the folder is an error."""
    files = sorted(path for path in folder.iterdir() if path.name != "README.md")
    return tuple(parse(path.name, path.read_text()) for path in files)


def parse(file_name: str, text: str) -> Fragment:
    found = _NAME.fullmatch(file_name)
    if found is None:
        raise FragmentError(f"changes/{file_name}: name it NAME.KIND.md, in lower case with hyphens")
    if found["kind"] not in KINDS:
        raise FragmentError(
            f"changes/{file_name}: '{found['kind']}' is not a kind; choose from {', '.join(KINDS)}"
        )
    words = text.strip()
    problem = _problem(words)
    if problem:
        raise FragmentError(f"changes/{file_name}: {problem}")
    return Fragment(found["name"], found["kind"], " ".join(words.split()))


def _problem(text: str) -> str | None:
    if not text:
        return "is empty; say what changed for the user"
    if "\n\n" in text:
        return "has several paragraphs; write one, or several fragments"
    if text.startswith(("-", "*", "#")):
        return "starts with markup; the bullet is added by make changelog"
    if not text.endswith((".", ".)")):
        return "does not end with a period"
    return None


def with_entries(changelog: str, version: str, fragments: Iterable[Fragment]) -> str:
    """Append fragments to the section of a version; a missing section becomes the first one."""
    heading = f"## {version}"
    head, found, rest = changelog.partition(f"\n{heading}")
    if not found:
        head, _, rest = changelog.partition("\n## ")
        rest = f"\n\n## {rest}" if rest else "\n"
    title, _, body = rest.partition("\n")
    own, following, later = body.partition("\n## ")
    title = title.removesuffix(", unreleased")
    section = "\n\n".join(filter(None, (own.replace(PLACEHOLDER, "").strip(), *_blocks(fragments))))
    return f"{head}\n{heading}{title}\n\n{section}\n{following}{later}"


def _blocks(fragments: Iterable[Fragment]) -> Iterator[str]:
    given = tuple(fragments)
    for kind, heading in KINDS.items():
        entries = [fragment.text for fragment in given if fragment.kind == kind]
        if entries:
            yield "\n".join((heading, *map(_bullet, entries)))


def _bullet(text: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    main()
