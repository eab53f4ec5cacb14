"""`model-analyzer` on a simulated server: the whole command, with figures from a formula."""

import csv
import io
import json
import signal
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer import main as model_analyzer
from inferometer.stats.estimate import Estimate
from inferometer.tune import journal as journals
from inferometer.tune import model_config
from inferometer.tune.deployment import ServerDeployment
from inferometer.tune.fingerprint import fingerprint
from inferometer.tune.meter import TrialError, TrialFigures
from inferometer.tune.prepare import choose, make_problem
from inferometer.tune.session import TrialRunner, run, sent_options
from inferometer.tune.settings import Addresses, LaunchSettings
from inferometer.tune.study import Study
from inferometer.tune.trial import Figures
from inferometer.tune.variant import VariantNames
from tests.unit.tune.scripted import Formula, answer, server

TENSORS = """
input { name: "IN" data_type: TYPE_FP32 dims: [64] }
output { name: "OUT" data_type: TYPE_FP32 dims: [64] }
instance_group { count: 1 kind: KIND_CPU }
"""
CONFIGS = {
    "W": f'backend: "python" max_batch_size: 8 dynamic_batching {{ }} {TENSORS}',
    "N": f'backend: "python" {TENSORS}',
    "A": f'backend: "python" max_batch_size: 4 dynamic_batching {{ }} {TENSORS}',
    "S": f'backend: "python" max_batch_size: 4 dynamic_batching {{ }} {TENSORS}',
    "L": f'backend: "python" {TENSORS}',
    "EE": """platform: "ensemble"
        input { name: "IN" data_type: TYPE_FP32 dims: [64] }
        output { name: "OUT" data_type: TYPE_FP32 dims: [64] }
        ensemble_scheduling {
          step {
            model_name: "E" model_version: -1
            input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" }
          }
        }""",
    "E": """platform: "ensemble" max_batch_size: 4
        input { name: "IN" data_type: TYPE_FP32 dims: [64] }
        output { name: "OUT" data_type: TYPE_FP32 dims: [64] }
        ensemble_scheduling {
          step {
            model_name: "A" model_version: -1
            input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "mid" }
          }
          step {
            model_name: "S" model_version: -1
            input_map { key: "IN" value: "mid" } output_map { key: "OUT" value: "OUT" }
          }
        }""",
}
BOUNDED = (
    "--run-config-search-max-concurrency",
    "8",
    "--run-config-search-max-instance-count",
    "2",
    "--run-config-search-max-model-batch-size",
    "4",
)


class _Server:
    pid = None
    addresses = Addresses("127.0.0.1:1", "127.0.0.1:2", "http://127.0.0.1:3/metrics")

    def start(self):
        pass

    def stop(self):
        pass

    def is_running(self):
        return True


class _Deployment(ServerDeployment):
    def __init__(self):
        server: Any = _Server()
        super().__init__(server, LaunchSettings())
        self.loaded = []

    def apply(self, variants):
        names = [part.name for variant in variants for part in (*variant.composing, variant)]
        is_fresh = not self.loaded or self.loaded[-1] != names
        if is_fresh:
            self.loaded.append(names)
        return is_fresh


@dataclass
class Meter:
    """Meter with figures from a formula; records its measurements."""

    formula: Formula
    options: dict = field(default_factory=dict)
    runs: list = field(default_factory=list)
    proposals: list = field(default_factory=list)
    interrupt_at: int = 0
    interrupts: int = 1
    rate_unit: str | None = None

    def fingerprint(self, models):
        return fingerprint({model: self.options[model] for model in models}, {})

    def measure(self, proposal, deployment, *, is_fresh):
        self.proposals.append(proposal)
        self.runs.append((",".join(variant.name for variant in proposal.variants), proposal.parts[0][1]))
        if len(self.runs) == self.interrupt_at:
            for _ in range(self.interrupts):
                signal.raise_signal(signal.SIGINT)
        trial = answer(proposal, self.formula, 0)
        if not trial.is_measured:
            raise TrialError("exit code 99")
        return TrialFigures(tuple(_more(part.figures) for part in trial.parts))

    def forget(self):
        pass

    def close(self):
        pass


def _more(figures):
    """Add the server's times and memory."""
    p99 = figures.get("perf_latency_p99")
    rows = (
        ("perf_latency_avg", p99 / 2),
        ("perf_client_send_recv", 0.1),
        ("perf_client_response_wait", p99 / 3),
        ("perf_server_queue", p99 / 8),
        ("perf_server_compute_input", 0.2),
        ("perf_server_compute_infer", p99 / 4),
        ("perf_server_compute_output", 0.1),
        ("cpu_used_ram", 150.0),
    )
    return Figures((*figures.values, *((tag, Estimate(value)) for tag, value in rows)))


@dataclass
class Analyzer:
    """Runs commands in a separate folder."""

    folder: Path
    formula: Formula = server
    meters: list = field(default_factory=list)
    deployments: list = field(default_factory=list)
    interrupt_at: int = 0
    interrupts: int = 1
    started: int = 0

    def __post_init__(self):
        for name, text in CONFIGS.items():
            model = self.folder / "repo" / name / "1"
            model.mkdir(parents=True)
            (model / "model.py").write_text("")
            (model.parent / "config.pbtxt").write_text(f'name: "{name}" {text}')

    @property
    def runs(self):
        return self.meters[-1].runs if self.meters else []

    def profile(self, *words, models="W", yaml=None, command="profile", before=()):
        given = [
            "-m",
            str(self.folder / "repo"),
            "--triton-http-endpoint",
            "localhost:0",
            "--triton-grpc-endpoint",
            "localhost:0",
            "--triton-metrics-url",
            "http://localhost:0/metrics",
        ]
        given += ["--profile-models", models] if models else []
        given += self._yaml(yaml)
        return self.main([*before, command, *given, *words])

    def _yaml(self, document):
        if document is None:
            return []
        path = self.folder / "perf.yaml"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return ["-f", str(path)]

    def main(self, argv):
        try:
            return model_analyzer.main([str(word) for word in argv], profile=self._search)
        except SystemExit as end:
            return end.code

    def _search(self, settings, watcher, *, make_meter=None):
        """Search like the real session, but without a server."""
        self.started += 1
        meter = Meter(
            self.formula,
            dict(sent_options(settings)),
            interrupt_at=self.interrupt_at,
            interrupts=self.interrupts,
        )
        if make_meter is not None:
            meter = make_meter(settings, watcher)
        self.meters.append(meter)
        with journals.opened(settings.journal) as journal:
            names = VariantNames.of(journal.variants())
            groups = [settings.models] if settings.together else [(model,) for model in settings.models]
            for group in groups:
                deployment = _Deployment()
                self.deployments.append(deployment)
                scope = make_problem(settings, group, lambda name: _read(settings, name), has_gpus=False)
                name, steps = choose(settings.search.method, scope, names)
                study = Study(
                    "inferometer test", settings.mode, name, scope.goals, seed=settings.search.seed or 0
                )
                yield run(TrialRunner(deployment, meter, journal, names, watcher), steps, study)
                if watcher.is_interrupted():
                    return

    # --- results

    def rows(self, name="metrics-model-inference.csv"):
        text = (self.folder / "results" / name).read_text()
        return list(csv.DictReader(io.StringIO(text.rstrip("\n"))))

    def variants(self):
        return sorted(path.name for path in (self.folder / "output_model_repository").iterdir())

    def config(self, variant):
        return model_config.read_file(self.folder / "output_model_repository" / variant / "config.pbtxt")


def _read(settings, name):
    folder = model_config.find_model(settings.launch.repositories, name)
    if folder is None:
        raise UsageError(f"no model {name}")
    return model_config.read_file(folder / "config.pbtxt")


STUB = """#!{python}
import csv, os, sys
words = sys.argv[1:]
with open(os.environ["STUB_LOG"], "a") as log:
    print(*words, sep="\\x1f", file=log)
value = lambda name: words[words.index(name) + 1]
load = float(value("--concurrency-range") if "--concurrency-range" in words else value("--request-rate-range"))
if load in [float(row) for row in os.environ.get("STUB_FAILS", "").split()]:
    print("cannot do it")
    sys.exit(99)
if len(open(os.environ["STUB_LOG"]).readlines()) <= int(os.environ.get("STUB_UNSTABLE", 0)):
    print("Failed to obtain stable measurement")
    sys.exit(2)
rate = 100.0 if "STUB_FLAT" in os.environ else 100 * load
row = {{"Concurrency": load, "Inferences/Second": rate, "Avg latency": 1000 * load, "p90 latency": 1500 * load,
       "p95 latency": 1600 * load, "p99 latency": 2000 * load, "send/recv": 100, "response wait": 900,
       "Server Queue": 10, "Server Compute Input": 20, "Server Compute Infer": 30, "Server Compute Output": 40}}
with open(value("-f"), "w") as sink:
    writer = csv.DictWriter(sink, row)
    writer.writeheader()
    writer.writerow(row)
"""


@dataclass
class Stub:
    """A load generator with the classic command line and figures from a formula: p99 = 2 ms x load."""

    path: Path
    log: Path

    @classmethod
    def made(cls, folder: Path, monkeypatch) -> "Stub":
        found = cls(folder / "stub perf_analyzer", folder / "stub.log")
        found.path.write_text(STUB.format(python=sys.executable))
        found.path.chmod(found.path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("STUB_LOG", str(found.log))
        return found

    @property
    def commands(self) -> list[list[str]]:
        return [line.split("\x1f") for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def given(self, name: str) -> list[str]:
        return [words[words.index(name) + 1] for words in self.commands if name in words]
