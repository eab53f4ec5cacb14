"""What `capacity` was asked, as a request."""

from inferometer.capacity.autoscaling import Scaler, parse_rule
from inferometer.capacity.run import CapacityRequest, SavedOption
from inferometer.capacity.traffic import read_traffic
from inferometer.options.commands import CapacityOptions
from inferometer.stats.slo import parse_slo


def request_of(asked: CapacityOptions, options: tuple[SavedOption, ...]) -> CapacityRequest:
    """Everything is read before anything is simulated."""
    return CapacityRequest(
        traffic=read_traffic(asked.traffic, asked.stretch_s),
        promise=parse_slo(asked.slo),
        options=options,
        scaler=Scaler(parse_rule(asked.scale_on), asked.startup_s, asked.spare),
        balancer=asked.balancer,
        seed=asked.seed,
    )
