"""What a command is to do, besides the search itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferometer.dialects.model_analyzer.plots import Plot
from inferometer.tune.scoring import Goal
from inferometer.tune.settings import TuneSettings

JOURNAL = "journal.sqlite"


@dataclass(frozen=True, slots=True)
class Library:
    """What a load generator is to load itself: Triton's installation, and the folder of the variants."""

    directory: Path
    variants: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class External:
    """A load generator that is a program of its own."""

    program: str
    flags: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]  # of the user, by model
    members: tuple[tuple[str, tuple[str, ...]], ...] = ()  # that a BLS model calls, by model
    protocol: str = "grpc"
    timeout_s: float = 600.0
    cpu_percent: float | None = None
    most_starts: int = 10
    shows_output: bool = False
    output: Path | None = None
    metrics_interval_ms: int = 1000
    collects_gpus: bool = False
    library: Library | None = None  # launch mode c_api: there is no server


@dataclass(frozen=True, slots=True)
class Tables:
    """Names and columns of the CSV files; columns None are the classic ones."""

    inference: str = "metrics-model-inference.csv"
    gpu: str = "metrics-model-gpu.csv"
    server: str = "metrics-server-only.csv"
    inference_fields: tuple[str, ...] | None = None
    has_tokens: bool = False  # columns of tokens among the classic ones
    gpu_fields: tuple[str, ...] | None = None
    server_fields: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reports:
    """What is written about the measurements, and where."""

    export: Path
    tables: Tables = Tables()
    top: int = 3  # variants of each model that are reported on
    top_across: int = 0  # variants of all models in one summary
    is_on: bool = True
    has_details: bool = True
    with_gpus: bool = False  # figures of GPUs even for CPU-only variants
    has_own_objectives: bool = False
    plots: tuple[Plot, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProfileJob:
    """A whole `profile`."""

    settings: TuneSettings
    output: Path
    overrides_output: bool
    checkpoints: Path
    reports: Reports
    flags: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = ()  # of the load generator, by model
    external: External | None = None
    warnings: tuple[str, ...] = ()

    @property
    def journal(self) -> Path:
        return self.checkpoints / JOURNAL


@dataclass(frozen=True, slots=True)
class AnalyzeJob:
    """A whole `analyze`: the reports of `profile`, out of what was measured before."""

    checkpoints: Path
    reports: Reports
    mode: str
    models: tuple[str, ...]  # those that were loaded together are joined with commas
    goals: Mapping[str, Goal]  # asked for anew; models without one keep that of their search


@dataclass(frozen=True, slots=True)
class ReportJob:
    """A whole `report`."""

    checkpoints: Path
    export: Path
    variants: tuple[tuple[str, tuple[Plot, ...] | None], ...]
    formats: tuple[str, ...]
    mode: str = "online"
    with_gpus: bool = False
    plots: tuple[Plot, ...] | None = None
