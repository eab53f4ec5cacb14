"""Prompts of a run: how they were counted, their lengths, and how much a prefix cache could have served."""

from collections.abc import Iterator

from inferometer.report.document import Column, Section, Table, text_columns
from inferometer.report.format import plain_number, plural, share
from inferometer.stats.prompt_figures import PromptFigures
from inferometer.stats.result import Result, best


def prompts_section(result: Result) -> Section | None:
    """The client's token counts next to the server's; None if requests have no prompts."""
    found = result.prompts
    if found is None:
        return None
    columns = (*text_columns("Tokens per prompt"), *map(Column, ("Mean", "p50", "p99")))
    rows = [("Client's count", plain_number(round(found.mean, 1)), f"{found.p50:,}", f"{found.p99:,}")]
    top = best(result)
    counted = None if top is None or top[1].tokens is None else top[1].tokens.per_prompt
    middle, tail = (None if counted is None else counted.maybe_percentile_ns(p) for p in (50, 99))
    if counted is not None and counted.max_ns and middle is not None and tail is not None:
        rows.append(("Server's count", plain_number(counted.mean_ns), f"{middle:,}", f"{tail:,}"))
    title = "Prompts"
    return Section("prompts", title, " ".join(prompt_sentences(found)), (Table(title, columns, tuple(rows)),))


def prompt_sentences(found: PromptFigures) -> Iterator[str]:
    """Say how prompts were counted, what was requested, and how much could have been cached."""
    if found.is_exact:
        yield f"Counted with the tokenizer {found.tokenizer}, without server additions such as a chat template."
    else:
        yield "Counted in words because no tokenizer was given; a tokenizer would make the counts exact."
    if found.asked:
        yield f"Requested: {found.asked} tokens{_after(found)}."
    if found.asked_output:
        yield f"Answers of at most {found.asked_output} tokens."
    yield f"{_cacheable(found.cacheable_share)} of the prompt tokens could have been cached: {_why(found)}."


def _cacheable(part: float) -> str:
    return "None" if part == 0 else share(part)


def _after(found: PromptFigures) -> str:
    if not found.prefix_tokens:
        return ""
    pool = "" if found.prefixes == 1 else f", one of {found.prefixes:,}"
    return f" after a shared prefix of {found.prefix_tokens:,}{pool}"


def _why(found: PromptFigures) -> str:
    if found.is_unique and found.prefix_tokens:
        return "the shared prefixes; the rest is unique to each request"
    if found.is_unique:
        return "every prompt started differently"
    return (
        f"{plural(found.requests, 'request')} used {plural(found.different, 'different prompt')}, and this is "
        "their overlap with the beginnings of earlier ones"
    )
