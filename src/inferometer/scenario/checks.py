"""Checks of a scenario file that need neither a server nor the files that it names."""

from inferometer.base.errors import UsageError
from inferometer.base.slo import parse_slo
from inferometer.scenario.mlperf import targets_of
from inferometer.scenario.spec import Scenario


def check_scenario(scenario: Scenario, origin: str) -> None:
    """Check the requirements of the rules of MLPerf; all other checks take place when a scenario is read."""
    mlperf = scenario.mlperf
    if mlperf is None or mlperf.slo is None:
        return
    try:
        targets_of(mlperf, parse_slo(mlperf.slo))
    except UsageError as error:
        error.at(f"{origin}: mlperf.slo")
        raise
