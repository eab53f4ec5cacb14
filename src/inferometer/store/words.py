"""A command line without its secrets."""

from collections.abc import Iterator, Sequence
from typing import Any

from inferometer.base.secrets import MASK, redacted, redacted_body, redacted_parameter
from inferometer.options.command_line import WORDS, Command, words_given
from inferometer.options.option import Option


def kept_words(name: str, argv: Sequence[str], command: Command[Any]) -> tuple[str, ...]:
    """The command and its options as given; secrets are masked, and a body is replaced by its digest."""
    return (name, *_words(argv, command))


def _words(argv: Sequence[str], command: Command[Any]) -> Iterator[str]:
    for row, word in words_given(argv, command):
        if row.field == WORDS:
            yield _word(row, word)
            continue
        names = (*row.names, *row.aliases)  # hidden options only have aliases
        name = next((name for name in names if name.startswith("--")), names[0])
        if row.values is None:
            yield name
        elif word.startswith("-") and name.startswith("--"):  # a separate word would look like an option
            yield f"{name}={_word(row, word)}"
        else:
            yield from (name, _word(row, word))


def _word(row: Option, word: str) -> str:
    if row.is_secret:
        head, colon, _ = word.partition(":")
        return f"{head}:{MASK}" if colon else MASK
    if row.field == "bodies":
        return redacted_body(word)
    if row.field == "request_parameters":
        name, colon, rest = word.partition(":")
        value, _, kind = rest.rpartition(":")
        return f"{name}:{redacted_parameter(name, value)}:{kind}" if colon else redacted(word)
    return redacted(word)
