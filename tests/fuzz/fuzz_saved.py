"""Files that we wrote once and somebody may have changed: results and other answers, and the reports of them."""

import io
import json
from collections.abc import Callable
from functools import cache
from typing import Any

from rich.console import Console

from inferometer.base.answer_file import from_json, to_json
from inferometer.compare import comparison as comparisons
from inferometer.compare.gates import Terms
from inferometer.compare.saved import compare_saved
from inferometer.diagnose import diagnosis as diagnoses
from inferometer.dialects.perf_analyzer import report as classic
from inferometer.report.csv import composing_csvs, main_csv
from inferometer.report.kinds import TYPES
from inferometer.report.saved import consistent, document, to_html, to_junit, to_markdown
from inferometer.report.terminal import show
from inferometer.stats import result as results
from inferometer.tune.study import Study
from tests.fuzz.fuzz_replies import JSON_WORDS
from tests.fuzz.harness import Choices, Family, corpus, damaged
from tests.support.reports import sample_comparison, sample_diagnosis, sample_result, sample_study
from tests.support.strange import ODD, paths, replaced, text_of


def shortened(value: Any) -> Any:
    """The same document with less of what is listed at length: quick to read, with all that there is."""
    if isinstance(value, dict):
        return {name: part if name == "percentiles" else shortened(part) for name, part in value.items()}
    if isinstance(value, list):
        return [shortened(part) for part in value[:2]]
    return value


@cache
def sample(kind: str) -> Any:
    samples: dict[str, Callable[[], Any]] = {
        "result": sample_result,
        "diagnosis": sample_diagnosis,
        "comparison": sample_comparison,
        "study": sample_study,
    }
    return shortened(json.loads(to_json(samples[kind]())))


@cache
def places(kind: str) -> tuple[Any, ...]:
    return tuple(paths(sample(kind)))


NUMBERS = (0, -1, 1, 2**31, 2**63, 10**30, 0.5, -1.5, 1e300, 1e-300, None, "", "x")


def maker(kind: str) -> Callable[[Choices], bytes]:
    """A few parts replaced: by anything, or, so that more of them are still read, by a number."""

    def make(choices: Choices) -> bytes:
        known = corpus(f"saved-{kind}")
        if known and choices.below(16) == 15:
            return damaged(choices.pick(known), choices, JSON_WORDS)
        document = sample(kind)
        found = places(kind)
        values = ODD if choices.below(4) == 1 else NUMBERS
        for _ in range(choices.below(3)):
            path = found[choices.below(min(65536, len(found)))]
            try:
                document = replaced(document, path, choices.pick(values))
            except (KeyError, IndexError, TypeError, ValueError, AttributeError):
                break  # what stood there is gone already
        return text_of(document)

    return make


def screen() -> Console:
    return Console(file=io.StringIO(), width=100)


def read_result(data: bytes) -> None:
    found = from_json(data.decode("utf-8", "replace"), "it.json", *TYPES)
    if not isinstance(found, results.Result):
        return
    to_json(found)
    with consistent("it.json"):
        show(document(found), screen())
        main_csv(found)
        composing_csvs(found)
        for level in found.levels:
            classic.level_block(found, level)
        classic.summary(found)
        if len(data) % 8 == 0:
            to_html(found)
            to_markdown(found)
        if len(data) % 8 == 1:
            compare_saved([("a", sample_result()), ("b", found)], Terms((), 0.0), is_forced=True)


def reader(kind: type, *written: Callable[[Any], object]) -> Callable[[bytes], None]:
    """Reads an answer of this kind, and makes of it what can be made of it."""

    def read(data: bytes) -> None:
        found = from_json(data.decode("utf-8", "replace"), "it.json", *TYPES)
        if not isinstance(found, kind):
            return
        with consistent("it.json"):
            show(document(found), screen())
            for write in written:
                write(found)
            if len(data) % 8 == 0:
                to_html(found)
                to_markdown(found)

    return read


FAMILIES = (
    Family("saved-result", maker("result"), read_result, 4),
    Family("saved-diagnosis", maker("diagnosis"), reader(diagnoses.Diagnosis), 2),
    Family("saved-comparison", maker("comparison"), reader(comparisons.Comparison, to_junit), 2),
    Family("saved-study", maker("study"), reader(Study), 2),
)
