"""Comparison of live servers: variants are prepared, measured in turns, and their outputs compared."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace

import inferometer
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.secrets import redacted
from inferometer.base.units import NS_PER_S
from inferometer.compare.comparison import (
    Comparison,
    Contrast,
    LevelDifference,
    OutputSimilarity,
    Variant,
)
from inferometer.compare.differences import CONFIDENCE, headline_metrics, of_turns, overall
from inferometer.compare.gates import Terms, conclude
from inferometer.compare.outputs import NotComparableError, as_inputs_of, fetch, inputs, similarities
from inferometer.compare.turns import (
    Candidate,
    TimeBudget,
    TurnSeries,
    measure_point,
    merged,
    turns,
)
from inferometer.measure.checks import changed
from inferometer.measure.clients import open_ray
from inferometer.measure.instrument import LoadPoint
from inferometer.measure.opening import make_instrument, start_workers
from inferometer.measure.points import LastOutcome, level_count, points
from inferometer.measure.prepare import Setup, prepare
from inferometer.measure.run import warm_up_as_asked
from inferometer.options.comparing import COMPARE_REFUSED
from inferometer.options.names import option_name, with_names
from inferometer.options.options import Options
from inferometer.stats.figures import Metric
from inferometer.stats.watcher import Watcher, completed

DURATION_S = 10.0
OUTPUTS = 20

MeasuredPoints = Sequence[tuple[LoadPoint, tuple[TurnSeries, ...]]]
"""All loads, each with the turns of all candidates."""


@frozen
class ModelAtServer:
    """A variant to measure: a model on a server."""

    name: str
    model: str
    url: str | None = None


def variants_of(models: Sequence[str], urls: Sequence[str]) -> tuple[ModelAtServer, ...]:
    """Return the variants: several models on one server, one model on several servers, or MODEL@URL for each.

    Without a model name, the only model of each server is used, or the page at its address."""
    if len(models) > 1 and len(urls) > 1:
        raise UsageError(
            f"{len(models)} models and {len(urls)} addresses are ambiguous",
            remedy=f"write each variant as {option_name('-m')} MODEL@URL",
        )
    pairs: list[tuple[str, str | None]] = []
    for model in models or ("",):
        name, at, url = model.partition("@")
        if at and urls:
            raise UsageError(
                f"'{option_name('-m', model)}' contains an address, but {option_name('-u')} gives another",
                remedy=f"leave out {option_name('-u')}",
            )
        pairs += [(name, url)] if at else [(name, url) for url in urls] or [(name, None)]
    if len(pairs) < 2:
        raise UsageError(
            "a comparison needs at least two variants",
            remedy=f"give {option_name('-m')} several times, {option_name('-u')} several times, or two "
            "result files",
        )
    return tuple(ModelAtServer(label, *pair) for label, pair in zip(_labels(pairs), pairs, strict=True))


def _labels(pairs: Sequence[tuple[str, str | None]]) -> list[str]:
    """Return the shortest names that distinguish the variants; duplicates are numbered."""
    models, urls = ({pair[side] for pair in pairs} for side in (0, 1))
    if len(models) == len(pairs) or len(urls) == 1:
        plain = [model for model, _ in pairs]
    elif len(models) == 1:
        plain = [url or "default server" for _, url in pairs]
    else:
        plain = [f"{model}@{url}" if url else model for model, url in pairs]
    return numbered([redacted(name) for name in plain])


def numbered(names: Sequence[str]) -> list[str]:
    """Add a number to repeated names."""
    return [
        f"{name} ({names[: place + 1].count(name)})" if name in names[:place] else name
        for place, name in enumerate(names)
    ]


@frozen
class CompareRequest:
    """A comparison to run: variants, their common load, and the conditions."""

    models: tuple[ModelAtServer, ...]
    options: Options  # the variants replace its model and address
    terms: Terms = field(default_factory=Terms)
    outputs: int = OUTPUTS  # requests whose outputs are compared


def check_request(request: CompareRequest) -> None:
    """Raise for options that a comparison does not support."""
    for name, remedy in COMPARE_REFUSED.items():
        if name in request.options.given:
            raise UsageError(
                f"{option_name(name)} is not supported in a comparison", remedy=with_names(remedy)
            )
    if request.options.workers == "auto":
        raise UsageError(
            f"{option_name('--workers')} auto is not supported in a comparison",
            remedy="give a number, the same for all variants",
        )
    if request.options.duration_s is None and not request.options.request_count:
        raise UsageError(
            "a comparison is measured in rounds, not in windows",
            remedy=f"set the time with {option_name('--duration')} TIME, or the number of requests with "
            f"{option_name('--requests')}",
        )


def compare_live(request: CompareRequest, watcher: Watcher) -> Comparison:
    """Measure all variants in turns and compare them with the first."""
    check_request(request)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    setups = [prepare(options_of(request.options, model), command="compare") for model in request.models]
    if setups[0].last is None:
        raise UsageError("the range of levels has no end", remedy=f"give one: {option_name('-c')} START:END")
    for finding in dict.fromkeys(finding for setup in setups for finding in setup.findings):
        watcher.said(finding)
    names = [model.name for model in request.models]
    compared = [_outputs(setups[0], setup, request.outputs) for setup in setups[1:]]
    with _candidates(names, setups, watcher) as candidates:
        measured = _measure(candidates, setups[0], request.options, watcher)
    wanted = headline_metrics(request.options.percentile, request.terms.percentiles)
    was_measured = any(all_series[0].windows for _, all_series in measured)
    found = Comparison(
        tool=f"inferometer {inferometer.__version__}",
        started_at=started_at,
        is_live=True,
        confidence=CONFIDENCE,
        baseline=names[0],
        variants=_variants(names, setups, measured),
        contrasts=_contrasts(names[1:], measured, wanted, compared),
        notes=_notes(setups, watcher),
        problems=() if was_measured else ("nothing was measured",),
    )
    return conclude(found, request.terms)


def options_of(options: Options, model: ModelAtServer) -> Options:
    """Return the common options with the model and address of this variant."""
    return changed(options, model=model.model, url=options.url if model.url is None else model.url)


@contextmanager
def _candidates(names: Sequence[str], setups: Sequence[Setup], watcher: Watcher) -> Iterator[list[Candidate]]:
    """Yield candidates with all workers started; workers idle when it is not their turn."""

    # Turns are not levels: the watcher sees only their progress, and can stop the run.
    def watching(name: str) -> Watcher:
        progressed = partial(watcher.turn_progressed, name)
        return completed(SimpleNamespace(is_interrupted=watcher.is_interrupted, progressed=progressed))

    with ExitStack() as stack:
        options = setups[0].options
        ray = None if options.ray is None else stack.enter_context(open_ray(options, watcher))
        yield [
            Candidate(
                name=name,
                instrument=make_instrument(
                    setup, stack.enter_context(start_workers(setup, ray=ray)), watching(name)
                ),
                level_settings=setup.level_settings,
                steps=len(setup.traffic.requests),
                is_alone=not any(_share_counters(setup, other) for other in setups if other is not setup),
            )
            for name, setup in zip(names, setups, strict=True)
        ]


def _share_counters(one: Setup, other: Setup) -> bool:
    names = [{model.name for model in setup.model.family()} for setup in (one, other)]
    return one.result.server["url"] == other.result.server["url"] and not names[0].isdisjoint(names[1])


def _measure(
    candidates: Sequence[Candidate], setup: Setup, options: Options, watcher: Watcher
) -> MeasuredPoints:
    budget = TimeBudget(
        round((options.duration_s or DURATION_S) * NS_PER_S),
        options.request_count,
        round((options.ramp_s or 0.0) * NS_PER_S),
    )
    found = []
    watcher.prepared(setup.result.effective)
    watcher.planned(level_count(setup.options, setup.last), None)
    for point in points(setup.options, setup.last, LastOutcome()):
        for candidate in candidates:
            warm_up_as_asked(candidate.instrument, options, point)
        all_series = measure_point(candidates, point, budget, watcher)
        found.append((point, all_series))
        if watcher.is_interrupted() or any(series.is_cut_short for series in all_series):
            break
    return found


def _variants(names: Sequence[str], setups: Sequence[Setup], measured: MeasuredPoints) -> tuple[Variant, ...]:
    windows = (
        turn[0] for _, all_series in measured for series in all_series for turn in series.windows[:1] if turn
    )
    start_ns = min((window.start_ns for window in windows), default=0)
    found = []
    for number, (name, setup) in enumerate(zip(names, setups, strict=True)):
        levels = tuple(merged(all_series[number], point) for point, all_series in measured)
        taken = tuple(turns(all_series[number], start_ns) for _, all_series in measured)
        found.append(Variant(name, replace(setup.result, levels=levels), taken))
    return tuple(found)


def _contrasts(
    names: Sequence[str],
    measured: MeasuredPoints,
    wanted: Sequence[Metric],
    compared: Sequence[tuple[tuple[OutputSimilarity, ...], str]],
) -> tuple[Contrast, ...]:
    looks = max(1, len(wanted) * len(measured) * len(names))
    found = []
    for number, (name, (outputs, note)) in enumerate(zip(names, compared, strict=True), 1):
        levels = tuple(
            LevelDifference(point.mode, float(point.value), of_turns(base, other, wanted, looks))
            for point, all_series in measured
            if (base := all_series[0]).windows and (other := all_series[number]).windows
        )
        found.append(Contrast(name, levels, overall(levels), outputs, note))
    return tuple(found)


def _outputs(base: Setup, other: Setup, count: int) -> tuple[tuple[OutputSimilarity, ...], str]:
    if not count:
        return (), "comparing outputs was disabled"
    try:
        steps = inputs(base, count)
        theirs = as_inputs_of(other, steps)  # before fetching anything
        return similarities(fetch(base, steps), fetch(other, theirs)), ""
    except NotComparableError as error:
        return (), str(error)


def _notes(setups: Sequence[Setup], watcher: Watcher) -> tuple[str, ...]:
    said = dict.fromkeys(warning for setup in setups for warning in setup.warnings)
    stopped = ("the comparison was stopped early; only the completed rounds are compared",)
    return (*said, *(stopped if watcher.is_interrupted() else ()))
