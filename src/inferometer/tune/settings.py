"""All settings of a search, created by the commands from options (`request`) or from a file."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from random import Random
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.dataset.payloads import build_payloads
from inferometer.dataset.tokens import open_tokenizer
from inferometer.options.options import DataOptions, Options, Tls
from inferometer.options.tuning import TuneOptions
from inferometer.options.varying import Vary
from inferometer.server.launcher import ServerCommand
from inferometer.server.ports import Ports
from inferometer.tune.condition import Condition
from inferometer.tune.scoring import Goal
from inferometer.tune.space import SearchBounds

IN_PROCESS = "c_api"
COMMAND = "command"  # launch mode of a server that is started by a command line
STARTED = ("local", "docker")  # launch modes that start our own server
TEXT = "text_input"
LENGTHS = {"vllm": "sampling_parameters", "tensorrtllm": "max_tokens"}
"""The input that limits the answer length, by backend."""

PATIENCE_S, SHORTEST_PATIENCE_S, PATIENCE_SHARE = 30.0, 2.0, 0.1  # share of the budget
SHORT_ANSWER = 256  # tokens, if the model requires a number and none was given


@frozen
class Effort:
    """How long to measure: until this precision is reached, up to this duration."""

    duration_s: float
    precision: float


@frozen
class OptunaLimits:
    """Limits on the number of trials; None if not given."""

    min_percent: int = 5
    max_percent: int = 10
    is_percent_given: bool = False
    min_trials: int | None = None
    max_trials: int | None = None
    early_exit: int = 10
    use_formula: bool = False


@frozen
class Addresses:
    """Addresses of the three services; empty if not available."""

    http: str = "localhost:8000"
    grpc: str = "localhost:8001"
    metrics_url: str = "http://localhost:8002/metrics"


@frozen
class ServerAccess:
    """Protocol, headers and TLS of the connection to the server."""

    protocol: str = "http"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: Tls = field(default_factory=Tls)
    grpc_tls: bool = False


@frozen
class Prompts:
    """Prompts of exact lengths by a tokenizer, of common words of about a token each, or from a file."""

    count: int = 100
    mean: int = 550  # words
    deviation: float = 0.0
    seed: int = 0
    file: str | None = None
    output_tokens: int | None = None
    backend: str | None = None  # one of LENGTHS; None: derived from the model's inputs
    is_streamed: bool = True
    # The journal stores a digest of the repr; fields added later are only digested if set.
    tokenizer: str | None = field(default=None, repr=False)  # a tokenizer.json, or its folder
    prefix_tokens: int = field(default=0, repr=False)  # length of the prefix that prompts share,
    prefixes: int = field(default=1, repr=False)  # and the number of different prefixes
    output_deviation: float = field(default=0.0, repr=False)  # of the requested answer lengths
    extra: tuple[tuple[str, Any], ...] = field(default=(), repr=False)  # other inputs of each request

    @property
    def later(self) -> tuple[str, ...]:
        """Names and values of the fields that are set but not shown by repr."""
        plain = Prompts()
        names = ("tokenizer", "prefix_tokens", "prefixes", "output_deviation", "extra")
        return tuple(
            f"{name} {getattr(self, name)!r}" for name in names if getattr(self, name) != getattr(plain, name)
        )

    def texts(self) -> list[str]:
        if self.file is not None:
            (steps,) = build_payloads(DataOptions(prompts=self.file)).streams
            return [_text(self.file, step[0].name, step[0].data) for step in steps]
        random = Random(self.seed)
        tokenizer = open_tokenizer(self.tokenizer)
        lengths = [max(1, round(random.gauss(self.mean, self.deviation))) for _ in range(self.count)]
        texts = [tokenizer.text(length, random) for length in lengths]
        if self.prefix_tokens:
            shared = [tokenizer.text(self.prefix_tokens, random) for _ in range(self.prefixes)]
            texts = [random.choice(shared) + text for text in texts]
        return texts if tokenizer.is_exact else [text.strip() for text in texts]

    def output_lengths(self, count: int) -> list[int | None]:
        """Return the maximum tokens of each of `count` answers; None if left to the server."""
        if self.output_tokens is None:
            return [None] * count
        random = Random(f"answers {self.seed}")  # the same prompts with and without
        return [max(1, round(random.gauss(self.output_tokens, self.output_deviation))) for _ in range(count)]

    def steps(self, model: str, inputs: Collection[str]) -> list[Mapping[str, Any]]:
        """Return one request per prompt for a Triton model with these inputs, using the input names of vLLM and
        TensorRT-LLM."""
        if TEXT not in inputs:
            raise UsageError(
                f"'{model}' has no input '{TEXT}', so it cannot take prompts",
                remedy=f"its inputs are {', '.join(sorted(inputs)) or 'none'}: use model_type generic, or "
                "define the requests with perf_analyzer_flags.input-data",
            )
        beside: dict[str, Any] = {"stream": self.is_streamed, "exclude_input_in_output": True}
        known = {name: [value] for name, value in beside.items() if name in inputs}
        for name, value in self.extra:
            if name not in inputs:
                raise UsageError(
                    f"'{model}' has no input '{name}', which extra-inputs sets",
                    remedy=f"its inputs are {', '.join(sorted(inputs))}",
                )
            known[name] = value if isinstance(value, list) else [value]
        texts = self.texts()
        return [
            {TEXT: [text], **{name: [value] for name, value in self._length(model, inputs, length)}, **known}
            for text, length in zip(texts, self.output_lengths(len(texts)), strict=True)
        ]

    def _length(self, model: str, inputs: Collection[str], tokens: int | None) -> Iterator[tuple[str, Any]]:
        """Yield the maximum answer length, in the input that the backend has for it."""
        wanted = set(LENGTHS.values() if self.backend is None else (LENGTHS[self.backend],))
        if self.backend is not None and wanted.isdisjoint(inputs):
            raise UsageError(
                f"'{model}' has no input '{LENGTHS[self.backend]}', which models of the backend {self.backend} have",
                remedy=f"its inputs are {', '.join(sorted(inputs))}: leave out backend, or correct it",
            )
        there = wanted.intersection(inputs)
        if "max_tokens" in there:
            yield "max_tokens", tokens or SHORT_ANSWER
        if "sampling_parameters" in there and tokens is not None:
            yield "sampling_parameters", json.dumps({"max_tokens": tokens})


def _text(path: str, name: str, data: bytes) -> str:
    if name != "prompt":
        raise UsageError(
            f"the file of prompts {path} has '{name}', but models on Triton take text",
            remedy='write {"prompt": "..."}, or one prompt per line',
        )
    return data.decode("utf-8", "replace")


@frozen
class KnobSettings:
    """The placeholders of a command line with their values, conditions between them, and usual values."""

    rows: tuple[Vary, ...]
    conditions: tuple[Condition, ...] = ()
    default: Mapping[str, Any] = field(default_factory=dict)
    live: frozenset[str] = frozenset()  # placeholders that are set on the running server


@frozen
class ModelSettings:
    """One model: its changes, its requests, and its goal."""

    goal: Goal
    cpu_only: bool | None = None  # None: as configured on the server
    batches: tuple[int, ...] = (1,)
    loads: tuple[float, ...] | None = None  # concurrencies or rates listed by the user
    swept: Mapping[str, Any] | None = None  # model_config_parameters
    where: str = "model_config_parameters"  # dotted path to `swept`, for messages
    options: Options | None = None  # requests to send; None sends random data
    makes_text: bool = False  # tokens are measured
    prompts: Prompts | None = None  # prompts for such a model; None sends the data of the options
    members: tuple["ModelSettings", ...] = ()  # of a BLS model, or with settings for those of an ensemble
    is_bls: bool = False
    server_flags: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    knobs: KnobSettings | None = None  # of a server that is started by a command line

    @property
    def name(self) -> str:
        return self.goal.model


@frozen
class LaunchSettings:
    """Settings of the server, or of the workers, in which the models run."""

    mode: str = "local"
    repositories: tuple[Path, ...] = ()
    executable: str | None = None  # None: the embedded server
    install_path: str | None = None  # library for c_api; None: the default location, or the embedded one
    ports: Ports = field(default_factory=Ports)  # of our own server; 0 picks a free port
    addresses: Addresses = field(default_factory=Addresses)  # of an existing server
    control: ServerAccess = field(default_factory=ServerAccess)
    flags: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    log: Path | None = None
    timeout_s: float = 60.0
    metrics_interval_ms: int = 1000
    may_load: bool = True
    gpus: tuple[str, ...] | None = None  # UUIDs or numbers; None for all
    docker_image: str = ""
    docker_words: tuple[str, ...] = ()  # additional arguments of `docker run`
    docker_mounts: tuple[str, ...] = ()
    command: ServerCommand | None = None  # of the mode COMMAND


@frozen
class SearchSettings:
    """Method and bounds of the search."""

    method: str = "smart"
    bounds: SearchBounds = field(default_factory=SearchBounds)
    by_rate: bool = False
    intervals: str | None = None  # a file of send times: one run, no sweep
    is_search_on: bool = True
    early_exit: bool = False
    top: int = 3  # variants that are examined closely
    binary_steps: int = 5
    sweep_after: bool = True
    ends_at_limit: bool = False  # a sweep of growing loads ends when a limit is violated
    optuna: OptunaLimits = field(default_factory=OptunaLimits)
    budget_s: float | None = None
    seed: int | None = None  # None: a new one, or that of the resumed search

    @property
    def patience_s(self) -> float:
        """The longest time to warm a launched server up, and to wait for slow answers: several configurations have to
        fit into the budget."""
        if self.budget_s is None:
            return PATIENCE_S
        return min(max(self.budget_s * PATIENCE_SHARE, SHORTEST_PATIENCE_S), PATIENCE_S)

    @property
    def load_bounds(self) -> tuple[int, int]:
        return self.bounds.request_rate if self.by_rate else self.bounds.concurrency


@frozen
class ClusterSettings:
    """A Ray cluster, and the number of servers to start on it."""

    address: str
    servers: int


@frozen
class TuneSettings:
    """All settings of a `profile` run."""

    models: tuple[ModelSettings, ...]
    launch: LaunchSettings = field(default_factory=LaunchSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    mode: str = "online"
    together: bool = False
    effort: Effort = field(default_factory=lambda: Effort(2.5, 0.03))
    journal: Path = TuneOptions().journal
    cpu_only_members: tuple[str, ...] = ()
    watch_gpus: bool | None = None  # None: if there are any
    idle_s: float = 0.0  # how long to observe the server without models
    must_know_gpus: bool = False  # a goal on an unreadable GPU figure ends the search
    cluster: ClusterSettings | None = None  # where several servers are started; None: one server, here

    @property
    def names(self) -> list[str]:
        """Names of all models and of the members with settings."""
        return [row.name for model in self.models for row in (model, *model.members)]
