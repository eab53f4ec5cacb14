"""The per-request export of runs against the real Triton (contract section 4), over every protocol and load mode."""

import json
from pathlib import Path

import pytest

from tests.support.commands import call_script

pytestmark = pytest.mark.live

COUNTED = ("--request-count", "20", "--concurrency-range", "2")
FOUR = {"content": [4, 2, 0, 1], "shape": [4]}
REPEAT = {"data": [{"IN": FOUR, "DELAY": {"content": [1, 2, 0, 1], "shape": [4]}, "WAIT": [5]}]}
STREAMS = {"data": [[{"INPUT": [1]}, {"INPUT": [2]}, {"INPUT": [3]}], [{"INPUT": [4]}, {"INPUT": [5]}]]}


def export(triton, folder: Path, *words: str) -> list[dict]:
    """The experiments of a run, after a look at the form."""
    path = folder / "export.json"
    address = triton.grpc_address if "grpc" in words else triton.http_address
    done = call_script("-u", address, *words, "--profile-export-file", str(path))
    assert done.code == 0, done.stdout + done.stderr
    text = path.read_text()
    document = json.loads(text)
    assert text == json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    assert {name: value for name, value in document.items() if name != "experiments"} == {
        "version": "2.51.0",
        "service_kind": "triton",
        "endpoint": "",
    }
    for experiment in document["experiments"]:
        assert list(experiment) == ["experiment", "requests", "window_boundaries"]
        assert experiment["requests"]
        for request in experiment["requests"]:
            check(request, experiment["window_boundaries"])
    return document["experiments"]


def check(request: dict, boundaries: list[int]) -> None:
    keys = ["timestamp", "request_inputs", "response_timestamps", "response_outputs"]
    if "sequence_id" in request:
        keys.insert(1, "sequence_id")
        assert request["sequence_id"] > 0
    assert list(request) == keys
    times = request["response_timestamps"]
    assert len(times) == len(request["response_outputs"]) > 0
    assert times == sorted(set(times))
    assert boundaries == sorted(boundaries)
    assert request["timestamp"] < times[0]
    assert boundaries[0] < times[-1]


def data(folder: Path, document: dict) -> str:
    path = folder / "data.json"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--workers", "2"),
        ("--output-tensor-format", "json", "--input-tensor-format", "json"),
        ("-i", "grpc"),
        ("-i", "grpc", "--streaming"),
        ("-i", "grpc", "--grpc-compression-algorithm", "gzip"),
    ],
    ids=lambda words: " ".join(words) or "http",
)
def test_values_are_those_of_the_model(words: tuple[str, ...], triton, tmp_path: Path) -> None:
    (experiment,) = export(triton, tmp_path, "-m", "simple", "-b", "2", *COUNTED, *words)
    assert experiment["experiment"] == {"mode": "concurrency", "value": 2}
    assert len(experiment["requests"]) == 20
    for request in experiment["requests"]:
        one, other = (request["request_inputs"][name] for name in ("INPUT0", "INPUT1"))
        (outputs,) = request["response_outputs"]
        assert len(one) == len(other) == 32
        assert [(a + b) % 2**32 for a, b in zip(one, other, strict=True)] == [
            value % 2**32 for value in outputs["OUTPUT0"]
        ]


def test_a_sweep_has_an_experiment_for_each_level_and_all_its_windows(triton, tmp_path: Path) -> None:
    words = ("--concurrency-range", "1:3", "--measurement-mode", "count_windows", "-s", "9999", "-r", "3")
    experiments = export(triton, tmp_path, "-m", "simple", "-i", "grpc", *words)
    assert [row["experiment"]["value"] for row in experiments] == [1, 2, 3]
    for experiment in experiments:
        assert len(experiment["window_boundaries"]) == 4
        assert 150 <= len(experiment["requests"]) <= 160  # requests that end together stay in one window


def test_a_rate_is_a_fraction(triton, tmp_path: Path) -> None:
    words = ("--request-rate-range", "50", "-a", "--request-count", "50")
    (experiment,) = export(triton, tmp_path, "-m", "simple", *words)
    assert json.dumps(experiment["experiment"]) == '{"mode": "request_rate", "value": 50.0}'


def test_a_counted_run_has_exactly_its_requests(triton, tmp_path: Path) -> None:
    words = ("-i", "grpc", "--request-count", "23", "--concurrency-range", "5", "--warmup-request-count", "9")
    (experiment,) = export(triton, tmp_path, "-m", "simple", *words)
    assert len(experiment["requests"]) == 23
    assert len(experiment["window_boundaries"]) == 2


def test_66_a_decoupled_request_has_all_its_responses(triton, tmp_path: Path) -> None:
    words = ("-i", "grpc", "--streaming", "--async", "--input-data", data(tmp_path, REPEAT))
    (experiment,) = export(triton, tmp_path, "-m", "repeat", *COUNTED, *words)
    for request in experiment["requests"]:
        assert request["request_inputs"] == {"IN": [4, 2, 0, 1], "DELAY": [1, 2, 0, 1], "WAIT": 5}
        assert request["response_outputs"] == [
            *({"OUT": value, "IDX": index} for index, value in enumerate((4, 2, 0, 1))),
            {"OUT": "", "IDX": ""},
        ]


@pytest.mark.parametrize(
    "words", [(), ("-i", "grpc"), ("-i", "grpc", "--streaming")], ids=lambda words: " ".join(words) or "http"
)
def test_requests_of_sequences_carry_their_id(words: tuple[str, ...], triton, tmp_path: Path) -> None:
    words = ("--input-data", data(tmp_path, STREAMS), *COUNTED, *words)
    (experiment,) = export(triton, tmp_path, "-m", "accumulator", *words)
    sums: dict[int, int] = {}  # by sequence; one cut short by the count ends with its stream's last step
    for request in sorted(experiment["requests"], key=lambda request: request["timestamp"]):
        (outputs,) = request["response_outputs"]
        number, value = request["sequence_id"], request["request_inputs"]["INPUT"]
        sums[number] = sums.get(number, 0) + value
        assert outputs["OUTPUT"] == sums[number]
    assert sorted(set(sums.values()) & {6, 9}) == [6, 9]


@pytest.mark.parametrize("words", [(), ("-i", "grpc")], ids=lambda words: " ".join(words) or "http")
def test_outputs_in_shared_memory_have_their_values(words: tuple[str, ...], triton, tmp_path: Path) -> None:
    given = data(tmp_path, {"data": [{"INPUT0": list(range(16)), "INPUT1": [3] * 16}]})
    words = ("--input-data", given, "--shared-memory", "system", *COUNTED, *words)
    (experiment,) = export(triton, tmp_path, "-m", "simple", *words)
    sums, rests = [value + 3 for value in range(16)], [value - 3 for value in range(16)]
    for request in experiment["requests"]:
        assert request["response_outputs"] == [{"OUTPUT0": sums, "OUTPUT1": rests}]


def test_strings_and_half_precision(triton, tmp_path: Path) -> None:
    text = data(tmp_path, {"data": [{"INPUT0": {"content": ["ab", "cde"], "shape": [2]}}]})
    words = ("-i", "grpc", "--request-count", "3")
    (experiment,) = export(triton, tmp_path, "-m", "upper", "--input-data", text, *words)
    glued = "\u0003\u0000\u0000\u0000"
    for request in experiment["requests"]:
        assert request["request_inputs"] == {"INPUT0": f"ab{glued}cde"}
        assert request["response_outputs"] == [{"OUTPUT0": f"AB{glued}CDE"}]
    (tmp_path / "export.json").unlink()
    (experiment,) = export(triton, tmp_path, "-m", "identity_fp16", "--shape", "INPUT0:2", *words)
    for request in experiment["requests"]:
        assert (request["request_inputs"], request["response_outputs"]) == (
            {"INPUT0": None},
            [{"OUTPUT0": None}],
        )
