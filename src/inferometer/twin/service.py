"""Service times from all loads that did not stretch them, not only from the lightest. Pure.

One request at a time shows a step undisturbed, but yields few executions: if service times vary, their mean is
uncertain. Higher loads yield many more executions, and a step that sleeps or has a core to itself takes as long as
before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from inferometer.diagnose.observation import Observation, Step
from inferometer.diagnose.pipeline import Pipeline, Station

_ALIKE = 1.1  # ratio of service times up to which a difference is chance; beyond it, other load is the cause
_SAME_BATCH = 1.02


def steadied(pipeline: Pipeline, light: Observation, seen: Sequence[tuple[Observation, float]]) -> Pipeline:
    """Return the pipeline of the lightest load with the mean service times of all similar loads and their durations."""
    steps = {step.name: (step, _factor(step, light, seen)) for step, _, _ in light.walk()}
    return replace(
        pipeline, stations=tuple(_steadied(station, steps, light.items) for station in pipeline.stations)
    )


def _factor(step: Step, light: Observation, seen: Sequence[tuple[Observation, float]]) -> float:
    if not step.own_s:
        return 1.0
    total, weights = 0.0, 0.0
    for row, seconds in seen:
        if row.items != light.items:
            continue
        for other, calls, _ in row.walk():
            ratio = other.own_s / step.own_s
            is_alike = 1 / _ALIKE < ratio < _ALIKE and other.batch < _SAME_BATCH * step.batch
            if other.name == step.name and is_alike:
                executions = row.throughput * calls / other.batch * seconds
                total += executions * ratio
                weights += executions
    return total / weights if weights else 1.0


def _steadied(station: Station, steps: Mapping[str, tuple[Step, float]], items: int) -> Station:
    members = tuple(_steadied(member, steps, items) for member in station.members)
    if station.name not in steps:
        return replace(station, members=members)
    step, factor = steps[station.name]
    # A step that hardly uses a core still waits for one, which is not simulated: use its observed time.
    waited_s = step.own_s - station.service_s(step.batch, step.batch / items) if station.cpu == 0 else 0.0
    return replace(
        station,
        fixed_s=(station.fixed_s + max(0.0, waited_s)) * factor,
        item_s=station.item_s * factor,
        request_s=station.request_s * factor,
        gpu_fixed_s=station.gpu_fixed_s * factor,
        gpu_item_s=station.gpu_item_s * factor,
        members=members,
    )
