"""A load generator that is a program of its own: started with the classic options, its CSV read back."""

import contextlib
import csv
import hashlib
import io
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.base.errors import LocalError
from inferometer.base.writing import writing
from inferometer.dialects.model_analyzer.flags import LOAD_FLAGS, SWITCHES, data_flags, words
from inferometer.dialects.model_analyzer.job import External
from inferometer.stats.measurement import Estimate
from inferometer.tune.deployment import Deployment
from inferometer.tune.figures import MEGA, resident
from inferometer.tune.meter import TrialError, TrialFigures
from inferometer.tune.search.search import Proposal
from inferometer.tune.trial import ClientLoad, Figures

SHOWN = 1000  # letters of its output in a message
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


@dataclass(frozen=True, slots=True)
class Windows:
    """How large a window is; every start that was not stable gets a larger one."""

    mode: str
    size: int

    @classmethod
    def first(cls, flags: Mapping[str, object]) -> "Windows":
        mode = str(flags.get("measurement-mode", "count_windows"))
        if mode == "time_windows":
            return cls(mode, int(str(flags.get("measurement-interval", 5000))))
        return cls(mode, int(str(flags.get("measurement-request-count", 50))))

    def larger(self) -> "Windows":
        return Windows(self.mode, self.size + (1000 if self.mode == "time_windows" else 50))

    def flags(self, starts: int) -> dict[str, object]:
        name = "measurement-interval" if self.mode == "time_windows" else "measurement-request-count"
        return {"measurement-mode": self.mode, **({name: self.size} if starts else {})}


def command(external: External, job: "_Job", site: Deployment, extra: Mapping[str, object]) -> list[str]:
    """An argument vector: short options, then long ones in their fixed order; the user's flags win."""
    model = job.model
    own: dict[str, object] = {
        "model-name": model if external.library is None else job.variant,
        "batch-size": job.load.batch,
        "latency-report-file": str(job.table),
        "verbose-csv": True,
        **_load(job.load),
        **_where(external, site),
    }
    members = dict(external.members).get(model)
    if members:
        own["bls-composing-models"] = ",".join(members)
    user = dict(dict(external.flags).get(model, ()))
    given = own | dict(extra) | user
    short = (
        "model-name",
        "model-version",
        "batch-size",
        "url",
        "protocol",
        "latency-report-file",
        "http-header",
    )
    first = [(name, given[name]) for name in short if name in given]
    verbosity = [(name, given[name]) for name in ("verbose", "extra-verbose", "verbose-csv") if name in given]
    long = [
        (name, given[name])
        for name in LOAD_FLAGS
        if name in given and name not in short and (name not in SWITCHES[-3:])
    ]
    return [external.program, *words(first), *words(verbosity), *words(long)]


def _where(external: External, site: Deployment) -> dict[str, object]:
    """The server to ask, or what to load where there is none."""
    library = external.library
    if library is not None:
        return {
            "service-kind": "triton_c_api",
            "triton-server-directory": str(library.directory),
            "model-repository": str(library.variants),
        }
    addresses = site.addresses
    found: dict[str, object] = {
        "url": addresses.grpc if external.protocol == "grpc" else addresses.http,
        "protocol": external.protocol,
    }
    if external.collects_gpus:
        found |= {
            "collect-metrics": True,
            "metrics-url": addresses.metrics_url,
            "metrics-interval": external.metrics_interval_ms,
        }
    return found


def _load(load: ClientLoad) -> dict[str, object]:
    if load.concurrency is not None:
        return {"concurrency-range": load.concurrency}
    if load.request_rate is not None:
        return {"request-rate-range": f"{load.request_rate:g}"}
    return {"request-intervals": load.intervals}


def read_table(text: str) -> tuple[Figures, tuple[tuple[str, Figures], ...]]:
    """Figures of the last row, and those of each GPU; a column that is missing is left out."""
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


def fingerprint(external: External, models: Sequence[str]) -> str:
    """Of what is sent to these models, as far as it is not the default."""
    flags = dict(external.flags)
    rows = [(model, found) for model in models if (found := data_flags(flags.get(model, ())))]
    if external.library is not None:
        rows.append(("", {"service-kind": ["triton_c_api"]}))
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:12] if rows else ""


@dataclass(slots=True)
class ProgramMeter:
    """Starts the program for every trial; several models get a process each, at the same time."""

    external: External
    error_log: Path
    say: Callable[[str], None]
    starts: int = 0
    _has_failed: bool = False
    _running: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def fingerprint(self, models: Sequence[str]) -> str:
        return fingerprint(self.external, models)

    def measure(self, proposal: Proposal, site: Deployment, *, is_fresh: bool) -> TrialFigures:
        with tempfile.TemporaryDirectory(prefix="inferometer-load-") as folder:
            jobs = [
                _Job(
                    variant.model,
                    variant.name,
                    load,
                    Path(folder) / f"{variant.model}-results.csv",
                    self._flags(variant.model),
                )
                for variant, load in proposal.parts
            ]
            for start in range(self.external.most_starts):
                outcomes = self._start(jobs, site, start)
                if all(row.reason is None for row in outcomes):
                    return self._reading(jobs, site)
                if not any(row.is_unstable for row in outcomes):
                    break
                for job in jobs:
                    job.windows = job.windows.larger()
        failed = next(row for row in outcomes if row.reason is not None)
        raise TrialError(f"{self.external.program}: {failed.reason}")

    def _flags(self, model: str) -> Mapping[str, object]:
        return dict(dict(self.external.flags).get(model, ()))

    def _start(self, jobs: "Sequence[_Job]", site: Deployment, start: int) -> "list[_Outcome]":
        commands = [command(self.external, job, site, job.windows.flags(start)) for job in jobs]
        try:
            for words_ in commands:
                self._running.append(
                    subprocess.Popen(
                        words_,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        env=self._environment(),
                    )
                )
                self.starts += 1
            deadline = time.monotonic() + self.external.timeout_s
            found = [
                self._outcome(process, job, words_, deadline)
                for process, job, words_ in zip(self._running, jobs, commands, strict=True)
            ]
        except OSError as error:
            raise LocalError(f"'{self.external.program}' cannot be started: {error.strerror}") from error
        finally:
            self.close()
        return found

    def _environment(self) -> Mapping[str, str]:
        library = self.external.library
        return os.environ if library is None else {**os.environ, **library.environment}

    def _outcome(
        self, process: "subprocess.Popen[bytes]", job: "_Job", words_: Sequence[str], deadline: float
    ) -> "_Outcome":
        output, reason = self._wait(process, deadline)
        self._show(output)
        if reason is None and process.returncode:
            reason = _ending(process.returncode)
        if reason is None and not job.table.exists():
            reason = "it wrote no table"
        if reason is None:
            return _Outcome(None)
        self._note(words_, output, reason)
        shown = f"{reason}: {output.strip()[:SHOWN]}" if output.strip() else reason
        return _Outcome(shown, any(mark in output for mark in _UNSTABLE))

    def _wait(self, process: "subprocess.Popen[bytes]", deadline: float) -> tuple[str, str | None]:
        """Its output, and why it was stopped, if it was."""
        import psutil

        watched: psutil.Process | None = None
        with contextlib.suppress(psutil.Error):
            watched = psutil.Process(process.pid)
            watched.cpu_percent()
        begun = time.monotonic()
        while True:
            try:
                output, _ = process.communicate(timeout=max(0.01, min(1.0, deadline - time.monotonic())))
                return output.decode(errors="replace"), None
            except subprocess.TimeoutExpired:
                pass
            reason = None
            used = 0.0
            with contextlib.suppress(psutil.Error):
                used = 0.0 if watched is None else watched.cpu_percent()
            limit = self.external.cpu_percent
            if time.monotonic() >= deadline:
                reason = f"it did not end within {self.external.timeout_s:g} s"
            elif limit is not None and used > limit and time.monotonic() - begun > 1:
                reason = f"it used {used:.0f} % CPU, and --perf-analyzer-cpu-util allows {limit:.0f} %"
            if reason is not None:
                process.kill()
                output, _ = process.communicate()
                return output.decode(errors="replace"), reason

    def _show(self, output: str) -> None:
        if not self.external.shows_output:
            return
        if self.external.output is None:
            self.say(output)
            return
        with writing(self.external.output), self.external.output.open("a") as sink:
            sink.write(output)

    def _note(self, words_: Sequence[str], output: str, reason: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            self.error_log.unlink(missing_ok=True)
        text = output.strip() or f"{reason}; it printed nothing"
        with writing(self.error_log), self.error_log.open("a") as log:
            log.write(f"Command: {' '.join(words_)}\nError: {text}\n\n")

    def _reading(self, jobs: "Sequence[_Job]", site: Deployment) -> TrialFigures:
        parts: list[Figures] = []
        gpus: tuple[tuple[str, Figures], ...] = ()
        for job in jobs:
            figures, found = read_table(job.table.read_text())
            gpus = gpus or found
            used = None if site.pid is None else resident(site.pid)
            rows = () if used is None else (("cpu_used_ram", Estimate(used / MEGA)),)
            parts.append(Figures((*figures.values, *rows)))
        return TrialFigures(tuple(parts), gpus)

    def forget(self) -> None:
        pass

    def close(self) -> None:
        """No process outlives the trial that started it."""
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._running.clear()


@dataclass(slots=True)
class _Job:
    model: str
    variant: str
    load: ClientLoad
    table: Path
    flags: Mapping[str, object]
    windows: Windows = field(init=False)

    def __post_init__(self) -> None:
        self.windows = Windows.first(self.flags)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """`reason` None went well."""

    reason: str | None
    is_unstable: bool = False


def _ending(code: int) -> str:
    if code < 0:
        return f"it was ended by signal {signal.Signals(-code).name}"
    return f"it ended with exit code {code}"
