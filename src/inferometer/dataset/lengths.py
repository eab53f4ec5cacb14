"""Lengths of prompts and answers, drawn from the requested distribution: same seed, same lengths."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import is_digits
from inferometer.dataset.dataset import read_bytes, split_lines
from inferometer.options.lengths import LONGEST, Lengths, log_parameters, parse_lengths
from inferometer.options.names import option_name

Pair = tuple[int, int | None]
"""Tokens of a prompt, and of its answer if given."""

_INPUTS = ("input", "input_tokens", "input_length", "prompt", "prompt_tokens", "prompt_length", "isl", "in")
_OUTPUTS = (
    "output",
    "output_tokens",
    "output_length",
    "answer",
    "completion",
    "completion_tokens",
    "osl",
    "out",
)
_SHAPE = "write one number per line, or a pair prompt,answer; the first line may name the columns"


@frozen
class LengthRules:
    """Requested lengths of prompts and answers; `output` is None if the server decides or the prompts define it."""

    prompt: int | str
    output: int | str | None = None


def draw_pairs(asked: LengthRules, count: int, seed: int) -> list[Pair]:
    """Draw `count` pairs; a file gives all its pairs, in order."""
    name = option_name("--prompt-tokens")
    pairs = _pairs(parse_lengths(name, asked.prompt), count, Random(f"prompts {seed}"), name)
    if asked.output is None:
        return pairs
    if any(output is not None for _, output in pairs):
        raise UsageError(
            f"both {option_name('--prompt-tokens')} {asked.prompt} and {option_name('--output-tokens')} "
            f"{asked.output} set the length of the answers",
            remedy=f"leave out {option_name('--output-tokens')}",
        )
    return [
        (prompt, output)
        for (prompt, _), output in zip(pairs, draw_outputs(asked.output, len(pairs), seed), strict=True)
    ]


def draw_outputs(asked: int | str, count: int, seed: int) -> list[int]:
    """Draw the lengths of `count` answers; those of a file repeat."""
    name = option_name("--output-tokens")
    pairs = _pairs(parse_lengths(name, asked), count, Random(f"outputs {seed}"), name)
    if any(output is not None for _, output in pairs):
        raise UsageError(
            f"{name} {asked} has pairs of lengths", remedy=f"give it with {option_name('--prompt-tokens')}"
        )
    return [pairs[number % len(pairs)][0] for number in range(count)]


def _pairs(lengths: Lengths, count: int, draw: Random, name: str) -> list[Pair]:
    if lengths.kind == "file":
        return list(_read(lengths.path, name))
    if lengths.kind == "listed":
        weights = [choice.weight for choice in lengths.choices]
        drawn = draw.choices(lengths.choices, weights, k=count)
        return [(choice.prompt, choice.output) for choice in drawn]
    once = _DRAWS[lengths.kind](lengths, draw)
    return [(_length(once, name), None) for _ in range(count)]


_DRAWS: Mapping[str, Callable[[Lengths, Random], Callable[[], float]]] = {
    "constant": lambda asked, draw: lambda: asked.first,
    "normal": lambda asked, draw: lambda: draw.gauss(asked.first, asked.second),
    "lognormal": lambda asked, draw: lambda: draw.lognormvariate(*log_parameters(asked.first, asked.second)),
    "uniform": lambda asked, draw: lambda: draw.randint(int(asked.first), int(asked.second)),
}


def _length(once: Callable[[], float], name: str) -> int:
    """Draw a rounded length; redraw values below 1."""
    while True:
        found = once()
        if found > LONGEST:
            raise UsageError(
                f"{name}: a length of {found:.0f} tokens was drawn, more than {LONGEST:,}",
                remedy="ask for a smaller deviation",
            )
        if round(found) >= 1:
            return round(found)


# --- files


def _read(path: str, name: str) -> Iterator[Pair]:
    lines = [line.decode("utf-8", "replace") for line in split_lines(read_bytes(path), path)]
    try:
        rows = [
            (number, [cell.strip() for cell in row])
            for number, row in enumerate(csv.reader(lines), start=1)
            if any(cell.strip() for cell in row)
        ]
    except csv.Error as error:
        raise UsageError(f"{name} @{path}: {error}", remedy=_SHAPE) from None
    columns: Sequence[int] = range(2)
    if rows and not any(is_digits(cell) for cell in rows[0][1]):
        columns = _columns(path, name, rows.pop(0)[1])
    elif any(len(cells) > 2 for _, cells in rows):
        raise UsageError(f"{name} @{path}: it has more than two columns, but no column names", remedy=_SHAPE)
    if not rows:
        raise UsageError(f"{name} @{path}: it contains no lengths", remedy=_SHAPE)
    for number, cells in rows:
        found = [cells[at] for at in columns if at < len(cells)]
        if len(found) < min(len(columns), len(rows[0][1])) or not all(map(_is_length, found)):
            raise UsageError(
                f"{name} @{path}: line {number} is '{','.join(cells)}', but must contain lengths from 1 to {LONGEST:,}",
                remedy=_SHAPE,
            )
        prompt, *output = map(int, found)
        yield prompt, output[0] if output else None


def _is_length(cell: str) -> bool:
    return is_digits(cell) and 1 <= int(cell) <= LONGEST


def _columns(path: str, name: str, titles: list[str]) -> Sequence[int]:
    """Return the columns of the lengths, by name; with one or two columns any names are accepted."""
    low = [title.lower().replace(" ", "_") for title in titles]
    found = [
        next((at for at, title in enumerate(low) if title in known), -1) for known in (_INPUTS, _OUTPUTS)
    ]
    if found[0] >= 0:
        return [at for at in found if at >= 0]
    if len(titles) <= 2:
        return range(len(titles))
    raise UsageError(
        f"{name} @{path}: it has no column {_INPUTS[1]}, only {', '.join(titles)}",
        remedy=f"name the columns {_INPUTS[1]} and {_OUTPUTS[1]}",
    )
