"""`inferometer measure`: apply load levels and report the results."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from inferometer.cli.exporting import check_request_export, exporting_requests, tracing_of
from inferometer.cli.reporting import allowed, exit_code, run_and_report
from inferometer.options.asides import KEEP, PREVIEW
from inferometer.options.command_line import Command, Request
from inferometer.options.measuring import MeasureOptions
from inferometer.options.options import AUTO, MODERN, Options
from inferometer.report.delivery import check_outputs

if TYPE_CHECKING:
    from inferometer.measure.mix import WeightedModel
    from inferometer.scenario.tasks import FirstTask
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


def loads(request: Request[MeasureOptions]) -> "Iterator[tuple[str, Options | FirstVisit | FirstTask]]":
    """Yield the loads of a run, with their names if there are several."""
    from inferometer.measure.checks import changed

    options, models = asked_load(request)
    if request.own.scenario is not None:
        from inferometer.cli.scenario import scenario_loads

        yield from scenario_loads(request.own.scenario, options, models)
    elif len(models) < 2:
        yield "", options
    else:
        for row in models:
            yield row.model, changed(options, model=row.model)


def asked_load(request: Request[MeasureOptions]) -> "tuple[Options, tuple[WeightedModel, ...]]":
    """Return the options of the load and its models."""
    from inferometer.measure.checks import load_options
    from inferometer.measure.mix import weighted

    own, target, given = request.own, request.target(), request.load
    models = weighted(own.models)
    if models:
        target = replace(target, models=(models[0].model,))
    if own.scenario is not None:
        given = {"service_kind": AUTO, **given}
    return load_options(given, target), models


def maybe_listing(request: Request[MeasureOptions]) -> str | None:
    """Return the list of scenarios or their schema, if that was requested."""
    own = request.own
    if not own.schema and own.scenario != "list":
        return None
    from inferometer.cli.scenario import about_scenarios

    return about_scenarios(is_schema=own.schema)


def run(request: Request[MeasureOptions], keeper: "Keeper") -> int:
    from inferometer.base.messages import messages_shown
    from inferometer.measure.addresses import prepare_shared
    from inferometer.measure.mix import prepare_mix
    from inferometer.measure.prepare import OWN_HABITS, STREAMING_HABITS
    from inferometer.measure.run import run as measure

    own = request.own
    options, models = asked_load(request)
    check_request_export(own, is_ray=options.ray is not None)
    if own.scenario is not None:
        from inferometer.cli.scenario import run_given

        with exporting_requests(own, keeper):
            code = run_given(own.scenario, options, models, keeper)
        return allowed(code, is_allowed=own.allow_inconclusive)
    names = ",".join(row.model for row in models) or options.model
    keeper.about(url=options.url or "", model=names, slo=options.slo)
    with messages_shown(options.verbose), exporting_requests(own, keeper) as spans:
        check_outputs(options)
        if len(models) > 1:
            setup = prepare_mix(options, models, command="measure", habits=OWN_HABITS)
        else:
            setup = prepare_shared(options, command="measure", habits=STREAMING_HABITS)
        if spans is not None:
            setup = replace(setup, tracing=tracing_of(own, setup, spans))
        code_of = partial(exit_code, max_error_rate=options.max_error_rate)
        code = run_and_report(setup, keeper, partial(measure, setup), code_of)
    return allowed(code, is_allowed=own.allow_inconclusive)
