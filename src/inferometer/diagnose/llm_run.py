"""Measure a server that generates text at a few loads, read its metrics at the same time, and conclude."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.notes import CLIENT_LIMITS
from inferometer.base.units import NS_PER_S, rough
from inferometer.diagnose.diagnosis import COMMAND, Diagnosis, Machine
from inferometer.diagnose.llm import conclude_llm
from inferometer.diagnose.loads import announce, nothing_measured, planned
from inferometer.diagnose.serving import ServingLevel, maybe_serving_level
from inferometer.load.plan import Closed
from inferometer.measure.checks import changed
from inferometer.measure.instrument import LevelSettings, LoadPoint, Ramp
from inferometer.measure.level import measure_level, warm_up
from inferometer.measure.opening import make_instrument, start_workers
from inferometer.measure.prepare import Setup, metrics_endpoint, prepare
from inferometer.measure.ramp import SHORT_NS
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.options.values import Range
from inferometer.stats.result import Result
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher

MOST = 256  # highest load of a default sweep
LOOKS_MS = 200  # between two reads of the server's metrics
WAVES = 4  # fewest consecutive answers per load
LONGEST_NS = 60 * NS_PER_S  # unless the user asks for more


def diagnose_llm(setup: Setup, wanted: Sequence[int] | None, watcher: Watcher) -> Diagnosis:
    """Diagnose the server of `setup` at the given loads; None lets the sweep find its end."""
    most = MOST if wanted is None else max(wanted)
    setup = prepare(_asking(setup.options, most), command=COMMAND)
    setup, blind = _with_metrics(setup)
    announce(setup, wanted, watcher)
    rows, result = _sweep(setup, watcher, wanted)
    if not rows:
        raise nothing_measured(setup.options.model)
    top = rows[-1]
    limits = [remark.text for remark in result.levels[-1].remarks if remark.note in CLIENT_LIMITS]
    found = conclude_llm(rows, setup.model.name, limits[0] if limits else None)
    return Diagnosis(
        tool=result.tool,
        command=COMMAND,
        started_at=result.started_at,
        model=setup.model.name,
        verdict=found.verdict,
        concurrency=top.concurrency,
        throughput=top.requests_per_s,
        latency_ns=top.latency_ns,
        steps=(),
        client_ns=0.0,
        overhead_ns=0.0,
        machine=Machine(None, None, None, None),
        suggestions=found.suggestions,
        curve=found.curve,
        results=(result,),
        notes=(*blind, *found.notes, *_crowded(result)),
        serving=found.serving,
    )


def _crowded(result: Result) -> Iterator[str]:
    """Yield a note if other programs used the machine, with their highest use."""
    rows = [level.host for level in result.levels if level.host is not None and level.host.is_crowded]
    if rows:
        host = max(rows, key=lambda row: row.others or 0.0)
        yield (
            f"Other programs kept {rough(host.others or 0.0)} of this machine's {host.cores} cores busy during the "
            "run: figures and predictions are less reliable"
        )


def refuse_changes(*, is_applied: bool, cores: float | None) -> None:
    """Reject options of `diagnose` that do not apply to a server that generates text."""
    if is_applied:
        raise UsageError(
            f"{option_name('--apply')} loads a model with another configuration, which OpenAI-compatible "
            "servers do not support",
            remedy=f"leave it out, or let diagnose start the server: {option_name('--serve')} 'COMMAND "
            "--port {port}'",
        )
    if cores is not None:
        raise UsageError(
            f"{option_name('--cores')} is not used for OpenAI-compatible servers", remedy="leave it out"
        )


def _asking(options: Options, most: int) -> Options:
    """Enable streaming, to observe the first token, and read the metrics often enough for short loads."""
    fields: dict[str, object] = {"concurrency": Range(1, most), "streaming": True}
    if "metrics_interval_ms" not in options.given:
        return replace(changed(options, **fields), metrics_interval_ms=LOOKS_MS)
    return changed(options, **fields)


def _with_metrics(setup: Setup) -> tuple[Setup, tuple[str, ...]]:
    """Add the server's metrics if available; if requested, `prepare` has already read them."""
    if setup.metrics is not None:
        return setup, ()
    metrics = metrics_endpoint(setup.options, setup.traffic.wiring.endpoint)
    try:
        first = metrics.look()
    except PeerError as error:
        return setup, (f"The server's metrics could not be read: {error.message}",)
    if first.llm is None:
        return setup, ("The server's metrics are not those of vLLM, SGLang, TensorRT-LLM or llama.cpp",)
    return replace(setup, metrics=metrics), ()


# --- measuring


def sweep_llm(options: Options, wanted: Sequence[int], watcher: Watcher) -> tuple[list[ServingLevel], Result]:
    """Measure these loads, with the server's metrics if available."""
    setup, _ = _with_metrics(prepare(_asking(options, max(wanted)), command=COMMAND))
    return _sweep(setup, watcher, wanted)


def _sweep(setup: Setup, watcher: Watcher, wanted: Sequence[int] | None) -> tuple[list[ServingLevel], Result]:
    rows: list[ServingLevel] = []
    result = setup.result
    with start_workers(setup) as load:
        instrument = make_instrument(setup, load, watcher)
        for concurrency in planned(wanted, MOST, lambda: [row.requests_per_s for row in rows]):
            load.apply(Closed(0))  # exclude the first requests after a change
            began_ns = instrument.clock()
            warm_up(instrument, Closed(concurrency, count=concurrency))
            wave_ns = instrument.clock() - began_ns
            if wave_ns < SHORT_NS:
                # Keep the load running into the level: with a queue, the first answers are faster than all later ones.
                warm_up(instrument, Closed(concurrency), longest_ns=wave_ns)
            point = LoadPoint("concurrency", concurrency, Closed(concurrency))
            level = measure_level(instrument, _level_settings(setup, wave_ns), point)
            result = replace(result, levels=(*result.levels, level))
            row = maybe_serving_level(level)
            if row is not None:
                rows.append(row)
            if level.is_cut_short or watcher.is_interrupted():
                break
    return rows, result


def _level_settings(setup: Setup, wave_ns: int) -> LevelSettings:
    """Start users of long answers one after the other: in lockstep, all prompts are read at once."""
    return replace(_long_enough(setup, wave_ns), ramp=Ramp(answer_ns=wave_ns))


def _long_enough(setup: Setup, wave_ns: int) -> LevelSettings:
    """Extend a default duration to cover several consecutive answers."""
    settings = setup.level_settings
    if not isinstance(settings.rule, Precision) or "duration_s" in setup.options.given:
        return settings
    duration_ns = settings.rule.duration_ns
    longer_ns = max(duration_ns, min(WAVES * wave_ns, LONGEST_NS))
    windows = 1 if settings.window_ns is None else max(1, duration_ns // settings.window_ns)
    return replace(
        settings, rule=replace(settings.rule, duration_ns=longer_ns), window_ns=longer_ns // windows
    )
