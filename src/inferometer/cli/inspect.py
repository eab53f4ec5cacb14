"""`inferometer inspect`: what is in a trace or a file of prompts. Nothing is sent."""

from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.writing import Outputs
from inferometer.options.asides import CONFIG
from inferometer.options.command_line import WORDS, Command, own_options
from inferometer.options.commands import InspectOptions

COMMAND = Command(
    "inferometer inspect",
    "FILE [options]",
    "Show what is in a trace (Mooncake, BurstGPT, Azure, or JSON lines with a timestamp) or a file of prompts "
    "(ShareGPT, JSON lines, CSV, Parquet, text): how many requests, their rate over time and how bursty it is, the "
    "lengths of prompts and answers, and which share of the prompt tokens a prefix cache could hold. Nothing is sent.",
    InspectOptions,
    shared=CONFIG,
    examples=(
        ("trace.jsonl", "a table"),
        ("trace.jsonl --html trace.html", "and a page with charts"),
        ("sharegpt.json --tokenizer tokenizer.json", "prompts counted by a tokenizer"),
    ),
    takes_words=True,
)


def run(given: dict[str, Any]) -> int:
    from inferometer.report.delivery import check_forms, deliver
    from inferometer.stats.inspection import inspect_file

    names = given.pop(WORDS, ())
    if len(names) != 1:
        raise UsageError(
            f"{len(names)} files are given: {', '.join(names)}" if names else "no file is given",
            remedy="give one trace or file of prompts",
        )
    own = own_options(given, InspectOptions)
    check_forms(own)
    outputs = Outputs()
    deliver(inspect_file(names[0], own), own, outputs)
    outputs.settle()
    return 0
