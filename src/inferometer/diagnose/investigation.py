"""The growing evidence of a diagnosis: what to measure, what to try next, and what a trial shows. Pure."""

import math
from collections.abc import Sequence
from dataclasses import replace

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, duration, rough, share
from inferometer.diagnose.bottleneck import Conclusion, conclude
from inferometer.diagnose.diagnosis import (
    BATCHING,
    INSTANCES,
    WORSE,
    Change,
    ChangeTrial,
    Suggestion,
    Verdict,
)
from inferometer.diagnose.fit import GPU_DEVICE, knows_batches
from inferometer.diagnose.holding import do_batches_pay, instances_for, is_batch, service_alone_s
from inferometer.diagnose.observation import Observation, Step
from inferometer.diagnose.queueing import Pipeline, predict, with_station
from inferometer.diagnose.suggest import Circumstances, no_batching, no_batching_words

ENOUGH = 0.05  # predicted gain below which nothing more is tried
BETTER = 0.02  # measured gain from which a change is kept
NEAR_BEST = 0.97  # share of the best throughput that is enough to prefer fewer instances
MOST_NOISE = 0.1  # upper bound of the noise of a gain; wider intervals come from short trials
MOST_TRIMS = 2  # trials of fewer instances
SURE = 0.15  # smallest predicted gain to try after a loss
OFF = 0.15  # relative error from which a prediction was wrong
PROBES = (8,)
GPU_PROBES = (4, 8, 32)
_LEARNED = 0.1  # smallest relative change in a parameter that is a lesson
_WORDS = 0.03  # the same for a scaling


def probe_batches(rows: Sequence[Observation], max_batch: int) -> tuple[int, ...]:
    """Return the client batch sizes to probe, one request at a time, to learn the cost of a batch.

    A single request is probed if the server formed batches under every load.
    """
    top = rows[-1]
    single = () if any(row.items == top.items and not _batches(row) for row in rows) else (top.items,)
    unknown = [
        step for step, _, _ in top.walk() if step.setup.max_batch > 1 and not knows_batches(step.name, rows)
    ]
    if not unknown:
        return single
    sizes = GPU_PROBES if any(step.setup.device == GPU_DEVICE for step in unknown) else PROBES
    larger = {size for size in (min(size, max_batch) for size in sizes) if size > top.items}
    return (*single, *sorted(larger))


def _batches(row: Observation) -> list[Step]:
    """Return the steps on the CPU whose requests the server puts into batches."""
    return [
        step
        for step, _, _ in row.walk()
        if step.setup.is_batching
        and step.setup.device != GPU_DEVICE
        and not step.members
        and is_batch(step, row.items)
    ]


class Investigation:
    """The sweep, whose last row is the current configuration, and `extra`, which only helps to fit the model."""

    def __init__(
        self, sweep: Sequence[Observation], circumstances: Circumstances, extra: Sequence[Observation] = ()
    ) -> None:
        self._first = list(sweep)
        self._sweep = list(sweep)
        self._extra = list(extra)
        self._circumstances = circumstances
        self._doubt = 0.0
        self.trials: tuple[ChangeTrial, ...] = ()
        self.found = self._conclude()

    @property
    def top(self) -> Observation:
        return self._sweep[-1]

    def _conclude(self) -> Conclusion:
        return conclude(self._sweep, self._circumstances, self._extra)

    @property
    def slow_batches(self) -> Verdict | None:
        """What a trial without batching shows of the first configuration: that batches are its limit; None if not."""
        later = [row for row in self._sweep if row not in self._first]
        found = conclude(self._first, self._circumstances, (*self._extra, *later)).verdict
        return found if found.kind == BATCHING else None

    def next(self) -> Suggestion | None:
        """Return the suggestion to try next, without failed changes or gains smaller than the model's error."""
        return self._fewer_instances() or next(
            (
                self._maybe_no_batching(row) or row
                for row in self.found.suggestions
                if row.change.can_apply and row.gain > self._enough and not self._is_ruled_out(row.change)
            ),
            None,
        )

    def _is_ruled_out(self, change: Change) -> bool:
        return any(trial.rules_out(change) for trial in self.trials)

    def _maybe_no_batching(self, other: Suggestion) -> Suggestion | None:
        """Suggest no batching before more instances, unless batches were measured to pay.

        More instances get smaller batches, so that they seem to help where the batches are the limit.
        """
        name = other.change.model
        off = no_batching(name)
        is_batching = any(step.name == name for step in _batches(self.top))
        if (
            other.change.kind != INSTANCES
            or not is_batching
            or do_batches_pay(self._evidence, name)
            or self._is_ruled_out(off)
        ):
            return None
        pipeline, top = self.found.pipeline, self.top
        now = predict(pipeline, top.concurrency)
        single = predict(with_station(pipeline, name, is_batching=False), top.concurrency)
        gain = single.throughput / now.throughput - 1
        return Suggestion(
            change=off,
            text=no_batching_words(name),
            concurrency=top.concurrency,
            throughput=top.throughput * (1 + gain),
            latency_ns=top.latency_s * single.latency_s / now.latency_s * NS_PER_S,
            gain=gain,
            why="no measurement shows that its batches cost less than their parts",
        )

    @property
    def _enough(self) -> float:
        """The smallest gain to try, which is larger after a change made things worse."""
        has_failed = any(trial.gain < WORSE and trial.suggestion.gain > 0 for trial in self.trials)
        return (SURE if has_failed else ENOUGH) + self._doubt

    def _fewer_instances(self) -> Suggestion | None:
        """Suggest fewer instances after more were kept, judged by how many do useful work."""
        span = _span(self.trials)
        if span is None or span.trims >= MOST_TRIMS or span.high - span.low < 2:
            return None
        found = next(((step, calls) for step, calls, _ in self.top.walk() if step.name == span.model), None)
        alone_s = service_alone_s(self._evidence, span.model)
        if found is None or alone_s is None or found[0].setup.device == GPU_DEVICE:
            return None
        step, calls = found
        working = self.top.throughput * calls * alone_s / step.batch
        count = max(span.low + 1, instances_for(working)) if not span.trims else (span.low + span.high) // 2
        if count >= span.high:
            return None
        group = {"kind": f"KIND_{step.setup.device.upper()}", "count": count}
        change = Change(INSTANCES, span.model, str(span.high), str(count), {"instance_group": [group]})
        return Suggestion(
            change=change,
            text=f"run {count} instances of {span.model} instead of {span.high}",
            concurrency=self.top.concurrency,
            throughput=self.top.throughput,
            latency_ns=self.top.latency_s * NS_PER_S,
            gain=0.0,
            why=f"only about {rough(working)} of its {span.high} instances do useful work at a time",
        )

    @property
    def _evidence(self) -> tuple[Observation, ...]:
        return (*self._extra, *self._sweep)

    def refused(self, suggestion: Suggestion, failure: str, result: int | None = None) -> ChangeTrial:
        """Record a suggestion that could not be loaded or got no answers."""
        trial = ChangeTrial(suggestion, 0.0, 0.0, 0.0, False, result, failure)
        self.trials = (*self.trials, trial)
        return trial

    def learn(
        self, suggestion: Suggestion, row: Observation, *, is_whole: bool = True, result: int | None = None
    ) -> ChangeTrial:
        """Learn from a measurement of the suggestion; an incomplete measurement is ignored."""
        gain = row.throughput / self.top.throughput - 1
        noise = min(math.hypot(row.noise, self.top.noise), MOST_NOISE)
        is_trim = suggestion.gain <= 0 and suggestion.change.kind == INSTANCES
        least = -max(1 - NEAR_BEST, noise) if is_trim else max(BETTER, noise)
        is_kept = gain > least and is_whole
        trial = ChangeTrial(suggestion, row.throughput, row.latency_s * NS_PER_S, gain, is_kept, result)
        before = self.found.pipeline
        (self._sweep if is_kept else self._extra).append(row)
        self.found = self._conclude()
        if is_whole and abs(trial.ratio - 1) > OFF:
            trial = replace(trial, lesson=self._lesson(trial, row, before))
        self.trials = (*self.trials, trial)
        return trial

    def _lesson(self, trial: ChangeTrial, row: Observation, before: Pipeline) -> str:
        """Return what changed in the model; an unexplained remainder makes later suggestions more cautious."""
        after, name = self.found.pipeline, trial.suggestion.change.model
        lessons = "; ".join(_learned(name, row, as_set_up(before, row), as_set_up(after, row)))
        explained = predict(as_set_up(after, row), row.concurrency).throughput
        left = math.log(explained / row.throughput) if row.throughput else math.inf
        if left > OFF:
            self._doubt = max(self._doubt, math.expm1(min(left, 10.0)))
            lessons = f"{lessons}; the rest is not explained" if lessons else "the model does not explain it"
        elif not lessons:
            lessons = "the model was adjusted"
        direction = "less" if trial.ratio < 1 else "more"
        return f"{share(abs(trial.ratio - 1))} {direction} than predicted: {lessons}"


@frozen
class _Span:
    """Instance counts of a model: `low` is known to be too few, `high` to be enough."""

    model: str
    low: int
    high: int
    trims: int = 0


def _span(trials: Sequence[ChangeTrial]) -> _Span | None:
    """Return the range that trials imply for the last raised number of instances."""
    span: _Span | None = None
    for trial in trials:
        change = trial.suggestion.change
        if change.kind != INSTANCES:
            continue
        before, after = int(change.before), int(change.after)
        if trial.is_kept and after > before:
            span = _Span(change.model, before, after)
        elif span is not None and change.model == span.model and span.low < after < span.high:
            low, high = (span.low, after) if trial.is_kept else (after, span.high)
            span = _Span(span.model, low, high, span.trims + 1)
    return span


def as_set_up(pipeline: Pipeline, row: Observation) -> Pipeline:
    """Return the pipeline with its stations configured as in a row."""
    for step, _, _ in row.walk():
        setup = step.setup
        pipeline = with_station(
            pipeline,
            step.name,
            instances=setup.instances,
            max_batch=max(1, setup.max_batch),
            is_batching=setup.is_batching,
            preferred=setup.preferred,
            delay_s=setup.delay_s,
        )
    return replace(pipeline, items=row.items)


def _learned(name: str, row: Observation, before: Pipeline, after: Pipeline) -> list[str]:
    lessons = []
    step = next((step for step, _, _ in row.walk() if step.name == name), None)
    old = next((station for station in before.walk() if station.name == name), None)
    new = next((station for station in after.walk() if station.name == name), None)
    if step is None or old is None or new is None:
        return []
    count = step.setup.instances
    was, now = before.devices, after.devices
    if (
        step.setup.device == GPU_DEVICE
        and count > 1
        and abs(was.work(count) / now.work(count) - 1) > _LEARNED
    ):
        lessons.append(
            f"{count} concurrent executions on the GPU do the work of {rough(now.work(count))}, not "
            f"{rough(was.work(count))}"
        )
    if count > 1 and abs(before.cores.scaling - after.cores.scaling) > _WORDS:
        lessons.append(
            f"{count} busy cores are worth {rough(after.cores.work(count))}, not {rough(before.cores.work(count))}"
        )
    requests = max(1.0, step.batch / row.items)
    then_s, now_s = old.service_s(step.batch, requests), new.service_s(step.batch, requests)
    if then_s and abs(now_s / then_s - 1) > _LEARNED:
        what = f"a batch of {rough(step.batch)}" if step.batch > 1 else "an execution"
        lessons.append(f"{what} takes {duration(now_s * NS_PER_S)}, not {duration(then_s * NS_PER_S)}")
    return lessons
