"""From the words of a command line to what they ask for.

The classic tool has the habits of GNU getopt_long, and all our commands have them too: values may start with a dash,
short options can be joined, any unambiguous prefix of a long option will do. `argparse` refuses the first, and could
not keep our own options from making the classic tool's prefixes ambiguous; so words are split here.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from inferometer.base.errors import UsageError
from inferometer.options.option import Ask, Groups, Option, Origin, appended
from inferometer.options.options import ABOUT

T = TypeVar("T")

WORDS = "words"
"""The key of words that belong to no option, where a command takes such."""

_WORD = Option((), "A word that belongs to no option.", field=WORDS, combine=appended)


@dataclass(frozen=True, slots=True)
class Command:
    """A command line: how it is called, what its help says, and the options it knows."""

    program: str
    usage: str  # what follows the program; several lines are several ways to use it
    description: str
    own: Groups  # shown in the help
    shared: Groups = ()  # known as well; those whose names the own ones take are left out
    epilog: str = ""
    takes_words: bool = False  # words that belong to no option may stand between them

    @property
    def groups(self) -> Groups:
        """The options of the help."""
        return (*self.own, *ABOUT)

    @property
    def by_name(self) -> Mapping[str, Option]:
        return {
            name: row
            for _, members in (*without(self.shared, self.own), *self.groups)
            for row in members
            for name in row.names
        }


def without(groups: Groups, others: Groups) -> Groups:
    """The groups without the options that share a name with one of the others."""
    taken = {name for _, members in others for row in members for name in row.names}
    return tuple(
        (title, tuple(row for row in members if taken.isdisjoint(row.names))) for title, members in groups
    )


@dataclass(frozen=True, slots=True)
class Use:
    """One option as used: `name` is its full spelling."""

    option: Option
    name: str
    value: object


def read(argv: Sequence[str], command: Command) -> dict[str, Any] | Ask:
    """What was given, by field. Values are checked; combinations are not."""
    by_name = command.by_name
    given: dict[str, Any] = {}
    for use in _uses(argv, by_name, takes_words=command.takes_words):
        if isinstance(use.value, Ask):
            return use.value
        field, combine = use.option.field, use.option.combine
        given[field] = use.value if combine is None else combine(given.get(field), use.value)
    for row in by_name.values():
        if row.is_required and row.field not in given:
            raise UsageError(f"{row.names[0]} is not given", remedy=f"give it: {row.help}")
    return given


def taken(given: dict[str, Any], cls: type[T], prefix: str = "") -> T:
    """The options of a class, taken out of what was given."""
    names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    found = {name: given.pop(prefix + name) for name in names if prefix + name in given}
    return cls(**found)


def _uses(argv: Sequence[str], by_name: Mapping[str, Option], *, takes_words: bool) -> Iterator[Use]:
    """The options in the order they are met, each with its value."""
    words = iter(argv)
    is_secret = False  # what follows a secret unquoted may be the rest of it

    def alone(word: str) -> Use:
        if is_secret or not takes_words:
            raise stray(word, is_secret=is_secret)
        return Use(_WORD, word, word)

    for word in words:
        if word == "-?":
            yield Use(by_name["-h"], "-h", Ask.HELP)
        elif word == "--":
            for rest in words:
                yield alone(rest)
        elif not word.startswith("-") or word == "-":
            yield alone(word)
        else:
            for use in _long(word, words, by_name) if word.startswith("--") else _short(word, words, by_name):
                is_secret = use.option.is_secret
                yield use


def _long(word: str, words: Iterator[str], by_name: Mapping[str, Option]) -> Iterator[Use]:
    prefix, equals, value = word.partition("=")
    name = _full_name(prefix, by_name)
    option = by_name[name]
    if option.values is not None:
        yield Use(option, name, option.values.read(name, value if equals else _next(name, words)))
        return
    if equals:
        raise UsageError(f"{name} takes no value, but got '{value}'", remedy=f"write just {name}")
    yield Use(option, name, option.value)


def _short(word: str, words: Iterator[str], by_name: Mapping[str, Option]) -> Iterator[Use]:
    """The options joined in one word; the first that takes a value takes the rest."""
    for position in range(1, len(word)):
        name = f"-{word[position]}"
        option = by_name.get(name)
        if option is None:
            raise UsageError(f"Invalid short option '{name}'", remedy="see --help for those there are")
        if option.values is not None:
            rest = word[position + 1 :]
            yield Use(option, name, option.values.read(name, rest if rest else _next(name, words)))
            return
        yield Use(option, name, option.value)


def _next(name: str, words: Iterator[str]) -> str:
    value = next(words, None)
    if value is None:
        raise UsageError(f"Missing value for option '{name}'", remedy="give one, or leave the option out")
    return value


def _full_name(prefix: str, by_name: Mapping[str, Option]) -> str:
    if prefix in by_name:
        return prefix
    names = [name for name in by_name if name.startswith(prefix) and name.startswith("--")]
    reference = [name for name in names if by_name[name].origin is Origin.REFERENCE]
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
