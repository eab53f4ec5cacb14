"""What `capacity` was asked, as a request."""

from pathlib import Path

from inferometer.capacity.autoscaling import Scaler, parse_rule
from inferometer.capacity.run import CapacityRequest, SavedOption
from inferometer.capacity.traffic import ExpectedTraffic, read_traffic
from inferometer.options.planning import CapacityOptions
from inferometer.stats.result import Result
from inferometer.stats.slo import parse_slo

SCENARIOS = (".yaml", ".yml")


def request_of(asked: CapacityOptions, options: tuple[SavedOption, ...]) -> CapacityRequest:
    """Everything is read before anything is simulated."""
    return CapacityRequest(
        traffic=_traffic(asked, options),
        promise=parse_slo(asked.slo),
        options=options,
        scaler=Scaler(parse_rule(asked.scale_on), asked.startup_s, asked.spare),
        balancer=asked.balancer,
        seed=asked.seed,
    )


def _traffic(asked: CapacityOptions, options: tuple[SavedOption, ...]) -> ExpectedTraffic:
    if Path(asked.traffic).suffix.lower() not in SCENARIOS:
        return read_traffic(asked.traffic, asked.stretch_s)
    from inferometer.capacity.class_traffic import of_scenario

    return of_scenario(asked.traffic, [_models(option.result) for option in options])


def _models(result: Result) -> frozenset[str]:
    """Those that were measured together."""
    mixed = result.model.get("mixed") or (result.model,)
    return frozenset(str(model.get("name", "")) for model in mixed)
