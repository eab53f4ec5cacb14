"""Expected traffic of the classes of a scenario: their rates over time, phase by phase.

Only classes of the measured models, and classes that name no model, are used. A rate, including one changed by a shape
or a phase, means Poisson arrivals; a ramp is cut into steps, each at its highest rate. If a class replays a trace, its
requests arrive at the times in the trace, and arrivals of the other classes are drawn at random. Closed-loop classes
have no rate and are rejected.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import is_named
from inferometer.base.units import NS_PER_S
from inferometer.capacity.traffic import MOST_STRETCHES, ExpectedTraffic, Stretch, Times
from inferometer.dataset.replay import read_trace
from inferometer.load.plan import parse_shape
from inferometer.scenario.spec import ClassSpec, PhaseSpec, Scenario, read_scenario

STEPS = 8  # per ramp
MOST_TIMES = 2_000_000  # maximum number of requests in a scenario with a trace
SEED = 1


@frozen
class Slope:
    """A linear change in the rate of a class."""

    start_s: float
    end_s: float
    first: float  # requests per second
    last: float

    def at(self, times_s: Times) -> Times:
        part = (times_s - self.start_s) / (self.end_s - self.start_s)
        return self.first + part * (self.last - self.first)


def of_scenario(path: str, models: Sequence[Collection[str]] = ()) -> ExpectedTraffic:
    """Return the traffic of the classes that call one of `models`; of all classes if no models are given."""
    scenario = read_scenario(Path(path))
    classes = _of_models(path, scenario, models)
    starts = list(accumulate((phase.seconds for phase in scenario.phases), initial=0.0))
    slopes = [
        slope for name, spec in classes.items() for slope in _slopes(name, spec, scenario.phases, starts)
    ]
    traces = [spec for spec in classes.values() if spec.replay is not None]
    stretches = tuple(_stretches(path, slopes, starts))
    name = Path(path).name
    if len(classes) < len(scenario.classes):
        name += f" ({', '.join(classes)})"
    if not traces:
        if not any(row.rate for row in stretches):
            raise UsageError(
                f"the scenario '{path}' has no traffic", remedy="give a load above 0 in some phase"
            )
        return ExpectedTraffic(name, "scenario", stretches)
    times = _times(path, slopes, [_trace_s(path, spec, starts[-1]) for spec in traces])
    return ExpectedTraffic(name, "scenario", _counted(stretches, times), times)


def _of_models(path: str, scenario: Scenario, models: Sequence[Collection[str]]) -> Mapping[str, ClassSpec]:
    known = sorted({"", *(name for names in models for name in names)})
    found = {name: spec for name, spec in scenario.classes.items() if not models or spec.model in known}
    if not found:
        named = ", ".join(sorted({spec.model for spec in scenario.classes.values()}))
        raise UsageError(
            f"the results measured {', '.join(filter(None, known))}, but the classes of '{path}' use {named}",
            remedy="give a result that measured one of the models in the scenario",
        )
    if len({frozenset(names) for names in models}) > 1 and len({spec.model for spec in found.values()}) > 1:
        raise UsageError(
            f"the results measured different models, and '{path}' has classes for several of them",
            remedy="plan for one model at a time",
        )
    return found


def _slopes(
    name: str, spec: ClassSpec, phases: Sequence[PhaseSpec], starts: Sequence[float]
) -> Iterator[Slope]:
    """Yield the rate of a class over the whole scenario."""
    if spec.task is not None:
        raise UsageError(
            f"the class '{name}' has tasks, whose calls depend on each other, so its load is not a request rate",
            remedy="plan for a class of independent requests",
        )
    if spec.shape is not None:
        now_s = 0.0
        for length_ns, first, last in parse_shape(spec.shape).pieces:
            end_s = now_s + length_ns / NS_PER_S
            yield from _until(Slope(now_s, end_s, first, last), starts[-1])
            now_s = end_s
    elif spec.rate is not None:
        for phase, start_s in zip(phases, starts, strict=False):
            change = phase.classes.get(name)
            factors = phase.load if change is None or change.load is None else change.load
            rate = spec.rate
            if change is not None and change.rate is not None:
                rate, factors = change.rate, (1.0, 1.0)
            yield Slope(start_s, start_s + phase.seconds, rate * factors[0], rate * factors[1])
    elif spec.replay is None:
        raise UsageError(
            f"the class '{name}' has {spec.load or 'no load'}, which does not determine a request rate",
            remedy="give the class a rate, a shape or a trace",
        )


def _until(slope: Slope, end_s: float) -> Iterator[Slope]:
    """Yield the part of the slope that lies before the end."""
    if slope.end_s <= end_s:
        yield slope
    elif slope.start_s < end_s:
        yield Slope(slope.start_s, end_s, slope.first, float(slope.at(np.array([end_s]))[0]))


def _stretches(path: str, slopes: Sequence[Slope], starts: Sequence[float]) -> Iterator[Stretch]:
    """Cut the time wherever a phase or a slope begins or ends, and into steps while the rate changes."""
    cuts = {*starts}
    for slope in slopes:
        number = 1 if slope.first == slope.last else STEPS
        cuts.update(np.linspace(slope.start_s, slope.end_s, number + 1).tolist())
        if len(cuts) > MOST_STRETCHES:
            raise UsageError(
                f"'{path}' needs more than {MOST_STRETCHES:,} stretches",
                remedy="use a shape with fewer pieces",
            )
    ordered = sorted(cuts)
    edges = [ordered[0], *(after for before, after in pairwise(ordered) if after - before > 1e-6)]
    rates = np.zeros(len(edges) - 1)
    lefts, rights = np.array(edges[:-1]), np.array(edges[1:])
    for slope in slopes:
        inside = (lefts > slope.start_s - 1e-6) & (rights < slope.end_s + 1e-6)
        rates[inside] += np.maximum(slope.at(lefts[inside]), slope.at(rights[inside]))
    for left, right, rate in zip(lefts.tolist(), rights.tolist(), rates.tolist(), strict=True):
        yield Stretch(left, right - left, max(rate, 0.0))


# --- with a trace


def _trace_s(path: str, spec: ClassSpec, end_s: float) -> Times:
    """Return the request times up to the end of the scenario; a relative path may be relative to the scenario file."""
    given = str(spec.replay)
    beside = Path(path).parent / given
    name = str(beside) if not Path(given).exists() and beside.exists() else given
    if not is_named(name):
        raise UsageError(
            f"the trace '{given}' of the scenario '{path}' is not a file", remedy="check the name"
        )
    times = np.array([entry.time_ns for entry in read_trace(name, speed=spec.speed).entries]) / NS_PER_S
    return times[times < end_s]


def _times(path: str, slopes: Sequence[Slope], traces: Sequence[Times]) -> Times:
    random = np.random.default_rng(SEED)
    expected = sum((slope.first + slope.last) / 2 * (slope.end_s - slope.start_s) for slope in slopes)
    if expected + sum(map(len, traces)) > MOST_TIMES:
        raise UsageError(
            f"'{path}' has more than {MOST_TIMES:,} requests",
            remedy="replay shorter traces, or give rates instead",
        )
    found = list(traces)
    for slope in slopes:
        most, length_s = max(slope.first, slope.last), slope.end_s - slope.start_s
        times = slope.start_s + length_s * random.random(random.poisson(most * length_s))
        found.append(times[random.random(len(times)) * most < slope.at(times)])
    return np.sort(np.concatenate(found))


def _counted(stretches: Sequence[Stretch], times: Times) -> tuple[Stretch, ...]:
    """Return the stretches with the rates computed from individual requests."""
    counts = np.diff(np.searchsorted(times, [row.start_s for row in stretches]), append=len(times))
    return tuple(
        Stretch(row.start_s, row.length_s, count / row.length_s)
        for row, count in zip(stretches, counts.tolist(), strict=True)
    )
