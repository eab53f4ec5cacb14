"""Checks of a scenario file that need neither a server nor the files that it names."""

from collections.abc import Callable
from functools import partial
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.slo import parse_slo
from inferometer.load.plan import parse_shape
from inferometer.scenario.mlperf import targets_of
from inferometer.scenario.spec import Scenario
from inferometer.services.address import read_address


def check_scenario(scenario: Scenario, origin: str) -> None:
    """Parse the values that are texts in the file; a UsageError names the first one that is invalid."""
    _check(origin, "server", scenario.server, read_address)
    for name, spec in scenario.classes.items():
        place = f"classes.{name}"
        _check(origin, f"{place}.server", spec.server, read_address)
        has_tasks = spec.task is not None
        _check(origin, f"{place}.slo", spec.slo, partial(parse_slo, has_tasks=has_tasks))
        _check(origin, f"{place}.shape", spec.shape, parse_shape)
    if scenario.mlperf is not None:
        mlperf = scenario.mlperf
        _check(origin, "mlperf.slo", mlperf.slo, lambda slo: targets_of(mlperf, parse_slo(slo)))


def _check(origin: str, place: str, text: str | None, parse: Callable[[str], Any]) -> None:
    if text is None:
        return
    try:
        parse(text)
    except UsageError as error:
        raise UsageError(f"{origin}: {place}: {error.message}", remedy=error.remedy) from error
