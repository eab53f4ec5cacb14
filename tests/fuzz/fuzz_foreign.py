"""Result files of other load testers, damaged: read, reported, compared, and written again."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from inferometer.compare.gates import Terms
from inferometer.compare.saved import compare_saved
from inferometer.report.csv import main_csv
from inferometer.report.foreign.formats import WRITERS, write_as
from inferometer.report.saved import consistent, document, to_html
from inferometer.report.terminal import show
from inferometer.stats.result import Result
from inferometer.stats.saved import from_text
from tests.fuzz.fuzz_replies import JSON_WORDS
from tests.fuzz.fuzz_saved import NUMBERS, screen, shortened
from tests.fuzz.harness import Choices, Family, corpus, damaged
from tests.support.foreign import LLM_D, VLLM, foreign_file
from tests.support.strange import ODD, paths, replaced, text_of

SEEDS: Mapping[str, bytes] = {
    "aiperf": foreign_file("profile_export_aiperf.json").read_bytes(),
    "lines": foreign_file("profile_export.jsonl").read_bytes(),
    "guidellm": foreign_file("guidellm.json").read_bytes(),
    "vllm": json.dumps(VLLM).encode(),
    "llm-d": json.dumps(LLM_D).encode(),
    "mlperf": foreign_file("mlperf_server.txt").read_bytes(),
}


def of_document(name: str) -> Callable[[Choices], bytes]:
    """Make a document with a few parts replaced."""
    seed: Any = shortened(json.loads(SEEDS[name]))
    known = tuple(paths(seed))

    def make(choices: Choices) -> bytes:
        found = seed
        values = ODD if choices.below(4) == 1 else NUMBERS
        for _ in range(choices.below(3)):
            try:
                found = replaced(found, known[choices.below(min(65536, len(known)))], choices.pick(values))
            except (KeyError, IndexError, TypeError, ValueError, AttributeError):
                break
        return text_of(found)

    return make


def of_text(name: str) -> Callable[[Choices], bytes]:
    """Make a text with a few places damaged."""
    seed = b"\n".join(SEEDS[name].splitlines()[:40]) + b"\n"

    def make(choices: Choices) -> bytes:
        known = corpus(f"foreign-{name}")
        return damaged(choices.pick(known) if known and choices.below(8) == 7 else seed, choices, JSON_WORDS)

    return make


def read(data: bytes) -> None:
    found = from_text(data.decode("utf-8", "replace"), "it.json", Result)
    with consistent("it.json"):
        show(document(found), screen())
        main_csv(found)
        compare_saved([("a", found), ("b", found)], Terms((), 0.0), is_forced=True)
        if len(data) % 8 == 0:
            to_html(found)
        if len(data) % 8 == 1:
            with TemporaryDirectory() as folder:
                for tool in WRITERS:
                    write_as(found, tool, Path(folder), None)


FAMILIES = (
    *(
        Family(f"foreign-{name}", of_document(name), read, 2)
        for name in ("aiperf", "guidellm", "vllm", "llm-d")
    ),
    *(Family(f"foreign-{name}", of_text(name), read, 2) for name in ("lines", "mlperf")),
)
