"""A command line without its secrets."""

import re
from collections.abc import Iterator, Sequence

from inferometer.options.command_line import WORDS, Command, words_given

MASK = "***"
_PASSWORD = re.compile(r"(?<=://)[^/?#\s]*@")


def without_password(text: str) -> str:
    """An address without what stands before its host."""
    return _PASSWORD.sub(f"{MASK}@", text)


def kept_words(name: str, argv: Sequence[str], command: Command) -> tuple[str, ...]:
    """The command and its options as they were given; of a secret only its name is left."""
    return (name, *_words(argv, command))


def _words(argv: Sequence[str], command: Command) -> Iterator[str]:
    for row, word in words_given(argv, command):
        if row.field != WORDS:
            names = (*row.names, *row.aliases)  # of one that is understood and not shown only these
            yield next((name for name in names if name.startswith("--")), names[0])
        if row.is_secret:
            head, colon, _ = word.partition(":")
            yield f"{head}:{MASK}" if colon else MASK
        elif row.field == WORDS or row.values is not None:
            yield without_password(word)
