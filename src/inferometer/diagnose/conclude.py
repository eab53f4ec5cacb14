"""Observations -> what limits the pipeline, what would help, and the curve the model draws. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from inferometer.base.units import NS_PER_S
from inferometer.diagnose.bottleneck import step_table, verdict
from inferometer.diagnose.diagnosis import UNKNOWN, CurvePoint, StepFigures, Suggestion, Verdict
from inferometer.diagnose.fit import Measured, calibrate, fit, knows_batches
from inferometer.diagnose.observation import HostUse, Observation
from inferometer.diagnose.pipeline import Cores, Pipeline
from inferometer.diagnose.queueing import predict
from inferometer.diagnose.suggest import Situation, suggestions

_LEAST_CORES = 0.1  # whoever waits gets some time in the end


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known besides the measurements."""

    model: str
    max_batch: int
    cores: float | None  # of the server's machine; None when nobody knows
    is_shared_memory: bool = False
    is_json: bool = False
    is_http: bool = True
    is_local: bool = False
    transfer_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """`sweep` is what the verdict is about, its last row the diagnosed level; `extra` only teaches the model."""

    sweep: tuple[Observation, ...]
    extra: tuple[Observation, ...] = ()


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What follows from the evidence."""

    verdict: Verdict
    table: tuple[StepFigures, ...]
    pipeline: Pipeline | None  # None without statistics
    suggestions: tuple[Suggestion, ...]
    curve: tuple[CurvePoint, ...]
    effective_cores: float | None


def conclude(evidence: Evidence, circumstances: Circumstances) -> Conclusion:
    """The whole diagnosis but for what the shell adds."""
    sweep, top = evidence.sweep, evidence.sweep[-1]
    if not top.steps:
        return Conclusion(verdict(sweep, Pipeline(())), (), None, (), (), None)
    rows = (*evidence.extra, *sweep)
    pipeline = fitted(evidence, _cores(rows, circumstances))
    found = verdict(sweep, pipeline)
    table = step_table(sweep)
    situation = Situation(
        top=top,
        table=table,
        pipeline=pipeline,
        verdict=found,
        model=circumstances.model,
        max_batch=circumstances.max_batch,
        known_batches=frozenset(row.name for row in table if knows_batches(row.name, rows)),
        sequences=frozenset(step.name for step, _, _ in top.walk() if step.setup.is_sequence),
        is_shared_memory=circumstances.is_shared_memory,
        is_json=circumstances.is_json,
        is_http=circumstances.is_http,
        is_local=circumstances.is_local,
        transfer_s=circumstances.transfer_s,
    )
    advice = () if found.kind == UNKNOWN else suggestions(situation)
    return Conclusion(found, table, pipeline, advice, curve(sweep, pipeline), _effective(pipeline))


def fitted(evidence: Evidence, cores: Cores) -> Pipeline:
    """The pipeline as the last row of the sweep has it, with cores as slow as all rows together say."""
    rows = (*evidence.extra, *evidence.sweep)
    plain = fit(rows, cores)
    measured = [
        Measured(fit((*rows, row), cores), row.concurrency, row.throughput)
        for row in rows
        if row.items == plain.items and row.steps
    ]
    return calibrate(measured, plain)


def _cores(rows: Sequence[Observation], circumstances: Circumstances) -> Cores:
    """What is there for us of the machine under pressure."""
    if circumstances.cores is None:
        return Cores()
    most = max(row.concurrency for row in rows)
    seen = sorted(
        _ours(row, row.host) for row in rows if row.host is not None and 2 * row.concurrency >= most
    )
    left = seen[len(seen) // 2] if seen else circumstances.cores
    return Cores(count=min(circumstances.cores, max(_LEAST_CORES, left)))


def _ours(row: Observation, host: HostUse) -> float:
    """Cores we could have: those nobody holds, or as good a share of all of them as we got of those we wanted."""
    if host.server is None:
        return float(host.cores)
    used = host.server + row.throughput / row.items * row.client_core_s
    wanted = used + sum(use.waiting for use in host.models.values())
    share = used * max(1.0, host.cores / wanted) if wanted else 0.0
    return max(host.cores - (host.busy - used), share)


def curve(sweep: Sequence[Observation], pipeline: Pipeline) -> tuple[CurvePoint, ...]:
    """The model beside what was measured, level by level."""
    points = []
    for row in sweep:
        expected = predict(replace(pipeline, items=row.items), row.concurrency)
        points.append(
            CurvePoint(
                row.concurrency,
                expected.throughput,
                expected.latency_s * NS_PER_S,
                row.throughput,
                row.latency_s * NS_PER_S,
            )
        )
    return tuple(points)


def _effective(pipeline: Pipeline) -> float | None:
    """What all cores together are worth; None when they are not known."""
    if math.isinf(pipeline.cores.count):
        return None
    return pipeline.cores.work(pipeline.cores.count)
