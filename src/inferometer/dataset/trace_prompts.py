"""Prompts described by a trace: with exactly its lengths, sharing exactly the leading blocks with equal names.

A block's text depends only on its name and the seed, and a shortened block is the beginning of the whole
one: the tokenizer draws token by token. So prompts with the same leading names begin with the same tokens. If the
names end before the prompt does, the rest is unique to that line. The first tokens of different blocks may be
equal by chance, but never enough of them to fill a block of a server's cache.

Prompts are generated on demand: those of a long trace are too large to hold in memory twice.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import overload

from inferometer.dataset.dataset import Step
from inferometer.dataset.replay import TraceLine
from inferometer.dataset.tokens import Tokenizer
from inferometer.dataset.trace_tokens import BLOCK, TraceTokens
from inferometer.model.spec import Tensor

REMEMBERED = 4096  # cached texts of blocks


class TracePrompts(Sequence[Step]):
    """Steps of a trace in which every line has lengths."""

    def __init__(self, entries: Sequence[TraceLine], tokenizer: Tokenizer, seed: int) -> None:
        self._entries = entries
        self._tokenizer = tokenizer
        self._seed = seed
        self._block = lru_cache(REMEMBERED)(self._text)

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, number: int) -> Step: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, number: int | slice) -> Step | tuple[Step, ...]:
        if isinstance(number, slice):
            return tuple(map(self._step, self._entries[number]))
        return self._step(self._entries[number])

    def __iter__(self) -> Iterator[Step]:
        return map(self._step, self._entries)

    @property
    def tokens(self) -> tuple[TraceTokens, ...]:
        """Lengths and blocks of each prompt in the trace."""
        return tuple(entry.tokens for entry in self._entries if entry.tokens is not None)

    @property
    def size(self) -> float:
        """Approximate bytes of all prompts."""
        words = self._tokenizer.words
        return (
            sum(prompt.input for prompt in self.tokens)
            * sum(len(word.encode()) for word in words)
            / len(words)
        )

    def _step(self, entry: TraceLine) -> Step:
        assert entry.tokens is not None  # checked by the caller
        prompt = Tensor("prompt", "JSON", (1,), self._prompt(entry.line, entry.tokens).encode())
        asked = asked_tokens(entry.tokens)
        return (prompt,) if asked is None else (prompt, Tensor("max_tokens", "JSON", (1,), b"%d" % asked))

    def _prompt(self, line: int, tokens: TraceTokens) -> str:
        sizes = [min(BLOCK, tokens.input - start) for start in range(0, tokens.input, BLOCK)]
        named = [self._block(f"block {name}", size) for name, size in zip(tokens.blocks, sizes, strict=False)]
        rest = sum(sizes[len(named) :])
        return "".join((*named, self._text(f"line {line}", rest) if rest else ""))

    def _text(self, name: str, size: int) -> str:
        return self._tokenizer.text(size, Random(f"{self._seed} {name}"))


def asked_tokens(tokens: TraceTokens) -> int | None:
    """Return the tokens to request, at least 1: servers refuse 0, the length that traces give for failed requests."""
    return None if tokens.output is None else max(1, tokens.output)
