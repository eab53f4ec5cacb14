"""What a trace says of a request instead of its text: how long prompt and answer are, and what prompts share."""

from collections.abc import Sequence
from dataclasses import dataclass

BLOCK = 512  # tokens
LONGEST = 10_000_000  # tokens of a prompt or an answer: anything longer is a mistake in the file


@dataclass(frozen=True, slots=True)
class TraceTokens:
    """`blocks` name the leading blocks of the prompt, each of 512 tokens but the last: the same name, the same text."""

    input: int
    output: int | None = None  # None where the trace does not say; 0 where nothing was answered
    blocks: tuple[int | str, ...] = ()
    session: str | None = None


def trace_place(path: str, line: int) -> str:
    return f"line {line} of '{path}'"


def cacheable_in_blocks(prompts: Sequence[TraceTokens]) -> int:
    """Tokens of leading blocks that an earlier prompt began with, too: what an ideal prefix cache could hold, which
    forgets nothing and has a prompt at once."""
    nodes: dict[tuple[int, int | str], int] = {}  # (number of the beginning before it, block) -> number
    longest: list[int] = [0]  # tokens of the last block of each beginning
    shared = 0
    for prompt in prompts:
        node, is_shared = 0, True
        whole, rest = divmod(prompt.input, BLOCK)
        for place, name in enumerate(prompt.blocks):
            size = BLOCK if place < whole else rest
            node = nodes.setdefault((node, name), len(longest))
            if node == len(longest):
                longest.append(0)
            known = longest[node]
            if is_shared:
                is_shared = known >= size
                shared += size if is_shared else known
            if known < size:
                longest[node] = size
    return shared
