"""Generated prompts: their lengths, shared prefixes, and the unique prefix of each request.

prefix, one of a pool     unique prefix    random words
shared by many requests   of every send    of every prompt
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from random import Random
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import encode_json
from inferometer.dataset.dataset import Dataset, Step
from inferometer.dataset.lengths import LengthRules, Pair, draw_outputs, draw_pairs
from inferometer.dataset.tokens import Tokenizer, open_tokenizer
from inferometer.model.spec import Tensor
from inferometer.model.unique import MARK, Unique, maybe_unique
from inferometer.options.lengths import parse_lengths
from inferometer.options.names import option_name
from inferometer.options.options import DataOptions

POOL = 128  # different generated prompts of one length
DRAWN = 2048  # prompts of drawn lengths: enough to match the quantiles of the distribution
MOST_TOKENS = 8_000_000  # of all prompts in total; there are fewer long ones,
FEWEST = 16  # but at least this many
LONGEST_FILE = 50_000_000  # tokens of all prompts with lengths from a file: one prompt per line
TOKENS_OF_A_PROMPT = 100
_OF_A_TEXT = ("prompt", "input")


def make_prompts(options: DataOptions, output: int | str | None) -> Dataset:
    """Generate the prompts for the requested lengths."""
    tokenizer = open_tokenizer(options.tokenizer)
    unique = None if options.repeat_prompts else _unique(tokenizer)
    prefixes = shared_prefixes(options, tokenizer)
    pairs = _lengths(options, output)
    drawn = _chosen(options, len(pairs))
    steps = []
    for number, ((tokens, answer), prefix) in enumerate(zip(pairs, drawn, strict=True)):
        draw = Random(options.seed << 32 | number)
        start = 0 if unique is None else min(tokens, unique.tokens)
        place = "" if unique is None else unique.place(start)
        text = f"{prefixes[prefix]}{place}{tokenizer.text(tokens - start, draw)}"
        steps.append((_tensor("prompt", text), *_asking(answer)))
    return Dataset("random", (tuple(steps),), unique=unique)


def with_lengths(steps: Sequence[Step], output: int | str | None, seed: int) -> tuple[Step, ...]:
    """Add answer lengths from a requested distribution to those given prompts that have none."""
    if not isinstance(output, str):  # a single number applies to every request
        return tuple(steps)
    drawn = draw_outputs(output, len(steps), seed)
    return tuple(
        step if any(tensor.name == "max_tokens" for tensor in step) else (*step, *_asking(answer))
        for step, answer in zip(steps, drawn, strict=True)
    )


def _asking(answer: int | None) -> Step:
    return () if answer is None else (_tensor("max_tokens", str(answer)),)


def _tensor(name: str, text: str) -> Tensor:
    return Tensor(name, "JSON", (1,), text.encode("utf-8", "replace"))


def _lengths(options: DataOptions, output: int | str | None) -> list[Pair]:
    asked = TOKENS_OF_A_PROMPT if options.prompt_tokens is None else options.prompt_tokens
    kinds = {parse_lengths(option_name("--prompt-tokens"), asked).kind}
    if isinstance(output, str):
        kinds.add(parse_lengths(option_name("--output-tokens"), output).kind)
    is_drawn = kinds != {"constant"}
    lengths = LengthRules(asked, output if isinstance(output, str) else None)
    pairs = draw_pairs(lengths, DRAWN if is_drawn else POOL, options.seed)
    ends = list(accumulate(tokens + (options.prefix_tokens or 0) for tokens, _ in pairs))
    if parse_lengths(option_name("--prompt-tokens"), asked).kind != "file":
        return pairs[: max(FEWEST, sum(end <= MOST_TOKENS for end in ends))]
    if ends[-1] > LONGEST_FILE:
        raise UsageError(
            f"{option_name('--prompt-tokens')} {asked}: the prompts have {ends[-1]:,} tokens in total, "
            f"more than {LONGEST_FILE:,}",
            remedy="give a file with fewer lines",
        )
    return pairs


# --- prefixes


def shared_prefixes(options: DataOptions, tokenizer: Tokenizer) -> list[str]:
    """Return the prefixes, or a single empty prefix if none is requested."""
    if options.prefix_tokens is None:
        return [""]
    return [
        tokenizer.text(options.prefix_tokens, Random(f"prefix {number} {options.seed}"))
        for number in range(options.prefix_pool or 1)
    ]


def _chosen(options: DataOptions, count: int) -> list[int]:
    """Choose the prefix of each prompt: the n-th most popular of a pool is drawn with weight 1/n^s."""
    pool = options.prefix_pool or 1
    weights = [rank ** -(options.prefix_zipf or 0.0) for rank in range(1, pool + 1)]
    return Random(f"prefixes {options.seed}").choices(range(pool), weights, k=count)


# --- unique prefixes


def _unique(tokenizer: Tokenizer) -> Unique:
    found = maybe_unique(tokenizer.words)
    if found is None:
        raise UsageError(
            f"cannot make unique prefixes with the tokenizer {tokenizer.name}: no two of its words are equally long",
            remedy=f"add {option_name('--repeat-prompts')}, or leave out {option_name('--tokenizer')}",
        )
    return found


def with_unique_starts(dataset: Dataset, options: DataOptions) -> Dataset:
    """Add a placeholder for a unique prefix before the first text of each given prompt."""
    unique = _unique(open_tokenizer(options.tokenizer))
    place = unique.place(unique.tokens)
    streams = tuple(
        tuple(_started(step, place, number) for number, step in enumerate(stream))
        for stream in dataset.streams
    )
    return replace(dataset, streams=streams, unique=unique)


def _started(step: Step, place: str, number: int) -> Step:
    found = tuple(_started_tensor(tensor, place) for tensor in step)
    if found == step:
        raise UsageError(
            f"{option_name('--unique-prompts')}: step {number} of the data has no text to add a unique "
            "prefix to",
            remedy=f"leave out {option_name('--unique-prompts')}",
        )
    return found


def _started_tensor(tensor: Tensor, place: str) -> Tensor:
    if tensor.name == "prompt":
        return _tensor("prompt", f"{place}\n{tensor.data.decode()}")
    if tensor.name not in ("messages", "payload"):
        return tensor
    document = json.loads(tensor.data)
    holder, key = _first_text(document)
    if holder is None:
        return tensor
    holder[key] = f"{place}\n{holder[key]}"
    return Tensor(tensor.name, "JSON", (1,), encode_json(document))


def _first_text(document: Any) -> tuple[Any, Any]:
    """Return the container of the first text that a model reads, and its key; None if there is none."""
    if isinstance(document, list):
        if document and isinstance(document[0], str):
            return document, 0
        found = (_first_text(part) for part in document)
        return next((pair for pair in found if pair[0] is not None), (None, None))
    if not isinstance(document, dict):
        return None, None
    for key in ("content", "text", *_OF_A_TEXT):
        if isinstance(document.get(key), str):
            return document, key
    for key in ("messages", "content", *_OF_A_TEXT):
        if isinstance(document.get(key), list):
            return _first_text(document[key])
    return None, None


# --- texts of prompts


@frozen
class PromptText:
    """The text of a request. The part before its unique prefix may be shared, the part after it cannot."""

    before: str
    start: int = 0  # tokens of the unique prefix; 0 if none
    after: str = ""


def text_of(step: Step, unique: Unique | None) -> PromptText:
    """Return all texts of the step that a model reads, in order."""
    text = "\n".join(texts_of(step))
    if unique is None or MARK not in text:
        return PromptText(text)
    before, _, rest = text.partition(MARK)
    after = rest.lstrip(MARK)
    return PromptText(before, (1 + len(rest) - len(after)) // unique.width, after)


def texts_of(step: Step) -> list[str]:
    """Return the texts of a step that a model reads, with placeholders for unique prefixes."""
    for tensor in step:
        if tensor.name == "prompt":
            return [tensor.data.decode("utf-8", "replace")]
        if tensor.name in ("messages", "payload"):
            return list(_strings(json.loads(tensor.data)))
    return []


def _strings(document: Any) -> list[str]:
    if isinstance(document, list):
        return [document_text for part in document for document_text in _strings(part)]
    if isinstance(document, str):
        return [document]
    if not isinstance(document, dict):
        return []
    return [
        found
        for key in ("messages", "content", "text", *_OF_A_TEXT)
        if key in document
        for found in _strings(document[key])
    ]
