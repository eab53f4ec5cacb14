"""`inferometer capacity`: how many replicas for a traffic inside a promise, from saved results. Nothing is sent."""

from typing import Any

from inferometer.base.writing import Outputs
from inferometer.options.asides import CONFIG, STORE
from inferometer.options.command_line import WORDS, Command, own_options
from inferometer.options.planning import CapacityOptions

NOT_ENOUGH = 1  # no number of any option keeps the promise

COMMAND = Command(
    "inferometer capacity",
    "--traffic T --slo PROMISE RESULT.json ... [options]",
    "Say how many replicas a traffic takes inside a promise: at the peak, over the day, and with headroom for the loss "
    "of one; how busy each would be, what they cost, which of several measured machines or configurations is the "
    "cheapest, and whether an autoscaler would keep the promise. It simulates replicas behind a balancer, from results "
    "that measure or find saved. Every figure says whether it was measured, interpolated or extrapolated. Nothing is "
    "sent.",
    CapacityOptions,
    shared=(("Keep", (STORE,)), *CONFIG),
    examples=(
        ("--traffic 200/s --slo 'p99<50ms' --options small.json", "for a rate"),
        ("--traffic day.csv --slo 'p99<1s' --options a.json b.json", "which of two, for a day"),
        ("--traffic trace.jsonl --slo 'p99<1s' a.json --price 2/h", "with the cost"),
    ),
    takes_words=True,
)


def run(given: dict[str, Any]) -> int:
    from inferometer.capacity.request import request_of
    from inferometer.capacity.run import plan_capacity
    from inferometer.capacity.saved import saved_options
    from inferometer.report.delivery import check_forms, deliver
    from inferometer.report.saved import consistent
    from inferometer.store.saved_run import saved_file

    words, store = given.pop(WORDS, ()), given.pop("store", None)
    own = own_options(given, CapacityOptions)
    check_forms(own)
    names = (*own.options, *words)
    options = saved_options([(name, saved_file(name, store)) for name in names], own.price)
    with consistent(*names):
        plan = plan_capacity(request_of(own, options))
    outputs = Outputs()
    deliver(plan, own, outputs)
    outputs.settle()
    return 0 if plan.best is not None else NOT_ENOUGH
