"""The form for a new run, built from the same options as the command line, and the resulting command line.

The form offers less than the command line for files and code: options that read a file only accept uploaded files
(`base.confined` checks every path that an option's reader opens), and options that write files or load code are
missing.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from inferometer.base.confined import confined_to
from inferometer.base.errors import InferometerError, Name, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.secrets import MASK
from inferometer.options.asides import ASIDE
from inferometer.options.command_line import (
    WORDS,
    Command,
    Request,
    read,
    require,
    words_given,
)
from inferometer.options.option import OWN, Option, counted
from inferometer.options.options import Options
from inferometer.store.words import kept_words

Filled = Mapping[str, str | bool]
"""Field values by name; options that can be repeated have one value per line."""

ABOUT_SERVER = "Model and server"
"""The group of options for connecting to a server."""

URL, MODEL = "url", "model"
"""The first two fields of every form."""

_ADDRESS_FIELDS = {"url", f"{OWN}url", f"{OWN}urls"}
_MODEL_FIELDS = {"model", f"{OWN}model", f"{OWN}models"}
_NOT_OFFERED = {
    *ASIDE,
    *("csv", "verbose_csv", "json", "html", "markdown", "junit", "profile_export", "quiet", "verbose"),
    *("triton_directory", "model_repository", "proto_paths"),
    *(
        f"{OWN}{name}"
        for name in ("model_repository", "install_path", "journal", "study", "output", "folder")
    ),
    *(f"{OWN}{name}" for name in ("write_config", "force", "launch_mode", "scenario", "schema")),
    *(f"{OWN}{name}" for name in ("serve", "vary", "where", "preset", "ready", "start_timeout_s")),
    *(
        f"{OWN}{name}"
        for name in ("serve_env", "serve_file", "serve_set", "serve_logs", "allow_inconclusive")
    ),
    *(f"{OWN}{name}" for name in ("otlp_traces", "trace_share", "perfetto")),
    *(
        "store",
        "no_store",
        "ui",
        "prometheus",
        "otlp",
        "before_level",
        "after_level",
        "before_level_timeout_s",
    ),
    "check_python",
}
"""Fields of options that write files, load code, or make no sense in a browser, as the store keeps every result."""

_ONLY: Mapping[str, tuple[str, ...]] = {"ray": ("auto", "local")}
"""The offered values if they are restricted. A Ray cluster sends objects that are unpickled and can run any code, so
the form does not connect to a cluster at an arbitrary address."""

_HELP: Mapping[str, str] = {
    "ray": "Send the load from clients on a Ray cluster, as if they were one: auto for this machine's cluster, or "
    "local to start one here and stop it afterwards."
}
"""Help for options whose values are restricted here."""

_FILE_FIELDS = {
    *(
        "api_key_file",
        "tls.ca_file",
        "tls.certificate_file",
        "tls.key_file",
        "proto",
        "body_template",
        "request_intervals",
        "replay",
    ),
    *("data.sources", "data.prompts", "data.tokenizer"),
}
_FILE_MARK_FIELDS = {"data.files", "bodies", "data.prompt_tokens", "output_tokens"}  # with @ before the path
"""Fields with a file upload."""

_SPELT = {
    "grpc": "gRPC",
    "slo": "SLO",
    **{word: word.upper() for word in ("tls", "ca", "api", "url", "bls", "mpi")},
}
_PLAIN_URL = re.compile(r"[\w.-]+:[0-9]+")
_PLAIN_MODEL = re.compile(r"\w[\w-]*")


Check = Callable[[Request[Any]], Options | None]


@frozen
class Startable:
    """A command that can be started from the browser."""

    name: str
    command: Command[Any]
    check: Check  # validates the combination of options
    takes_words: bool = False  # accepts address and model as plain words
    has_target: bool = True  # needs an address and a model
    takes_many: bool = False  # several models
    needs_address: bool = True
    places: tuple[str, ...] = ()  # options for output folders, which are placed in the store


@frozen
class FormField:
    """An option as a field of the form."""

    name: str  # as on the command line
    label: str
    help: str
    metavar: str
    default: str
    choices: tuple[str, ...]
    is_flag: bool
    is_many: bool
    is_file: bool  # a file can be uploaded for it
    file_mark: str  # prefix of the file's path
    is_secret: bool
    is_required: bool


@frozen
class FormGroup:
    """A group of fields."""

    title: str
    fields: tuple[FormField, ...]


@frozen
class Checked:
    """The result of checking a filled form."""

    words: tuple[str, ...] = field(repr=False)  # after `inferometer`
    shown: tuple[str, ...]  # the same without secrets
    errors: Mapping[str, str]  # by field; "" for the form as a whole

    @property
    def line(self) -> str:
        return shlex.join(("inferometer", *self.shown))


def offered(startable: Startable) -> Iterator[tuple[str, Option]]:
    """The options in the form, each with the title of its group."""
    for title, members in startable.command.groups:
        for row in members:
            if row.field not in _NOT_OFFERED | _ADDRESS_FIELDS | _MODEL_FIELDS:
                yield title, row


def groups(startable: Startable) -> tuple[FormGroup, ...]:
    """The most important fields, those about the server last, then the others by group."""
    rows = list(offered(startable))
    main = [(title, row) for title, row in rows if row.is_main or row.field == "tags"]
    main.sort(key=lambda found: (found[1].values is None, found[0] == ABOUT_SERVER))
    found = {"": [_field(row, is_brief=True) for _, row in main]}
    for title, row in rows:
        if (title, row) not in main:
            found.setdefault(title, []).append(_field(row))
    return tuple(FormGroup(title, tuple(members)) for title, members in found.items() if members)


def _field(row: Option, *, is_brief: bool = False) -> FormField:
    name = row.names[-1]
    mark = {"data.files": "NAME=@", **dict.fromkeys(_FILE_MARK_FIELDS - {"data.files"}, "@")}.get(
        row.field, ""
    )
    text = _HELP.get(row.field, row.help)
    return FormField(
        name=name,
        label=_label(name),
        help=text.partition(". ")[0].rstrip(".") + "." if is_brief else text,
        metavar=row.metavar,
        default=row.default or "",
        choices=_ONLY.get(row.field, () if row.values is None else row.values.choices),
        is_flag=row.values is None,
        is_many=row.combine is not None and row.combine is not counted and row.values is not None,
        is_file=row.field in _FILE_FIELDS | _FILE_MARK_FIELDS,
        file_mark=mark,
        is_secret=row.is_secret,
        is_required=row.is_required,
    )


def _label(name: str) -> str:
    words = [_SPELT.get(word, word) for word in name.lstrip("-").split("-")]
    return " ".join((words[0][:1].upper() + words[0][1:] if words[0].islower() else words[0], *words[1:]))


# --- from fields to a command line


def checked(startable: Startable, filled: Filled, uploads: Path) -> Checked:
    """Check a filled form and build its command line. Reads only files in `uploads`."""
    words = (startable.name, *_words(startable, filled))
    with confined_to(uploads):
        errors = dict(_field_errors(startable, filled))
        if not errors:
            errors = _whole_error(startable, words[1:])
    return Checked(words, _without_secrets(startable, words), errors)


def _without_secrets(startable: Startable, words: Sequence[str]) -> tuple[str, ...]:
    """The words of the command line as stored, with each option as it was spelled."""
    rows = startable.command.by_name
    kept = kept_words(startable.name, words[1:], startable.command)
    return tuple(
        word if other in rows and rows[other] is rows.get(word) else other
        for word, other in zip(words, kept, strict=True)
    )


def _words(startable: Startable, filled: Filled) -> Iterator[str]:
    if startable.has_target:
        yield from _target(startable, str(filled.get(URL, "")).strip(), _lines(filled.get(MODEL, "")))
    for _, row in offered(startable):
        given = filled.get(row.names[-1])
        if row.values is None:
            if given is True:
                yield row.names[0]
        else:
            for value in _values(row, given):
                yield from _option(row, value)


def _option(row: Option, value: str) -> tuple[str, ...]:
    """The words of an option with its value: one word if the value looks like an option."""
    return (f"{row.names[-1]}={value}",) if value.startswith("-") else (row.names[0], value)


def _target(startable: Startable, url: str, models: Sequence[str]) -> Iterator[str]:
    """Address and model: as plain words if they are unambiguous."""
    is_plain = startable.takes_words and _PLAIN_URL.fullmatch(url) is not None
    if is_plain and all(_PLAIN_MODEL.fullmatch(model) for model in models) and len(models) < 2:
        yield from (url, *models)
        return
    rows = startable.command.by_name
    if url:
        yield from _option(rows["-u"], url)
    for model in models:
        yield from _option(rows["-m"], model)


def _lines(given: str | bool | None) -> list[str]:
    return [line.strip() for line in str(given or "").splitlines() if line.strip()]


def _values(row: Option, given: str | bool | None) -> list[str]:
    if row.combine is not None:
        return _lines(given)
    return [str(given).strip()] if isinstance(given, str) and given.strip() else []


def _field_errors(startable: Startable, filled: Filled) -> Iterator[tuple[str, str]]:
    known = {
        *((URL, MODEL) if startable.has_target else ()),
        *(row.names[-1] for _, row in offered(startable)),
    }
    for name in filled:
        if name not in known:
            yield "", f"'{name}' is not a field of this form"
    if startable.needs_address and not str(filled.get(URL, "")).strip():
        yield URL, "enter the address of the server, such as localhost:8000"
    for _, row in offered(startable):
        if row.values is None:
            continue
        values = _values(row, filled.get(row.names[-1]))
        if row.is_required and not values:
            yield (
                row.names[-1],
                f"this field is required; give a value such as {row.help.rpartition('such as ')[2]}",
            )
        for value in values:
            try:
                _check_offered(row, value)
                row.values.read(Name(row.names[-1], row.field), value)
            except UsageError as error:
                yield row.names[-1], _sentence(error, startable.command)


def _check_offered(row: Option, value: str) -> None:
    if row.is_secret and value.endswith(MASK):
        raise UsageError(
            f"the value of '{value}' was not stored", remedy="enter it again, or remove the line"
        )
    known = _ONLY.get(row.field, (value,))
    if value not in known:
        raise UsageError(
            f"{Name(row.names[-1], row.field)} takes {' or '.join(known)} in a browser, not '{value}'",
            remedy="if you trust that machine to run code here, run the command in a terminal",
        )


def _whole_error(startable: Startable, words: Sequence[str]) -> dict[str, str]:
    """The first error of the whole command line, at the field that it mentions."""
    try:
        request = read(words, startable.command)
        assert isinstance(request, Request)  # help and the like are not offered
        require(request)
        startable.check(request)
    except InferometerError as error:
        offered_fields = {row.field: row.names[-1] for _, row in offered(startable)}
        field = next((offered_fields[name.field] for name in error.about if name.field in offered_fields), "")
        return {field: _sentence(error, startable.command)}
    return {}


def _sentence(error: InferometerError, command: Command[Any]) -> str:
    """Return the text of an error, with the labels of the form's fields."""
    text = error.spelled(partial(label_of, command))
    return text[:1].upper() + text[1:]


def label_of(command: Command[Any], name: Name) -> str:
    """Return the label of an option in a message, with its value."""
    option, _, value = command.spell(name).partition(" ")
    rows = (row for _, members in command.groups for row in members)
    names = next((row.names for row in rows if option in row.names), (option,))
    return f"{_label(names[-1])} {value}".rstrip()


# --- from a command line to fields


def filled(startable: Startable, words: Sequence[str]) -> dict[str, str | bool]:
    """The fields for an earlier command line; options that the form does not offer are omitted."""
    names = {row.field: row.names[-1] for _, row in offered(startable)}
    found: dict[str, str | bool] = {}
    alone = []
    for row, value in words_given(words, startable.command):
        if row.field == WORDS:
            alone.append(value)
        elif row.field in _ADDRESS_FIELDS:
            found[URL] = value
        elif row.field in _MODEL_FIELDS:
            found[MODEL] = "\n".join((*_lines(found.get(MODEL)), value))
        elif row.values is None and row.names and row.names[-1] in names.values():
            found[row.names[-1]] = True
        elif row.field in names:
            before = _lines(found.get(names[row.field])) if row.combine is not None else []
            found[names[row.field]] = "\n".join((*before, value))
    if alone and URL not in found and (startable.needs_address or len(alone) > 1):
        found[URL] = alone.pop(0)
    if alone:
        found[MODEL] = "\n".join(alone)
    return found
