"""Description of a request in a trace without texts: lengths of prompt and answer, and shared blocks."""

from collections.abc import Sequence

from inferometer.base.frozen import frozen

BLOCK = 512  # tokens
LONGEST = 10_000_000  # tokens of a prompt or an answer: anything longer is a mistake in the file


@frozen
class TraceTokens:
    """Lengths of a request. `blocks` name the leading blocks of the prompt, each of 512 tokens except the last; equal
    names mean equal text."""

    input: int
    output: int | None = None  # None if not in the trace; 0 if there was no answer
    blocks: tuple[int | str, ...] = ()
    session: str | None = None


def trace_place(path: str, line: int) -> str:
    return f"line {line} of '{path}'"


def cacheable_in_blocks(prompts: Sequence[TraceTokens]) -> int:
    """Count the tokens of leading blocks shared with an earlier prompt: those that an ideal prefix cache could serve,
    which evicts nothing and stores a prompt at once."""
    nodes: dict[tuple[int, int | str], int] = {}  # (number of the preceding prefix, block) -> number
    longest: list[int] = [0]  # tokens of the last block of each prefix
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
