"""What a trace says of a request instead of its text: how long prompt and answer are, and what prompts share."""

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
