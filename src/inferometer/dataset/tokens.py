"""Texts of an exact number of tokens, with the tokenizer of the model that will read them.

Such a text consists of safe words: each is a single token in any position and after any other word. Then counts add up
when texts are joined, and texts with a common beginning have common first tokens. Safe words of a vocabulary are found
by encoding every word alone, and every word after every other. Most tokenizers never merge text across a blank, so
words with a leading blank are tried first, then words without one.

Tokens that a server adds (begin-of-text, chat template) are not tokens of the text.
"""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from inferometer.base.confined import check_path
from inferometer.base.errors import UsageError
from inferometer.base.reading import ANSWER, read_file
from inferometer.options.names import option_name, with_names

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Encoder

MOST_WORDS = 256  # every ordered pair is encoded once
FEWEST_WORDS = 8
_CANDIDATES = 4096
_FILE = "tokenizer.json"
_LOCAL = f"give a local {_FILE} or the folder that contains one, such as a downloaded model"
_INSTALL = "pip install 'inferometer[llm]', or leave out {--tokenizer} to count words instead"


class Tokenizer(Protocol):
    """Counter of tokens, and generator of texts with a given number of tokens."""

    @property
    def name(self) -> str:
        """Name of the tokenizer: its file, or `words`."""

    @property
    def is_exact(self) -> bool:
        """Whether its tokens are those of a real model."""

    @property
    def words(self) -> Sequence[str]:
        """Texts of one token each that can be joined in any order."""

    def count(self, text: str) -> int:
        """Return the tokens of the text alone, without special tokens at its beginning or end."""

    def text(self, tokens: int, draw: random.Random) -> str:
        """Return a text of exactly this many tokens. Counts of such texts add up when they are joined in any order, and
        the tokens of a shared beginning are the same."""


@cache
def open_tokenizer(path: str | None) -> Tokenizer:
    """Open the tokenizer in this file or folder; without one, words count as tokens."""
    return WordCounter() if path is None else TokenizerFile(path)


class WordCounter:
    """Fallback without a tokenizer: a common word counts as one token, as in most models."""

    name = "words"
    is_exact = False

    def __init__(self) -> None:
        self.words: Sequence[str] = tuple(f" {word}" for word in COMMON)

    def count(self, text: str) -> int:
        return len(text.split())

    def text(self, tokens: int, draw: random.Random) -> str:
        return "".join(draw.choices(self.words, k=tokens))


class TokenizerFile:
    """A tokenizer.json, read by the `tokenizers` library."""

    is_exact = True

    def __init__(self, path: str) -> None:
        self.name, self._encoder = _opened(path)
        self.words: Sequence[str] = _safe_words(self._encoder, self.name)

    def count(self, text: str) -> int:
        return len(_ids(self._encoder, text))

    def text(self, tokens: int, draw: random.Random) -> str:
        return "".join(draw.choices(self.words, k=tokens))


def _opened(path: str) -> "tuple[str, Encoder]":
    try:
        from tokenizers import Tokenizer as Encoder
    except ImportError:
        raise UsageError(
            f"{option_name('--tokenizer')} needs the package tokenizers, which is not installed",
            remedy=with_names(_INSTALL),
        ) from None
    file = Path(path, _FILE) if Path(path).is_dir() else Path(path)
    check_path(file)
    if not file.exists():
        raise UsageError(f"{option_name('--tokenizer')} {path}: no such file: {file}", remedy=_LOCAL)
    content = read_file(file, ANSWER, "the tokenizer", remedy=_LOCAL)
    try:
        encoder = Encoder.from_buffer(content)
    except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
        raise UsageError(
            f"{option_name('--tokenizer')} {path}: {file} is not a tokenizer: {error}",
            remedy=f"give the {_FILE} of a model",
        ) from None
    encoder.no_truncation()
    encoder.no_padding()
    return str(file), encoder


def _ids(encoder: "Encoder", text: str) -> list[int]:
    return encoder.encode(text, add_special_tokens=False).ids


# --- safe words


def _safe_words(encoder: "Encoder", name: str) -> tuple[str, ...]:
    candidates = _candidates(encoder)
    for before in (" ", ""):
        found = _apart(encoder, _single(encoder, [f"{before}{word}" for word in candidates]))
        if len(found) >= FEWEST_WORDS:
            return tuple(found)
    raise UsageError(
        f"{option_name('--tokenizer')} {name}: cannot make texts of an exact length, because it has fewer "
        f"than {FEWEST_WORDS} words "
        "that are a single token in any position",
        remedy=f"leave out {option_name('--tokenizer')} to count words instead",
    )


def _candidates(encoder: "Encoder") -> list[str]:
    """Return words of the vocabulary, most suitable first: common words, then other lower-case words, then all
    others."""
    ids = sorted(encoder.get_vocab(with_added_tokens=False).values())
    texts = (encoder.decode([number], skip_special_tokens=False) for number in ids)
    common = set(COMMON)

    def rank(word: str) -> int:
        if word in common:
            return 0
        if not (word.isascii() and word.isalpha()):
            return 3
        return 1 if 2 <= len(word) <= 12 and word.islower() else 2

    words = dict.fromkeys(word for text in texts if (word := text.strip()).isalnum())
    return sorted(words, key=rank)[:_CANDIDATES]


def _single(encoder: "Encoder", words: list[str]) -> list[str]:
    """Return words that are a single token; if there are enough, only those that remain one without their blank, as
    some servers strip prompts."""
    known: set[int] = set()
    found: list[str] = []
    others: list[str] = []
    for word in words:
        ids, bare = _ids(encoder, word), word.strip()
        if len(ids) == 1 and ids[0] not in known and encoder.decode(ids, False).strip() == bare:
            known.add(ids[0])
            (found if len(_ids(encoder, bare)) == 1 else others).append(word)
    return found if len(found) >= MOST_WORDS // 4 else found + others


def _apart(encoder: "Encoder", words: Sequence[str]) -> list[str]:
    """Return the first words that never merge: each keeps its token after every other one, and within a long text."""
    found = list(words[:MOST_WORDS])
    while len(found) >= FEWEST_WORDS:
        wrong = _merging(encoder, found)
        if not wrong:
            return found
        found = [word for word in found if word not in wrong]
    return []


def _merging(encoder: "Encoder", words: list[str]) -> set[str]:
    """Return words to remove so that texts of the remaining words have one token per word; empty if they already do.

    The first word of a text may have a different token, with a blank that the tokenizer inserts before it: then it
    may also merge differently.
    """
    start = words[0]
    firsts = {word: _ids(encoder, word)[0] for word in words}
    tokens = {word: _ids(encoder, start + word)[-1] for word in words}
    walk = list(_walk(words))
    found = _ids(encoder, "".join(walk))
    is_apart = len(found) == len(walk) and found[1:] == [tokens[word] for word in walk[1:]]
    if is_apart and firsts == tokens:
        return set()
    clashes: dict[str, set[str]] = {word: set() for word in words}
    for one in words:
        for other in words:
            within, ahead = _ids(encoder, start + one + other), _ids(encoder, one + other)
            if within[1:] != [tokens[one], tokens[other]] or ahead != [firsts[one], tokens[other]]:
                clashes[one].add(other)
                clashes[other].add(one)
    return _cover(clashes) or (set() if is_apart else {words[-1]})


def _cover(clashes: dict[str, set[str]]) -> set[str]:
    """Return a small set of words that covers every clash."""
    left: set[str] = set()
    while True:
        open_clashes = {word: len(others - left) for word, others in clashes.items() if word not in left}
        worst = max(open_clashes, key=open_clashes.__getitem__, default=None)
        if worst is None or not open_clashes[worst]:
            return left
        left.add(worst)


def _walk(words: Sequence[str]) -> Iterator[str]:
    """Yield every word after every other and after itself: a closed walk over all ordered pairs."""
    for gap in range(len(words)):
        for at, word in enumerate(words):
            yield word
            yield words[(at + gap) % len(words)]


# --- common short words, most of which are one token in most models

_LIST = """
the of and to in is you that it he was for on are as with his they at be this have from or one had by word but
not what all were we when your can said there use an each which she do how their if will up other about out many
then them these so some her would make like him into time has look two more write go see number no way could
people my than first water been call who oil its now find long down day did get come made may part over new sound
take only little work know place year live me back give most very after thing our just name good man think say
great where help through much before line right too mean old any same tell boy follow came want show also around
form three small set put end does another well large must big even such because turn here why ask went men read
need land different home us move try kind hand picture again change off play spell air away animal house point
page letter mother answer found study still learn should world
"""

COMMON = tuple(_LIST.split())
