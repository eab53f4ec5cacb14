"""`inferometer measure`: apply load levels and report the results."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from inferometer.base.text import to_stderr
from inferometer.cli.asking import asked_load
from inferometer.cli.reporting import allowed, exit_code, run_and_report
from inferometer.options.asides import KEEP, PREVIEW
from inferometer.options.command_line import OWN, Command
from inferometer.options.measuring import MeasureOptions
from inferometer.options.options import MODERN, Options
from inferometer.report.delivery import check_outputs

if TYPE_CHECKING:
    from inferometer.scenario.visits import FirstVisit
    from inferometer.store.keeper import Keeper

COMMAND = Command(
    "inferometer measure",
    "URL [MODEL] [options]",
    "Load a model and measure its latency and throughput. The kind of server is detected from its address.",
    MeasureOptions,
    shared=(*MODERN, *KEEP, *PREVIEW),
    examples=(
        ("localhost:8000 simple", "one request at a time"),
        ("localhost:8000 simple -c 1,2,4,8 -d 10s", "several levels of concurrency"),
        ("localhost:8001 simple --grpc -r 200 --slo 'p99<50ms'", "at a rate; is the SLO met?"),
        ("localhost:8000 simple -c 8 -n 1000 --json - -q", "a thousand requests, as JSON"),
    ),
    epilog="To see the first request, use --dry-run. For more, see `inferometer help load`, and the topics data, slo, "
    "duration, output, config and preview.",
    takes_words=True,
)


def loads(given: Mapping[str, Any]) -> "Iterator[tuple[str, Options | FirstVisit]]":
    """Yield the loads of a run, with their names if there are several."""
    from inferometer.measure.checks import changed

    found = dict(given)
    if f"{OWN}scenario" in found:
        from inferometer.cli.scenario import scenario_request
        from inferometer.scenario.classes import planned_classes

        request = scenario_request(found)
        for number, phase in enumerate(request.scenario.phases):
            if phase.command is not None:
                to_stderr(f"The command of phases.{number} is not run, since nothing is measured.")
        for one in planned_classes(request.scenario, request.options, request.models, folder=request.folder):
            if one.steps:
                from inferometer.scenario.visits import FirstVisit

                yield one.name, FirstVisit(one, request.folder)
            else:
                yield one.name, one.options
        return
    options, models = asked_load(found)
    if len(models) < 2:
        yield "", options
        return
    for row in models:
        yield row.model, changed(options, model=row.model)


def maybe_listing(given: Mapping[str, Any]) -> str | None:
    """Return the list of scenarios or their schema, if that was requested."""
    if not given.get(f"{OWN}schema") and given.get(f"{OWN}scenario") != "list":
        return None
    from inferometer.cli.scenario import about_scenarios

    return about_scenarios(given)


def run(given: dict[str, Any], keeper: "Keeper") -> int:
    from inferometer.base.messages import messages_shown
    from inferometer.measure.mix import prepare_mix
    from inferometer.measure.prepare import OWN_HABITS, prepare
    from inferometer.measure.run import run as measure

    is_allowed = bool(given.pop(f"{OWN}allow_inconclusive", False))
    if f"{OWN}scenario" in given:
        from inferometer.cli.scenario import run_given

        return allowed(run_given(given, keeper), is_allowed=is_allowed)
    options, models = asked_load(given)
    names = ",".join(row.model for row in models) or options.model
    keeper.about(url=options.url or "", model=names, slo=options.slo)
    with messages_shown(options.verbose):
        check_outputs(options)
        if len(models) > 1:
            setup = prepare_mix(options, models, command="measure", habits=OWN_HABITS)
        else:
            setup = prepare(options, command="measure", habits=OWN_HABITS)
        code_of = partial(exit_code, max_error_rate=options.max_error_rate)
        code = run_and_report(setup, keeper, partial(measure, setup), code_of)
        return allowed(code, is_allowed=is_allowed)
