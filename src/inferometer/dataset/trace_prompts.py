"""Prompts as a trace describes them: of exactly its lengths, sharing exactly the leading blocks that it names alike.

A block's text depends on nothing but its name and the seed, and one that is cut short is the beginning of the whole
one: the tokenizer draws token by token. So prompts with the same leading names begin with the same tokens. Where the
names end before the prompt does, the rest is a text of that line's own. The first tokens of different blocks may be
alike by chance, but never enough of them to fill a block of a server's cache.

Prompts are made when they are asked for: a trace of thousands of long ones is larger than memory should hold twice.
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

REMEMBERED = 4096  # texts of blocks


class TracePrompts(Sequence[Step]):
    """A step for each line of a trace in which every line has lengths."""

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
        """What the trace says of each."""
        return tuple(entry.tokens for entry in self._entries if entry.tokens is not None)

    @property
    def size(self) -> float:
        """Bytes of all prompts, about."""
        words = self._tokenizer.words
        return (
            sum(prompt.input for prompt in self.tokens)
            * sum(len(word.encode()) for word in words)
            / len(words)
        )

    def _step(self, entry: TraceLine) -> Step:
        assert entry.tokens is not None  # the trace has been asked
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
    """What a request asks for: servers refuse to answer with no token at all, as failed requests of a trace did."""
    return None if tokens.output is None else max(1, tokens.output)
