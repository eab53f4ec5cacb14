"""From the words of a command line to `Options`.

The contract asks for the habits of GNU getopt_long: values may start with a dash, short options can be
glued, any unambiguous prefix of a long option will do. `argparse` refuses the first, and could not keep
our own options from making the classic tool's prefixes ambiguous; so words are split here, and `argparse`
only prints the help.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import UsageError
from inferometer.base.options import Dialect, Option
from inferometer.dataset.options import OPTIONS as DATASET
from inferometer.load.options import OPTIONS as LOAD
from inferometer.measure.checks import check_asked
from inferometer.report.options import OPTIONS as REPORT
from inferometer.services.kinds import AUTO
from inferometer.services.options import OPTIONS as TARGET
from inferometer.stats.options import OPTIONS as MEASURE

if TYPE_CHECKING:
    from inferometer.measure.options import Options


class Ask(Enum):
    """What can be asked instead of a measurement."""

    HELP = auto()
    VERSION = auto()


GROUPS = (
    ("Model and server", TARGET),
    ("Load", LOAD),
    ("Measurement", MEASURE),
    ("Input data", DATASET),
    ("Output", REPORT),
    (
        "About",
        (
            Option(("-h", "--help"), "ask", "Show this text.", value=Ask.HELP),
            Option(("--version",), "ask", "Show the version.", value=Ask.VERSION),
        ),
    ),
)

Groups = tuple[tuple[str, tuple[Option, ...]], ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The options a command knows, and whether words that belong to none may stand between them."""

    by_name: Mapping[str, Option]
    takes_words: bool = False

    @property
    def long(self) -> tuple[str, ...]:
        return tuple(name for name in self.by_name if name.startswith("--"))


def vocabulary(groups: Groups, *, takes_words: bool = False) -> Vocabulary:
    """Of the options in the groups; a later one takes a name from an earlier one."""
    names = {name: option for _, options in groups for option in options for name in option.names}
    return Vocabulary(names, takes_words)


_CLASSIC = vocabulary(GROUPS)
_MEASURE = vocabulary(GROUPS, takes_words=True)  # an address may stand alone
_WORD = Option((), "words", "A word that belongs to no option.", repeatable=True)

# Asking for one of these in `inferometer measure` is asking for its way of stopping a level.
_CLASSIC_STOPPING = (
    "measurement_interval_ms",
    "measurement_mode",
    "measurement_request_count",
    "stability_percentage",
    "max_trials",
    "request_count",
)
_CLASSIC_URL = "localhost:8000"  # of every kind over HTTP, where TorchServe itself listens on 8080
_DURATION_S = 10.0
_REQUEST_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Use:
    """One option as used: `name` is its full spelling."""

    option: Option
    name: str
    value: object


def parse_classic(argv: Sequence[str]) -> "Options | Ask":
    """The options of the script `perf_analyzer`."""
    asked = read_words(argv, _CLASSIC, partial(check_asked, is_classic=True))
    if isinstance(asked, Ask):
        return asked
    if asked.get("service_kind") == "torchserve":
        asked.setdefault("url", _CLASSIC_URL)
    return _options(asked)


def parse_measure(argv: Sequence[str], *, duration_s: float = _DURATION_S) -> "Options | Ask":
    """The options of `inferometer measure`: same words, but an address may stand alone, and it stops by
    precision, at the latest after `duration_s`."""
    asked = read_words(argv, _MEASURE, _check_measure)
    return asked if isinstance(asked, Ask) else measure_options(asked, duration_s=duration_s)


def measure_options(asked: dict[str, Any], *, duration_s: float = _DURATION_S) -> "Options":
    """What was asked by field, with the defaults of `inferometer measure`."""
    asked.setdefault("request_timeout_s", _REQUEST_TIMEOUT_S)
    asked.setdefault("sequence_ids", (secrets.randbits(62) + 1, None))  # two runs at once never share an id
    if not any(field in asked for field in _CLASSIC_STOPPING):
        asked.setdefault("duration_s", duration_s)
    if "headers" in asked:  # HTTP/2 forbids the blanks around a value, which the classic tool sends over gRPC
        asked["headers"] = tuple((name, value.strip(" ")) for name, value in asked["headers"])
    return _options(asked)


def print_measure_help() -> None:
    """The help of `inferometer measure`."""
    print_help(
        "inferometer measure",
        usage="%(prog)s [URL] [-m NAME] [options]",
        description="Load a model and measure its latency and throughput. An address alone is asked what it is.",
        groups=GROUPS,
    )


def print_help(program: str, *, usage: str, description: str, groups: Groups, epilog: str = "") -> None:
    """The help of a command whose options stand in tables."""
    import argparse

    from rich_argparse import RichHelpFormatter

    parser = argparse.ArgumentParser(
        prog=program,
        usage=usage,
        description=description,
        epilog=epilog,
        formatter_class=RichHelpFormatter,
        add_help=False,
    )
    for title, options in groups:
        group = parser.add_argument_group(title)
        for option in options:
            text = describe(option).replace("%", "%%")
            if option.parse is None:
                group.add_argument(*option.names, action="store_true", help=text)
            else:
                group.add_argument(*option.names, metavar=option.metavar, help=text)
    parser.print_help()


def describe(option: Option) -> str:
    """What the option does, its default, and where it stands."""
    notes = [f"default {option.default}"] if option.default else []
    if option.deprecated:
        notes.append("deprecated")
    if not option.built:
        notes.append("not supported yet")
    return f"{option.help} ({'; '.join(notes)})" if notes else option.help


def _check_measure(asked: dict[str, Any]) -> None:
    """A word that stands alone is the address; where no kind is asked for, that is asked what it is."""
    words = asked.pop("words", ())
    for word in words:
        if word != "localhost" and not any(mark in word for mark in ":/."):
            raise _stray(word, secret=False)
        if "url" in asked:
            raise UsageError(f"Two addresses are given: {asked['url']} and {word}", remedy="give one")
        asked["url"] = word
    if "grpc_method" in asked:
        asked.setdefault("service_kind", "dynamic_grpc")
    if "url" in asked and (words or not asked.get("model")):
        asked.setdefault("service_kind", AUTO)
    check_asked(asked)


def read_words(
    argv: Sequence[str], known: Vocabulary, check: Callable[[dict[str, Any]], None]
) -> dict[str, Any] | Ask:
    """What was asked, by field, after every check that needs no server.

    "words" are those that belong to no option, where the command takes such.
    """
    asked: dict[str, Any] = {}
    last: dict[str, Use] = {}
    for use in _uses(argv, known):
        if isinstance(use.value, Ask):
            return use.value
        field = use.option.field
        asked[field] = (*asked.get(field, ()), use.value) if use.option.repeatable else use.value
        last[field] = use
    check(asked)
    for use in last.values():
        refusal = use.option.unsupported(use.name)
        if refusal is not None:
            raise refusal
    return asked


def _uses(argv: Sequence[str], known: Vocabulary) -> Iterator[Use]:
    """The options in the order they are met, each with its parsed value."""
    words = iter(argv)
    secret = False  # what follows a secret unquoted may be the rest of it
    for word in words:
        if word == "-?":
            yield Use(known.by_name["-h"], "-h", Ask.HELP)
        elif word == "--":
            for rest in words:
                yield _word(rest, known, secret)
        elif not word.startswith("-") or word == "-":
            yield _word(word, known, secret)
        elif word.startswith("--"):
            use = _long(word, words, known)
            secret = use.option.secret
            yield use
        else:
            for use in _short(word, words, known):
                secret = use.option.secret
                yield use


def _word(word: str, known: Vocabulary, secret: bool) -> Use:
    if secret or not known.takes_words:
        raise _stray(word, secret)
    return Use(_WORD, word, word)


def _long(word: str, words: Iterator[str], known: Vocabulary) -> Use:
    prefix, equals, value = word.partition("=")
    name = _full_name(prefix, known)
    option = known.by_name[name]
    if option.parse is not None:
        return Use(option, name, option.parse(name, value if equals else _next(name, words)))
    if equals:
        raise UsageError(f"{name} takes no value, but got '{value}'", remedy=f"write just {name}")
    return Use(option, name, option.value)


def _short(word: str, words: Iterator[str], known: Vocabulary) -> Iterator[Use]:
    """The options glued into one word; the first that takes a value takes the rest."""
    for position in range(1, len(word)):
        name = f"-{word[position]}"
        option = known.by_name.get(name)
        if option is None:
            raise UsageError(f"Invalid short option '{name}'", remedy="see --help for those there are")
        if option.parse is not None:
            rest = word[position + 1 :]
            yield Use(option, name, option.parse(name, rest if rest else _next(name, words)))
            return
        yield Use(option, name, option.value)


def _next(name: str, words: Iterator[str]) -> str:
    value = next(words, None)
    if value is None:
        raise UsageError(f"Missing value for option '{name}'", remedy="give one, or leave the option out")
    return value


def _full_name(prefix: str, known: Vocabulary) -> str:
    if prefix in known.by_name:
        return prefix
    names = [name for name in known.long if name.startswith(prefix)]
    reference = [name for name in names if known.by_name[name].dialect is Dialect.REFERENCE]
    if len(names) == 1 or len(reference) == 1:
        return (reference or names)[0]
    if names:
        raise UsageError(f"Ambiguous option '{prefix}'", remedy=f"it may be {', '.join(names)}")
    raise UsageError(f"Invalid long option '{prefix}'", remedy=_suggestion(prefix, known))


def _suggestion(name: str, known: Vocabulary) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known.long, n=1)
    return f"did you mean {close[0]}?" if close else "see --help for those there are"


def _stray(word: str, secret: bool) -> UsageError:
    if secret:
        return UsageError(
            "A word follows the header given with -H", remedy="quote the header: -H 'Name:Value'"
        )
    return UsageError(
        f"The argument '{word}' belongs to no option", remedy="remove it, or write its option before it"
    )


def _options(asked: dict[str, Any]) -> "Options":
    from inferometer.dataset.build import DataOptions
    from inferometer.measure.options import Options, Range
    from inferometer.services.endpoint import Tls

    names = {field.name for field in fields(Options)}
    if "precision" in asked:
        asked.setdefault("duration_s", _DURATION_S)
    built = {field: value for field, value in asked.items() if field in names}
    built["verbose"] = len(asked.get("verbose", ()))
    for field in ("request_rate", "periodic_concurrency"):
        if field in asked:
            built[field] = Range(*asked[field])
    if "concurrency" in asked:
        built["concurrency"] = Range(*asked["concurrency"])
    elif any(field in asked for field in ("old_start", "old_sweep")):
        end = asked.get("old_end", 0) if "old_sweep" in asked else None
        built["concurrency"] = Range(asked.get("old_start", 1), end)
    data = _part(asked, "data.")
    data["sources"] = _sources(asked.get("data.sources", ()))
    data["shapes"] = dict(asked.get("data.shapes", ()))
    if "streaming" in asked:
        built["asynchronous"] = True
    tls = Tls(**_part(asked, "tls."))
    if "insecure" in asked:
        tls = replace(tls, verify_peer=False, verify_host=False)
    return Options(**built, data=DataOptions(**data), tls=tls)


def _part(asked: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {field.removeprefix(prefix): value for field, value in asked.items() if field.startswith(prefix)}


def _sources(given: tuple[str, ...]) -> tuple[str, ...]:
    """random is what is sent when nothing else is asked for; saying it adds nothing."""
    chosen = tuple(source for source in given if source != "random")
    if "zero" in chosen:
        return ("zero",)
    return chosen if chosen else ("random",)
