"""Build a capacity request from the options of `capacity`."""

from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S, duration
from inferometer.capacity.autoscaling import Scaler, StartupBasis, parse_rule
from inferometer.capacity.run import CapacityRequest, SavedOption
from inferometer.capacity.traffic import ExpectedTraffic, read_traffic
from inferometer.options.names import option_name
from inferometer.options.planning import SCALE_ON, STARTUP_S, CapacityOptions
from inferometer.options.values import duration_or_file
from inferometer.stats.result import Result
from inferometer.stats.saved import read
from inferometer.tune.study import Study

SCENARIOS = (".yaml", ".yml")


def request_of(asked: CapacityOptions, options: tuple[SavedOption, ...]) -> CapacityRequest:
    """Read and check all inputs before the simulation starts."""
    traffic = _traffic(asked, options)
    rule = parse_rule(SCALE_ON if asked.scale_on is None else asked.scale_on)
    startup_s, basis = _startup_of(asked)
    _check_used(asked, traffic)
    if asked.carbon is not None and not any(_has_energy(option.result) for option in options):
        raise UsageError(
            f"{option_name('--carbon')} needs results with energy figures, and none of these has any",
            remedy="measure on a machine that reports its energy (docs/gpu.md), or leave out "
            f"{option_name('--carbon')}",
        )
    return CapacityRequest(
        traffic=traffic,
        promise=asked.slo,
        options=options,
        scaler=Scaler(rule, startup_s, asked.spare, basis),
        balancer=asked.balancer,
        seed=asked.seed,
        prompt_tokens=asked.prompt_tokens,
        output_tokens=asked.output_tokens,
        carbon=asked.carbon,
    )


def _startup_of(asked: CapacityOptions) -> tuple[float, StartupBasis]:
    """Return the start-up time of a replica, and whether it is assumed, given or measured."""
    given = asked.startup_s
    if given is None:
        return STARTUP_S, "assumed"
    if isinstance(given, str):  # from Python, where a time may be a text as well
        given = duration_or_file(zero=True).read(option_name("--startup"), given)
    if not isinstance(given, str):
        return float(given), "given"
    study = read(Path(given), Study)
    found = study.startup_s(study.ranked[0].name) if study.ranked else None
    if found is None:
        raise UsageError(
            f"{option_name('--startup')} {given}: this search started no server for its best configuration",
            remedy="give a result of `inferometer tune --serve`, or a time such as 90s",
        )
    return found, "measured"


def _traffic(asked: CapacityOptions, options: tuple[SavedOption, ...]) -> ExpectedTraffic:
    if Path(asked.traffic).suffix.lower() not in SCENARIOS:
        return read_traffic(asked.traffic, asked.stretch_s)
    from inferometer.capacity.class_traffic import of_scenario

    return of_scenario(asked.traffic, [_models(option.result) for option in options])


def _check_used(asked: CapacityOptions, traffic: ExpectedTraffic) -> None:
    """Reject options that do not apply to this kind of traffic."""
    is_trace = traffic.form == "trace"
    if asked.stretch_s is not None and not is_trace:
        raise UsageError(
            f"{option_name('--stretch')} applies to traces only, and '{asked.traffic}' is a {traffic.form}",
            remedy="leave it out: the rows of a curve and the phases of a scenario are its stretches",
        )
    if len(traffic.stretches) > 1:
        return
    for name, value in (
        (option_name("--scale-on"), asked.scale_on),
        (option_name("--startup"), asked.startup_s),
    ):
        if value is not None:
            why = f"is one stretch of {duration(traffic.span_s * NS_PER_S)}" if is_trace else "never changes"
            remedy = (
                f"give a shorter {option_name('--stretch')}"
                if is_trace
                else "give a trace, a daily curve or a scenario"
            )
            raise UsageError(
                f"{name} simulates an autoscaler, which needs traffic that changes: '{asked.traffic}' {why}",
                remedy=remedy,
            )


def _has_energy(result: Result) -> bool:
    return any(level.measurement is not None and level.measurement.energy for level in result.levels)


def _models(result: Result) -> frozenset[str]:
    """Return the names of the models that were measured together."""
    mixed = result.model.get("mixed") or (result.model,)
    return frozenset(str(model.get("name", "")) for model in mixed)
