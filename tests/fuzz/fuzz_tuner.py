"""Files of the tuner: YAML configurations, model configurations, checkpoints, journals, studies."""

import contextlib
import io
import json
from functools import cache
from pathlib import Path
from typing import Any

from inferometer.base.answer_file import from_json, to_json
from inferometer.dialects.model_analyzer import checkpoint
from inferometer.dialects.model_analyzer.build import profile_job
from inferometer.dialects.model_analyzer.command_line import CLASSIC, read_command
from inferometer.scenario.spec import parse_scenario
from inferometer.tune import journal as journals
from inferometer.tune import model_config
from inferometer.tune.scoring import Goal
from inferometer.tune.search.brute import brute
from inferometer.tune.search.search import ModelProblem, SearchProblem
from inferometer.tune.settings import SearchSettings
from inferometer.tune.space import SearchBounds, automatic
from inferometer.tune.study import Study
from inferometer.tune.variant import VariantNames
from tests.fuzz.fuzz_data import FOLDER, file
from tests.fuzz.fuzz_replies import JSON_WORDS
from tests.fuzz.fuzz_saved import shortened
from tests.fuzz.harness import Choices, Family, corpus, damaged, damaged_seeds
from tests.support.strange import strange, text_of
from tests.unit.tune.scripted import W, drive, server


@cache
def study() -> Study:
    """Two configurations at two loads each."""
    bounds = SearchBounds(instances=(1, 1), batch=(1, 2), concurrency=(1, 2))
    goal, names = Goal("W"), VariantNames()
    found = drive(
        brute(
            SearchProblem(
                (ModelProblem(automatic("W", W, bounds, cpu_only=True), goal),), SearchSettings(bounds=bounds)
            ),
            names,
        ),
        server,
    )
    return Study("it", "online", "brute", (goal,), tuple(names.known.values()), tuple(found.trials[:3]))


def strange_json(name: str, document: Any) -> Any:
    def make(choices: Choices) -> bytes:
        known = corpus(name)
        kind = choices.below(8)
        if kind == 7 and known:
            return damaged(choices.pick(known), choices, JSON_WORDS)
        text = text_of(document if kind == 0 else strange(document, choices.below))
        return damaged(text, choices, JSON_WORDS) if kind == 6 else text

    return make


# --- YAML


def _layer(number: int) -> bytes:
    """A list of nine times the list before: few bytes that stand for very many values."""
    return b"&%c [%s]" % (98 + number, b", ".join([b"*%c" % (97 + number) if number else b"x"] * 9))


CONFIGS = (
    b"model_repository: /models\nprofile_models:\n  - simple\n  - name: other\n    objectives: [perf_throughput]\n",
    b"profile_models:\n  m:\n    parameters:\n      concurrency: {start: 2, stop: 8, step: 2}\n      batch_sizes: 1,2\n"
    b"    constraints:\n      perf_latency_p99: {max: 50}\n    model_config_parameters:\n      max_batch_size: [1, 4]\n"
    b"      instance_group:\n        - kind: KIND_CPU\n          count: [1, 2]\n",
    b"profile_models: m\nrun_config_search_mode: quick\nconcurrency: 1,2,4\nperf_analyzer_flags:\n  percentile: 95\n"
    b"  shape: [IN:64]\ntriton_server_flags: {strict_model_config: true}\nplots:\n"
    b"  p: {title: t, x_axis: perf_throughput, y_axis: perf_latency_p99, monotonic: true}\n",
    b"profile_models: &a\n  - *a\nobjectives: &b {x: *b}\n",
    b"profile_models: [m, " + b", ".join(_layer(n) for n in range(9)) + b"]\n",
)
YAML_WORDS = (
    *(
        b"null",
        b"~",
        b"[]",
        b"{}",
        b"- ",
        b": ",
        b"\n",
        b"  ",
        b"true",
        b"-1",
        b"0",
        b".inf",
        b".nan",
        b"2001-99-99",
    ),
    *(
        b"!!binary a",
        b"!!set {a}",
        b"!!python/object:x {}",
        b"&a ",
        b"*a",
        b"<<: *a",
        b"? ",
        b"| ",
        b"'",
        b'"\\ud800"',
    ),
    *(
        b"profile_models",
        b"name",
        b"objectives",
        b"constraints",
        b"parameters",
        b"concurrency",
        b"start",
        b"99999999999999999999",
    ),
    *(
        b"0x" + b"f" * 30,
        b"1_0",
        b"1:30",
        b"[" * 2000,
        b"perf_analyzer_flags",
        b"model_config_parameters",
        b"weighting",
        b"1e400",
    ),
)


def read_yaml(data: bytes) -> None:
    path = file("config.yaml", data)
    words = ("profile", "-f", path, "--model-repository", FOLDER.name, "--checkpoint-directory", FOLDER.name)
    quiet = io.StringIO()
    with contextlib.redirect_stderr(quiet), contextlib.redirect_stdout(quiet):
        config = read_command(words, CLASSIC)
        assert config is not None
        profile_job(config, CLASSIC)


# --- scenarios

SCENARIOS = (
    b"name: s\nclasses:\n  a: {model: m, rate: 5}\n  b: {model: n, concurrency: 2, weight: 3}\n"
    b"phases:\n  - {name: warm-up, for: 5s}\n  - {for: 1m, load: 0.5..2, classes: {a: {rate: 9}}}\n",
    b"classes: {a: {model: m, options: {input-data: zero}, slo: p99 < 5ms, rate: 1}}\n",
)
SCENARIO_WORDS = (
    *YAML_WORDS,
    b"classes",
    b"phases",
    b"for",
    b"rate",
    b"!!bool x",
    b"!!int ''",
    b"!!timestamp x",
    b"1" + b":1" * 50,
    b"&a {<<: *a}",
)


def read_scenario(data: bytes) -> None:
    parse_scenario(data.decode("utf-8", "replace"), "s.yaml")


# --- model configurations

PBTXT = (
    b'name: "m" platform: "ensemble" max_batch_size: 8\ninput [{ name: "A" data_type: TYPE_FP32 dims: [ -1, 4 ] }]\n'
    b'ensemble_scheduling { step [{ model_name: "a" model_version: -1 input_map { key: "A" value: "B" } }] }\n',
    b'instance_group { count: 1 kind: KIND_CPU }\nparameters { key: "k" value: { string_value: "v" } }\n# comment\n',
)
PBTXT_WORDS = (
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b'"',
    b"name",
    b"dims",
    b"-9999999999999999999999",
    b"1e999",
    b"nan",
    b"\\",
    b"TYPE_X",
    b"{ " * 300,
)


def read_pbtxt(data: bytes) -> None:
    path = Path(file("config.pbtxt", data))
    found = model_config.read_file(path)
    model_config.to_text(found)
    model_config.key(found)


# --- checkpoints, studies, journals


@cache
def classic_checkpoint() -> Any:
    made = checkpoint.document(study().variants, study().trials, seed=5)
    return json.loads(json.dumps(made))


def read_checkpoint(data: bytes) -> None:
    found = checkpoint.read(Path(file("0.ckpt", data)))
    checkpoint.document(found.variants, found.trials, seed=5)


def read_study(data: bytes) -> None:
    found = from_json(data.decode("utf-8", "replace"), "study.json", Study)
    to_json(found)


def _journal() -> bytes:
    path = Path(FOLDER.name) / "seed.sqlite"
    with journals.opened(path) as journal:
        for trial in study().trials:
            journal.add(trial, study().variants, study=study().name)
        checkpoint.remember(journal, [study()])
    found = path.read_bytes()
    for name in ("seed.sqlite", "seed.sqlite.lock"):
        (Path(FOLDER.name) / name).unlink()
    return found


SEED = _journal()
SQL_WORDS = (
    b"SQLite format 3\x00",
    b"CREATE TABLE",
    b"trials",
    b"variants",
    b"facts",
    b"schema",
    b"null",
    b"{",
    b'"',
    b"\x00" * 100,
    b"\xff" * 100,
)


def make_journal(choices: Choices) -> bytes:
    known = (SEED, *corpus("journal"))
    found = bytearray(choices.pick(known))
    for _ in range(choices.below(4)):  # in any of its pages, most of which are empty at the beginning
        at = choices.below(len(found)) if found else 0
        found[at : at + choices.below(9)] = choices.pick(SQL_WORDS) if choices.below(2) else choices.some(8)
    return damaged(bytes(found), choices) if choices.below(8) == 7 else bytes(found)


def read_journal(data: bytes) -> None:
    for name in ("journal.sqlite-wal", "journal.sqlite-shm"):
        (Path(FOLDER.name) / name).unlink(missing_ok=True)
    path = Path(file("journal.sqlite", data))
    with journals.read(path) as journal:
        checkpoint.read_journal(journal)
        journal.next_number()
        journal.find("x", with_failed=True)


FAMILIES = (
    Family("yaml", damaged_seeds("yaml", CONFIGS, YAML_WORDS), read_yaml, 8),
    Family("scenario", damaged_seeds("scenario", SCENARIOS, SCENARIO_WORDS), read_scenario, 8),
    Family("pbtxt", damaged_seeds("pbtxt", PBTXT, PBTXT_WORDS), read_pbtxt, 30),
    Family("checkpoint", strange_json("checkpoint", classic_checkpoint()), read_checkpoint, 8),
    Family("study", strange_json("study", shortened(json.loads(to_json(study())))), read_study, 8),
    Family("journal", make_journal, read_journal, 10),
)
