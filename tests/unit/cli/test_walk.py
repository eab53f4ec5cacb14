"""Nothing is accepted and ignored: every option of every command is refused with a remedy, or the run uses it.

The options come from the tables of the commands, so that a new one without a line here fails. A line is run up to the
first request that would be sent: workers are never started. While it runs, each field of the options that is read by
code other than checks is noted. An option that was given and never read has been ignored.
"""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.answer_file import write
from inferometer.base.errors import InferometerError, UsageError
from inferometer.cli.main import CLASSIC_TUNER, COMMANDS, main
from inferometer.load.workers import Workers
from inferometer.options import commands, options
from inferometer.options.asides import ASIDE
from inferometer.options.command_line import OWN, Command, read
from inferometer.options.option import Option
from tests.support.grpc_servers import FakeGrpcTriton
from tests.support.openai import FakeOpenAi
from tests.support.reports import sample_comparison, sample_diagnosis, sample_result, sample_study
from tests.support.servers import FakeModel, FakeTriton, Request, ScriptedServer, answer, answer_json
from tests.support.tfserving import FakeTfServing

WITHOUT_OPTIONS = ("help", "completion")
WALKED: dict[str, Command] = {
    name: import_module(f"inferometer.cli.{name}").COMMAND
    for name in COMMANDS
    if name not in (*CLASSIC_TUNER, *WITHOUT_OPTIONS)
}
LOADING = ("measure", "find", "compare", "diagnose")
REACHED = 77


class LoadReachedError(InferometerError):
    """Here the first request would be sent."""

    exit_code = REACHED


class Halt:
    """Instead of workers."""

    def __getattr__(self, name: str) -> Any:
        raise LoadReachedError("the load begins")


# --- what is read of the options, and by whom

CHECKS = ("measure/checks.py", "measure/unused.py", "dataclasses.py")
COPIES = (
    "_asked",
    "_effective",
    "effective",
    "fingerprint",
    "value_of",
    "check_outputs",
    "check_forms",
    "_without_effect",
)
PREFIXES = {options.Options: "", options.DataOptions: "data.", options.Tls: "tls."}
PREFIXES |= {
    cls: OWN for name, cls in vars(commands).items() if name.endswith("Options") and isinstance(cls, type)
}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The fields that were read since it was cleared."""
    found: set[str] = set()

    def watched(prefix: str) -> Callable[[Any, str], Any]:
        def get(self: Any, name: str) -> Any:
            code = sys._getframe(1).f_code
            is_check = code.co_filename.endswith(CHECKS) and code.co_name != "with_api_key"
            if not is_check and code.co_name not in COPIES:
                found.add(prefix + name)
            return object.__getattribute__(self, name)

        return get

    for cls, prefix in PREFIXES.items():
        monkeypatch.setattr(cls, "__getattribute__", watched(prefix))
    monkeypatch.setattr(Workers, "__enter__", lambda self: Halt())
    monkeypatch.setattr(Workers, "__exit__", lambda self, *_: None)
    monkeypatch.setenv("WALK_KEY", "secret")
    return found


# --- the servers and files of the lines


class SequenceModel(FakeModel):
    __slots__ = ()

    def config(self) -> dict[str, Any]:
        return {**super().config(), "sequence_batching": {}}


MODEL = FakeModel(inputs=(("INPUT0", "INT32", (1,)), ("TEXT", "BYTES", (-1,))))
STEP = {"INPUT0": [1], "TEXT": {"content": ["a"], "shape": [1]}}
FILES = {
    "valid.json": json.dumps({"data": [STEP], "validation_data": [{"OUTPUT0": [1]}]}),
    "times.json": json.dumps({"data": [{**STEP, "timestamp": [0]}]}),
    "trace.jsonl": '{"timestamp": 0}\n',
    "gaps": "1000\n",
    "prompts": "hello\n",
    "sessions.json": json.dumps({"data": [{"session_id": ["a"], "payload": [{"model": "tiny"}]}]}),
    "hello.proto": 'syntax = "proto3"; package p; message M {} service S { rpc Call(M) returns (M); }',
}


def write_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name, text in FILES.items():
        Path(name).write_text(text)
    for name in ("base.json", "new.json"):
        write(sample_result(), Path(name))


def _control(request: Request) -> Any:
    if request.path == "/metrics":
        return answer(b"")
    if "trace" in request.path or "shared" in request.path or "repository" in request.path:
        return answer_json({"trace_level": ["OFF"]} if "trace" in request.path else {})
    return None


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """What stands for the names in the lines; files are in the working directory."""
    write_files(tmp_path, monkeypatch)
    extensions = ("binary_tensor_data", "model_configuration", "statistics", "trace", "system_shared_memory")
    torchserve = ScriptedServer(lambda request: answer_json({"status": "Healthy"}))
    with ExitStack() as stack:
        enter = stack.enter_context
        yield {
            "HTTP": enter(FakeTriton(model=MODEL, control=_control, extensions=extensions)).server.address,
            "SEQUENCES": enter(FakeTriton(model=SequenceModel())).server.address,
            "GRPC": enter(FakeGrpcTriton()).server.address,
            "OPENAI": enter(FakeOpenAi()).server.address,
            "TFSERVING": enter(FakeTfServing()).http.address,
            "TORCHSERVE": enter(torchserve).address,
            "PLAIN": enter(ScriptedServer(lambda request: answer(b"hello"))).address,
        }


# --- the lines: the name of a server, the model, and options with values

LINES = (
    "HTTP fake -x 1 --service-kind triton -i http --async --bls-composing-models fake --shape TEXT:1",
    "-u HTTP -m fake -H a:b --api-key-env WALK_KEY --warmup 50ms",
    "HTTP fake -c 1,2 -d 300ms --precision 50% --warmup-requests 2 --time-limit 60s --timeout 5s",
    "HTTP fake -c 1:4 --percentile 95 -l 1000 --binary-search --slo p99<5s --workers 2 -v --export e.json",
    "HTTP fake -b 2 --input INPUT0=1 --shape TEXT:2 --string-length 5 --seed 3",
    "HTTP fake --data zero --string-data hi --input-tensor-format json --output-tensor-format json --shape TEXT:1 -q",
    "HTTP fake --collect-metrics --metrics-url http://HTTP/metrics --metrics-interval 100",
    "HTTP fake --trace-level TIMESTAMPS --trace-rate 5 --trace-count 3 --log-frequency 2",
    "HTTP fake --shared-memory system --output-shared-memory-size 100",
    "HTTP fake --data valid.json --validate-tolerance 0.1 --validate-sample 50% -n 3",
    "HTTP fake -r 5 --arrivals poisson --max-outstanding 3",
    "HTTP fake --request-intervals gaps",
    "HTTP fake --replay trace.jsonl --speed 2",
    "HTTP fake --fixed-schedule --data times.json",
    "HTTP fake --shape-load 'hold 5 for 1s'",
    "HTTP fake --measurement-mode count_windows --measurement-request-count 5 -s 20 --max-trials 3",
    "HTTP fake -p 100",
    "SEQUENCES fake -r 5 --num-of-sequences 2 --serial-sequences --sequence-length 3",
    "SEQUENCES fake --sequence-length-variation 10 --sequence-id-range 1:99",
    "GRPC fake --grpc --grpc-compression-algorithm gzip --connections 2 --request-parameter a:1:int",
    "GRPC fake --grpc --streaming --periodic-concurrency-range 1:2 --request-period 2 --export e.json",
    "OPENAI tiny --service-kind openai --endpoint v1/completions --prompt-tokens 5 --output-tokens 3",
    "OPENAI tiny --service-kind openai --prompts prompts",
    "OPENAI tiny --service-kind openai --session-concurrency 1 --data sessions.json",
    "TFSERVING resnet50 --service-kind tfserving --model-signature-name serving_default",
    "TORCHSERVE m --service-kind torchserve --management-url TORCHSERVE --body hello",
    "PLAIN --path /page --method POST --body hello",
    "GRPC --grpc-method p.S/Call --proto hello.proto --proto-path .",
    "-m m --service-kind triton_c_api --triton-server-directory . --model-repository .",
    "https://HTTP fake --tls-cert gaps --tls-cert-type PEM --tls-key gaps --tls-key-type PEM",
    "https://HTTP fake --tls-ca gaps",
    "https://HTTP fake --tls-insecure --tls-server-name a",
    "HTTP fake --grpc --tls",
)
OWN_LINES = {
    "find": ("HTTP fake --slo p99<5s --by concurrency --start 3 -d 1s",),
    "compare": (
        "-m fake -m fake -u HTTP --compare-outputs 3 --fail-if p99>+5% -c 1",
        "base.json new.json --fail-if p99>+5% --force",
    ),
    "diagnose": ("HTTP fake --apply --budget 1s --keep --write-config configs --cores 2",),
    "tune": (
        "-m fake --url HTTP --slo p99<5s --budget 5s --search quick --instances 1:2 --max-batch 1:2 --load 1:2 "
        "--delays 100 --journal j.sqlite --fresh --seed 3 --output config.pbtxt",
        "fake --triton-launch-mode c_api --triton-install-path . --model-repository .",
    ),
}
"""Of the options that only one command has."""


Word = tuple[str, str | None]
"""An option and its value; a word that stands alone has no name."""


def split(line: str, command: Command, places: dict[str, str]) -> list[Word]:
    """The words of a line, without options that are not the command's to give."""
    words = iter(shlex.split(line))
    found: list[Word] = []
    for word in words:
        if not word.startswith("-"):
            found.append(("", filled(word, places)))
            continue
        row = MEASURE.get(word) or command.by_name[word]
        value = None if row.values is None else filled(next(words), places)
        known = command.by_name.get(word)
        if known is not None and command.refusal(word, known) is None:
            found.append((word, value))
    return found


MEASURE = WALKED["measure"].by_name


def examples() -> Iterator[tuple[str, str]]:
    """A value of each option with one, by field."""
    for line in LINES:
        for name, value in split(line, WALKED["measure"], {"-": "-"}):
            if name and value is not None:
                yield MEASURE[name].field, value


def filled(word: str, places: dict[str, str]) -> str:
    return re.sub("|".join(places), lambda found: places[found[0]], word)


def typed(words: list[Word]) -> list[str]:
    return [part for name, value in words for part in (name, value) if part]


def completed(name: str, words: list[Word]) -> list[Word]:
    """With what the command cannot do without."""
    if name == "find" and "--slo" not in dict(words):
        return [*words, ("--slo", "p99<5s")]
    if name == "compare" and [option for option, _ in words].count("-m") == 1:
        return [*words, ("-m", dict(words)["-m"])]
    alone = [word for word in words if not word[0]]
    if name == "compare" and alone and not any(str(word[1]).endswith(".json") for word in alone):
        return [*words, alone[-1]]
    return words


class Walk:
    """Runs lines of a command, and keeps which fields were used and which were refused, with the sentence."""

    def __init__(self, name: str, seen: set[str], capsys: pytest.CaptureFixture[str]) -> None:
        self.name, self.command = name, WALKED[name]
        self.used: set[str] = set()
        self.refused: dict[str, str] = {}
        self.said: list[str] = []
        self._seen, self._capsys = seen, capsys

    def run(self, words: list[Word]) -> None:
        while (refused := self._refused(words)) is not None:
            row = self.command.by_name[refused]
            words = [word for word in words if not word[0] or self.command.by_name[word[0]] is not row]

    def _refused(self, words: list[Word]) -> str | None:
        """The option that is refused in a sentence that begins with it; else what was used is noted."""
        line = typed(completed(self.name, words))
        given = read(line, self.command)
        assert isinstance(given, dict)
        self._seen.clear()
        main([self.name, *line])
        said = self._capsys.readouterr().err
        self.said.append(f"{shlex.join(line)} -> {said.strip()[-300:]}")
        for name, _ in words:
            row = self.command.by_name.get(name)
            for other in () if row is None else row.names:
                if f"{self.command.program}: {other} " in said:
                    self.refused[row.field] = said
                    return name
        self.used |= {field for field in given if field in self._seen or field == "words"}
        if "insecure" in given and "tls.verify_peer" in self._seen:
            self.used.add("insecure")
        return None


def usable(command: Command) -> Iterator[Option]:
    for _, members in command.groups:
        yield from (row for row in members if row.is_built)


@pytest.mark.parametrize("name", LOADING)
def test_every_option_is_used_or_refused(
    name: str,
    seen: set[str],
    places: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walk = Walk(name, seen, capsys)
    for line in (*LINES, *OWN_LINES.get(name, ())):
        walk.run(split(line, walk.command, places))
    for path in Path().glob("report.*"):
        path.unlink()
    monkeypatch.setattr(*ANSWERS[name])
    for line in (*OUTPUTS, *OWN_OUTPUTS.get(name, ())):
        walk.run(split(line, walk.command, places))
    missing = sorted(
        row.names[-1] for row in usable(walk.command) if not {row.field} & {*walk.used, *walk.refused, *ASIDE}
    )
    assert not missing, "\n".join([f"neither used nor refused: {missing}", *walk.said])
    for field, said in walk.refused.items():
        assert_has_remedy(said, field)
    if name == "measure":
        assert not walk.refused


OUTPUTS = (
    "HTTP fake -f report.csv --verbose-csv --json report.json --html report.html",
    "HTTP fake --markdown report.md --junit report.xml",
    "HTTP fake -v --max-error-rate 1%",
    "HTTP fake -q",
)


OWN_OUTPUTS = {"diagnose": ("HTTP fake --apply --write-config configs",)}


def _outcome(*_: Any) -> Any:
    from inferometer.diagnose.run import Outcome

    return Outcome(sample_diagnosis())


ANSWERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "measure": ("inferometer.measure.run.run", lambda *_: iter([sample_result()])),
    "find": ("inferometer.find.run.run_find", lambda *_: iter([sample_result()])),
    "compare": ("inferometer.compare.live.compare_live", lambda *_: sample_comparison()),
    "diagnose": ("inferometer.diagnose.run.diagnose_model", _outcome),
    "tune": ("inferometer.tune.session.profile", lambda *_: iter([sample_study()])),
}
"""What comes of a run without one, so that only the reports are left."""


def assert_has_remedy(said: str, field: str) -> None:
    """After the sentence, with no option in it that there is not."""
    assert said.strip().partition("; ")[2], f"{field}: {said}"
    known = {name for command in WALKED.values() for name in command.by_name}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", said)) <= known, said


@pytest.mark.parametrize("name", WALKED)
def test_options_that_a_command_does_not_take_are_refused_with_a_remedy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, monkeypatch)
    command, values = WALKED[name], dict(examples())
    for option, row in command.by_name.items():
        if command.refusal(option, row) is None:
            continue
        with pytest.raises(UsageError) as caught:
            read([option, *([] if row.values is None else [values.get(row.field, "1")])], command)
        assert str(caught.value).startswith(f"{option} "), caught.value
        assert_has_remedy(str(caught.value), option)
