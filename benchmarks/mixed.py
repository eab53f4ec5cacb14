"""CPU per request of a mixed load, of checked answers, of visits and of tasks, against a plain load: the same command
and server."""

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.arithmetic import Usage, marginal_us
from benchmarks.bar import Contest, Sample, Setting
from benchmarks.children import run
from benchmarks.parts import our_script

PLAIN = ("-m", "simple")
MIXED = ("-m", "simple:3", "-m", "identity_fp32:1")
PER_SECOND = 12_000  # requests per round for every second of the setting; with fewer, noise dominates
SHORT = 0.1
MARGIN_S = 120
CHECKED = 500  # different requests


@contextlib.contextmanager
def mixed_cpu(setting: Setting) -> Iterator[Contest]:
    """Marginal CPU per request by weight, against that of a single model."""
    from inferometer.server.embedded import EmbeddedTriton

    with EmbeddedTriton(load_models=("simple", "identity_fp32")) as server:
        yield _measured(setting, server.http_address, MIXED, PLAIN)


@contextlib.contextmanager
def check_cpu(setting: Setting) -> Iterator[Contest]:
    """Marginal CPU per request if 1 % of the answers are checked, against that without checks."""
    from inferometer.server.embedded import EmbeddedTriton

    with EmbeddedTriton(load_models=("simple",)) as server, tempfile.TemporaryDirectory() as name:
        data, expected = Path(name) / "data.json", Path(name) / "expected.json"
        rows = [(range(number, number + 16), range(16)) for number in range(CHECKED)]
        inputs = [{"INPUT0": [*one], "INPUT1": [*other]} for one, other in rows]
        outputs = [
            {
                "OUTPUT0": [left + right for left, right in zip(one, other, strict=True)],
                "OUTPUT1": [left - right for left, right in zip(one, other, strict=True)],
            }
            for one, other in rows
        ]
        data.write_text(json.dumps({"data": inputs}))
        expected.write_text(json.dumps({"data": inputs, "validation_data": outputs}))
        checked = (*PLAIN, "--data", str(expected), "--check", "exact", "--check-sample", "1%")
        yield _measured(setting, server.http_address, checked, (*PLAIN, "--data", str(data)))


def _measured(setting: Setting, address: str, ours: tuple[str, ...], theirs: tuple[str, ...]) -> Contest:
    """Two commands at the same server, which differ in these words."""

    def spend(count: int, words: tuple[str, ...]) -> Usage:
        command = [our_script("inferometer"), "measure", address, *words]
        command += ["-c", "8", "-n", str(count), "-q", "--no-store", "--config", "none"]
        ended = run(command, timeout_s=MARGIN_S + count / 100)
        return Usage(ended.cpu_s, count)

    def measure(words: tuple[str, ...]) -> Sample:
        count = round(PER_SECOND * setting.seconds)
        if setting.is_smoke:
            return Sample(spend(count // 10, words).cpu_s)
        return Sample(marginal_us(spend(round(count * SHORT), words), spend(count, words)))

    if not setting.is_smoke:
        spend(100, ours)  # the very first start takes longer
    return Contest(ours=lambda: measure(ours), theirs=lambda: measure(theirs))


PLAIN_CLASS = "model: simple"
FLOW = """flow:
  - {name: a, call: simple}
  - {name: b, call: simple, inputs: {INPUT0: $a.OUTPUT0}}
  - {name: c, call: simple, inputs: {INPUT0: $b.OUTPUT0}}"""
IN_PYTHON = "visit: steps.py:visit\nsteps: {a: simple}"
FUNCTION = """from inferometer.visits import call


def visit(number):
    found = yield call("a")
    for _ in range(2):
        found = yield call("a", {"INPUT0": found["OUTPUT0"]})
"""


STREAMS = "model: exact\nkind: openai\noptions: {streaming: true, prompt-tokens: 20}"
TASKS = """model: exact
kind: openai
options: {prompt-tokens: 20}
task:
  steps:
    a: {prompt: "{{data}}"}
    b: {continue: a, prompt: "{{a}}"}
    c: {continue: b, prompt: "{{b}}"}"""

Opened = Callable[[Setting], contextlib.AbstractContextManager[Contest]]


def visit_cpu(kind: str) -> Opened:
    """Marginal CPU per request in visits of three steps, against that of independent requests."""

    @contextlib.contextmanager
    def opened(setting: Setting) -> Iterator[Contest]:
        from inferometer.server.embedded import EmbeddedTriton

        with (
            EmbeddedTriton(load_models=("simple",)) as server,
            _contest(setting, server.http_address, 4, kind, PLAIN_CLASS) as found,
        ):
            yield found

    return opened


@contextlib.contextmanager
def task_cpu(setting: Setting) -> Iterator[Contest]:
    """Marginal CPU per streamed call of tasks that carry earlier answers, against that of independent requests."""
    from benchmarks.streams import stream_server

    # In two seconds the tasks make some two hundred calls, whose cost is lost in that of the start.
    setting = replace(setting, seconds=setting.seconds if setting.is_smoke else max(setting.seconds, 12.0))
    with stream_server() as address, _contest(setting, address, 64, TASKS, STREAMS) as found:
        yield found


@contextlib.contextmanager
def _contest(setting: Setting, address: str, concurrency: int, ours: str, theirs: str) -> Iterator[Contest]:
    """Two classes of a scenario at the same server."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shortest_s = max(1.0, setting.seconds * SHORT)
        (folder / "steps.py").write_text(FUNCTION)

        def spend(seconds: float, load: str) -> Usage:
            file, told = folder / "scenario.yaml", folder / "told.json"
            lines = "\n".join(f"    {line}" for line in (f"concurrency: {concurrency}", *load.splitlines()))
            file.write_text(
                f"server: {address}\nclasses:\n  a:\n{lines}\n"
                f"phases:\n  - {{name: open, for: {seconds:g}s}}\n"
            )
            command = [our_script("inferometer"), "measure", "--scenario", str(file), "--json", str(told)]
            ended = run([*command, "-q", "--no-store", "--config", "none"], timeout_s=MARGIN_S + seconds)
            (level,) = json.loads(told.read_text())["levels"]
            return Usage(ended.cpu_s, level["measurement"]["request_count"])

        def measure(load: str) -> Sample:
            if setting.is_smoke:
                return Sample(spend(shortest_s, load).cpu_s)
            return Sample(
                marginal_us(spend(shortest_s, load), spend(max(2 * shortest_s, setting.seconds), load))
            )

        if not setting.is_smoke:
            spend(shortest_s, ours)  # the very first start takes longer
        yield Contest(ours=lambda: measure(ours), theirs=lambda: measure(theirs))
