"""External load generators: programs started with the classic options, whose CSV is read."""

import contextlib
import csv
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.base.errors import LocalError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.threads import users_environment
from inferometer.base.writing import writing
from inferometer.dialects.model_analyzer.config import Config, called
from inferometer.dialects.model_analyzer.flags import LOAD_FLAGS, SHORT, data_flags, words
from inferometer.server.in_process import USUAL_DIRECTORY, installed_library
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import MEGA
from inferometer.tune.deployment import Deployment
from inferometer.tune.meter import TrialError, TrialFigures
from inferometer.tune.search.search import Proposal
from inferometer.tune.settings import IN_PROCESS, LaunchSettings
from inferometer.tune.trial import ClientLoad, Figures
from inferometer.tune.trial_figures import resident
from inferometer.tune.variant import ModelVariant

SHOWN = 1000  # characters of its output in a message
_UNSTABLE = ("Failed to obtain stable measurement", "Please use a larger time window")
_PER_MS = 1000.0  # microseconds

_COLUMNS: tuple[tuple[str, str, float], ...] = (
    ("Inferences/Second", "perf_throughput", 1.0),
    ("Avg latency", "perf_latency_avg", _PER_MS),
    ("p50 latency", "perf_latency_p50", _PER_MS),
    ("p90 latency", "perf_latency_p90", _PER_MS),
    ("p95 latency", "perf_latency_p95", _PER_MS),
    ("p99 latency", "perf_latency_p99", _PER_MS),
    ("request/response", "perf_client_send_recv", _PER_MS),
    ("send/recv", "perf_client_send_recv", _PER_MS),
    ("response wait", "perf_client_response_wait", _PER_MS),
    ("Server Queue", "perf_server_queue", _PER_MS),
    ("Server Compute Input", "perf_server_compute_input", _PER_MS),
    ("Server Compute Infer", "perf_server_compute_infer", _PER_MS),
    ("Server Compute Output", "perf_server_compute_output", _PER_MS),
)
_GPU_COLUMNS = (
    ("Avg GPU Utilization", "gpu_utilization", 0.01),
    ("Avg GPU Power Usage", "gpu_power_usage", 1.0),
    ("Max GPU Memory Usage", "gpu_used_memory", MEGA),
    ("Total GPU Memory", "gpu_total_memory", MEGA),
)


@frozen
class LoadGenerator:
    """A program that sends the load, with its configuration."""

    path: str
    config: Config
    library: Path | None = None  # of Triton, which it loads itself in launch mode c_api
    environment: Mapping[str, str] = field(default_factory=dict)


def find_generator(config: Config, launch: LaunchSettings) -> LoadGenerator | None:
    """Return the requested load generator; None for the built-in one."""
    name = config.perf_analyzer_path
    if name is None:
        return None
    found = shutil.which(name)
    if found is None:
        raise UsageError(
            f"the load generator '{name}' is not an executable program",
            remedy="check --perf-analyzer-path, or leave it out to use the built-in one",
        )
    path = str(Path(found).absolute())
    if launch.mode != IN_PROCESS:
        return LoadGenerator(path, config)
    library = Path(launch.install_path or USUAL_DIRECTORY)
    installed_library(library, called("triton_install_path"))
    return LoadGenerator(path, config, library, launch.environment)


@frozen
class _Run:
    """A run of the program for one model of a trial."""

    variant: ModelVariant
    load: ClientLoad
    table: Path


def window_flags(flags: Mapping[str, object], start: int) -> dict[str, object]:
    """Return the flags of the measurement window, which grows with every restart."""
    mode = str(flags.get("measurement-mode", "count_windows"))
    is_time = mode == "time_windows"
    name, first, step = (
        ("measurement-interval", 5000, 1000) if is_time else ("measurement-request-count", 50, 50)
    )
    size = int(str(flags.get(name, first))) + start * step
    return {"measurement-mode": mode, **({name: size} if start else {})}


def command(generator: LoadGenerator, run: _Run, deployment: Deployment, start: int) -> list[str]:
    """Return the arguments: short options, then long ones in fixed order; the user's flags take precedence."""
    config, load, model = generator.config, run.load, run.variant.model
    flags = dict(config.flags_by_model.get(model, ()))
    given: dict[str, object] = {
        "model-name": model if generator.library is None else run.variant.name,
        "batch-size": load.batch,
        "latency-report-file": str(run.table),
        "verbose-csv": True,
        "concurrency-range": load.concurrency,
        "request-rate-range": None if load.request_rate is None else f"{load.request_rate:g}",
        "request-intervals": load.intervals,
        "bls-composing-models": ",".join(row.name for row in config.bls_composing_models or ()) or None,
        **_where(generator, deployment),
        **flags,
        **window_flags(flags, start),
    }
    first = (*SHORT, "extra-verbose", "verbose-csv")
    ordered = (*first, *(name for name in LOAD_FLAGS if name not in first))
    return [generator.path, *words((name, given[name]) for name in ordered if given.get(name) is not None)]


def _where(generator: LoadGenerator, deployment: Deployment) -> dict[str, object]:
    """Return the flags of the server to use, or of the models to load without one."""
    config, addresses = generator.config, deployment.addresses
    if generator.library is not None:
        return {
            "service-kind": "triton_c_api",
            "triton-server-directory": str(generator.library),
            "model-repository": str(config.output_model_repository_path),
        }
    found: dict[str, object] = {
        "url": addresses.grpc if config.client_protocol == "grpc" else addresses.http,
        "protocol": config.client_protocol,
    }
    if not config.dcgm_disable:
        found |= {
            "collect-metrics": True,
            "metrics-url": addresses.metrics_url,
            "metrics-interval": round(1000 * config.monitoring_interval),
        }
    return found


def read_table(text: str) -> tuple[Figures, tuple[tuple[str, Figures], ...]]:
    """Read the figures of the last row and of each GPU; missing columns are skipped."""
    rows = list(csv.DictReader(io.StringIO(text)))
    if not rows:
        raise TrialError("the load generator wrote a table without rows")
    row = rows[-1]
    found: dict[str, Estimate] = {}
    for column, tag, unit in _COLUMNS:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            found[tag] = Estimate(float(row[column]) / unit)
    if "perf_throughput" not in found:
        raise TrialError("the load generator's table has no column Inferences/Second")
    return Figures(tuple(found.items())), tuple(_gpus(row))


def _gpus(row: Mapping[str, str]) -> Iterator[tuple[str, Figures]]:
    found: dict[str, dict[str, Estimate]] = {}
    for column, tag, unit in _GPU_COLUMNS:
        for item in (row.get(column) or "").split(";"):
            uuid, colon, value = item.rpartition(":")
            if colon:
                with contextlib.suppress(ValueError):
                    found.setdefault(uuid.strip(), {})[tag] = Estimate(float(value) / unit)
    for uuid, values in found.items():
        used, total = values.get("gpu_used_memory"), values.get("gpu_total_memory")
        if used is not None and total is not None:
            values["gpu_free_memory"] = Estimate(total.value - used.value)
        yield uuid, Figures(tuple(values.items()))


def fingerprint(generator: LoadGenerator, models: Sequence[str]) -> str:
    """Return a fingerprint of the non-default data sent to these models."""
    flags = generator.config.flags_by_model
    rows = [(model, found) for model in models if (found := data_flags(flags.get(model, ())))]
    if generator.library is not None:
        rows.append(("", {"service-kind": ["triton_c_api"]}))
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:12] if rows else ""


@dataclass(slots=True)
class ErrorLog:
    """Log of failed measurements; the first failure of a run replaces the file of an earlier run."""

    path: Path
    count: int = 0

    def add(self, command: str, error: str) -> None:
        if not self.count:
            self.path.unlink(missing_ok=True)
        self.count += 1
        with writing(self.path), self.path.open("a") as log:
            log.write(f"Command: {command}\nError: {error}\n\n")


@dataclass(slots=True)
class ProgramMeter:
    """Runs the program for every trial; several models get one process each, in parallel."""

    generator: LoadGenerator
    error_log: ErrorLog
    say: Callable[[str], None]
    rate_unit: str | None = None
    _running: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def fingerprint(self, models: Sequence[str]) -> str:
        return fingerprint(self.generator, models)

    def measure(self, proposal: Proposal, deployment: Deployment, *, is_fresh: bool) -> TrialFigures:
        with tempfile.TemporaryDirectory(prefix="inferometer-load-") as folder:
            runs = [
                _Run(variant, load, Path(folder) / f"{variant.model}-results.csv")
                for variant, load in proposal.parts
            ]
            for start in range(self.generator.config.perf_analyzer_max_auto_adjusts):
                failures = self._start(runs, deployment, start)
                if not failures:
                    return self._figures(runs, deployment)
                if not any(mark in output for _, output in failures for mark in _UNSTABLE):
                    break
        reason, output = failures[0]
        shown = f"{reason}: {output[:SHOWN]}" if output else reason
        raise TrialError(f"{self.generator.path}: {shown}")

    def _start(self, runs: Sequence[_Run], deployment: Deployment, start: int) -> list[tuple[str, str]]:
        """Start the program for all runs; return why runs gave no figures, with the program's output."""
        commands = [command(self.generator, run, deployment, start) for run in runs]
        try:
            for words_ in commands:
                self._running.append(
                    subprocess.Popen(
                        words_,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        env={**users_environment(), **self.generator.environment},
                    )
                )
            deadline = time.monotonic() + self.generator.config.perf_analyzer_timeout
            found = [
                self._failure(process, run.table, " ".join(words_), deadline)
                for process, run, words_ in zip(self._running, runs, commands, strict=True)
            ]
        except OSError as error:
            raise LocalError(f"'{self.generator.path}' cannot be started: {error.strerror}") from error
        finally:
            self.close()
        return [row for row in found if row is not None]

    def _failure(
        self, process: "subprocess.Popen[bytes]", table: Path, line: str, deadline: float
    ) -> tuple[str, str] | None:
        printed, reason = self._wait(process, deadline)
        self._show(printed)
        output = printed.strip()
        if reason is None and process.returncode:
            reason = _ending(process.returncode)
        if reason is None and not table.exists():
            reason = "it wrote no table"
        if reason is None:
            return None
        self.error_log.add(line, output or f"{reason}; it printed nothing")
        return reason, output

    def _wait(self, process: "subprocess.Popen[bytes]", deadline: float) -> tuple[str, str | None]:
        """Wait for the program; return its output, and why it was stopped, if it was."""
        import psutil

        watched: psutil.Process | None = None
        with contextlib.suppress(psutil.Error):
            watched = psutil.Process(process.pid)
            watched.cpu_percent()
        limit = self.generator.config.perf_analyzer_cpu_util or 80.0 * (os.cpu_count() or 1)
        begun, reason = time.monotonic(), None
        while reason is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                output, _ = process.communicate(timeout=max(0.01, min(1.0, deadline - time.monotonic())))
                return output.decode(errors="replace"), None
            used = 0.0
            with contextlib.suppress(psutil.Error):
                used = 0.0 if watched is None else watched.cpu_percent()
            if time.monotonic() >= deadline:
                reason = f"it did not end within {self.generator.config.perf_analyzer_timeout:g} s"
            elif used > limit and time.monotonic() - begun > 1:
                reason = f"it used {used:.0f} % CPU, and --perf-analyzer-cpu-util allows {limit:.0f} %"
        process.kill()
        output, _ = process.communicate()
        return output.decode(errors="replace"), reason

    def _show(self, output: str) -> None:
        path = self.generator.config.perf_output_path
        if not self.generator.config.perf_output:
            return
        if path is None:
            self.say(output)
            return
        with writing(path), path.open("a") as sink:
            sink.write(output)

    def _figures(self, runs: Sequence[_Run], deployment: Deployment) -> TrialFigures:
        found = [read_table(run.table.read_text()) for run in runs]
        used = None if deployment.pid is None else resident(deployment.pid)
        rows = () if used is None else (("cpu_used_ram", Estimate(used / MEGA)),)
        parts = tuple(Figures((*figures.values, *rows)) for figures, _ in found)
        return TrialFigures(parts, next((gpus for _, gpus in found if gpus), ()))

    def forget(self) -> None:
        pass

    def close(self) -> None:
        """Kill all processes of the trial."""
        for process in self._running:
            with process:  # waits for it and closes its output
                process.kill()
        self._running.clear()


def _ending(code: int) -> str:
    if code < 0:
        return f"it was ended by signal {signal.Signals(-code).name}"
    return f"it ended with exit code {code}"
