"""One run, drawn from a seed and a number: its server, its options, and the faults."""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.support.servers import FakeModel
from tests.torture import control_faults, grpc_faults, http1_faults, sse_faults
from tests.torture.machine import Trouble, draw_trouble
from tests.torture.server import CONNECT, AnyFault, Planned

MODEL = FakeModel(name="m")
LARGE_BYTES = 200_000
LARGE_MODEL = FakeModel(name="m", inputs=(*MODEL.inputs, ("INPUT1", "UINT8", (LARGE_BYTES,))))
LARGE_STEPS = 4
HTTP, OPENAI, OPENAI_STREAM, PLAIN = "http", "openai", "openai stream", "plain"
GRPC, STREAM = "grpc", "grpc stream"
KINDS = (HTTP, OPENAI, OPENAI_STREAM, PLAIN, GRPC, STREAM)
SHARES = (25, 10, 15, 5, 25, 20)  # shares of the kinds, in percent
TRITONS = (HTTP, GRPC, STREAM)
CALLS = ("server", "metadata", "config", "stats")
STEPS = 64
TIMEOUT_MS = (150, 200, 400)


def faults_of(kind: str) -> tuple[AnyFault, ...]:
    """Faults that a reply of such a server can have."""
    if kind == GRPC:
        return grpc_faults.FAULTS + grpc_faults.UNARY_FAULTS
    if kind == STREAM:
        return grpc_faults.FAULTS + grpc_faults.STREAM_FAULTS
    if kind == OPENAI_STREAM:
        return http1_faults.FAULTS + sse_faults.STREAM_FAULTS
    if kind == OPENAI:
        return http1_faults.FAULTS + sse_faults.WHOLE_FAULTS
    return http1_faults.FAULTS


def faults_by_name(kind: str) -> Mapping[str, AnyFault]:
    return {fault.name: fault for fault in (*faults_of(kind), *control_faults.FAULTS)}


@dataclass(slots=True)
class Case:
    """A run. `words` do not include the address of the server, which is known only when it listens."""

    seed: int
    number: int
    kind: str = HTTP
    command: str = "inferometer"
    words: list[str] = field(default_factory=list)
    faults: list[Planned] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)  # input files of the run
    made: list[str] = field(default_factory=list)  # files that it may leave
    model: FakeModel = MODEL
    config: dict[str, Any] = field(default_factory=dict)  # configuration of the model
    is_whole: bool = False  # every request counts, from the first to the last
    warm_up: int = 0  # requests that do not count
    count: int = 0  # number of requests; 0 if time ends the run
    has_timeout: bool = False
    has_sequences: bool = False  # which may need more requests to end
    trouble: Trouble | None = None
    limit_s: float = 60.0

    @property
    def has_control_faults(self) -> bool:
        return any(row.call for row in self.faults)


def draw(seed: int, number: int) -> Case:
    """Draw the case with this number."""
    random = Random(f"{seed}/{number}")
    case = Case(seed, number, kind=random.choices(KINDS, SHARES)[0])
    _draw_server(case, random)
    _draw_load(case, random)
    _draw_output(case, random)
    _draw_faults(case, random)
    if random.random() < 0.25:
        case.trouble = draw_trouble(random)
        if case.trouble.memory_bytes:  # without memory, libraries that are not ours may crash
            case.words = [word.replace(".parquet", ".json") for word in case.words]
            case.made = [name.replace(".parquet", ".json") for name in case.made]
    return case


# --- the server and the data


def _draw_server(case: Case, random: Random) -> None:
    is_classic = random.random() < 0.3
    if is_classic:
        case.command = "perf_analyzer"
    else:
        case.words += ["find" if random.random() < 0.06 else "measure"]
    if case.kind in TRITONS:
        case.words += ["-m", MODEL.name, "--input-data", "data.json"]
        case.files["data.json"] = json.dumps(_draw_data(case, random))
        if random.random() < 0.05:
            case.words += ["--shared-memory", "system"]
        if case.kind != HTTP:
            _draw_grpc(case, random)
            return
        for name in ("--input-tensor-format", "--output-tensor-format"):
            if "--shared-memory" not in case.words and random.random() < 0.15:
                case.words += [name, "json"]
    elif case.kind == PLAIN:
        case.words += ["--service-kind", "http", "--path", "/x"]
        for step in range(16):
            case.words += ["--body", f"request {step}"]
    else:
        _draw_openai(case, random)


def _draw_data(case: Case, random: Random) -> dict[str, Any]:
    """Draw steps with distinct first inputs; some are large, some belong to sequences."""
    steps: list[dict[str, Any]] = [{"INPUT0": [step]} for step in range(STEPS)]
    if random.random() < 0.08:
        case.model = LARGE_MODEL
        large = {"b64": b64encode(bytes(LARGE_BYTES)).decode()}
        steps = [{**step, "INPUT1": large} for step in steps[:LARGE_STEPS]]
    elif random.random() < 0.12:
        case.config = {"sequence_batching": {"max_sequence_idle_microseconds": 5_000_000}}
        case.has_sequences = True
        case.words += ["--sequence-length", str(random.randint(1, 12))]
    data: dict[str, Any] = {"data": steps}
    if random.random() < 0.15:
        data["validation_data"] = [{"OUTPUT0": [0]} for _ in steps]
    return data


def _draw_grpc(case: Case, random: Random) -> None:
    case.words += ["-i", "grpc"]
    if case.kind == STREAM:
        case.words += ["--streaming"]
    if random.random() < 0.15:
        case.words += ["--grpc-compression-algorithm", random.choice(("gzip", "deflate"))]
    if case.command == "inferometer" and random.random() < 0.2:
        case.words += ["--connections", str(random.randint(1, 3))]


def _draw_openai(case: Case, random: Random) -> None:
    is_streaming = case.kind == OPENAI_STREAM
    payloads = [
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": f"request {step}"}],
            "stream": is_streaming,
        }
        for step in range(STEPS)
    ]
    case.files["data.json"] = json.dumps({"data": [{"payload": [payload]} for payload in payloads]})
    case.words += ["-m", "tiny", "--service-kind", "openai", "--endpoint", "v1/chat/completions"]
    case.words += ["--input-data", "data.json"]
    if is_streaming and case.command == "inferometer" and random.random() < 0.5:
        case.words += ["--streaming"]


# --- the load


def _draw_load(case: Case, random: Random) -> None:
    if case.words[0] == "find":
        case.words += ["--slo", "p90<80ms", "--duration", f"{random.uniform(0.3, 0.8):.2f}s"]
        if random.random() < 0.4:
            case.words += ["--by", "concurrency"]
    elif case.command == "perf_analyzer":
        _draw_classic(case, random)
    else:
        _draw_measure(case, random)
    is_ours = case.command == "inferometer"
    is_by_rate = bool({"--request-rate-range", "--request-intervals", "--shape-load"} & set(case.words))
    if case.has_sequences and (is_by_rate or not is_ours):
        case.words += ["--num-of-sequences", str(random.randint(1, 6))]
    if is_ours and random.random() < 0.3:
        most = 3 if is_by_rate or "--concurrency-range" not in case.words else _concurrency(case)
        case.words += ["--workers", str(random.randint(1, min(3, most)))]
    if case.words[0] != "find" and random.random() < 0.2:
        case.warm_up = random.randint(1, 12)
        if "--fixed-schedule" in case.words:  # which starts with the warm-up
            case.count -= case.warm_up
        case.words += ["--warmup-request-count", str(case.warm_up)]
    if (random.random() < 0.3 and (case.command == "perf_analyzer" or case.kind in TRITONS)) or (
        case.command == "perf_analyzer" and case.kind in (OPENAI, OPENAI_STREAM)
    ):
        case.words += ["--async"]
    if case.command == "inferometer" and random.random() < 0.5:
        case.has_timeout = True
        case.words += ["--request-timeout", f"{random.choice(TIMEOUT_MS)}ms"]


def _concurrency(case: Case) -> int:
    return int(case.words[case.words.index("--concurrency-range") + 1].partition(":")[0])


def _draw_measure(case: Case, random: Random) -> None:
    mode = random.choices(("count", "rate count", "time", "rate", "schedule"), (45, 5, 20, 20, 10))[0]
    concurrency = random.choice((1, 1, 2, 3, 4, 8, 16))
    if mode == "count":
        case.count = random.randint(concurrency, 120)
        case.words += ["--concurrency-range", str(concurrency), "--request-count", str(case.count)]
        case.is_whole = True
    elif mode == "rate count":
        rate = random.randint(20, 60)
        case.count = random.randint(rate, rate + 20)
        case.words += ["--request-rate-range", str(rate), "--request-count", str(case.count)]
        case.is_whole = True
    elif mode == "time":
        ends = random.choice((str(concurrency), f"{concurrency}:{concurrency + 2}:1"))
        case.words += ["--concurrency-range", ends, "--duration", f"{random.uniform(0.05, 0.3):.2f}s"]
    elif mode == "rate":
        case.words += ["--request-rate-range", str(random.choice((20, 100, 200, 400)))]
        case.words += ["--duration", f"{random.uniform(0.1, 0.3):.2f}s"]
        if random.random() < 0.4:
            case.words += ["--request-distribution", "poisson"]
    else:
        _draw_schedule(case, random)


def _draw_schedule(case: Case, random: Random) -> None:
    way = random.choice(("fixed", "intervals", "shape"))
    if way == "fixed" and case.kind in TRITONS and case.model is MODEL and not case.has_sequences:
        data = json.loads(case.files["data.json"])
        times = sorted(random.randint(0, 200) for _ in data["data"])
        for step, time in zip(data["data"], times, strict=True):
            step["timestamp"] = [time]
        case.files["data.json"] = json.dumps(data)
        case.words += ["--fixed-schedule"]
        case.is_whole, case.count = True, STEPS
    elif way == "shape":
        case.words += ["--shape-load", f"ramp 10..{random.randint(50, 300)} over 0.2s then hold 100 for 0.1s"]
        case.is_whole = True
    else:
        case.files["intervals.txt"] = "".join(f"{random.randint(100, 9000)}\n" for _ in range(20))
        case.words += ["--request-intervals", "intervals.txt", "--duration", "0.2s"]


def _draw_classic(case: Case, random: Random) -> None:
    mode = random.choices(("windows", "count windows", "count"), (4, 3, 3))[0]
    concurrency = random.choice((1, 2, 4, 8))
    if mode == "count":
        case.count = random.randint(concurrency, 120)
        case.words += ["--concurrency-range", str(concurrency), "--request-count", str(case.count)]
        case.is_whole = True
        return
    if random.random() < 0.7:
        case.words += [
            "--concurrency-range",
            random.choice((str(concurrency), f"{concurrency}:{concurrency + 1}")),
        ]
    else:
        case.words += ["--request-rate-range", str(random.choice((50, 150, 400)))]
    case.words += ["-r", "3", "-s", str(random.choice((10, 100, 999)))]
    if mode == "windows":
        case.words += ["-p", str(random.randint(40, 120))]
    else:
        case.words += ["--measurement-mode", "count_windows", "--measurement-request-count"]
        case.words += [str(random.randint(5, 40))]


# --- what it writes


def _draw_output(case: Case, random: Random) -> None:
    case.words += ["--json", "result.json"]
    case.made += ["result.json"]
    for option, name, share in (("-f", "report.csv", 0.2), ("--html", "report.html", 0.05)):
        if random.random() < share and case.words[0] != "find":
            case.words += [option, name]
            case.made.append(name)
    if (
        random.random() < 0.5 and case.model is not LARGE_MODEL
    ):  # its values would be written for every request
        name = "requests.parquet" if random.random() < 0.7 else "requests.json"
        case.words += ["--profile-export-file", name]
        case.made.append(name)
    if random.random() < 0.1:
        case.words += [random.choice(("-v", "-v -v")).split()[0]]
    if case.words[0] != "find" and random.random() < 0.1:
        case.words += ["--percentile", str(random.choice((50, 90, 99)))]


# --- the faults


def _draw_faults(case: Case, random: Random) -> None:
    possible = [fault for fault in faults_of(case.kind) if case.has_timeout or not fault.is_mute]
    for _ in range(random.choices((0, 1, 2, 3, 6), (5, 45, 30, 15, 5))[0]):
        fault = random.choice(possible)
        first = random.randint(0, 40)
        if random.random() < 0.5:
            share = (
                random.choice((0.02, 0.1, 0.2)) if fault.is_silent else random.choice((0.02, 0.1, 0.3, 1.0))
            )
            case.faults.append(Planned(fault.name, share, random.choice((0, first))))
        else:
            length = random.randint(1, 4) if fault.is_silent else random.randint(1, 30)
            case.faults.append(Planned(fault.name, 1.0, first, first + length))
    if case.kind in TRITONS and random.random() < 0.2:
        _draw_control_fault(case, random)
    if random.random() < 0.1:
        greetings = grpc_faults.GREETINGS if case.kind in (GRPC, STREAM) else http1_faults.GREETINGS
        share, first = random.choice((0.1, 0.3, 1.0)), random.randint(0, 12)
        case.faults.append(
            Planned(random.choice(list(greetings)), share, first, first + random.randint(1, 5), CONNECT)
        )


def _draw_control_fault(case: Case, random: Random) -> None:
    possible: list[AnyFault] = [
        fault for fault in control_faults.FAULTS if case.has_timeout or not fault.is_mute
    ]
    if case.kind != HTTP:
        possible = [fault for fault in faults_of(GRPC) if not fault.is_mute]
    call = random.choice(CALLS)
    first = random.choice((0, 0, 1, 2)) if call == "stats" else 0
    length = random.choice((1, 1, 100))
    case.faults.append(Planned(random.choice(possible).name, 1.0, first, first + length, call))
