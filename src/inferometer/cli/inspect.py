"""`inferometer inspect`: summarize a trace or a prompt file, without sending load."""

from inferometer.base.errors import UsageError
from inferometer.base.writing import Outputs
from inferometer.options.asides import CONFIG
from inferometer.options.command_line import Command, Request
from inferometer.options.stored import InspectOptions

COMMAND = Command(
    "inferometer inspect",
    "FILE [options]",
    "Summarize a trace (Mooncake, BurstGPT, Azure, or JSON lines with a timestamp) or a prompt file (ShareGPT, JSON "
    "lines, CSV, Parquet, text): the number of requests, their rate over time and its burstiness, the lengths of "
    "prompts and answers, and the share of prompt tokens that a prefix cache could serve. Sends nothing.",
    InspectOptions,
    shared=CONFIG,
    examples=(
        ("trace.jsonl", "a table"),
        ("trace.jsonl --html trace.html", "an HTML report with charts"),
        ("sharegpt.json --tokenizer tokenizer.json", "count tokens with a tokenizer"),
    ),
    takes_words=True,
)


def run(request: Request[InspectOptions]) -> int:
    from inferometer.report.delivery import check_forms, deliver
    from inferometer.stats.inspection import inspect_file

    own, names = request.own, request.words
    if len(names) != 1:
        raise UsageError(
            f"{len(names)} files are given: {', '.join(names)}" if names else "no file is given",
            remedy="give one trace or prompt file",
        )
    check_forms(own)
    outputs = Outputs()
    deliver(inspect_file(names[0], own), own, outputs)
    outputs.settle()
    return 0
