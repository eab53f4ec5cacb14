"""Replies are compared with what was expected, over every wire, in every shape of request (contract 5.11, 5.16)."""

import base64
import json

import numpy as np
import pytest

from tests.support.commands import call_script
from tests.support.samples import sample

pytestmark = pytest.mark.live

WIRES = [(), ("-i", "grpc"), ("-i", "grpc", "--streaming"), ("--shared-memory", "system"), ("--workers", "2")]


def run(triton, *words):
    address = triton.grpc_address if "grpc" in words else triton.http_address
    return call_script("-u", address, *words)


def write(path, inputs, outputs):
    def rows(name, arrays):
        return [
            {name: {"b64": base64.b64encode(array.tobytes()).decode(), "shape": list(array.shape)}}
            for array in arrays
        ]

    path.write_text(json.dumps({"data": rows("INPUT0", inputs), "validation_data": rows("OUTPUT0", outputs)}))
    return str(path)


@pytest.mark.parametrize("wire", WIRES, ids=" ".join)
@pytest.mark.parametrize(("elements", "batch", "concurrency"), [(1, 1, 1), (1000, 8, 16), (100_000, 2, 4)])
def test_right_replies_pass(triton, wire, elements, batch, concurrency, tmp_path):
    arrays = [np.arange(k, k + elements, dtype=np.float32) for k in range(3)]
    data = write(tmp_path / "right.json", arrays, arrays)
    words = (
        "--input-data",
        data,
        "-b",
        str(batch),
        "--concurrency-range",
        str(concurrency),
        "--request-count",
        "60",
    )
    done = run(triton, "-m", "identity_fp32", *wire, *words)
    assert done.code == 0, done.stdout + done.stderr
    assert "    Request count: 60\n" in done.stdout


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    arrays = [np.arange(1 << sample(22, 24), dtype=np.float32)]  # 16 MiB, or 64
    return write(tmp_path_factory.mktemp("large") / "large.json", arrays, arrays)


@pytest.mark.sampled
@pytest.mark.parametrize("wire", [(), ("-i", "grpc"), ("-i", "grpc", "--streaming")], ids=" ".join)
def test_large_tensors_come_back_as_they_went(triton, wire, large):
    words = ("--input-data", large, "--concurrency-range", "2", "--request-count", "3")
    done = run(triton, "-m", "identity_fp32", *wire, *words)
    assert done.code == 0, done.stdout + done.stderr


@pytest.mark.parametrize("wire", WIRES, ids=" ".join)
@pytest.mark.parametrize(("wanted", "code"), [(2, 0), (3, 99)])
def test_some_of_the_outputs_are_enough(triton, wire, wanted, code, tmp_path):
    ones = [1] * 16
    document = {"data": [{"INPUT0": ones, "INPUT1": ones}], "validation_data": [{"OUTPUT0": [wanted] * 16}]}
    (tmp_path / "some.json").write_text(json.dumps(document))
    words = ("--input-data", str(tmp_path / "some.json"), "--request-count", "10")
    assert run(triton, "-m", "simple", *wire, *words).code == code


@pytest.mark.parametrize("wire", WIRES, ids=" ".join)
def test_wrong_reply_is_a_failed_request_that_says_where(triton, wire, tmp_path):
    good, bad = np.zeros(4, np.float32), np.array([0, 0, 7, 0], np.float32)
    data = write(tmp_path / "wrong.json", [good, good], [good, bad])
    done = run(triton, "-m", "identity_fp32", *wire, "--input-data", data, "--request-count", "40")
    assert done.code == 99
    assert "    Failed request count: 20 (50.00 %)\n" in done.stdout
    assert "output 'OUTPUT0' at index 2: expected 7.0, got 0.0" in done.stdout


@pytest.mark.parametrize(("tolerance", "code"), [("0.01", 0), ("0.0001", 99), ("0,0.01", 0)])
def test_floats_may_be_off_by_the_tolerance(triton, tolerance, code, tmp_path):
    sent, wanted = np.ones(4, np.float32), np.full(4, 1.005, np.float32)
    data = write(tmp_path / "near.json", [sent], [wanted])
    words = ("--input-data", data, "--validate-tolerance", tolerance, "--request-count", "10")
    assert run(triton, "-m", "identity_fp32", *words).code == code


def test_sample_looks_at_a_share_of_the_replies(triton, tmp_path):
    data = write(tmp_path / "wrong.json", [np.zeros(4, np.float32)], [np.ones(4, np.float32)])
    words = ("--input-data", data, "--validate-sample", "25%", "--request-count", "40")
    assert "Failed request count: 10 (25.00 %)" in run(triton, "-m", "identity_fp32", *words).stdout


@pytest.mark.parametrize("wire", [("-i", "http"), ("-i", "grpc")], ids=" ".join)
def test_exported_outputs_have_their_values_in_shared_memory_too(triton, wire, tmp_path):
    seen = []
    for memory in ("none", "system"):
        path = tmp_path / f"{memory}.json"
        words = (
            "-m",
            "simple",
            "--request-count",
            "3",
            "--shared-memory",
            memory,
            "--profile-export-file",
            path,
        )
        ended = run(triton, *wire, *map(str, words))
        assert ended.code == 0, ended.stderr
        assert ("only the inputs are in shared memory" in ended.stderr) == (memory == "system")
        (level,) = json.loads(path.read_text())["experiments"]
        seen.append([(row["request_inputs"], row["response_outputs"]) for row in level["requests"]])
    assert seen[0] == seen[1]
    assert all(None not in outputs[0].values() for _, outputs in seen[0])
