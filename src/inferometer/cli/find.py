"""`inferometer find`: the most load that keeps a promise."""

from dataclasses import replace
from functools import partial
from typing import Any

from inferometer.base.messages import messages_shown
from inferometer.cli.measure import measure_options, run_and_report
from inferometer.options.command_line import Command, own_options
from inferometer.options.commands import FindOptions
from inferometer.options.options import OPTIONS

NOT_FOUND = 1

COMMAND = Command(
    "inferometer find",
    "--slo PROMISE [-m NAME] [options]",
    "Find the highest request rate (or concurrency) at which the model still keeps a promise about latency and errors, "
    "with a 95 % interval: loads are measured until they are known to keep or to break it.",
    FindOptions,
    shared=OPTIONS,
    epilog="All other options are those of `inferometer measure`.",
    takes_words=True,
)


def run(given: dict[str, Any]) -> int:
    from inferometer.find.run import goal_of, run_find
    from inferometer.measure.prepare import prepare
    from inferometer.report.export import check_files

    own = own_options(given, FindOptions)
    # Probes are judged by what was promised; senders must never be what limits them.
    options = measure_options({**given, "slo": own.slo, "asynchronous": True})
    options = replace(options, duration_s=own.duration_s)
    goal = goal_of(own, options)
    with messages_shown(options.verbose):
        check_files(options)
        setup = prepare(options, command="find")
        result = run_and_report(setup, partial(run_find, setup, goal))
    return 0 if result.finding is not None and result.finding.value > 0 else NOT_FOUND
