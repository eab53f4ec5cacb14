"""No option is silently ignored: every option of every command has a visible effect or is refused with a remedy.

The options come from the commands' tables, so a new one without a line here fails. Each line is run with all its
options, and once more without each of them; two runs that look the same from outside reveal an ignored option. See
`tests.support.observed` for what is compared. `measure` shows the effect of level settings; the other commands make
these settings in the same place, so there it suffices that an option reaches them. Those that load a server or simulate
one take long: `make test` walks `measure` and the short ones, `make test-long` the others.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferometer.base.answer_file import write
from inferometer.base.errors import UsageError
from inferometer.capacity.plan import CapacityPlan
from inferometer.cli.main import CLASSIC_TUNER, COMMANDS
from inferometer.compare.interfere import interfere
from inferometer.compare.interference import Interference
from inferometer.diagnose import text_fit
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.diagnose.run import Outcome
from inferometer.measure import prepare
from inferometer.options.command_line import Command, read
from inferometer.options.option import Option
from inferometer.selftest.check import SelfTest
from inferometer.selftest.one_worker import Exchanged, OneWorker
from inferometer.stats.verdict import INCONCLUSIVE
from inferometer.store.run import FINISHED, Run
from inferometer.store.run_folder import RunFolder
from inferometer.tune.study import Recommendation
from inferometer.twin.twin import Twin
from inferometer.ui.place import UiPlace
from inferometer.ui.server import UiRequest
from tests.support.certificates import write_certificate
from tests.support.grpc_servers import FakeGrpcTriton
from tests.support.observed import Observer, Seen, observer
from tests.support.openai import FakeOpenAi
from tests.support.planted_store import planted_figures, planted_history
from tests.support.reports import powered_result, sample_diagnosis, sample_interference, sample_result
from tests.support.servers import FakeModel, FakeTriton, Request, ScriptedServer, answer, answer_json, reply
from tests.support.text_runs import short_text_result, short_text_twin
from tests.support.tfserving import FakeTfServing
from tests.support.twins import known_result, sample_twin
from tests.support.vocabularies import word_level

# Tested in tests/unit/cli (test_trust.py, test_check.py) and tests/unit/measure (test_local_servers.py).
WITHOUT_OPTIONS = ("help", "completion", "trust", "check", "quick")
WALKED: dict[str, Command] = {
    name: import_module(f"inferometer.cli.{name}").COMMAND
    for name in COMMANDS
    if name not in (*CLASSIC_TUNER, *WITHOUT_OPTIONS)
}
LOADING = ("measure", "find", "compare", "interfere", "diagnose", "tune")


# --- the servers and files of the lines


class SequenceModel(FakeModel):
    __slots__ = ()

    def config(self) -> dict[str, Any]:
        return {**super().config(), "sequence_batching": {}}


class BusyTriton(FakeTriton):
    """A Triton whose counters grow with every read."""

    def _statistics(self) -> dict[str, Any]:
        self._good += 100
        return super()._statistics()


MODEL = FakeModel(inputs=(("INPUT0", "INT32", (1,)), ("TEXT", "BYTES", (-1,))))
STEP = {"INPUT0": [1], "TEXT": {"content": ["a"], "shape": [1]}}
REFERENCE = {"choices": [{"message": {"role": "assistant", "content": "one two four"}}]}
FILES = {
    "valid.json": json.dumps({"data": [STEP], "validation_data": [{"OUTPUT0": [1]}]}),
    "times.json": json.dumps({"data": [{**STEP, "timestamp": [time]} for time in (0, 30)]}),
    "trace.jsonl": '{"timestamp": 0}\n{"timestamp": 50}\n',
    "gaps": "1000\n3000\n",
    "check.py": "def is_right(answer, request):\n    return False\n",
    "reference.json": json.dumps(
        {
            "experiments": [
                {
                    "requests": [
                        {
                            "request_inputs": {"prompt": "hello"},
                            "response_outputs": [{"response": json.dumps(REFERENCE)}],
                        }
                    ]
                }
            ]
        }
    ),
    "prompts": "hello\n",
    "key": "secret\n",
    "table.csv": "prompt,other\nhello,a much longer one\n",
    "tokenizer.json": word_level().to_str(),
    "sessions.json": json.dumps({"data": [{"session_id": ["a"], "payload": [{"model": "tiny"}]}]}),
    "hello.proto": 'syntax = "proto3"; package p; import "empty.proto"; service S { rpc Call(M) returns (M); }',
    "imports/empty.proto": 'syntax = "proto3"; package p; message M {}',
    "other.yaml": "view: {markdown: '-'}\nserve: {log-file: log}\nselftest: {quick: true}\ndemo: {folder: out}\n"
    + "ui: {idle: 1m}\nruns: {limit: 1}\nclients: {quick: true}\n"
    + "".join(f"{name}: {{quiet: true}}\n" for name in (*LOADING, "inspect", "gate", "capacity", "twin")),
    "old.sqlite": "no journal",
    "one.yaml": "classes: {a: {rate: 50}}\nphases: [{name: peak, for: 1s}]\n",
    "models/fake/config.pbtxt": 'name: "fake"\nbackend: "python"\nmax_batch_size: 8\n',
}


def write_files(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the files that the lines of a command name; only those of a plan and a twin name runs of texts."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WALK_KEY", "secret")
    for part in ("imports", "models/fake"):
        Path(part).mkdir(parents=True)
    for file, text in FILES.items():
        Path(file).write_text(text)
    base = sample_result()
    write(base, Path("base.json"))
    write(replace(base, effective=replace(base.effective, batch=2)), Path("new.json"))
    write(powered_result(), Path("powered.json"))
    for hour, run in enumerate(("1111aaaa", "0000bbbb")):
        kept = RunFolder(Path("kept/runs") / run)
        kept.path.mkdir(parents=True)
        kept.write(Run(run, "measure", state=FINISHED, started_at=f"2026-11-01T0{hour}:00:00+00:00"))
        write(base, kept.answer_path)
    write(sample_twin(), Path("twin.json"))
    write(known_result(), Path("known.json"))
    if name in ("capacity", "twin"):
        write(short_text_result(), Path("text-run.json"))
        write(short_text_twin(), Path("text.json"))
    planted_history(Path("history"), planted_figures(12, seed=1))
    planted_history(Path("worse"), planted_figures(12, seed=1, step=-0.2, at=11))


def _control(request: Request) -> Any:
    if request.path == "/metrics":
        return answer(b"")
    if "health" in request.path:
        return answer()
    if request.path == "/v2/repository/index":
        return answer_json([{"name": "fake", "state": "READY"}])
    if "trace" in request.path or "shared" in request.path or "repository" in request.path:
        return answer_json({"trace_level": ["OFF"]} if "trace" in request.path else {})
    return None


ANSWER = b'{"outputs":[{"name":"OUTPUT0","datatype":"INT32","shape":[1],"data":[1]}]}'
EXTENSIONS = ("binary_tensor_data", "model_configuration", "statistics", "trace", "system_shared_memory")


@pytest.fixture
def places(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[dict[str, str], Observer]]:
    """Yield the values for the names in the lines; files are in the working directory."""
    write_files(name, tmp_path, monkeypatch)
    _, tls = write_certificate(tmp_path, "server")
    _, calls = write_certificate(tmp_path, "calls")
    _, both = write_certificate(tmp_path, "both")
    write_certificate(tmp_path, "client")
    both.load_verify_locations("client.pem")
    both.verify_mode = both.verify_mode.CERT_REQUIRED
    servers: dict[str, AbstractContextManager[Any]] = {
        "HTTP": BusyTriton(model=MODEL, control=_control, extensions=EXTENSIONS, usual=reply(ANSWER)),
        "SEQUENCES": FakeTriton(model=SequenceModel(), control=_control),
        "SECURED": FakeTriton(model=MODEL, tls=tls, control=_control),
        "MUTUAL": FakeTriton(model=MODEL, tls=both, control=_control),
        "GRPC": FakeGrpcTriton(),
        "CALLS": FakeGrpcTriton(tls=calls),
        "OPENAI": FakeOpenAi(),
        "TFSERVING": FakeTfServing(),
        "TORCHSERVE": ScriptedServer(lambda request: answer_json({"status": "Healthy"})),
        "PLAIN": ScriptedServer(lambda request: answer(b"hello")),
    }
    with ExitStack() as stack:
        opened = [stack.enter_context(server) for server in servers.values()]
        listening = [getattr(server, "server", getattr(server, "http", server)) for server in opened]
        addresses = [server.address for server in listening]
        yield dict(zip(servers, addresses, strict=True)), observer(monkeypatch, capsys, *listening)
        for wire in (wire for server in listening for wire in getattr(server, "wires", ())):
            wire.faults.clear()  # some lines provoke HTTP instead of HTTP/2


# --- the lines: the name of a server, the model, and options with values

LINES = (
    "GRPC fake -i http",
    "HTTP fake --grpc",
    "HTTP fake -x 1 --service-kind triton --async --bls-composing-models fake --shape TEXT:2",
    "-u HTTP -m fake -H a:b --api-key-env WALK_KEY --warmup 50ms",
    "-u HTTP -m fake --api-key-file key",
    "HTTP fake -c 4 -d 300ms --ramp 100ms",
    "HTTP fake -c 4 -d 300ms --think-time 'uniform(5ms, 10ms)' --seed 3",
    "HTTP fake -c 1,2 -d 300ms --precision 50% --warmup-requests 2",
    "HTTP fake -c 1,2 --time-limit 500ms --timeout 50ms",
    "HTTP fake --cancel-after 30ms --cancel-share 50%",
    "HTTP fake -c 1:9 -p 500 -l 100",
    "HTTP fake --percentile 90",
    "HTTP fake --sweep -d 200ms",
    "HTTP fake -c 1:9 -p 500 -s 90 -l 100 --binary-search",
    "HTTP fake --slo p99<20ms --workers 2 -c 2 --export e.json",
    "HTTP fake -c 4 --ray local --clients 2 --client-resources CPU=2",
    "HTTP fake -b 2 --input INPUT0=1 --shape TEXT:2 --string-length 5 --seed 3",
    "HTTP fake --data zero --string-data hi --input-tensor-format json --output-tensor-format json --shape TEXT:1",
    "HTTP fake --collect-metrics --metrics-url http://HTTP/metrics --metrics-interval 100",
    "HTTP fake --trace-level TIMESTAMPS --trace-rate 5 --trace-count 3 --log-frequency 2",
    "HTTP fake --shared-memory system --output-shared-memory-size 100",
    "HTTP fake --data valid.json --validate-tolerance 0.1 --validate-sample 50% -n 3",
    "HTTP fake -r 5 --arrivals poisson --max-outstanding 3",
    "HTTP fake -r 5 --arrivals gamma --burstiness 0.5",
    "HTTP fake --before-level 'echo ready' --after-level 'echo done'",
    "PLAIN,HTTP --service-kind http --balance least-outstanding",
    "HTTP fake --check regex:7 --check-sample 50% -n 30",
    "HTTP fake --check-python check.py:is_right --check-sample 50% -n 30",
    "OPENAI tiny --service-kind openai --prompts prompts --check reference:reference.json --check-similarity 30% "
    "--check-sample 50% -n 30",
    "HTTP fake --before-level 'sleep 0.2' --before-level-timeout 20ms",
    "HTTP fake --request-intervals gaps",
    "HTTP fake --replay trace.jsonl --speed 2",
    "HTTP fake --fixed-schedule --data times.json",
    "HTTP fake --shape-load 'hold 5 for 1s'",
    "HTTP fake --measurement-mode count_windows --measurement-request-count 5 -s 1 --max-trials 3",
    "HTTP fake -p 300",
    "SEQUENCES fake -r 5 --num-of-sequences 2 --serial-sequences --sequence-length 3",
    "SEQUENCES fake --sequence-length-variation 10 --sequence-id-range 1:99",
    "GRPC fake --grpc --grpc-compression-algorithm gzip --connections 2 --request-parameter a:1:int",
    "GRPC fake --grpc --streaming",
    "GRPC fake --grpc --streaming --periodic-concurrency-range 1:2 --request-period 2 --export e.json",
    "OPENAI tiny --service-kind openai --endpoint v1/completions --prompt-tokens 5 --output-tokens 3",
    "OPENAI tiny --service-kind openai --prompts prompts --image 8x8 --audio 10ms --body temperature=0",
    "OPENAI tiny --service-kind openai --prompts prompts",
    "OPENAI tiny --service-kind openai --no-streaming",
    'OPENAI tiny --service-kind openai --body-template \'{"prompt": "{{prompt}}"}\' --reply-path text=choices.0.text',
    "OPENAI tiny --service-kind openai --prompts table.csv --prompt-column other",
    "OPENAI tiny --service-kind openai --tokenizer tokenizer.json",
    "OPENAI tiny --service-kind openai --prefix-tokens 5 --prefix-pool 3 --prefix-zipf 2",
    "OPENAI tiny --service-kind openai --repeat-prompts",
    "OPENAI tiny --service-kind openai --prompts prompts --unique-prompts",
    "OPENAI tiny --service-kind openai --session-concurrency 1 --data sessions.json",
    "TFSERVING resnet50 --service-kind tfserving --model-signature-name other",
    "TORCHSERVE m --service-kind torchserve --management-url TORCHSERVE --body hello",
    "PLAIN --path /page --method PUT --body hello",
    "GRPC --grpc-method p.S/Call --proto hello.proto --proto-path imports",
    "-m m --service-kind triton_c_api --triton-server-directory . --model-repository .",
    "https://MUTUAL fake --tls-insecure --tls-cert client.der --tls-cert-type DER --tls-key client.key.der "
    "--tls-key-type DER",
    "https://SECURED fake --tls-ca server.pem --tls-server-name other",
    "CALLS fake --grpc --tls --tls-ca calls.pem",
)
TEXT = " --shape TEXT:1"  # an input of one fake model only
TRIALS = f"--instances 1 --max-batch 2:2 --load 1:2 --search brute{TEXT}"
SHORT = {
    "find": "-d 500ms",
    "compare": "-d 250ms",
    "interfere": "-d 100ms",
    "diagnose": "-d 200ms",
    "tune": TRIALS,
}
OUTPUTS = (
    "HTTP fake -f report.csv --verbose-csv",
    "HTTP fake --json report.json",
    "HTTP fake --html report.html",
    "HTTP fake --markdown report.md",
    "HTTP fake --junit report.xml",
    "HTTP fake -v",
    "HTTP fake -q",
    "HTTP fake --max-error-rate 10%",
    "HTTP fake --dry-run",
    "HTTP fake --show-reply",
    "HTTP fake --config other.yaml",
    "HTTP fake --store kept --tag nightly",
    "HTTP fake --store kept --no-store",
    "HTTP fake --prometheus 0",
    "HTTP fake --otlp http://PLAIN",
    "HTTP fake --store kept --ui",
)
EVERYWHERE = ("--help", "--help-all", "--version", "--show-config")
SERVED = (
    "-u OPENAI -m tiny --service-kind openai -c 2 --endpoint v1/completions --prompt-tokens 5 --output-tokens 3",
    "-u OPENAI -m tiny --service-kind openai -r 5 --prompts table.csv --prompt-column other",
    "-u OPENAI -m tiny --service-kind openai -c 2 --prompts prompts --unique-prompts",
    "-u OPENAI -m tiny --service-kind openai -c 2 --tokenizer tokenizer.json --repeat-prompts",
    "-u OPENAI -m tiny --service-kind openai -c 2 --prefix-tokens 5 --prefix-pool 3 --prefix-zipf 2",
    "-u OPENAI -m tiny --service-kind openai -c 2 --no-streaming",
    "-u PLAIN --path /page --method PUT --body hello -c 2",
    '-u OPENAI -m tiny --service-kind openai -c 2 --body-template \'{"prompt": "{{{{prompt}}}}"}\' '
    "--reply-path text=choices.0.text",
)
"""Of the options of a measurement that `tune` supports only with --serve."""
OWN_LINES = {
    "find": (
        "HTTP fake --slo p99<200ms --by concurrency -d 2s",
        "HTTP fake --slo p99<200ms --start 30 -d 2s",
        "HTTP fake --slo p99<5.5ms -d 1s --allow-inconclusive",
        "OPENAI tiny --service-kind openai --slo 'ttft p99<1s' --no-streaming -d 500ms",
    ),
    "compare": (
        "-m fake -m fake -u HTTP --compare-outputs 3 --fail-if p99>+5% -c 1 -d 250ms",
        "base.json new.json --fail-if p99<+5% --force",
        "base.json new.json --fail-if p99>+5% --force --allow-inconclusive",
    ),
    "measure": (
        "HTTP fake --scenario one.yaml -d 300ms",
        "HTTP fake --scenario list",
        "HTTP fake --schema",
        "HTTP -m fake -m fake2:3 -n 4 --dry-run",
        "HTTP fake -n 3 --slo p99<70ms --allow-inconclusive",
        "HTTP fake -n 3 --otlp-traces http://PLAIN --trace-share 50%",
        "HTTP fake -n 3 --perfetto lanes.json",
    ),
    "interfere": ("-m fake -m fake -u HTTP -c 1 --allow-inconclusive",),
    "diagnose": ("HTTP fake --cores 64",),
    "tune": (
        f"-m fake --url HTTP --slo p99<5s --objective p99 {TRIALS}",
        f"GRPC fake -i grpc --allow-inconclusive {TRIALS}",
        "fake -u HTTP --seed 3 --search smart --shape TEXT:1 --budget 5s --max-batch 4 --json study.json",
        f"fake -u HTTP --delays 100,200 --output config.pbtxt --journal j.sqlite {TRIALS}",
        f"fake -u HTTP --journal old.sqlite --fresh {TRIALS}",
        "fake --triton-launch-mode c_api --triton-install-path . --model-repository models",
        "fake -u HTTP --ray local --servers 2 --shape TEXT:1",
        "--serve 'true {slots} {port} {f}' --vary slots=1:4 --where slots>1 --serve-env A=b --serve-file f=key "
        "--ready /up --start-timeout 3s --serve-logs logs",
        "--serve 'true {slots} {port}' --vary slots=1:4 --serve-set 'PUT http://127.0.0.1:{port}/'",
        "--serve 'true {max_num_seqs} {port}' --preset vllm --vary max_num_seqs=1:2",
        "--serve 'true {max_num_seqs} {port}' --preset vllm --serve-file max_num_seqs=key",
        *(f"{line} --serve 'true {{slots}}' --vary slots=1,2 --search brute" for line in SERVED),
    ),
    "capacity": (
        "--traffic trace.jsonl --slo p99<2s --options base.json --price 2/h --balancer random --spare 2 --html p.html",
        "--traffic trace.jsonl --slo p99<2s --options powered.json --carbon 400",
        "--traffic trace.jsonl --slo p99<5s --options base.json --stretch 10ms --scale-on queue:2 --startup 5s",
        "--traffic one.yaml --slo p99<2s --options base.json --seed 3 --json p.json",
        "--traffic trace.jsonl --slo p99<2s --options base.json --markdown p.md --csv p.csv",
        "--traffic trace.jsonl --slo p99<2s --options 1111 --store kept",
        "--traffic trace.jsonl --slo p99<2s --options base.json -q",
        "--traffic trace.jsonl --slo p99<2s --options base.json --allow-inconclusive",
        "--traffic trace.jsonl --slo p99<2s --options base.json --config other.yaml",
        "--traffic 1/s --slo p99<20s --options text-run.json --prompt-tokens 50 --output-tokens 20",
    ),
    "inspect": (
        "table.csv --prompt-column other --html page.html --markdown page.md --json out.json",
        "trace.jsonl --csv table.csv",
        "table.csv --tokenizer tokenizer.json",
        "trace.jsonl -q",
        "trace.jsonl --config other.yaml",
    ),
    "view": (
        "base.json --html page.html --markdown page.md --png page.png --pdf page.pdf --open",
        "base.json --csv table.csv --json again.json --junit cases.xml",
        "base.json -q",
        "base.json --as aiperf --output aiperf",
        "base.json --as vllm --output vllm --requests requests.json",
        "base.json --config other.yaml",
        "1111 --store kept",
    ),
    "gate": (
        "--store history --runs 9 --figure p90 --html g.html --markdown g.md --json g.json",
        "--store history --fail-if p99>+50% --csv g.csv --junit g.xml",
        "--store worse --no-tags",
        "--store history --accept 9e37",
        "--store history -q",
        "--store history --matters 0.001% --allow-inconclusive",
        "--store history --config other.yaml",
    ),
    "twin": (
        "fit known.json --file made.json --cores 1 -q",
        "fit 1111 --store kept",
        "predict -m fake:1 -m other:2 -c 6 --html t.html --markdown t.md --json t.json",
        "predict -m fake -r 20 --arrivals poisson --set fake.instances=2 --csv t.csv",
        "predict -m fake -c 2 --config other.yaml",
        "predict -f text.json -c 2 --prompt-tokens 50 --output-tokens 20",
        "check -f twin.json -m fake -c 2 -u HTTP -d 300ms -q --allow-inconclusive",
    ),
    "runs": (
        "--store kept --sort -id",
        "--store kept --limit 1",
        "show 1111 --store kept --json run.json",
        "export 1111 --store kept --mlflow mlruns",
        "--store kept --config other.yaml",
    ),
    "serve": (
        "--models vocoder --http-port 0 --grpc-port 0 --metrics-port 0 --load-model a --log-file log",
        "--model-repository .",
        "--config other.yaml",
    ),
    "selftest": ("--json out.json --quick --allow-inconclusive", "--config other.yaml"),
    "clients": (
        "--rate 2M --grpc --request-size 1kB --reply-size 2kB --quick --json out.json",
        "--rate 2M --cores 3 --headroom 10%",
        "--rate 2M --network 400Mbit",
        "--rate 2M --config other.yaml",
    ),
    "ui": (
        "--host 127.0.0.2 --port 7 --store kept --idle 5m --allow-host runs.example.com",
        "--store kept --open",
        "--store kept --config other.yaml",
    ),
    "demo": (
        "--folder out",
        "--config other.yaml",
        "--store kept --tag nightly",
        "--store kept --no-store",
        "--prometheus 0",
        "--otlp no-address",
        "--store kept --ui",
    ),
}
"""Of the options that only one command has."""

Word = tuple[str, str | None]
"""An option and its value; a word that stands alone has no name."""
MEASURE = WALKED["measure"].by_name


def split(line: str, command: Command, places: dict[str, str]) -> list[Word]:
    """Split a line into words, without options that the command does not have."""
    words = iter(shlex.split(line))
    found: list[Word] = []
    for word in words:
        if not word.startswith("-"):
            found.append(("", filled(word, places)))
            continue
        known = command.by_name.get(word)
        row = known or MEASURE[word]
        value = None if row.values is None else filled(next(words), places)
        if known is not None and command.refusal(word, known) is None:
            found.append((word, value))
    return found


def examples() -> Iterator[tuple[str, str]]:
    """Yield an example value for each option that takes one, by field."""
    for line in LINES:
        for name, value in split(line, WALKED["measure"], {"-": "-"}):
            if name and value is not None:
                yield MEASURE[name].field, value


def filled(word: str, places: dict[str, str]) -> str:
    return re.sub("|".join(places), lambda found: places[found[0]], word)


def typed(words: list[Word]) -> list[str]:
    return [part for name, value in words for part in (name, value) if part]


def completed(name: str, words: list[Word]) -> list[Word]:
    """Add the words that the command requires."""
    given = dict(words)
    if set(given) & {"--help", "--help-all", "--version"}:
        return words
    if name == "find" and "--slo" not in given:
        words = [*words, ("--slo", "p99<200ms")]
    if name in ("compare", "interfere") and [option for option, _ in words].count("-m") == 1:
        return [*words, ("-m", given["-m"])]
    alone = [word for word in words if not word[0]]
    if (
        name in ("compare", "interfere")
        and alone
        and not any(str(word[1]).endswith(".json") for word in alone)
    ):
        return [*words, alone[-1]]
    return words


class Walk:
    """Runs the lines of a command and records which options had an effect and which were refused."""

    def __init__(self, name: str, observer: Observer) -> None:
        self.name, self.command, self.observer = name, WALKED[name], observer
        self.by_name = self.command.by_name
        self.shown: set[str] = set()
        self.refused: dict[str, str] = {}
        self.said: list[str] = []
        self._runs: dict[tuple[bool, str], Seen] = {}

    def walk(self, words: list[Word]) -> None:
        """Test each option of the line in turn; a refused one is dropped for the others."""
        while (refused := self._refused(words)) is not None:
            words = self._without(words, refused)
        rows = {self._key(name) for name, _ in words if name} - self.shown
        for key in sorted(rows):
            if self._shows(words, key):
                self.shown.add(key)

    def _shows(self, words: list[Word], key: str) -> bool:
        """Whether the option has an effect; options that depend on it are dropped on both sides."""
        for _ in words:
            left = self._without(words, key)
            complaint = self._seen(left, is_halted=True).complaint
            needy = self._named(left, complaint)
            if needy is None:
                break
            words = self._without(words, needy)
        return any(
            self._seen(words, is_halted=is_halted) != self._seen(left, is_halted=is_halted)
            for is_halted in (True, False)
        )

    def _refused(self, words: list[Word]) -> str | None:
        """Return the option that an error message starts with."""
        said = self._seen(words, is_halted=True).complaint
        self.said.append(f"{shlex.join(typed(words))} -> {said.strip()[-300:]}")
        for name, _ in words:
            for other in self.by_name[name].names if name else ():
                if f"{self.command.program}: {other} " in said:
                    self.refused[self._key(name)] = said
                    return self._key(name)
        return None

    def _named(self, words: list[Word], complaint: str) -> str | None:
        """Return another option of the line that the error names."""
        told = [row for row in complaint.splitlines() if row.startswith(f"{self.command.program}: ")]
        names = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(told)))
        for name, _ in words:
            if name and names & set(self.by_name[name].names):
                return self._key(name)
        return None

    def _seen(self, words: list[Word], *, is_halted: bool) -> Seen:
        line = typed(completed(self.name, words))
        key = is_halted, shlex.join(line)
        if key not in self._runs:
            self._runs[key] = self.observer.run(self.name, *line, is_halted=is_halted)
        return self._runs[key]

    def _key(self, name: str) -> str:
        return self.by_name[name].names[-1]

    def _without(self, words: list[Word], key: str) -> list[Word]:
        return [word for word in words if not word[0] or self._key(word[0]) != key]


def usable(command: Command) -> Iterator[Option]:
    for _, members in command.groups:
        yield from (row for row in members if not row.instead)


APPLY = "HTTP fake --apply --budget 1s --keep --write-config configs --allow-inconclusive"
SERVED_DIAGNOSIS = (
    "--serve 'true {port}' --preset vllm --serve-env A=b --ready /up --start-timeout 3s --serve-logs logs"
)


def applied(observer: Observer, asked: Any, watcher: Any) -> Outcome:
    """Record the request instead of running trials."""
    observer.hand(asked.budget_s, asked.keep)
    return Outcome(sample_diagnosis(), {"fake": {"max_batch_size": 8}})


def launched(observer: Observer, asked: Any, launch: Any, watcher: Any) -> Outcome:
    """Record the command instead of starting a server."""
    observer.hand(repr(launch))
    return Outcome(sample_diagnosis())


def shared(observer: Observer, asked: Any, watcher: Any) -> Any:
    """Record the request instead of measuring turns, whose figures depend on the machine."""
    if observer.is_halted:
        interfere(asked, watcher)
    observer.hand(asked.models, asked.options)
    watcher.level_started("concurrency", 1.0)
    return sample_interference()


class Silent:
    """Records calls in place of a server, a browser and a self-test."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def server(self, *arguments: Any, **named: Any) -> Any:
        self.observer.hand(arguments, named)
        found = SimpleNamespace(
            remarks=(), http_address="h", grpc_address="g", metrics_address="m", log_path="l"
        )
        found.is_running, found.end_words = lambda: False, lambda: "ended"

        class Entered(ExitStack):
            def __getattr__(self, name: str) -> Any:
                return getattr(found, name)

        return Entered()

    def browse(self, page: str) -> bool:
        self.observer.hand(page)
        return True

    def pages(self, request: UiRequest, told: Callable[[UiPlace], None]) -> None:
        self.observer.hand(request.host, request.port, request.store, request.idle_s)
        told(UiPlace("http://127.0.0.1:7", "token", 1, 0.0))

    def worker(self, exchanged: Exchanged, seconds: float, said: Callable[[int], None]) -> OneWorker:
        self.observer.hand(exchanged, seconds)
        return OneWorker((90e3, 110e3), (10.0, 11.0), 400.0, 200.0, ("client", "client"), 0)

    def part(self, thoroughness: Any) -> Iterator[Any]:
        self.observer.hand(thoroughness)
        return iter(())


def hand_level_settings(monkeypatch: pytest.MonkeyPatch, observer: Observer) -> None:
    """Make runs that halt at the first request show the settings of a level, and the checks of its answers."""

    def handed(original: Callable[..., Any], *given: Any) -> Any:
        settings = original(*given)
        if observer.is_halted:
            observer.hand(settings)
        return settings

    for name in ("_level_settings", "_maybe_checks"):
        monkeypatch.setattr(prepare, name, partial(handed, getattr(prepare, name)))


def silence(monkeypatch: pytest.MonkeyPatch, observer: Observer) -> None:
    silent = Silent(observer)
    monkeypatch.setattr("inferometer.server.embedded.EmbeddedTriton", silent.server)
    monkeypatch.setattr("inferometer.server.ports.is_free", lambda *_: True)  # the usual ports may be taken
    monkeypatch.setattr("inferometer.diagnose.run.diagnose_model", lambda *_: Outcome(sample_diagnosis()))
    for part in ("accuracy.fault", "accuracy.schedule", "accuracy.stall", "limits.ceiling", "limits.machine"):
        monkeypatch.setattr(f"inferometer.selftest.{part}_checks", silent.part)
    monkeypatch.setattr("inferometer.selftest.one_worker.measure_worker", silent.worker)
    monkeypatch.setattr("webbrowser.open", silent.browse)
    monkeypatch.setattr("inferometer.ui.server.serve", silent.pages)
    monkeypatch.setattr("inferometer.report.chromium.find_chromium", lambda: "chromium")
    monkeypatch.setattr("inferometer.report.chromium.browsing", ExitStack)
    for form in ("picture", "pdf"):
        monkeypatch.setattr(f"inferometer.report.chromium.{form}", lambda tab, page: b"a picture")


def remember_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit the same loads once, since many lines read the same run."""
    fits: dict[str, text_fit.FittedText] = {}
    original = text_fit.fit_text

    def fit(rows: Sequence[text_fit.TextObservation]) -> text_fit.FittedText:
        key = repr(rows)
        if key not in fits:
            fits[key] = original(rows)
        return fits[key]

    for user in ("capacity.text_replica", "twin.text"):
        monkeypatch.setattr(f"inferometer.{user}.fit_text", fit)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long)
        if name in (*LOADING, "capacity", "twin") and name != "measure"
        else name
        for name in WALKED
    ],
)
def test_every_option_has_an_effect_or_is_refused(
    name: str, places: tuple[dict[str, str], Observer], monkeypatch: pytest.MonkeyPatch
) -> None:
    names, observer = places
    walk = Walk(name, observer)
    monkeypatch.setattr("inferometer.cli.ui.show_live", lambda folder, run: observer.hand(folder))
    remember_fits(monkeypatch)
    if name not in LOADING:
        silence(monkeypatch, observer)
    elif name != "measure":
        hand_level_settings(monkeypatch, observer)
    for ruled in (
        Recommendation,
        Diagnosis,
        Interference,
        CapacityPlan,
        SelfTest,
        Twin,
    ):  # their own tests cover rulings
        monkeypatch.setattr(ruled, "ruling", INCONCLUSIVE)
    if name == "diagnose":
        with monkeypatch.context() as patch:
            patch.setattr("inferometer.diagnose.run.diagnose_model", partial(applied, observer))
            walk.walk(split(APPLY, walk.command, names))
            patch.setattr("inferometer.diagnose.launched.diagnose_launched", partial(launched, observer))
            walk.walk(split(SERVED_DIAGNOSIS, walk.command, names))
    if name == "capacity":  # a plan's precision does not depend on its options
        for limit, requests in (
            ("ALL_REQUESTS", 100),
            ("THOROUGH", 200),
            ("MOST_REQUESTS", 100),
            ("BEYOND", 2),
        ):
            monkeypatch.setattr(f"inferometer.capacity.keeping.{limit}", requests)
        monkeypatch.setattr("inferometer.capacity.run._fewest_at", lambda *_: None)
    if name == "interfere":
        monkeypatch.setattr("inferometer.compare.interfere.interfere", partial(shared, observer))
    lines = [*OWN_LINES.get(name, ()), *EVERYWHERE]
    if name in LOADING:
        lines += [f"{line} {SHORT.get(name, '')}" for line in (*LINES, *OUTPUTS)]
    if name in LOADING:  # random differences would count as effects
        words = completed(name, split(f"HTTP fake {SHORT.get(name, '')}", walk.command, names))
        assert observer.run(name, *typed(words)) == observer.run(name, *typed(words))
    for line in lines:
        has_text = not line.startswith(("GRPC", "SEQUENCES"))
        walk.walk(split(line if has_text else line.replace(TEXT, ""), walk.command, names))
    missing = sorted(
        row.names[-1] for row in usable(walk.command) if row.names[-1] not in (*walk.shown, *walk.refused)
    )
    assert not missing, "\n".join([f"neither shown nor refused: {missing}", *walk.said])
    for option, said in walk.refused.items():
        assert_has_remedy(said, option)
    if name == "measure":
        assert not walk.refused


def assert_has_remedy(said: str, field: str) -> None:
    """Check that the message has a remedy which names only existing options."""
    assert re.search(r"(; |\. )\S", said), f"{field}: {said}"  # a remedy after a full stop begins a sentence
    known = {name for command in WALKED.values() for name in command.by_name}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", said)) <= known, said


@pytest.mark.parametrize("name", WALKED)
def test_unsupported_options_are_refused_with_a_remedy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files("any command", tmp_path, monkeypatch)
    command, values = WALKED[name], dict(examples())
    for option, row in command.by_name.items():
        if command.refusal(option, row) is None:
            continue
        with pytest.raises(UsageError) as caught:
            read([option, *([] if row.values is None else [values.get(row.field, "1")])], command)
        assert str(caught.value).startswith(f"{option} "), caught.value
        assert_has_remedy(str(caught.value), option)
