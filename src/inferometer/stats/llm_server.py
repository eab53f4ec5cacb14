"""Figures that an LLM server reports about itself: polled metrics in, figures of a level out. Pure."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from inferometer.base.units import NS_PER_S
from inferometer.observe.metrics import Sample
from inferometer.stats.machine_figures import LlmServerFigures

if TYPE_CHECKING:
    from inferometer.observe.llm_metrics import LlmReading


def maybe_llm_server(samples: Sequence[Sample]) -> LlmServerFigures | None:
    """Compute the figures from ordered samples; None if no LLM server answered."""
    looks = [(sample.at_ns, sample.llm) for sample in samples if sample.llm is not None]
    if not looks:
        return None
    from inferometer.observe.llm_metrics import was_restarted

    rows = [row for _, row in looks]
    is_reset = was_restarted(rows)
    seconds = (looks[-1][0] - looks[0][0]) / NS_PER_S
    counters = () if is_reset else rows  # after a reset, earlier counts are lost

    def grown(noun: str) -> float | None:
        return _growth([getattr(row, noun) for row in counters])

    def per_s(noun: str) -> float | None:
        count = grown(noun)
        return None if count is None or seconds <= 0 else count / seconds

    running, waiting = [row.running for row in rows], [row.waiting for row in rows]
    return LlmServerFigures(
        server=rows[-1].server,
        seconds=seconds,
        running_mean=_mean(running),
        running_max=_most(running),
        waiting_mean=_mean(waiting),
        waiting_max=_most(waiting),
        present_max=_most(map(_present, rows)),
        slots=_whole(_most(row.slots for row in rows)),
        kv_cache_mean=_mean(row.kv_cache_use for row in rows),
        kv_cache_max=_most(row.kv_cache_use for row in rows),
        kv_tokens=_whole(_most(row.kv_tokens for row in rows)),
        preemptions=_whole(grown("preemptions")),
        prefix_queries=_whole(grown("prefix_queries")),
        prefix_hits=_whole(grown("prefix_hits")),
        prefix_share=_share(
            grown("prefix_hits"), grown("prefix_queries"), (row.prefix_share for row in rows)
        ),
        draft_tokens=_whole(grown("draft_tokens")),
        accepted_tokens=_whole(grown("accepted_tokens")),
        accepted_share=_share(
            grown("accepted_tokens"), grown("draft_tokens"), (row.accepted_share for row in rows)
        ),
        queue_ns=_mean_ns(grown("queue_s"), grown("queued")),
        prefill_ns=_mean_ns(grown("prefill_s"), grown("prefilled")),
        prompt_per_s=per_s("prompt_tokens"),
        generated_per_s=per_s("generated_tokens"),
        was_restarted=is_reset,
    )


def _mean_ns(seconds: float | None, requests: float | None) -> float | None:
    return None if seconds is None or not requests else seconds * NS_PER_S / requests


def _growth(values: Sequence[float | None]) -> float | None:
    """Return the growth of a monotonic counter; None with fewer than two values."""
    known = [value for value in values if value is not None]
    return known[-1] - known[0] if len(known) > 1 else None


def _share(part: float | None, whole: float | None, told: Iterable[float | None]) -> float | None:
    """Return the share from counters, otherwise the mean of the reported shares; None for an empty whole."""
    if part is not None and whole is not None:
        return min(1.0, part / whole) if whole else None
    return _mean(told)


def _present(row: "LlmReading") -> float | None:
    return None if row.running is None or row.waiting is None else row.running + row.waiting


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
