"""`inferometer measure --scenario`: traffic classes with phases."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.messages import messages_shown
from inferometer.cli.asking import asked_load, with_words
from inferometer.cli.reporting import exit_code, run_and_report
from inferometer.measure.mix import weighted
from inferometer.options.command_line import OWN, WORDS
from inferometer.options.options import AUTO
from inferometer.report.delivery import check_outputs
from inferometer.scenario.ready import listing, open_scenario
from inferometer.scenario.run import ScenarioRequest, prepare_scenario, run_scenario
from inferometer.scenario.spec import scenario_schema

if TYPE_CHECKING:
    from inferometer.store.keeper import Keeper


def about_scenarios(given: Mapping[str, Any]) -> str:
    """Return the schema of scenarios, or the list of included ones."""
    return json.dumps(scenario_schema(), indent=1) if given.get(f"{OWN}schema") else listing()


def scenario_request(given: dict[str, Any]) -> ScenarioRequest:
    """Read the scenario and return the request."""
    word = str(given.pop(f"{OWN}scenario"))
    scenario = open_scenario(word)
    given = with_words(given) if given.get(WORDS) else given
    given.setdefault("service_kind", AUTO)
    options, models = asked_load(given)
    return ScenarioRequest(
        scenario=scenario,
        options=options,
        models=models or (weighted((options.model,)) if options.model else ()),
        duration_s=options.duration_s if "duration_s" in options.given else None,
        folder=Path(word).parent if Path(word).is_file() else None,
    )


def run_given(given: dict[str, Any], keeper: "Keeper") -> int:
    request = scenario_request(given)
    options = request.options
    with messages_shown(options.verbose):
        check_outputs(options)
        setup = prepare_scenario(request)
        models = dict.fromkeys(part.model.name for part in setup.setups)
        keeper.about(url=str(setup.result.server["url"]), model=",".join(models))
        code_of = partial(exit_code, max_error_rate=options.max_error_rate)
        return run_and_report(setup, keeper, partial(run_scenario, setup), code_of)
