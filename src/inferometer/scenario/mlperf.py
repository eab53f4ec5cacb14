"""Runs by the rules of MLPerf's loadgen: its arrivals, its end, and its verdict."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from inferometer.base import status
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.slo import Slo, parse_slo
from inferometer.base.units import NS_PER_MS, NS_PER_S, plain_number
from inferometer.load.loadgen_arrivals import loadgen_times
from inferometer.load.plan import NEVER, Listed
from inferometer.measure.instrument import LevelSettings
from inferometer.measure.points import Agenda
from inferometer.measure.prepare import OWN_HABITS, Setup, prepare
from inferometer.measure.run import run
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.records.records import NO_TIMES, Records
from inferometer.scenario.classes import planned_classes
from inferometer.scenario.run import ScenarioRequest, ScenarioSetup, prepare_scenario, run_scenario
from inferometer.scenario.spec import MlperfSpec
from inferometer.stats.level_progress import LevelProgress
from inferometer.stats.mlperf import (
    NEVER_NS,
    Latencies,
    MlperfLog,
    MlperfSettings,
    MlperfTarget,
    judge_mlperf,
)
from inferometer.stats.result import Result
from inferometer.stats.slo import began_ns
from inferometer.stats.stopping import Precision, Stability
from inferometer.stats.streams import between_ns
from inferometer.stats.watcher import Watcher, together

if TYPE_CHECKING:
    from inferometer.cluster.ray_process import RayProcess

# A closed run ends after this many minimum durations, and this time, even without the minimum of queries.
LONGEST = 10
LONGEST_NS = 60 * NS_PER_S
WINDOWS = 100  # per minimum duration
MOST_QUERIES = 10_000_000  # scheduled in advance
FIGURES = ("latency", "ttft", "tpot")
_REMEDY = "write it like 'p99<10ms', or 'ttft p99<2s, tpot p99<200ms' for text"

_WHOLE = Stability(
    percentage=0.0, max_trials=1, latency_limit_ms=0, is_lenient=True
)  # a whole plan ignores it

Start = Callable[[Watcher], Iterator[Result]]


@frozen
class MlperfSetup:
    """A run that is ready to start, with its rules."""

    options: Options  # of the command line
    setup: Setup
    settings: MlperfSettings

    @property
    def result(self) -> Result:
        return self.setup.result

    @property
    def journal(self) -> None:
        """Return None: scenarios do not export their requests."""
        return None

    @property
    def models(self) -> tuple[str, ...]:
        return (self.setup.model.name,)

    @property
    def messages(self) -> tuple[str, ...]:
        return self.setup.messages


def prepare_any(request: ScenarioRequest) -> tuple[ScenarioSetup | MlperfSetup, Start]:
    """Prepare a scenario, with phases or by the rules of MLPerf; return it with the function that runs it."""
    if request.scenario.mlperf is not None:
        mlperf = prepare_mlperf(request)
        return mlperf, partial(run_mlperf, mlperf)
    setup = prepare_scenario(request)
    return setup, partial(run_scenario, setup)


def prepare_mlperf(request: ScenarioRequest) -> MlperfSetup:
    """Query the server and build the requests, without sending any."""
    spec = request.scenario.mlperf
    assert spec is not None
    asked = request.options
    settings = mlperf_settings(spec, asked, request.duration_s)
    _check_load(spec, asked)
    rows = planned_classes(request.scenario, without_rules(asked), request.models, folder=request.folder)
    if len(rows) > 1:
        raise UsageError(
            f"{option_name('--scenario')} {request.scenario.name} measures one model, but {len(rows)} are "
            "given",
            remedy="give one model",
        )
    (row,) = rows
    options = replace(row.options, workers=row.spec.workers)
    setup = prepare(options, command="measure", habits=OWN_HABITS)
    settings = replace(settings, samples_per_query=setup.level_settings.batch)
    setup = _scheduled(setup, settings, spec) if spec.scenario == "server" else setup
    result = replace(setup.result, asked={**setup.result.asked, "scenario": request.scenario.name})
    return MlperfSetup(asked, replace(setup, result=result), settings)


def without_rules(asked: Options) -> Options:
    """Return the options without those that set rules of MLPerf, which classes of a scenario do not support."""
    return replace(asked, slo=None, request_count=0, given=asked.given - {"slo", "request_count"})


def mlperf_settings(spec: MlperfSpec, asked: Options, duration_s: float | None) -> MlperfSettings:
    """Return the rules of a run; the command line overrides those of the scenario."""
    slo = parse_slo(spec.slo) if asked.slo is None and spec.slo is not None else asked.slo
    share, targets = targets_of(spec, slo)
    return MlperfSettings(
        scenario=spec.scenario,
        share=share,
        min_duration_s=spec.min_duration if duration_s is None else duration_s,
        min_queries=asked.request_count or spec.min_queries,
        targets=targets,
    )


def targets_of(spec: MlperfSpec, slo: Slo | None) -> tuple[float, tuple[MlperfTarget, ...]]:
    """Return the percentile as a share, and the limits of the SLO."""
    share = spec.percentile / 100
    if slo is None:
        if spec.scenario == "server":
            raise UsageError(
                "MLPerf's server scenario needs a latency target",
                remedy=f"give {option_name('--slo')}: {_REMEDY}",
            )
        return share, ()
    if spec.scenario == "offline":
        raise UsageError(
            f"MLPerf's offline scenario has no latency target, but the SLO is '{slo.text}'",
            remedy="leave it out",
        )
    terms = slo.terms[: slo.text.count(",") + 1]  # without the default for errors
    for term in terms:
        if term.figure not in FIGURES or term.percentile is None:
            raise UsageError(f"'{term.text}' is not a latency target of MLPerf", remedy=_REMEDY)
    names = {term.name for term in terms}
    if len(names) > 1 or len({term.figure for term in terms} - {"ttft", "tpot"}) not in (0, len(terms)):
        raise UsageError(f"the SLO '{slo.text}' has several percentiles or times", remedy=_REMEDY)
    limits = tuple(MlperfTarget(term.figure, round(term.limit)) for term in terms)
    return (terms[0].percentile or 0.0) / 100, limits


def _check_load(spec: MlperfSpec, asked: Options) -> None:
    """Reject a load that the scenario does not have: its kind is part of the rules."""
    is_rate, is_closed = "request_rate" in asked.given, "concurrency" in asked.given
    if spec.scenario == "server" and is_closed:
        raise UsageError(
            f"MLPerf's server scenario sends queries at a rate, not {option_name('-c')}",
            remedy=f"give {option_name('-r')}",
        )
    if spec.scenario != "server" and is_rate:
        remedy = f"give {option_name('-c')}" if spec.scenario == "offline" else "leave it out"
        raise UsageError(
            f"MLPerf's {spec.scenario} scenario has no rate, but {option_name('-r')} is given", remedy=remedy
        )
    if spec.scenario in ("single-stream", "multi-stream") and is_closed:
        raise UsageError(
            f"MLPerf's {spec.scenario} scenario has one query in flight",
            remedy=f"leave out {option_name('-c')}",
        )


def _scheduled(setup: Setup, settings: MlperfSettings, spec: MlperfSpec) -> Setup:
    """Return the setup with loadgen's arrivals as its load."""
    assert setup.options.request_rate is not None
    rate, duration_s = float(setup.options.request_rate.start), settings.min_duration_s
    if rate * duration_s > MOST_QUERIES:
        raise UsageError(
            f"{plain_number(rate)} queries/s for {plain_number(duration_s)} s are more than {MOST_QUERIES:,}",
            remedy="give a lower rate or a shorter duration",
        )
    times = loadgen_times(
        rate,
        min_duration_ns=round(duration_s * NS_PER_S),
        min_queries=settings.min_queries,
        seed=spec.seed,
    )
    agenda = Agenda(Listed(times), len(times))
    effective = replace(
        setup.result.effective,
        schedule="MLPerf server arrivals",
        schedule_s=agenda.length_ns / NS_PER_S,
        request_count=agenda.count,
    )
    return replace(setup, agenda=agenda, result=replace(setup.result, effective=effective))


def run_mlperf(mlperf: MlperfSetup, watcher: Watcher, *, ray: "RayProcess | None" = None) -> Iterator[Result]:
    """Yield the result after the level and once more at the end, each with the verdict so far."""
    log = QueryLog(mlperf.settings)
    setup = replace(mlperf.setup, level_settings=_level_settings(mlperf, log))
    for result in run(setup, together(watcher, log), ray=ray):
        yield replace(result, mlperf=judge_mlperf(mlperf.settings, log.log()))


def _level_settings(mlperf: MlperfSetup, log: "QueryLog") -> LevelSettings:
    """Count every query, including the first, until the rules allow the end."""
    settings = mlperf.settings
    min_ns, is_whole = round(settings.min_duration_s * NS_PER_S), settings.scenario == "server"
    return replace(
        mlperf.setup.level_settings,
        rule=_WHOLE
        if is_whole
        else Precision(1.0, max(LONGEST * min_ns, LONGEST_NS), is_enough=log.is_enough),
        window_ns=max(min_ns // WINDOWS, NS_PER_MS),
        is_whole=is_whole,
        finds_warm_up=False,
        follows_work=False,
        ramp=None,
        promise=None,
    )


@dataclass(slots=True)
class QueryLog(Watcher):
    """The times of all queries of a run, collected while it is measured."""

    settings: MlperfSettings
    _times: dict[str, list[Latencies]] = field(default_factory=dict)
    _queries: int = 0
    _first_ns: int = NEVER  # start of the first query, which may end late
    _last_ns: int = 0  # the end of the run, as the rule on the duration means it

    def level_started(self, mode: str, value: float) -> None:
        """Start again: a level may be repeated with more workers."""
        figures = dict.fromkeys(("latency", *(target.figure for target in self.settings.targets)))
        self._times, self._queries = {name: [] for name in figures}, 0
        self._first_ns, self._last_ns = NEVER, 0

    def progressed(self, progress: LevelProgress) -> None:
        records = progress.records
        if not len(records):
            return
        scenario = self.settings.scenario
        sent_ns = began_ns(records, is_open=scenario == "server")
        self._queries += len(records)
        self._first_ns = min(self._first_ns, int(sent_ns.min()))
        last_ns = int((records.end_ns if scenario == "offline" else sent_ns).max())
        self._last_ns = max(self._last_ns, last_ns)
        start_ns = np.full_like(sent_ns, self._first_ns) if scenario == "offline" else sent_ns
        for name, parts in self._times.items():
            times = _query_times(name, records, start_ns)
            parts.append(np.where(records.status == status.OK, times, NEVER_NS))

    def is_enough(self) -> bool:
        """Whether a closed run may end by the rules on duration and queries."""
        is_long = self._span_s >= self.settings.min_duration_s
        each = self.settings.samples_per_query if self.settings.scenario == "offline" else 1
        return is_long and self._queries * each >= self.settings.min_queries

    @property
    def _span_s(self) -> float:
        return max(0, self._last_ns - self._first_ns) / NS_PER_S

    def log(self) -> MlperfLog:
        times = {name: np.concatenate((NO_TIMES, *parts)) for name, parts in self._times.items()}
        return MlperfLog(times_ns=times, span_s=self._span_s, issued=self._queries)


def _query_times(figure: str, records: Records, start_ns: Latencies) -> Latencies:
    if figure == "ttft":
        return np.where(records.responses > 0, records.first_ns - start_ns, NEVER_NS)
    return np.maximum(between_ns(records), 0) if figure == "tpot" else records.end_ns - start_ns
