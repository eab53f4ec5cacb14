"""Options from a file in addition to the command line, and the effective options."""

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from inferometer.base.secrets import MASK, redacted
from inferometer.base.text import printable, to_stderr
from inferometer.options.asides import ASIDE
from inferometer.options.command_line import WORDS, Command, Request, words_given
from inferometer.options.option import Option, counted
from inferometer.options.words import addresses_of

if TYPE_CHECKING:
    from inferometer.options.config_file import ConfigFile, Setting, Settings

T = TypeVar("T")
FILE = "inferometer.yaml"
VARIABLE = "INFEROMETER_CONFIG"  # names a file, like --config
COMMAND_LINE = "command line"
_PLAIN = r"(?!(?:null|Null|NULL)$)[A-Za-z0-9_./][A-Za-z0-9_./:%@=+-]*(?<!:)"
_DEFAULT = r"\(default ([^\s)]+)\)"


def with_file(name: str, names: Sequence[str], argv: Sequence[str], request: Request[T]) -> Request[T] | None:
    """Return the request completed from the file; None if its options were only shown.

    `names` are the commands whose options files may set."""
    settings = _from_file(name, names, request)
    if request.asides.show_config:
        shown = {**settings, **_from_command_line(name, argv, settings)}
        print(printable("\n".join(_in_force(request.command, shown))))
        return None
    return request.completed({field: one.value for field, one in settings.items() if one.value is not None})


def command_named(name: str) -> Command[Any]:
    """Return the command line of one of our commands."""
    command: Command[Any] = import_module(f"inferometer.cli.{name}").COMMAND
    return command


def _from_file(name: str, names: Sequence[str], request: Request[Any]) -> "Settings":
    """Return the file's settings that the command line does not override."""
    asked, given = request.asides.config, request.values
    named = os.environ.get(VARIABLE) if asked is None else asked
    if named == "none" or (named is None and not os.path.lexists(FILE)):
        return {}
    from inferometer.measure.checks import LOAD_MODES
    from inferometer.options.config_file import ConfigFile, hidden_by

    commands = {known: partial(command_named, known) for known in names}
    file = ConfigFile(Path(FILE if named is None else named), commands, LOAD_MODES)
    settings = _found_settings(file, name) if named is None else file.settings(name)
    if settings and asked is None and not given.get("quiet") and "quiet" not in settings:
        to_stderr(f"Options are read from {file.path}; --config none ignores them.")
    words = request.words
    kept = _kept_with(name, words, request.asides.store)
    set_by_words = _fields_of(words, request.command, {*given, *settings})
    hidden = hidden_by((*given, *set_by_words), LOAD_MODES)
    return {
        field: one
        for field, one in settings.items()
        if field not in hidden and (kept is None or field in kept)
    }


def _found_settings(file: "ConfigFile", name: str) -> "Settings":
    """Return the settings of a file that was found, not named: all if trusted, else only those that require no
    trust."""
    from inferometer.cli.trusted import is_trusted, read_found
    from inferometer.options.config_file import UntrustedError

    found = read_found(file.path)
    file = replace(file, text=found.text)  # use exactly the text that is judged
    try:
        return replace(file, is_trusted=False).settings(name)
    except UntrustedError:
        if not is_trusted(found):
            raise
    return file.settings(name)


def _kept_with(name: str, words: Sequence[str], store: Path | None) -> Collection[str] | None:
    """Return the fields that apply with these words; None if all do."""
    if name != "compare":
        return None
    from inferometer.cli.compare import OF_SAVED, are_saved

    return OF_SAVED if are_saved(words, store) else None


def _fields_of(words: Sequence[str], command: Command[Any], known: Collection[str]) -> Iterator[str]:
    """Yield the fields that positional words set, given the `known` fields."""
    by_name = command.by_name
    for option in chain.from_iterable(_options_of(words, command, known)):
        if option in by_name:
            yield by_name[option].field


def _options_of(
    words: Sequence[str], command: Command[Any], known: Collection[str]
) -> Iterator[tuple[str, ...]]:
    """Yield, for each word, the options it sets. If only the model is missing, a single word is the model."""
    url, model = (
        command.by_name[name].field if name in command.by_name else "" for name in ("--url", "--model")
    )
    addresses = addresses_of(words, is_known=url in known and model not in known)
    for word in words:
        yield ("--model", "--url") if "@" in word else ("--url",) if word in addresses else ("--model",)


# --- effective options


def _from_command_line(name: str, argv: Sequence[str], settings: "Settings") -> "Settings":
    from inferometer.options.config_file import Setting

    command, found = command_named(name), dict[str, Setting]()
    uses = list(words_given(argv, command))
    alone = [word for row, word in uses if row.field == WORDS]
    options = _options_of(alone, command, {*settings, *(row.field for row, _ in uses)})
    stores = [Path(word) for row, word in uses if row.field == "store"]
    are_files = _kept_with(name, alone, stores[-1] if stores else None) is not None
    for row, word in uses:
        if row.field == WORDS and not are_files:
            row = command.by_name.get(next(options)[0], row)
        before = found.get(row.field)
        words = (word,) if before is None or row.combine is None else (*before.words, word)
        found[row.field] = Setting(row, words, True, COMMAND_LINE)
    return found


def _in_force(command: Command[Any], settings: "Settings") -> Iterator[str]:
    """Yield an equivalent options file; defaults and secrets are comments in it."""
    yield f"# `{command.program}`: the effective options. This can be saved as {FILE}."
    left = {field: one for field, one in settings.items() if field not in ASIDE}
    seen: set[str] = set()
    for title, members in (*command.groups, ("Else", tuple(one.row for one in left.values()))):
        lines = []
        for row in members:
            if row.field in seen or row.field in ASIDE:
                continue
            one = left.get(row.field)
            if one is not None:
                lines.append(_entry(one))
            elif default := _default(row):
                lines.append((f"# {_key(row)}: {_scalar(default)}", "default"))
            else:
                continue
            seen.add(row.field)
        if lines:
            yield from ("", f"# {title}", *(f"{text:<45} # {origin}" for text, origin in lines))


def _entry(one: "Setting") -> tuple[str, str]:
    row, words = one.row, one.words
    if row.field == WORDS:
        return f"# {redacted(' '.join(words))}", f"{one.origin}: not an option"
    if row.is_secret:
        names = [f"{word.partition(':')[0]}: {MASK}" for word in words]
        return f"# {_key(row)}: {_value(names)}", f"{one.origin}; not shown, must be given again"
    if row.values is None:
        is_number = row.combine is counted and one.value is not None
        count = words[0] if words[0].isdecimal() else str(len(words))
        return f"{_key(row)}: {count if is_number else str(one.value is not None).lower()}", one.origin
    shown = tuple(map(redacted, words))
    if shown != words:
        return f"# {_key(row)}: {_value(shown)}", f"{one.origin}; masked, must be given again"
    return f"{_key(row)}: {_value(words)}", one.origin


def _key(row: Option) -> str:
    """Return the name of an option in a file: its long name, if it has one."""
    names = (*row.names, *row.aliases)
    return next((name for name in names if name.startswith("--")), names[0]).lstrip("-")


def _default(row: Option) -> str:
    """Return the default as shown in the help; empty for flags and if there is none."""
    found = re.search(_DEFAULT, row.help)
    return row.default or ("" if found is None else found[1])


def _value(words: Sequence[str]) -> str:
    return _scalar(*words) if len(words) == 1 else f"[{', '.join(map(_scalar, words))}]"


def _scalar(word: str) -> str:
    return word if re.fullmatch(_PLAIN, word) else json.dumps(word, ensure_ascii=False)
