"""`inferometer find`: find the highest load that meets an SLO."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from inferometer.base.errors import LocalError
from inferometer.base.messages import messages_shown
from inferometer.cli.reporting import allowed, run_and_report
from inferometer.options.asides import KEEP, PREVIEW
from inferometer.options.command_line import Command, Request
from inferometer.options.finding import FIND_REFUSED, FindOptions
from inferometer.options.options import MODERN, Options
from inferometer.report.delivery import check_outputs
from inferometer.stats.verdict import EXIT_INCONCLUSIVE

if TYPE_CHECKING:
    from inferometer.stats.result import Result
    from inferometer.store.keeper import Keeper

NOT_FOUND = 1

COMMAND = Command(
    "inferometer find",
    "URL [MODEL] --slo SLO [options]",
    "Find the highest request rate (or concurrency) at which the model still meets an SLO for latency and errors, with "
    "a 95 % confidence interval. Each load is measured until it is clear whether it meets the SLO.",
    FindOptions,
    shared=(*MODERN, *KEEP, *PREVIEW),
    refused=FIND_REFUSED,
    examples=(
        ("localhost:8000 simple --slo 'p99<50ms'", "the highest rate"),
        ("localhost:8000 simple --slo 'p99<50ms, errors<0.1%' -d 2m", "in two minutes, for more precision"),
        ("localhost:8000 simple --slo 'avg<5ms' --by concurrency", "the highest concurrency"),
        ("localhost:8001 simple --grpc --slo 'p95<20ms' --html f.html", "over gRPC, with an HTML report"),
    ),
    takes_words=True,
)


def loads(request: Request[FindOptions]) -> Iterator[tuple[str, Options]]:
    yield "", _options(request)


def _options(request: Request[FindOptions]) -> Options:
    from inferometer.measure.checks import load_options

    own = request.own
    options = load_options({**request.load, "slo": own.slo}, request.target())
    return replace(options, duration_s=own.duration_s)


def run(request: Request[FindOptions], keeper: "Keeper") -> int:
    from inferometer.find.run import goal_of, run_find
    from inferometer.measure.addresses import prepare_shared

    own, options = request.own, _options(request)
    goal = goal_of(own, options)
    keeper.about(url=options.url or "", model=options.model, slo=options.slo)
    with messages_shown(options.verbose):
        check_outputs(options)
        setup = prepare_shared(options, command="find")
        code = run_and_report(setup, keeper, partial(run_find, setup, goal), find_code)
        return allowed(code, is_allowed=own.allow_inconclusive)


def find_code(result: "Result") -> int:
    """Return 0 if a load meets the SLO, 1 if none does, or the inconclusive code if the lightest is undecided. A lost
    worker or client comes first."""
    if result.has_lost_senders:
        return LocalError.exit_code
    finding = result.finding
    if finding is not None and finding.value > 0:
        return 0
    is_open = finding is not None and not finding.is_broken_at_once
    return EXIT_INCONCLUSIVE if is_open else NOT_FOUND
