"""`inferometer measure --scenario`: traffic classes with phases."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.messages import messages_shown
from inferometer.base.text import to_stderr
from inferometer.cli.reporting import exit_code, run_and_report
from inferometer.measure.mix import WeightedModel, weighted
from inferometer.options.options import Options
from inferometer.report.delivery import check_outputs
from inferometer.scenario.classes import planned_classes
from inferometer.scenario.mlperf import prepare_any, without_rules
from inferometer.scenario.ready import listing, open_scenario
from inferometer.scenario.run import ScenarioRequest
from inferometer.scenario.spec import scenario_schema

if TYPE_CHECKING:
    from inferometer.scenario.tasks import FirstTask
    from inferometer.scenario.visits import FirstVisit
    from inferometer.store.keeper import Keeper


def about_scenarios(*, is_schema: bool) -> str:
    """Return the schema of scenarios, or the list of included ones."""
    return json.dumps(scenario_schema(), indent=1) if is_schema else listing()


def scenario_loads(
    word: str, options: Options, models: tuple[WeightedModel, ...]
) -> "Iterator[tuple[str, Options | FirstVisit | FirstTask]]":
    """Yield the load of each class of traffic, with its name."""
    request = _request(word, options, models)
    for number, phase in enumerate(request.scenario.phases):
        if phase.command is not None:
            to_stderr(f"The command of phases.{number} is not run, since nothing is measured.")
    base = options if request.scenario.mlperf is None else without_rules(options)
    for one in planned_classes(request.scenario, base, request.models, folder=request.folder):
        if one.steps:
            from inferometer.scenario.visits import FirstVisit

            yield one.name, FirstVisit(one, request.folder)
        elif one.spec.task is not None:
            from inferometer.scenario.tasks import FirstTask

            yield one.name, FirstTask(one, request.folder)
        else:
            yield one.name, one.options


def _request(word: str, options: Options, models: tuple[WeightedModel, ...]) -> ScenarioRequest:
    """Read the scenario and return the request."""
    return ScenarioRequest(
        scenario=open_scenario(word),
        options=options,
        models=models or (weighted((options.model,)) if options.model else ()),
        duration_s=options.duration_s if "duration_s" in options.given else None,
        folder=Path(word).parent if Path(word).is_file() else None,
    )


def run_given(word: str, options: Options, models: tuple[WeightedModel, ...], keeper: "Keeper") -> int:
    request = _request(word, options, models)
    with messages_shown(options.verbose):
        check_outputs(options)
        setup, start = prepare_any(request)
        keeper.about(url=str(setup.result.server["url"]), model=",".join(setup.models))
        code_of = partial(exit_code, max_error_rate=options.max_error_rate)
        return run_and_report(setup, keeper, start, code_of)
