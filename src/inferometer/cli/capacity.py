"""`inferometer capacity`: plan replicas for given traffic and an SLO from saved results, without sending load."""

from inferometer.base.writing import Outputs
from inferometer.cli.reporting import allowed, ruling_code
from inferometer.options.asides import CONFIG, STORE
from inferometer.options.command_line import Command, Request
from inferometer.options.planning import CapacityOptions

NOT_ENOUGH = 1  # no number of replicas of any option meets the SLO

COMMAND = Command(
    "inferometer capacity",
    "--traffic T --slo SLO RESULT.json ... [options]",
    "Calculate how many replicas the traffic needs to meet an SLO: at the peak, over the day, and with headroom for "
    "the loss of one; how busy each would be, what they cost, which of several measured machines or configurations is "
    "the cheapest, and whether an autoscaler would meet the SLO. Simulates replicas behind a load balancer from saved "
    "results of measure or find. Every figure is marked as measured, interpolated or extrapolated. Sends nothing.",
    CapacityOptions,
    shared=(("Keep", (STORE,)), *CONFIG),
    examples=(
        ("--traffic 200/s --slo 'p99<50ms' --options small.json", "for a rate"),
        ("--traffic day.csv --slo 'p99<1s' --options a.json b.json", "compare two, over a day"),
        ("--traffic trace.jsonl --slo 'p99<1s' a.json --price 2/h", "with the cost"),
    ),
    takes_words=True,
)


def run(request: Request[CapacityOptions]) -> int:
    from inferometer.capacity.request import request_of
    from inferometer.capacity.run import plan_capacity
    from inferometer.capacity.saved import saved_options
    from inferometer.report.delivery import check_forms, deliver
    from inferometer.report.saved import consistent
    from inferometer.stats.verdict import NOT_SHOWN
    from inferometer.store.saved_run import saved_file

    own = request.own
    check_forms(own)
    names = (*own.options, *request.words)
    options = saved_options([(name, saved_file(name, request.asides.store)) for name in names], own.price)
    with consistent(*names):
        plan = plan_capacity(request_of(own, options))
    outputs = Outputs()
    deliver(plan, own, outputs)
    outputs.settle()
    code = NOT_ENOUGH if plan.ruling == NOT_SHOWN else ruling_code(plan.ruling)
    return allowed(code, is_allowed=own.allow_inconclusive)
