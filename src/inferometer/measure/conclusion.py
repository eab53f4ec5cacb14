"""From what was seen of a level to the level itself. Pure: windows and a verdict in, figures and remarks out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from inferometer.base.errors import PeerError
from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_S, NS_PER_US
from inferometer.load.plan import Open, Plan
from inferometer.measure.pace import Pace
from inferometer.measure.remarks import (
    client_remarks,
    count_remarks,
    file_remarks,
    host_remarks,
    member_remarks,
    port_remarks,
    rate_remark,
    rate_remarks,
)
from inferometer.observe.metrics import Sample
from inferometer.stats.doubts import Evidence, explain, moving_figure, slow_ends
from inferometer.stats.ends import join_groups
from inferometer.stats.measurement import Doubt, Estimate, Level, Measurement, Rates, WindowFigures
from inferometer.stats.merge import Subject, counters_were_reset, measurement, start_figures
from inferometer.stats.readings import bounds
from inferometer.stats.series import joined
from inferometer.stats.stopping import Precision, Verdict, is_over
from inferometer.stats.warm_up import fast_start
from inferometer.stats.windows import Window

if TYPE_CHECKING:
    from inferometer.measure.level import Point, Recipe

_UNSURE = (Note.NOT_PRECISE, Note.NOT_STABLE)


@dataclass(frozen=True, slots=True)
class Course:
    """A level as it went."""

    recipe: "Recipe"
    point: "Point"
    verdict: Verdict
    cold: Sequence[Window]  # left out at the start
    windows: Sequence[Window]  # that are merged
    figures: Sequence[WindowFigures]  # of all windows
    start_ns: int
    examples: Mapping[int, str]
    samples: tuple[Sample, ...] | None
    statistics_error: PeerError | None
    metrics_remarks: tuple[Remark, ...]
    pace: Pace | None = None  # of a schedule that ends by itself

    @property
    def is_capped(self) -> bool:
        """By rate: it was the user's choice that requests wait before they are sent."""
        return is_capped(self.recipe, self.point.plan)


def is_capped(recipe: "Recipe", plan: Plan) -> bool:
    return isinstance(plan, Open) and (plan.cap is not None or recipe.is_serial)


def latency_name(chosen: int | None) -> str:
    return "mean latency" if chosen is None else f"p{chosen} latency"


def conclude(course: Course) -> Level:
    """The level with its figures and all that is to say about them."""
    recipe = course.recipe
    subject = Subject(
        model=recipe.model,
        batch=recipe.batch,
        percentile=recipe.percentile,
        level_start_ns=course.start_ns,
        examples=course.examples,
        promise="" if recipe.promise is None else recipe.promise.text,
        samples=course.samples,
    )
    start = start_figures(course.cold, subject)
    ended = any(window.count or window.failures for window in course.windows)
    pressed = course.pace.pressed(course.windows) if course.pace is not None and ended else None
    found = measurement(course.windows, subject) if ended else None
    rates = None if found is None else _maybe_rates(course, found)
    if found is not None and rates is not None and course.pace is not None:
        found = _as_scheduled(course, found, rates)
    remarks = (*_said(course), *_about(course, found, rates, pressed))
    return Level(
        mode=course.point.mode,
        value=float(course.point.value),
        measurement=found,
        windows=tuple(course.figures),
        is_stable=course.verdict.is_stable,
        is_over_limit=is_over(_latency_ns(found, recipe.percentile), recipe.latency_limit_ms),
        remarks=remarks,
        start=start,
        doubt=_maybe_doubt(course, found),
        rates=rates,
    )


def _maybe_rates(course: Course, found: Measurement) -> Rates | None:
    """By rate, what was asked, sent and answered."""
    point = course.point
    if not isinstance(point.plan, Open):
        return None
    asked = point.value if point.asked_per_s is None else point.asked_per_s
    answered_per_s = sum(window.answered_count for window in course.windows) * NS_PER_S / found.duration_ns
    if course.pace is not None:
        return Rates(asked, course.pace.sent_per_s, answered_per_s)
    elapsed_ns = sum(window.expense.elapsed_ns for window in course.windows)
    due_per_s = sum(window.expense.due for window in course.windows) * NS_PER_S / max(elapsed_ns, 1)
    return Rates(asked, found.send_per_s, answered_per_s, due_per_s)


def _as_scheduled(course: Course, found: Measurement, rates: Rates) -> Measurement:
    found = replace(found, send_per_s=rates.sent_per_s)
    if course.recipe.window_ns is None:
        return found
    return replace(found, infer_per_s=Estimate(found.infer_per_s.value))  # it changes as asked: no interval


def _latency_ns(found: Measurement | None, chosen: int | None) -> int:
    if found is None or not found.request_count:
        return 0
    return found.latency.mean_ns if chosen is None else found.latency.percentile_ns(chosen)


def _said(course: Course) -> Iterator[Remark]:
    if course.verdict.remark is not None:
        yield course.verdict.remark
    yield from course.metrics_remarks


def _about(
    course: Course, found: Measurement | None, rates: Rates | None, pressed: Note | None
) -> Iterator[Remark]:
    empty = sum(window.empty for window in course.windows)
    if empty:
        yield Remark(
            Note.NO_RESPONSE, f"{empty} {'request' if empty == 1 else 'requests'} ended without a response"
        )
    if found is None:
        if not empty and not (course.verdict.remark and course.verdict.remark.note is Note.NO_ANSWER):
            yield Remark(Note.NO_REPLY, "no request finished")
        return
    yield from file_remarks(found)
    yield from host_remarks(found)
    yield from port_remarks(found)
    if not found.request_count:
        return
    if course.pace is not None:
        if pressed is not None and rates is not None:
            yield rate_remark(pressed, rates)
    elif rates is not None:
        is_from_start = course.windows[0].start_ns == course.start_ns
        yield from rate_remarks(rates, found, is_from_start=is_from_start)
    yield from client_remarks(found, is_capped=course.is_capped)
    yield from member_remarks(found.server)
    yield from _counted(course, found)
    if found.server is None:
        yield from _without_statistics(course)


def _without_statistics(course: Course) -> Iterator[Remark]:
    if course.statistics_error is not None:
        yield Remark(Note.STATISTICS_MISSING, str(course.statistics_error))
    elif counters_were_reset(course.windows):
        text = "the server's counters were reset: it was restarted, or the model was loaded again"
        yield Remark(Note.STATISTICS_MISSING, text)


def _counted(course: Course, found: Measurement) -> Iterator[Remark]:
    before, after = course.windows[0].before, course.windows[-1].after
    if found.server is None or before is None or after is None:
        return
    yield from count_remarks(course.recipe.model, found.server, bounds(before, after))


# --- why figures are not sure


def _is_unsure(course: Course) -> bool:
    rule, remark = course.recipe.rule, course.verdict.remark
    if isinstance(rule, Precision) and rule.precision == 0:
        return False  # nobody asked for any
    return remark is not None and remark.note in _UNSURE and any(window.count for window in course.windows)


def _maybe_doubt(course: Course, found: Measurement | None) -> Doubt | None:
    """Why the figures are not as sure as asked, or else that they changed while they were measured."""
    if found is None or not found.request_count:
        return None
    counted = course.figures[sum(window.number for window in course.cold) :]
    started = fast_start(counted) if course.recipe.finds_warm_up else None
    if started is not None:
        return started
    if _is_unsure(course):
        return _doubt(course, found, counted)
    return moving_figure(counted) if course.recipe.finds_warm_up else None


def _doubt(course: Course, found: Measurement, counted: Sequence[WindowFigures]) -> Doubt:
    rule, chosen = course.recipe.rule, course.recipe.percentile
    evidence = Evidence(
        windows=counted,
        found=found,
        name=latency_name(chosen),
        latency=dict(found.latency_intervals)["mean" if chosen is None else f"p{chosen}"],
        slow_ends_us=_slow_ends(course.windows),
        precision=rule.precision if isinstance(rule, Precision) else None,
        is_capped=course.is_capped,
    )
    return explain(evidence)


def _slow_ends(windows: Sequence[Window]) -> NDArray[np.int64]:
    """When requests ended that took far longer than most, microseconds into the measurement."""
    median_ns = joined([window.latency_ns for window in windows]).percentile(50)
    begin_ns = windows[0].start_ns
    ends = [window.ends.groups().later((window.start_ns - begin_ns) // NS_PER_US) for window in windows]
    return slow_ends(join_groups(ends), median_ns)
