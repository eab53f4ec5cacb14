"""Parsing of a command line into a `Request`.

The classic tool parses like GNU getopt_long, and so do all our commands: values may start with a dash, short options
can be joined, and any unambiguous prefix of a long option is accepted. This module does not use `argparse`, which
does not support the first; and our own options would make the classic tool's prefixes ambiguous.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from inferometer.base.errors import Name, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import is_digits, nearest
from inferometer.base.units import SECONDS, is_duration, plain_number
from inferometer.options.asides import Asides
from inferometer.options.names import with_names
from inferometer.options.option import OWN, Given, Groups, Option, appended, rows
from inferometer.options.values import text
from inferometer.options.words import addresses_of, is_surely_address

T = TypeVar("T")


class Ask(Enum):
    """Requests for information instead of a run."""

    HELP = "help"
    HELP_ALL = "help all"
    VERSION = "version"


WORDS = "words"
"""Key of the positional arguments, in commands that accept them."""

_WORD = Option((), "A positional argument.", field=WORDS, combine=appended)
_HELP = Option(("-h", "--help"), "Show this text.", field="ask", value=Ask.HELP)
_HELP_ALL = Option(("--help-all",), "Show all options.", field="ask", value=Ask.HELP_ALL, is_ours=True)
_VERSION = Option(("--version",), "Show the version.", field="ask", value=Ask.VERSION)


@frozen
class Command(Generic[T]):
    """A command: its name, its help, and its options."""

    program: str
    usage: str  # what follows the program; one line per form
    description: str
    options: type[T] | None = None  # dataclass of the options of this command alone
    shared: Groups = ()  # common options, except those whose names the command's own options take
    refused: Mapping[str, str] = field(default_factory=dict)  # unsupported fields: what to do instead
    examples: tuple[tuple[str, str], ...] = ()  # what follows the program, and its effect
    epilog: str = ""
    takes_words: bool = False  # accepts positional arguments
    takes_many: bool = False  # they may name several addresses and models
    needs_address: bool = True  # a single one of them is an address, not a model
    takes_dashed: bool = False  # they may start with a dash, unless that is an option
    takes_last: bool = False  # the last of repeated options wins, as in the classic tool
    usage_code: int = UsageError.exit_code  # exit code for a usage error

    @property
    def groups(self) -> Groups:
        """All supported options, by group."""
        shared = (
            (
                title,
                tuple(
                    row for row in members if row.names and not row.instead and row.field not in self.refused
                ),
            )
            for title, members in self._others
        )
        return (*self.own, *shared, ("About", self._about))

    @property
    def by_name(self) -> Mapping[str, Option]:
        known = (*self._others, *self.own, ("", self._about))
        return {name: row for _, members in known for row in members for name in (*row.aliases, *row.names)}

    @property
    def _about(self) -> tuple[Option, ...]:
        return (_HELP, _VERSION) if self.takes_last else (_HELP, _HELP_ALL, _VERSION)

    @property
    def own(self) -> Groups:
        """The options that only this command has."""
        return () if self.options is None else rows(self.options, prefix=OWN)  # type: ignore[arg-type]

    @property
    def _others(self) -> Groups:
        taken = {name for _, members in self.own for row in members for name in row.names}
        return tuple(
            (title, tuple(row for row in members if taken.isdisjoint(row.names)))
            for title, members in self.shared
        )

    def spell(self, name: Name, *, like: str = "") -> str:
        """Return the name of an option as in the help of this command; of several, one that begins with `like`."""
        rows = [row for _, members in self.groups for row in members if row.field == name.field]
        rows.sort(key=lambda row: not row.names[-1].startswith(like))
        for row in rows:
            if name.value and row.values is None and row.value == name.value:
                return row.names[-1]
        if not rows or any(name.split(" ")[0] in row.names for row in rows):
            return str(name)
        return f"{rows[0].names[-1]} {name.value}".rstrip()

    def refusal(self, name: str, row: Option) -> UsageError | None:
        """Return the error for an option that this command does not support; None if it does."""
        if (why := self.refused.get(row.field)) is not None:
            return UsageError(f"{name} is not supported by `{self.program}`", remedy=with_names(why))
        return (
            UsageError(f"{name} is not supported here", remedy=with_names(row.instead))
            if row.instead
            else None
        )


@frozen
class Target:
    """The servers and models that a user named, in options and positional words."""

    urls: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    @property
    def url(self) -> str | None:
        return self.urls[0] if self.urls else None

    @property
    def model(self) -> str:
        return self.models[0] if self.models else ""

    @property
    def has_server(self) -> bool:
        return bool(self.urls) or any("@" in model for model in self.models)


@frozen
class Request(Generic[T]):
    """What a user asked of a command, on the command line and in files; without defaults."""

    command: Command[T]
    values: Mapping[str, Any]  # by field of the option, with the prefix OWN for those of the command alone

    @property
    def words(self) -> tuple[str, ...]:
        """The positional words."""
        found: tuple[str, ...] = self.values.get(WORDS, ())
        return found

    @property
    def own(self) -> T:
        """The options that only this command has, with their defaults."""
        assert self.command.options is not None
        return self.command.options(**self._own_values)

    @property
    def given(self) -> frozenset[str]:
        """The fields of `own` that were given."""
        return frozenset(self._own_values)

    @property
    def _own_values(self) -> Mapping[str, Any]:
        return {name[len(OWN) :]: value for name, value in self.values.items() if name.startswith(OWN)}

    @property
    def asides(self) -> Asides:
        """The options about files, previews and storing."""
        return Asides(**{name: value for name, value in self.values.items() if name in _ASIDES})

    @property
    def load(self) -> Given:
        """The options of a measurement, by field."""
        return {
            name: value
            for name, value in self.values.items()
            if name != WORDS and name not in _ASIDES and not name.startswith(OWN)
        }

    def completed(self, others: Mapping[str, Any]) -> "Request[T]":
        """Return the request with the values of a file where it has none."""
        return Request(self.command, MappingProxyType({**others, **self.values}))

    def target(self) -> Target:
        """Return the addresses and models given by options and by positional words."""
        urls, models = (self._listed(name) for name in ("--url", "--model"))
        if not self.words:
            return Target(urls, models)
        if self.command.takes_many:
            addresses = addresses_of(self.words, is_known=bool(urls))
            others = (word for word in self.words if word not in addresses)
            return Target((*urls, *addresses), (*models, *others))
        words = list(self.words)
        for word in words:
            _check_not_a_file(word)
        if not urls and (url := self._address(words, has_model=bool(models))) is not None:
            urls = (url,)
            words.remove(url)
        self._check_strays(words, urls, has_model=bool(models))
        for word in words:
            if urls and is_surely_address(word) and word not in urls:
                name, _, version = word.partition(":")
                is_version = re.fullmatch(r"[A-Za-z][\w-]*", name) is not None and name != "localhost"
                other = f"; version {version} of a model is written {name} -x {version}" if is_version else ""
                if is_digits(urls[0]):
                    other = f"; {urls[0]} users are written -c {urls[0]}"
                raise UsageError(
                    f"Two addresses are given: {urls[0]} and {word}", remedy=f"give only one{other}"
                )
            if models and word != models[0]:
                raise UsageError(f"Two models are given: {models[0]} and {word}", remedy="give only one")
            models = models or (word,)
        return Target(urls, models)

    def _check_strays(self, words: Sequence[str], urls: Sequence[str], *, has_model: bool) -> None:
        """Raise for values written without their option, or without the commas between them."""
        if len(words) == 1 and not has_model and not re.search(r"[<>]|^\w\w+=", words[0]):
            return
        for place, word in enumerate(words):
            meant = self._option_of(word)
            has_name = any(re.match("[A-Za-z]", name) and ":" not in name for name in words[:place])
            if has_name and word.lower() in SECONDS:
                meant = f"the unit without a space, such as 10{word}"
            if has_name and word.lower() in _NOUNS:
                meant = "only the number after an option, such as -n 100"
            if meant is not None:
                raise UsageError(f"Unexpected argument '{word}'", remedy=f"write {meant}")
        numbers = [word.rstrip(",") for word in words if re.fullmatch(r"[0-9][0-9.]*,?", word)]
        if not numbers:
            return
        levels = {"concurrency": "-c", "request_rate": "-r"}
        remedy = "write the option before the number, such as -c 8, -r 100 or -d 10s"
        if (field := next((name for name in levels if name in self.values), None)) is not None:
            first = plain_number(self.values[field].start).replace(",", "")
            remedy = f"separate levels with commas: {levels[field]} {','.join((first, *numbers))}"
        elif urls and len(numbers) == 1 and re.fullmatch(r"(\w+://)?[^:/\s]+", urls[0]):
            remedy = f"write the port after a colon: {urls[0]}:{numbers[0]}"
        raise UsageError(f"Unexpected argument '{numbers[0]}'", remedy=remedy)

    def _option_of(self, word: str) -> str | None:
        """Return how to write a positional word that is the value of an option; None if it may be a model."""
        by_name = self.command.by_name
        if re.search("[<>]", word) and "--slo" in by_name:
            return f"--slo '{word}'"
        if re.fullmatch(r"[0-9][0-9.a-zµ]*[a-zµ]", word) and is_duration(word) and "-d" in by_name:
            return f"-d {word}"
        name, equals, value = word.partition("=")
        if equals and value:
            return next(
                (f"{dashed} {value}" for dashed in (f"--{name}", f"-{name}") if dashed in by_name), None
            )
        return None

    def _listed(self, name: str) -> tuple[str, ...]:
        """Return the values of an option as a tuple, whether or not it is repeatable."""
        row = self.command.by_name.get(name)
        value = None if row is None else self.values.get(row.field)
        return () if value is None else value if isinstance(value, tuple) else (value,)

    def _address(self, words: Sequence[str], *, has_model: bool) -> str | None:
        """Return the word that is the address of the only server, if there is one."""
        is_alone = len(words) == 1
        if not self.command.needs_address:
            return next(iter(addresses_of(words, is_known=is_alone and not has_model)), None)
        addresses = addresses_of(words) or [word for word in words if "@" in word]
        if not addresses and is_alone:
            remedy = f"write the address first: localhost:8000 {words[0]}"
            if words[0] == "help":
                remedy = f"for help, write {self.command.program} --help"
            raise UsageError(f"'{words[0]}' is not an address", remedy=remedy)
        return (addresses or words)[0]


_NOUNS = frozenset(("requests", "reqs", "rps", "qps", "req/s", "users", "vus", "clients", "connections"))
"""What people write after a number, as in `-n 100 requests`."""

_FILES = {
    "yaml yml": "write --scenario {word} if it is a scenario; options are read with --config {word}",
    "json": "for a saved run, write inferometer view {word}; for a request body, add --body @{word}",
    "js ts py lua": "scripts of other tools are not run; docs/coming-from.md lists the options for what they do",
    "txt jsonl csv": "for prompts, add --prompts {word}; for a trace, --replay {word}",
}
"""What to write instead of the name of a file, by its ending."""


def _check_not_a_file(word: str) -> None:
    """Raise for the name of a file where an address or a model belongs."""
    if is_surely_address(word):
        return
    ending = word.lower().rpartition(".")[2] if "." in word[1:] else ""
    remedy = next((text for endings, text in _FILES.items() if ending in endings.split()), None)
    if ending and remedy is not None:
        raise UsageError(
            f"'{word}' is the name of a file, not an address or a model", remedy=remedy.format(word=word)
        )


_ASIDES = frozenset(field.name for field in dataclasses.fields(Asides))

_Use = tuple[str, Option, object]  # an option as written, its definition, and its value


def read(argv: Sequence[str], command: Command[T]) -> Request[T] | Ask:
    """Parse a command line. Values are checked; combinations are not."""
    by_name = command.by_name
    given: dict[str, Any] = {}
    for word in () if command.takes_last else argv:
        name = f"-{word.partition('=')[0]}"
        if len(name) > len("--x") and not word.startswith("--") and name in by_name:
            raise UsageError(f"'{word}' has only one dash", remedy=f"write -{word}")
    for name, row, value in _uses(argv, by_name, command):
        if isinstance(value, Ask):
            return value
        if (refusal := command.refusal(name, row)) is not None:
            raise refusal
        if row.combine is not None:
            value = row.combine(given.get(row.field), value)
        elif not command.takes_last and given.get(row.field, value) != value:
            uses = [
                f"{other.names[-1]} {word}".rstrip()
                for other, word in words_given(argv, command)
                if other.field == row.field
            ]
            raise UsageError(f"Both {' and '.join(uses[:2])} are given", remedy="give one of them")
        given[row.field] = value
    return Request(command, MappingProxyType(given))


def require(request: Request[Any]) -> None:
    """Raise if a required option was given neither on the command line nor in a file."""
    for row in request.command.by_name.values():
        if row.is_required and row.field not in request.values:
            name = Name(row.names[0], row.field)
            word = next((word for word in request.words if _looks_like(word, row)), None)
            remedy = f"give it: {row.help}" if word is None else f"write {row.names[0]} '{word}'"
            raise UsageError(f"{name} is required", remedy=remedy)


def _looks_like(word: str, row: Option) -> bool:
    """Whether a positional word looks like the value of this option: an SLO, or a rate."""
    looks = {"SLO": r".*[<>].*", "RATE": r"[0-9][0-9.]*\s*[kKM]?(rps|qps|/\w+|req/s)?"}
    return re.fullmatch(looks.get(row.metavar.split("|")[0], "(?!)"), word) is not None


def words_given(argv: Sequence[str], command: Command[Any]) -> Iterator[tuple[Option, str]]:
    """Yield the options in the given order, each with its value as written; flags have none."""
    as_written = {
        name: row if row.values is None else row._replace(values=text(row.metavar))
        for name, row in command.by_name.items()
    }
    for _, row, value in _uses(argv, as_written, command):
        yield row, str(value) if row.values is not None or row is _WORD else ""


def _uses(argv: Sequence[str], by_name: Mapping[str, Option], command: Command[Any]) -> Iterator[_Use]:
    """Yield the options in the given order, each with its value."""
    words = iter(argv)
    is_secret = False  # a word after an unquoted secret may be part of it

    def alone(word: str) -> _Use:
        if is_secret or not command.takes_words:
            raise stray(word, is_secret=is_secret, command=command)
        return "", _WORD, word

    for word in words:
        if word == "-?":
            yield word, _HELP, Ask.HELP
        elif word == "--":
            for rest in words:
                yield alone(rest)
        elif not word.startswith("-") or word == "-" or _is_dashed(word, by_name, command):
            if not command.takes_last and word[:1] in _LONG_DASHES:
                raise UsageError(
                    f"'{word}' starts with a typographic dash", remedy=f"write {_plain_dashes(word)}"
                )
            yield alone(word)
        else:
            if not command.takes_last:
                word = _without_equals(word)
            split = _long if word.startswith("--") else _short
            for use in split(word, _Following(words, None if command.takes_last else by_name), by_name):
                is_secret = use[1].is_secret
                yield use


def _is_dashed(word: str, by_name: Mapping[str, Option], command: Command[Any]) -> bool:
    """Whether a word with one dash is an argument and not an option."""
    return command.takes_dashed and word not in by_name and not word.startswith("--")


_LONG_DASHES = ("\u2012", "\u2013", "\u2014", "\u2015", "\u2212")  # word processors turn - and -- into these


def _plain_dashes(word: str) -> str:
    name = word.lstrip("-" + "".join(_LONG_DASHES))
    return f"-{name}" if len(name.partition("=")[0]) == 1 else f"--{name}"


def _without_equals(word: str) -> str:
    """Turn `-c=4` into `-c4`."""
    return word[:2] + word[3:] if re.match(r"-[A-Za-z]=.", word) else word


@dataclasses.dataclass(frozen=True, slots=True)
class _Following:
    """Reader of the words after an option. In our own commands the name of another option is never a value."""

    words: Iterator[str]
    known: Mapping[str, Option] | None

    def value(self, name: str, metavar: str) -> str:
        value = next(self.words, None)
        is_option = self.known is not None and value is not None and value.partition("=")[0] in self.known
        if value is None or is_option:
            behind = f" before '{value}'" if is_option else ""
            raise UsageError(
                f"Missing value for option '{name}'{behind}",
                remedy=f"give one, {name} {metavar}, or leave the option out",
            )
        return value


def _long(word: str, words: _Following, by_name: Mapping[str, Option]) -> Iterator[_Use]:
    prefix, equals, value = word.partition("=")
    name = _full_name(prefix, by_name, is_classic=words.known is None)
    option = by_name[name]
    if option.values is not None:
        yield (
            name,
            option,
            option.values.read(
                Name(name, option.field), value if equals else words.value(name, option.metavar)
            ),
        )
        return
    if equals:
        raise UsageError(f"{name} takes no value, but got '{value}'", remedy=f"write just {name}")
    yield name, option, option.value


def _short(word: str, words: _Following, by_name: Mapping[str, Option]) -> Iterator[_Use]:
    """Yield the options joined in one word; the first that takes a value takes the rest."""
    for position in range(1, len(word)):
        name = f"-{word[position]}"
        option = by_name.get(name)
        if option is None:
            remedy = _as_ours(name, by_name) or "see --help for the options"
            raise UsageError(f"Invalid short option '{name}'", remedy=remedy)
        if option.values is not None:
            rest = word[position + 1 :]
            yield (
                name,
                option,
                option.values.read(
                    Name(name, option.field), rest if rest else words.value(name, option.metavar)
                ),
            )
            return
        yield name, option, option.value


def _full_name(prefix: str, by_name: Mapping[str, Option], *, is_classic: bool) -> str:
    if prefix in by_name:
        return prefix
    if not is_classic and len(prefix) == len("--x") and (short := prefix[1:]) in by_name:
        raise UsageError(f"'{prefix}' has two dashes", remedy=f"write {short}")
    if not is_classic and prefix in _NOT_PREFIXES and (meant := _as_ours(prefix, by_name)):
        raise UsageError(f"Invalid long option '{prefix}'", remedy=meant)
    names = [name for name in by_name if name.startswith(prefix) and name.startswith("--")]
    reference = [name for name in names if not by_name[name].is_ours]
    if len(names) == 1 or len(reference) == 1:
        return (reference or names)[0]
    if names and all(by_name[name] is by_name[names[0]] for name in names):
        return names[0]
    if names and not _as_ours(prefix, by_name):
        shown = [name for name in names if name in by_name[name].names and not by_name[name].instead]
        raise UsageError(f"Ambiguous option '{prefix}'", remedy=f"it may be {', '.join(shown or names)}")
    raise UsageError(f"Invalid long option '{prefix}'", remedy=_suggestion(prefix, by_name))


_NOT_PREFIXES = ("--token", "--latency")
"""Names of other tools that would be read as prefixes of options of ours with another meaning."""


def _as_ours(name: str, by_name: Mapping[str, Option]) -> str:
    """Return the option that corresponds to another tool's option, as advice; empty if unknown."""
    from inferometer.options.other_tools import BODY_FILES, OTHER_TOOLS

    ours = next(
        (own for own in OTHER_TOOLS.get(name, ()) if own in by_name and not by_name[own].instead), None
    )
    if ours is None:
        return ""
    row = by_name[ours]
    if ours == "--body" and name.startswith("--") and name not in BODY_FILES:
        return f"it is a field of the body here: --body {name[2:].replace('-', '_')}=VALUE"
    return f"it is {ours} here" + ("" if row.values is None else f": {ours} {row.metavar}")


def _suggestion(name: str, by_name: Mapping[str, Option]) -> str:
    if ours := _as_ours(name, by_name):
        return ours
    found = nearest(
        name, [known for known in by_name if known.startswith("--") and not by_name[known].instead]
    )
    if found:
        return f"did you mean {found}?"
    return "see --help-all for the options, and docs/coming-from.md for those of other tools"


def stray(word: str, *, is_secret: bool = False, command: Command[Any] | None = None) -> UsageError:
    """Return the error for an unexpected positional argument."""
    if is_secret:
        return UsageError(
            "Unexpected word after the header given with -H", remedy="quote the header: -H 'Name:Value'"
        )
    metavars = ("PORT",) if word.isdecimal() else ("DIR", "FILE") if re.search(r"[/.]", word) else ()
    own = () if command is None else command.own
    name = next((row.names[-1] for _, rows in own for row in rows if row.metavar in metavars), None)
    remedy = "remove it, or put its option before it" if name is None else f"write {name} {word}"
    return UsageError(f"Unexpected argument '{word}'", remedy=remedy)
