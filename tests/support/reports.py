"""Results, diagnoses, comparisons and studies with simple figures, for reports."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.compare import comparison as comparisons
from inferometer.compare.comparison import (
    Comparison,
    Contrast,
    Difference,
    GateOutcome,
    LevelDifference,
    OutputSimilarity,
    Turn,
    Variant,
)
from inferometer.compare.interference import (
    CORES,
    NOTHING,
    Interference,
    ServerTimes,
    SharedModel,
    SharedUse,
)
from inferometer.compare.regression import RegressionCheck, RunsToJudge, judged
from inferometer.dataset.contents import Contents
from inferometer.diagnose import diagnosis as diagnoses
from inferometer.diagnose.diagnosis import (
    Change,
    ChangeTrial,
    CurvePoint,
    Diagnosis,
    Machine,
    StepFigures,
    Suggestion,
    Verdict,
)
from inferometer.dialects.perf_analyzer import report as classic
from inferometer.observe.statistics import Counters, ModelStatistics
from inferometer.options.effective import Effective
from inferometer.stats.energy import PoweredDevice, PowerReading, energy_figures
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT
from inferometer.stats.history import FigureHistory
from inferometer.stats.inspection import Inspection, inspection
from inferometer.stats.measurement import (
    STEP,
    ClassFigures,
    ClientCost,
    FailureGroup,
    Level,
    Measurement,
    Outage,
    Rates,
    WindowFigures,
)
from inferometer.stats.result import Finding, JudgedLoad, Result
from inferometer.stats.series import Series
from inferometer.stats.slo_outcome import Goodput, PromiseOutcome, TermOutcome
from inferometer.stats.task_figures import CallLane, TaskFigures, TaskLane, TurnFigures
from inferometer.stats.text_figures import Lane, Streaming, TokenFigures, UserRates
from inferometer.stats.trend import TrendPoint
from inferometer.tune.scoring import Constraint, Goal
from inferometer.tune.study import Study
from inferometer.tune.trial import ClientLoad, Figures, Status, Trial, TrialPart
from inferometer.tune.variant import VariantNames
from tests.support.planted_store import planted_figures

TOOL = "inferometer 0"
STARTED_AT = "2025-01-02T03:04:05+00:00"
WINDOWS = 8
DISCARDED = 2  # discarded windows of each level
WINDOW_S = 0.5
STEPS = ("decode", "network", "encode")
_SERVICE_MS = (20.0, 4.0, 1.0)


def sample_result(
    name: str = "pipeline", *, speed: float = 1.0, failures: tuple[FailureGroup, ...] = ()
) -> Result:
    """A result of a pipeline with three steps at four loads; its first step is busy from the second load on."""
    levels = tuple(sample_level(load, speed, failures if load == 4 else ()) for load in (1, 2, 3, 4))
    return Result(
        tool=TOOL,
        command="measure",
        started_at=STARTED_AT,
        asked={"model": name, "concurrency": {"start": 1, "end": 4, "step": 1}, "headers": ["authorization"]},
        effective=Effective(
            service_kind="triton",
            protocol="http",
            batch=1,
            percentile=None,
            max_error_rate=0.0,
        ),
        host={"name": "host", "processor": "a processor", "cores": 4, "memory_bytes": 8 << 30},
        server={"name": "triton", "version": "2.51.0", "url": "http://127.0.0.1:8000"},
        model={
            "name": name,
            "version": "1",
            "is_ensemble": True,
            "config": {"ensemble_scheduling": {"step": [{"model_name": step} for step in STEPS]}},
        },
        levels=levels,
    )


def sample_level(load: int, speed: float, failures: tuple[FailureGroup, ...] = ()) -> Level:
    """A level with `load` requests in flight; latencies are spread evenly on a logarithmic scale."""
    mean_ms = sum(_SERVICE_MS) * (1 if load == 1 else 0.8 * load * (1.08 - 0.02 * load)) / speed
    rate = 1000 * load / mean_ms
    latency = sample_latency(mean_ms)
    window = WindowFigures(
        start_s=0.0,
        duration_ns=round(WINDOW_S * NS_PER_S),
        request_count=round(rate * WINDOW_S),
        failed_count=0,
        infer_per_s=rate,
        latency_ns=latency.mean_ns,
        service_ns=latency.mean_ns,
        std_ns=latency.std_ns,
        p50_ns=latency.percentile_ns(50),
        p99_ns=latency.percentile_ns(99),
    )
    windows = tuple(
        WindowFigures(
            number * WINDOW_S,
            window.duration_ns,
            window.request_count,
            sum(group.count for group in failures) if number == WINDOWS - 1 else 0,
            rate * (1 + 0.03 * math.sin(number)),
            *(window.latency_ns, window.service_ns, window.std_ns, window.p50_ns, window.p99_ns),
        )
        for number in range(WINDOWS)
    )
    found = Measurement(
        batch=1,
        duration_ns=(WINDOWS - DISCARDED) * window.duration_ns,
        request_count=latency.count,
        failed_count=sum(group.count for group in failures),
        delayed_count=0,
        infer_per_s=Estimate(rate, rate * 0.97, rate * 1.03),
        send_per_s=rate,
        latency=latency,
        latency_intervals=tuple(
            (f"p{p}", Estimate(float(ns), ns * 0.95, ns * 1.05))
            for p, ns in ((q, latency.percentile_ns(q)) for q in (50, 99))
        ),
        service=latency,
        send_ns=100_000,
        receive_ns=50_000,
        received_bytes=1 << 20,
        client=ClientCost(1, 0.02, 35.0, 0, 0),
        server=sample_statistics(latency.mean_ns - 1_000_000, latency.count),
        failures=failures,
    )
    remark = Remark(Note.NOT_PRECISE, "asked for ±2.0%: throughput ±3.0%")
    return Level("concurrency", float(load), found, windows, True, False, (remark,) if load == 1 else ())


def sample_latency(mean_ms: float, count: int = 2000) -> Distribution:
    """Latencies around `mean_ms`, from 0.7 to about 3 times the mean."""
    parts = (np.arange(count) + 0.5) / count
    return Series((mean_ms * NS_PER_MS * 0.7 * (1 - parts) ** -0.2).astype(np.int64)).distribution()


def sample_statistics(server_ns: int, calls: int) -> ModelStatistics:
    """Statistics of an ensemble: each step takes its service time; the remaining time is the queue of the first."""
    work = [round(ms * NS_PER_MS) for ms in _SERVICE_MS]
    waits = [max(0, server_ns - sum(work)), 0, 0]
    return ModelStatistics(
        "pipeline",
        "1",
        Counters(inference_count=calls, success_count=calls, success_ns=max(server_ns, sum(work)) * calls),
        is_ensemble=True,
        members=tuple(
            ModelStatistics(step, "1", _counters(wait, ns, calls))
            for step, wait, ns in sorted(zip(STEPS, waits, work, strict=True))
        ),
    )


def _counters(queue_ns: int, compute_ns: int, calls: int) -> Counters:
    parts = (compute_ns // 20, compute_ns - 2 * (compute_ns // 20), compute_ns // 20)
    return Counters(
        inference_count=calls,
        execution_count=calls,
        success_count=calls,
        success_ns=(queue_ns + compute_ns) * calls,
        queue_count=calls,
        queue_ns=queue_ns * calls,
        compute_input_count=calls,
        compute_input_ns=parts[0] * calls,
        compute_infer_count=calls,
        compute_infer_ns=parts[1] * calls,
        compute_output_count=calls,
        compute_output_ns=parts[2] * calls,
    )


def sample_search(name: str = "pipeline") -> Result:
    """A search for the highest rate that meets an SLO, between two loads."""
    result = sample_result(name)
    loads = {1: 20.0, 2: 35.0, 3: 41.0, 4: 48.0}
    levels = tuple(
        replace(level, mode="request_rate", value=loads[int(level.value)]) for level in result.levels
    )
    judged = (
        JudgedLoad(20.0, "kept"),
        JudgedLoad(35.0, "kept"),
        JudgedLoad(41.0, "undecided"),
        JudgedLoad(48.0, "broken", ("p99",)),
    )
    finding = Finding(
        "p99<120ms", "request_rate", 35.0, 35.0, 48.0, "p99", 20.0, confidence=0.95, judged=judged
    )
    return replace(result, levels=levels, finding=finding)


def sample_ramp(name: str = "pipeline") -> Result:
    """A ramp of requests; not all of its second half are answered."""
    windows = []
    for number in range(40):
        asked = 5 + number
        answered = min(asked, 25)
        windows.append(
            WindowFigures(
                *(0.5 * number, NS_PER_S // 2, answered, 0, 2.0 * answered),
                *(20_000_000 + 600_000 * max(0, number - 20),) * 2,
                *(1_000_000, 20_000_000, 45_000_000 + 4_000_000 * max(0, number - 20), 0),
                answered_count=answered,
                due_count=asked,
                sent_count=min(asked, 40),
                counted_ns=NS_PER_S // 2,
            )
        )
    result = sample_result(name)
    level = replace(result.levels[0], mode="request_rate", value=49.0, windows=tuple(windows))
    effective = replace(
        result.effective, mode="shape_load", schedule="ramp.csv", schedule_s=20.0, request_count=980
    )
    return replace(result, levels=(level,), effective=effective)


def sample_text(name: str = "llama") -> Result:
    """A result of a model that generates text: token streams with an SLO."""
    result = sample_result(name)
    levels = []
    for level in result.levels:
        found, first = level.measurement, sample_latency(30 * level.value)
        assert found is not None
        answers = Distribution(100, 96, 30, 12, 200, ((50.0, 96), (90.0, 150), (99.0, 198)))
        rate, user = 96 * found.infer_per_s.value, 100.0 - 10 * level.value
        tokens = TokenFigures(
            *(9600, 96 * found.infer_per_s.value, answers, sample_latency(12 + 2 * level.value)),
            *(51_200, 512 * found.infer_per_s.value, Distribution(100, 512, 0, 512, 512, ()), 0),
            output_interval=Estimate(rate, 0.9 * rate, 1.1 * rate),
            per_user=UserRates(Estimate(user, user - 5, user + 5), ((1.0, user / 2), (50.0, user))),
        )
        lanes = tuple(
            Lane(at, at, at + 30 * NS_PER_MS, at + (30 + 12 * 96) * NS_PER_MS, 512, 96)
            for at in range(0, 480 * NS_PER_MS, 40 * NS_PER_MS)
        )
        kept = 1.0 - 0.05 * level.value
        promise = Goodput("ttft<100ms", 90, found.infer_per_s.value * kept, kept)
        streaming = Streaming(9600, tokens.output_per_s, answers, first, tokens.between)
        changed = replace(
            found, tokens=tokens, streaming=streaming, goodput=promise, server=None, lanes=lanes
        )
        windows = tuple(replace(row, output_tokens=96 * row.request_count) for row in level.windows)
        levels.append(replace(level, measurement=changed, windows=windows))
    model = {"name": name, "version": "1"}
    effective = replace(result.effective, service_kind="openai")
    return replace(result, levels=tuple(levels), model=model, effective=effective)


def sample_diagnosis(name: str = "pipeline") -> Diagnosis:
    """A diagnosis of a pipeline limited by its first step; more instances of it were tried and kept."""
    more = Suggestion(
        Change(diagnoses.INSTANCES, "decode", "1", "2", {"instance_group": [{"count": 2}]}),
        text="run 2 instances of decode instead of 1",
        concurrency=4,
        throughput=90.0,
        latency_ns=44e6,
        gain=0.8,
        why="its instance is busy all the time",
    )
    batching = Suggestion(
        Change(diagnoses.DYNAMIC_BATCHING, "network", "off", "size 4", {"dynamic_batching": {}}),
        text="turn on dynamic batching for network",
        concurrency=4,
        throughput=53.0,
        latency_ns=75e6,
        gain=0.06,
        why="it takes batches and gets none",
    )
    before, after = sample_result(name), sample_result(name, speed=1.76)
    rows = {level.value: level.measurement for level in before.levels if level.measurement is not None}
    mean_ns = {load: float(row.latency.mean_ns) for load, row in rows.items()}
    rates = {load: row.infer_per_s.value for load, row in rows.items()}
    (faster,) = (row.measurement for row in after.levels if row.value == 4 and row.measurement is not None)
    return Diagnosis(
        tool=TOOL,
        command=diagnoses.COMMAND,
        started_at=STARTED_AT,
        model=name,
        verdict=Verdict(
            diagnoses.COMPUTE, "decode limits it to 50 infer/s: its only instance is always busy.", "decode"
        ),
        concurrency=4,
        throughput=50.0,
        latency_ns=mean_ns[4],
        steps=(
            _step("decode", service_ms=20, wait_ms=44, share=0.93, work=0.8, busy=0.99, bound=50.0),
            _step("network", service_ms=4, wait_ms=0, share=0.05, work=0.16, busy=0.2, bound=250.0),
            replace(
                _step("encode", service_ms=1, wait_ms=0, share=0.01, work=0.04, busy=0.05, bound=None),
                depth=1,
            ),
        ),
        client_ns=1e6,
        overhead_ns=1e5,
        machine=Machine(4, 3.6, 0.4, None),
        suggestions=(more, batching),
        curve=(
            CurvePoint(1, 39.0, 22.6e6, rates[1], mean_ns[1]),
            CurvePoint(2, 49.0, 36e6, rates[2], mean_ns[2]),
            CurvePoint(4, 50.0, 70e6, rates[4], mean_ns[4]),
            CurvePoint(8, 50.0, 140e6, None, None),
        ),
        results=(before, after),
        trials=(
            ChangeTrial(more, 88.0, float(faster.latency.mean_ns), 0.76, True, 1),
            ChangeTrial(batching, 0.0, 0.0, 0.0, False, None, "max_batch_size is 0"),
        ),
        after=Verdict(diagnoses.CPU, "every core is busy.", None),
        is_restored=True,
        notes=("there is no GPU to look at",),
    )


def _step(
    name: str,
    *,
    service_ms: float,
    wait_ms: float,
    share: float,
    work: float,
    busy: float,
    bound: float | None,
) -> StepFigures:
    return StepFigures(
        name=name,
        depth=0,
        calls=1.0,
        service_ns=float(service_ms * NS_PER_MS),
        queue_ns=float(wait_ms * NS_PER_MS),
        compute_ns=float(service_ms * NS_PER_MS),
        latency_share=share,
        light_share=work,
        compute_share=work,
        instances=1,
        device="cpu",
        batch=1.0,
        max_batch=0,
        is_batching=False,
        utilisation=busy,
        bound=bound,
    )


def sample_comparison(base: str = "vocoder-fp32", other: str = "vocoder-fp16") -> Comparison:
    """A comparison with a variant that is a tenth faster, measured in turns."""
    result = sample_result(base)
    faster = _changed(replace(result, model={**result.model, "name": other}))
    pairs = {level.value: (level, after) for level, after in zip(result.levels, faster.levels, strict=True)}
    return Comparison(
        tool=TOOL,
        started_at=STARTED_AT,
        is_live=True,
        confidence=0.95,
        baseline=base,
        variants=(
            Variant(base, result, _turns(50.0)),
            Variant(other, faster, _turns(55.0)),
        ),
        contrasts=(
            Contrast(
                other,
                tuple(
                    LevelDifference("concurrency", float(load), tuple(_differences(*pairs[load])))
                    for load in (1, 4)
                ),
                comparisons.FASTER,
                (
                    OutputSimilarity(
                        "AUDIO", "FP32 / FP16", 8, 8000, 0.1, 0.003, 0.0002, 0.0008, 0.999999, 61.8
                    ),
                    OutputSimilarity("LABEL", "INT64", 8, 8, 1.0, top1=1.0),
                    OutputSimilarity("MASK", "FP32", 8, 0, problem="its shape is 4 here and 8 there"),
                ),
            ),
        ),
        gates=(
            GateOutcome("p99 > +5%", other, comparisons.PASSED, "p99 -1.7 % at concurrency 4"),
            GateOutcome("throughput < +20%", other, comparisons.FAILED, "throughput +10 % at concurrency 1"),
        ),
        notes=("other work used 12 % of the host",),
    )


def _turns(rate: float) -> tuple[tuple[Turn, ...], ...]:
    return (
        tuple(
            Turn(number, 0, 2.0 * number, 100, rate + number % 2, ((99.0, 40_000_000),))
            for number in range(6)
        ),
    )


_CHANGES = (
    ("throughput", Estimate(10.0, 8.5, 11.5), comparisons.FASTER, ""),
    ("p50", Estimate(-9.0, -11.0, -7.0), comparisons.FASTER, ""),
    ("p99", Estimate(-1.7, -5.0, 1.8), comparisons.NO_DIFFERENCE, ""),
    ("p99.9", Estimate(0.0), comparisons.NO_DIFFERENCE, "too few requests"),
)
"""Figure, change in percent, verdict and its reason."""


def _changed(result: Result) -> Result:
    """Return a result whose figures differ by `_CHANGES`; percentiles in between as the next lower one."""
    percents = {name: percent.value for name, percent, *_ in _CHANGES}
    levels = []
    for level in result.levels:
        found = level.measurement
        assert found is not None
        rate, latency, times = found.infer_per_s, found.latency, []
        for p, ns in latency.percentiles:
            own = "p99.9" if p >= 99.9 else "p99" if p >= 99 else "p50"
            times.append((p, round(ns * (1 + percents[own] / 100))))
        more = 1 + percents["throughput"] / 100
        changed = replace(
            found,
            infer_per_s=Estimate(*(end * more for end in (rate.value, rate.value * 0.97, rate.value * 1.03))),
            latency=replace(latency, percentiles=tuple(times)),
            latency_intervals=(),
        )
        levels.append(replace(level, measurement=changed))
    return replace(result, levels=tuple(levels))


def _differences(before: Level, after: Level) -> Iterator[Difference]:
    for name, percent, verdict, reason in _CHANGES:
        yield Difference(name, _figure(before, name), _figure(after, name), percent, verdict, reason)


def _figure(level: Level, name: str) -> float:
    found = level.measurement
    assert found is not None
    is_rate = name == "throughput"
    return float(found.infer_per_s.value if is_rate else found.latency.percentile_ns(float(name[1:])))


def classic_report(result: Result) -> str:
    """The classic tool's output on stdout for a result."""
    effective = result.effective
    lines = [classic.data_line(effective), classic.settings_block(result)]
    for level in result.levels:
        if classic.has_header(result):
            lines.append(classic.level_header(level.mode, level.value))
        for number, window in enumerate(level.windows if effective.verbose else (), start=1):
            lines.append(classic.pass_line(number, window, effective.percentile))
        lines.append(classic.level_block(result, level))
    return "".join([*lines, classic.summary(result)])


def sample_inspection(name: str = "trace.jsonl") -> Inspection:
    """An inspection of a bursty trace whose prompts share their first block, in sessions of two turns."""
    times = tuple(burst * NS_PER_S for burst in range(0, 600, 3) for _ in range(burst % 4 + 1))
    contents = Contents(
        format="Mooncake",
        counted_in="the trace",
        requests=len(times),
        times_ns=times,
        inputs=tuple(512 + number for number in range(len(times))),
        outputs=tuple(number % 90 for number in range(len(times))),
        cacheable_tokens=512 * (len(times) - 1),
        sessions=(2,) * (len(times) // 2),
        findings=("6 requests have an answer without tokens",),
    )
    return inspection(contents, name=name, tool=TOOL)


LIMIT_MS = 22.0  # limit of the sample study's SLO


def sample_study(model: str = "classifier") -> Study:
    """A study of five configurations at up to four loads, one that could not be loaded, and two that were skipped."""
    names = VariantNames()
    config: dict[str, Any] = {"name": "classifier", "backend": "onnxruntime", "max_batch_size": 1}
    default = names.variant(model, config, {}, cpu_only=True)
    made = [default]
    for instances, batch in ((1, 8), (2, 4), (2, 8), (4, 8)):
        changed = {
            "instance_group": [{"kind": "KIND_CPU", "count": instances}],
            "max_batch_size": batch,
            "dynamic_batching": {},
        }
        made.append(names.variant(model, config, changed, cpu_only=True))
    speeds = (800.0, 1450.0, 1700.0, 2100.0, 1950.0)
    trials: list[Trial] = []
    for variant, speed in zip(made, speeds, strict=True):
        for load in (1, 4, 16, 64):
            rate = speed * load / (load + 6)
            found = _trial(len(trials), variant.name, load, rate=rate, p99_ms=1.6 * load / rate * 1000)
            expected = () if variant.is_default else ((THROUGHPUT, rate * (1.12 - 0.03 * (load % 5))),)
            trials.append(replace(found, predicted=expected))
    for name, load, status, reason in (
        (made[4].name, 128, Status.FAILED, "the server ended while it loaded the model: out of memory"),
        (made[3].name, 128, Status.SKIPPED, "at best 2150 per second, which is no more than what was found"),
        (made[2].name, 128, Status.SKIPPED, "the time was up"),
    ):
        trials.append(replace(_trial(len(trials), name, load), status=status, reason=reason, cost_s=0.0))
    return Study(
        tool=TOOL,
        mode="online",
        search="smart",
        goals=(Goal(model, constraints=(Constraint(LATENCY_P99, high=LIMIT_MS),)),),
        variants=tuple(made),
        trials=tuple(trials),
        host={"processor": "a processor", "cores": 4},
        ended="nothing that is left can be better",
    )


def _trial(number: int, name: str, load: int, *, rate: float = 0.0, p99_ms: float = 0.0) -> Trial:
    values = {
        THROUGHPUT: Estimate(rate, rate * 0.98, rate * 1.02),
        LATENCY_P99: Estimate(p99_ms, p99_ms * 0.94, p99_ms * 1.07),
        "perf_latency_avg": Estimate(p99_ms / 2),
    }
    figures = Figures(tuple(values.items()) if rate else ())
    model = name.rpartition("_config_")[0]
    return Trial(number, (TrialPart(model, name, ClientLoad(load), figures),), cost_s=2.0)


def sample_regression(model: str = "classifier") -> RegressionCheck:
    """A gate with twenty good runs, and one whose throughput is 8 % lower."""
    figures = planted_figures(21, seed=3, step=-0.08, at=20)
    names = [f"{number:04x}" for number in range(0x7F3A, 0x7F3A + 21)]

    def histories(runs: slice) -> tuple[FigureHistory, ...]:
        return tuple(
            FigureHistory(
                name,
                "concurrency",
                4.0,
                tuple(
                    TrendPoint(run, f"2026-10-{day:02}T03:00:00+00:00", value, 0.997 * value, 1.003 * value)
                    for day, (run, value) in list(enumerate(zip(names, values, strict=True), 1))[runs]
                ),
            )
            for name, values in figures.items()
            if name != "p90"
        )

    past, new = histories(slice(20)), histories(slice(20, None))
    return judged(RunsToJudge("measure", model, "x86_64, 4 x a processor", new, past))


def sample_interference(one: str = "detector", two: str = "classifier") -> Interference:
    """An interference of two models, of which the first is slowed down."""
    measured = [level.measurement for level in sample_result().levels if level.measurement is not None]
    alone, together = measured[0], measured[-1]
    slower = (
        Difference("throughput", 50.0, 40.0, Estimate(-20.0, -22.0, -18.0), comparisons.SLOWER),
        Difference("p99", 20e6, 30e6, Estimate(50.0, 40.0, 60.0), comparisons.SLOWER),
    )
    same = (
        Difference("throughput", 50.0, 50.0, Estimate(0.0, -1.0, 1.0), comparisons.NO_DIFFERENCE),
        Difference("p99", 20e6, 20e6, Estimate(0.0), comparisons.NO_DIFFERENCE, "needs 400 requests"),
    )
    use, times = SharedUse(2, 1.0, 0.8, 0.05), ServerTimes(100, 20_000, 4_000_000)
    return Interference(
        tool=TOOL,
        started_at=STARTED_AT,
        mode="concurrency",
        value=2.0,
        seconds=10.0,
        rounds=20,
        confidence=0.98,
        host={"cores": 2},
        models=(
            SharedModel(
                one, one, "http://localhost:8000", alone, together, slower, use, times,
                ServerTimes(80, 30_000, 6_000_000), CORES, "1.98 of 2 cores were busy",
            ),
            SharedModel(
                two, two, "http://localhost:8000", alone, together, same, use, None, None, NOTHING,
                "no loss is shown",
            ),
        ),
        use=SharedUse(2, 1.98, 1.7, 0.6, gpu_share=0.1, gpu_memory_share=0.02),
        notes=("a note",),
    )  # fmt: skip


def sample_scenario(name: str = "shop", one: str = "detector", two: str = "classifier") -> Result:
    """A scenario with two classes and two phases; the second class had an outage and violated its SLO."""
    base = sample_result()
    level = next(row for row in base.levels if row.measurement is not None and row.windows)
    found = level.measurement
    assert found is not None
    outcome = PromiseOutcome(
        "p99<5ms",
        "broken",
        (TermOutcome("p99", "p99<5ms", 5e6, Estimate(float(found.latency.percentile_ns(99))), "broken"),),
    )
    classes = (
        ClassFigures(
            one, "m", "http://a", "request_rate", 30.0, None, 0.75, found, level.windows,
            rates=Rates(30.0, 30.0, 30.0, 30.0),
            promise=replace(outcome, verdict="kept", terms=(replace(outcome.terms[0], verdict="kept"),)),
        ),
        ClassFigures(
            two, "n", "http://b", "concurrency", 2.0, None, 0.25, replace(found, server=None), level.windows,
            promise=outcome, outages=(Outage(1.9, 2.0, 4.0, 4.5, 20), Outage(7.0, 7.1, None, None, 3)),
        ),
    )  # fmt: skip
    levels = tuple(
        replace(
            level,
            mode=f"phase {phase}",
            value=float(number),
            name=phase,
            classes=classes,
            promise=None,
            measurement=replace(found, server=None),
        )
        for number, phase in enumerate(("ramp", "peak"), start=1)
    )
    return replace(
        base,
        levels=levels,
        finding=None,
        effective=replace(base.effective, mode="scenario", schedule=name),
        model={"name": name, "mixed": [dict(base.model)]},
        scenario={"classes": {one: {"rate": 30.0}, two: {"concurrency": 2}}},
    )


def sample_tasks(name: str = "research") -> Result:
    """A scenario whose second class has tasks of two steps; some fail."""
    base = sample_scenario(name, "chat", "agent")
    level = base.levels[0]
    plain, agent = level.classes
    steps = tuple(
        replace(agent, name=step, mode=STEP, promise=None, outages=()) for step in ("plan", "answer")
    )
    assert agent.measurement is not None
    latency, ms = agent.measurement.latency, NS_PER_MS
    calls = (
        CallLane("plan", 1, 0, 0, 2 * ms, 5 * ms, is_good=True, is_critical=True),
        CallLane("answer", 2, 25 * ms, 26 * ms, 27 * ms, 35 * ms, is_good=False, is_critical=True),
    )
    tasks = TaskFigures(
        complete=90,
        limited=4,
        failed=10,
        retries=3,
        answers="recorded",
        duration=sample_latency(40.0),
        calls=Estimate(2.5, 2.4, 2.6),
        tokens=Estimate(300.0),
        prompt_tokens=Estimate(4000.0),
        path_calls=Estimate(2.0),
        model_ns=Estimate(15 * ms, 14 * ms, 16 * ms),
        tool_ns=Estimate(20 * ms),
        wait_ns=Estimate(0.0),
        model_share=Estimate(0.43),
        tool_share=Estimate(0.57),
        wait_share=Estimate(0.0),
        prefix_expected=1000,
        prefix_found=250,
        turns=(
            TurnFigures(1, 100, 0, latency, latency, Estimate(10.0), Estimate(5.0)),
            TurnFigures(2, 100, 10, latency, None, Estimate(30.0), Estimate(6.0)),
        ),
        sample=(TaskLane(7, "<b>trace</b>", 0, 35 * ms, "failed", calls),),
    )
    assert agent.promise is not None
    p99 = Estimate(float(tasks.duration.percentile_ns(99)))
    term = replace(agent.promise.terms[0], found=p99)
    own = replace(
        agent,
        measurement=replace(agent.measurement, latency=tasks.duration, latency_intervals=()),
        promise=replace(agent.promise, terms=(term,)),
        steps=steps,
        outages=(),
        tasks=tasks,
    )
    return replace(base, levels=(replace(level, classes=(plain, own)),))


IDLE_W, W_PER_REQUEST = 60.0, 2.0  # of the server of `powered_result`


def powered_result(*, strangers: tuple[int, ...] = (), idle_w: float | None = IDLE_W) -> Result:
    """A result whose server draws a fixed power and a fixed energy per request."""
    result = sample_result()
    levels = []
    for level in result.levels:
        found = level.measurement
        per_s = found.infer_per_s.value / found.batch
        watts = IDLE_W + W_PER_REQUEST * per_s
        readings = tuple(
            PowerReading(number * NS_PER_S // 2, watts, watts * number / 2) for number in range(25)
        )
        device = PoweredDevice("GPU-1", readings, idle_w=idle_w, strangers=strangers)
        figures = energy_figures(
            (device,), NS_PER_S, 11 * NS_PER_S, requests=Estimate(per_s), batch=found.batch
        )
        levels.append(replace(level, measurement=replace(found, energy=figures)))
    return replace(result, levels=tuple(levels))
