"""The command line of a command: from words to what they ask for, and the help.

The classic tool has the habits of GNU getopt_long, and all our commands have them too: values may start with a dash,
short options can be joined, any unambiguous prefix of a long option will do. `argparse` refuses the first, and could
not keep our own options from making the classic tool's prefixes ambiguous; so words are split here.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from inferometer.base.errors import UsageError
from inferometer.options.option import Groups, Option, appended, rows

T = TypeVar("T")


class Ask(Enum):
    """What can be asked instead of a run."""

    HELP = "help"
    VERSION = "version"


WORDS = "words"
"""The key of words that belong to no option, where a command takes such."""

OWN = "own."
"""Before the fields of a command's own options, which may have the names of shared ones."""

_WORD = Option((), "A word that belongs to no option.", field=WORDS, combine=appended)
_HELP = Option(("-h", "--help"), "Show this text.", field="ask", value=Ask.HELP)
_VERSION = Option(("--version",), "Show the version.", field="ask", value=Ask.VERSION)


@dataclass(frozen=True, slots=True)
class Command:
    """A command line: how it is called, what its help says, and the options it knows."""

    program: str
    usage: str  # what follows the program; several lines are several ways to use it
    description: str
    options: type | None = None  # the dataclass of those that only this command has
    shared: Groups = ()  # known as well, except those whose names the command's own options take
    shows_shared: bool = False  # whether the help lists them
    epilog: str = ""
    takes_words: bool = False  # words that belong to no option may stand between them
    usage_code: int = UsageError.exit_code  # the exit code where it is used wrongly

    @property
    def groups(self) -> Groups:
        """The options that the help lists."""
        return (*self._own, *(self._others if self.shows_shared else ()), ("About", (_HELP, _VERSION)))

    @property
    def by_name(self) -> Mapping[str, Option]:
        known = self.groups if self.shows_shared else (*self._others, *self.groups)
        return {name: row for _, members in known for row in members for name in row.names}

    @property
    def _own(self) -> Groups:
        return () if self.options is None else rows(self.options, prefix=OWN)

    @property
    def _others(self) -> Groups:
        taken = {name for _, members in self._own for row in members for name in row.names}
        return tuple(
            (title, tuple(row for row in members if taken.isdisjoint(row.names)))
            for title, members in self.shared
        )


_Use = tuple[Option, object]  # an option as it was used, and its value


def read(argv: Sequence[str], command: Command) -> dict[str, Any] | Ask:
    """What was given, by field. Values are checked; combinations are not."""
    by_name = command.by_name
    given: dict[str, Any] = {}
    for row, value in _uses(argv, by_name, takes_words=command.takes_words):
        if isinstance(value, Ask):
            return value
        given[row.field] = value if row.combine is None else row.combine(given.get(row.field), value)
    for row in by_name.values():
        if row.is_required and row.field not in given:
            raise UsageError(f"{row.names[0]} is not given", remedy=f"give it: {row.help}")
    return given


def own_options(given: dict[str, Any], cls: type[T]) -> T:
    """The options that only this command has, taken out of what was given."""
    names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return cls(**{name: given.pop(OWN + name) for name in names if OWN + name in given})


def _uses(argv: Sequence[str], by_name: Mapping[str, Option], *, takes_words: bool) -> Iterator[_Use]:
    """The options in the order they are met, each with its value."""
    words = iter(argv)
    is_secret = False  # what follows a secret unquoted may be the rest of it

    def alone(word: str) -> _Use:
        if is_secret or not takes_words:
            raise stray(word, is_secret=is_secret)
        return _WORD, word

    for word in words:
        if word == "-?":
            yield _HELP, Ask.HELP
        elif word == "--":
            for rest in words:
                yield alone(rest)
        elif not word.startswith("-") or word == "-":
            yield alone(word)
        else:
            for use in _long(word, words, by_name) if word.startswith("--") else _short(word, words, by_name):
                is_secret = use[0].is_secret
                yield use


def _long(word: str, words: Iterator[str], by_name: Mapping[str, Option]) -> Iterator[_Use]:
    prefix, equals, value = word.partition("=")
    name = _full_name(prefix, by_name)
    option = by_name[name]
    if option.values is not None:
        yield option, option.values.read(name, value if equals else _next(name, words))
        return
    if equals:
        raise UsageError(f"{name} takes no value, but got '{value}'", remedy=f"write just {name}")
    yield option, option.value


def _short(word: str, words: Iterator[str], by_name: Mapping[str, Option]) -> Iterator[_Use]:
    """The options joined in one word; the first that takes a value takes the rest."""
    for position in range(1, len(word)):
        name = f"-{word[position]}"
        option = by_name.get(name)
        if option is None:
            raise UsageError(f"Invalid short option '{name}'", remedy="see --help for those there are")
        if option.values is not None:
            rest = word[position + 1 :]
            yield option, option.values.read(name, rest if rest else _next(name, words))
            return
        yield option, option.value


def _next(name: str, words: Iterator[str]) -> str:
    value = next(words, None)
    if value is None:
        raise UsageError(f"Missing value for option '{name}'", remedy="give one, or leave the option out")
    return value


def _full_name(prefix: str, by_name: Mapping[str, Option]) -> str:
    if prefix in by_name:
        return prefix
    names = [name for name in by_name if name.startswith(prefix) and name.startswith("--")]
    reference = [name for name in names if not by_name[name].is_ours]
    if len(names) == 1 or len(reference) == 1:
        return (reference or names)[0]
    if names:
        raise UsageError(f"Ambiguous option '{prefix}'", remedy=f"it may be {', '.join(names)}")
    raise UsageError(f"Invalid long option '{prefix}'", remedy=_suggestion(prefix, by_name))


def _suggestion(name: str, by_name: Mapping[str, Option]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, [known for known in by_name if known.startswith("--")], n=1)
    return f"did you mean {close[0]}?" if close else "see --help for those there are"


def stray(word: str, *, is_secret: bool = False) -> UsageError:
    """The refusal of a word that belongs to no option."""
    if is_secret:
        return UsageError(
            "A word follows the header given with -H", remedy="quote the header: -H 'Name:Value'"
        )
    return UsageError(
        f"The argument '{word}' belongs to no option", remedy="remove it, or write its option before it"
    )


# --- what a command says of itself


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
