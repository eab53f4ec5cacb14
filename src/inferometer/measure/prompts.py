"""Prompts of a run, as requested and as sent."""

from collections.abc import Sequence
from dataclasses import dataclass

from inferometer.dataset.dataset import Dataset, Step
from inferometer.dataset.prompts import TOKENS_OF_A_PROMPT, text_of
from inferometer.dataset.tokens import open_tokenizer
from inferometer.dataset.trace_prompts import TracePrompts
from inferometer.dataset.trace_tokens import TraceTokens
from inferometer.model.unique import Unique
from inferometer.options.options import Options
from inferometer.records.records import Totals
from inferometer.services.kind import KINDS
from inferometer.stats.prompt_figures import PromptFigures
from inferometer.stats.prompts import (
    AskedPrompts,
    SentPrompt,
    described_figures,
    prompt_figures,
)


@dataclass(frozen=True, slots=True)
class RunPrompts:
    """The requests of a run, as long as they are only rendered."""

    asked: AskedPrompts
    steps: Sequence[Step]
    unique: Unique | None
    tokenizer: str | None
    described: tuple[TraceTokens, ...] | None = None  # lengths from a trace, so that texts need not be read

    def figures(self, totals: Totals) -> PromptFigures | None:
        """Return the figures of the sent prompts."""
        if self.described is not None:
            counts = zip(self.described, map(int, totals.steps), strict=False)
            return described_figures(self.asked, list(counts), open_tokenizer(self.tokenizer))
        sent = [
            SentPrompt(text_of(step, self.unique), int(count))
            for step, count in zip(self.steps, totals.steps, strict=False)
            if count
        ]
        base = 0 if self.unique is None else len(self.unique.words)
        return prompt_figures(self.asked, sent, open_tokenizer(self.tokenizer), base)


def maybe_prompts(options: Options, dataset: Dataset, steps: Sequence[Step]) -> RunPrompts | None:
    """Return the prompts; None if requests have none, or repeat a conversation."""
    if not KINDS[options.service_kind].has_tokens or options.session_concurrency is not None:
        return None
    data, is_made = options.data, not dataset.is_given
    length = TOKENS_OF_A_PROMPT if data.prompt_tokens is None else data.prompt_tokens
    asked = AskedPrompts(
        asked=str(length) if is_made else "",
        asked_output="" if options.output_tokens is None else str(options.output_tokens),
        prefix_tokens=data.prefix_tokens or 0,
        prefixes=0 if data.prefix_tokens is None else data.prefix_pool or 1,
    )
    described = steps.tokens if isinstance(steps, TracePrompts) else None
    return RunPrompts(asked, steps, dataset.unique, data.tokenizer, described)
