"""The server sees exactly what was asked for, in the order asked for."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer import api
from inferometer.base.notes import Note
from tests.support.commands import ABOUT_MACHINE
from tests.support.servers import (
    Act,
    FakeModel,
    FakeTriton,
    Request,
    Wire,
    answer,
    answer_and_close,
    answer_json,
)


def number(request: Request) -> int:
    return int(struct.unpack("<i", request.body[-4:])[0])


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(("count", "concurrency"), [("100", "4"), ("7", "3"), ("4", "4"), ("1", "1")])
def test_request_count_is_exact(count: str, concurrency: str, workers: str, run: Callable) -> None:
    with FakeTriton() as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", fake.server.address, "--request-count", count, "--workers", workers),
            *("--concurrency-range", concurrency),
        )
    assert ended.code == 0, ended.stderr
    assert len(fake.inferences) == int(count)
    assert f"    Request count: {count}\n" in ended.stdout
    assert f"    Successful request count: {count}\n" in ended.stdout
    assert ended.stdout.count("Client: ") == 1


def test_request_count_is_exact_with_connections_that_do_not_last(run: Callable) -> None:
    act = answer_and_close(b"{}", announced=True)
    with FakeTriton(lambda number, request: act) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", fake.server.address, "--request-count", "50", "--concurrency-range", "4"),
        )
    assert len(fake.inferences) == 50
    assert "    Request count: 50\n" in ended.stdout


@pytest.mark.parametrize("workers", ["1", "2"])
def test_warm_up_requests_are_sent_and_not_reported(workers: str, run: Callable) -> None:
    with FakeTriton() as fake:
        ended = run(
            "perf_analyzer",
            *(
                "-m",
                "fake",
                "-u",
                fake.server.address,
                "--request-count",
                "20",
                "--warmup-request-count",
                "50",
            ),
            *("--concurrency-range", "2", "--workers", workers),
        )
    assert ended.code == 0
    assert len(fake.inferences) == 70
    assert "    Request count: 20\n" in ended.stdout
    assert "  Sending 50 warmup requests\n  Sending 20 benchmark requests\n" in ended.stdout
    assert ended.stdout.count("Request concurrency: 2\n") == 2


def test_steps_come_in_order_round_and_round(run: Callable, steps: Callable) -> None:
    with FakeTriton() as fake:
        ended = run(
            "perf_analyzer",
            *(
                "-m",
                "fake",
                "-u",
                fake.server.address,
                "--request-count",
                "10",
                "--input-data",
                steps(5, 6, 7, 8),
            ),
        )
    assert [number(request) for request in fake.inferences] == [5, 6, 7, 8, 5, 6, 7, 8, 5, 6]
    assert ended.stdout.startswith(" Successfully read data for 1 stream/streams with 4 step/steps.\n")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_steps_are_shared_evenly_at_any_concurrency(workers: str, run: Callable, steps: Callable) -> None:
    with FakeTriton() as fake:
        run(
            "perf_analyzer",
            *(
                "-m",
                "fake",
                "-u",
                fake.server.address,
                "--request-count",
                "40",
                "--input-data",
                steps(5, 6, 7, 8),
            ),
            *("--concurrency-range", "4", "--workers", workers),
        )
    sent = [number(request) for request in fake.inferences]
    assert {step: sent.count(step) for step in set(sent)} == {5: 10, 6: 10, 7: 10, 8: 10}


def test_a_batch_takes_consecutive_steps(run: Callable, steps: Callable) -> None:
    with FakeTriton() as fake:
        ended = run(
            "perf_analyzer",
            *(
                "-m",
                "fake",
                "-u",
                fake.server.address,
                "--request-count",
                "4",
                "--input-data",
                steps(5, 6, 7, 8),
            ),
            *("-b", "2"),
        )
    assert [struct.unpack("<2i", request.body[-8:]) for request in fake.inferences] == [
        (5, 6),
        (7, 8),
        (5, 6),
        (7, 8),
    ]
    header = json.loads(fake.inferences[0].body[:-8])
    assert header["inputs"][0]["shape"] == [2, 1]
    assert "  Batch size: 2\n" in ended.stdout


def test_the_same_seed_sends_the_same_bytes(run: Callable) -> None:
    sent = []
    for seed in ("1", "1", "2"):
        with FakeTriton() as fake:
            run(
                "perf_analyzer",
                "-m",
                "fake",
                "-u",
                fake.server.address,
                "--request-count",
                "8",
                "--seed",
                seed,
            )
        sent.append([request.body for request in fake.inferences])
    assert sent[0] == sent[1]
    assert sent[0] != sent[2]


def test_strings_are_as_long_as_asked(run: Callable) -> None:
    model = FakeModel(inputs=(("INPUT0", "BYTES", (2,)),))
    cases = (((), 128), (("--string-length", "5"), 5), (("--string-data", "abc"), 3))
    for words, length in cases:
        with FakeTriton(model=model) as fake:
            ended = run(
                "perf_analyzer", "-m", "fake", "-u", fake.server.address, "--request-count", "2", *words
            )
        assert ended.code == 0, ended.stderr
        for request in fake.inferences:
            tensor = request.body[int(request.header("Inference-Header-Content-Length")) :]
            assert len(tensor) == 2 * (4 + length)
            assert tensor[:4] == tensor[4 + length :][:4] == struct.pack("<I", length)
            if words[:1] == ("--string-data",):
                assert tensor.count(b"abc") == 2


@pytest.mark.parametrize("command", ["perf_analyzer", "measure"])
def test_levels_send_at_their_own_concurrency(command: str, run: Callable, tmp_path: Path) -> None:
    words = (
        "-m",
        "fake",
        "--concurrency-range",
        "1:5:2",
        "-p",
        "100",
        "-s",
        "999",
        "--json",
        str(tmp_path / "r.json"),
    )
    with FakeTriton() as fake:
        address = ("-u", fake.server.address)
        ended = (
            run("perf_analyzer", *words, *address)
            if command == "perf_analyzer"
            else run("inferometer", "measure", *words, *address)
        )
    assert ended.code == 0, ended.stderr
    result = api.load(str(tmp_path / "r.json"))
    assert [level.value for level in result.levels] == [1, 3, 5]
    assert len({request.connection for request in fake.inferences}) == 5


# --- what the server can tell


def test_without_the_statistics_extension_there_is_no_server_block(run: Callable, tmp_path: Path) -> None:
    with FakeTriton(extensions=("binary_tensor_data", "model_configuration")) as fake:
        ended = run(
            "perf_analyzer",
            *(
                "-m",
                "fake",
                "-u",
                fake.server.address,
                "--request-count",
                "10",
                "-f",
                str(tmp_path / "r.csv"),
            ),
        )
        assert not any(request.path.endswith("/stats") for request in fake.server.requests)
    assert ended.code == 0
    assert "Server:" not in ended.stdout
    assert "response wait" in ended.stdout.split("Inferences/Second")[0].splitlines()[-1]
    assert (tmp_path / "r.csv").read_text().splitlines()[0] == (
        "Concurrency,Inferences/Second,Client Send,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency"
    )


def test_with_it_the_block_shows_its_figures(run: Callable, tmp_path: Path) -> None:
    with FakeTriton() as fake:
        ended = run(
            "perf_analyzer",
            *(
                "-m",
                "fake",
                "-u",
                fake.server.address,
                "--request-count",
                "10",
                "-f",
                str(tmp_path / "r.csv"),
            ),
        )
    assert (
        "  Server: \n    Inference count: 10\n    Execution count: 10\n    Successful request count: 10\n"
        "    Avg request latency: 11 usec (overhead 1 usec + queue 1 usec + compute input 2 usec + "
        "compute infer 3 usec + compute output 4 usec)\n\nInferences/Second vs."
    ) in ended.stdout
    header, row = (tmp_path / "r.csv").read_text().splitlines()
    cells = dict(zip(header.split(","), row.split(","), strict=True))
    assert [
        cells[f"Server {name}"] for name in ("Queue", "Compute Input", "Compute Infer", "Compute Output")
    ] == [*("1", "2", "3", "4")]


STATISTICS: tuple[tuple[str, Act], ...] = (
    ("an error", answer_json({"error": "not now"}, 500)),
    ("not JSON", answer(b"<html></html>")),
    ("a list", answer_json([1, 2])),
    ("without models", answer_json({"model_stats": []})),
    ("a number of models", answer_json({"model_stats": 5})),
    ("models without names", answer_json({"model_stats": [{"inference_count": 1}]})),
    (
        "models with words for counts",
        answer_json({"model_stats": [{"name": "fake", "version": "1", "inference_count": "many"}]}),
    ),
    ("a close", Wire.close),
)


@pytest.mark.parametrize("act", [row[1] for row in STATISTICS], ids=[row[0] for row in STATISTICS])
def test_statistics_that_cannot_be_used_cost_only_the_server_figures(act: Act, run: Callable) -> None:
    with FakeTriton(control=lambda request: act if request.path.endswith("/stats") else None) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, "--request-count", "10")
    assert ended.code == 0, ended.stderr
    assert "    Request count: 10\n" in ended.stdout
    assert "Inference count" not in ended.stdout
    assert "Concurrency: 1, throughput: " in ended.stdout


@pytest.mark.parametrize("path", ["/v2", "/v2/models/fake/config"])
def test_a_plain_server_is_measured_from_its_metadata_alone(path: str, run: Callable) -> None:
    missing = answer_json({"error": "no such path"}, 404)
    with FakeTriton(
        control=lambda request: missing if request.path == path else None,
        model=FakeModel(max_batch_size=0),
        extensions=(),
    ) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, "--request-count", "10")
    assert ended.code == 0, ended.stderr
    assert "    Request count: 10\n" in ended.stdout


@pytest.mark.parametrize("command", ["inferometer", "perf_analyzer"])
def test_counters_that_were_reset_give_no_figures(command: str, run: Callable, tmp_path: Path) -> None:
    """A server that was restarted in the middle counts from zero again."""

    def infer(number: int, request: Request) -> None:
        if len(fake.inferences) == 40:
            fake._good = 0

    with FakeTriton(infer) as fake:
        fake._good = 1000
        ended = run(
            *(command, *(("measure",) if command == "inferometer" else ())),
            *("-m", "fake", "-u", fake.server.address, "--request-count", "60"),
            *("--json", str(tmp_path / "r.json")),
        )
    (level,) = api.load(str(tmp_path / "r.json")).levels
    assert (ended.code, level.measurement.request_count, level.measurement.server) == (0, 60, None)
    assert [row.note for row in level.remarks if row.note not in ABOUT_MACHINE] == [Note.STATISTICS_MISSING]
    said = " ".join((ended.stdout + ended.stderr).split())
    assert "the server's counters were reset" in said
    assert "-9" not in said
