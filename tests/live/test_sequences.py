"""Sequences at a real server: the model itself refuses a request that does not fit its sequence (contract 5.9)."""

import json
import re

import pytest

from tests.support.commands import call_script

pytestmark = pytest.mark.live

BY_RATE = ("--request-rate-range", "400", "--serial-sequences", "--sequence-length", "5")
SHORT = ("-p", "120", "-s", "999999", "-r", "3")
# A test that measures in windows this short.
short_windows = pytest.mark.machine(
    reason="a window of 120 ms has requests only where other processes leave the server a core"
)


def run(triton, *words):
    address = triton.grpc_address if "grpc" in words else triton.http_address
    return call_script("-u", address, *words)


@short_windows
@pytest.mark.parametrize(
    "words",
    [
        ("--concurrency-range", "32"),
        ("--concurrency-range", "32", "--sync"),
        ("--concurrency-range", "32", "-i", "grpc"),
        ("--concurrency-range", "32", "-i", "grpc", "--streaming"),
        ("--concurrency-range", "8", "--workers", "2"),
        ("--concurrency-range", "4:1:1", "-i", "grpc"),
        (*BY_RATE, "--num-of-sequences", "16"),
        (*BY_RATE, "--num-of-sequences", "16", "-i", "grpc"),
        ("--request-rate-range", "400", "--num-of-sequences", "1", "-i", "grpc", "--streaming"),
    ],
    ids=" ".join,
)
def test_every_sequence_is_whole_and_in_order(triton, words):
    """Twice with the same ids: had the first run left a sequence open, the second would be refused."""
    for _ in range(2):
        done = run(triton, "-m", "accumulator", *words, *SHORT)
        # By rate a busy machine may be called overloaded, and not stable; that is another test's matter.
        assert done.code in ((0, 2) if "--request-rate-range" in words else (0,)), done.stdout + done.stderr
        assert "Failed request count" not in done.stdout
        found = re.search(r"    Sequence count: (\d+) \((\S+) seq/sec\)", done.stdout)
        assert found is not None
        assert int(found[1]) > 0


def test_sequences_are_asynchronous_by_default(triton):
    assert "Using asynchronous calls" in run(triton, "-m", "accumulator", "--request-count", "5").stdout
    assert (
        "Using synchronous calls" in run(triton, "-m", "accumulator", "--sync", "--request-count", "5").stdout
    )


def test_request_count_closes_the_last_sequence_with_one_more(triton):
    words = ("--sequence-length", "5", "--sequence-length-variation", "0", "--request-count", "7")
    done = run(triton, "-m", "accumulator", *words)
    assert "Request count: 8\n" in done.stdout
    assert "Sequence count: 2 " in done.stdout


@short_windows
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_streams_of_data_are_replayed_whole_and_the_sums_are_right(triton, protocol, tmp_path):
    streams = [[1, 2, 3], [10, 20]]
    data = [[{"INPUT": [value]} for value in stream] for stream in streams]
    expected = [
        [{"OUTPUT": [sum(stream[: k + 1])], "STEP": [k]} for k in range(len(stream))] for stream in streams
    ]
    path = tmp_path / "streams.json"
    path.write_text(json.dumps({"data": data, "validation_data": expected}))
    done = run(triton, "-m", "accumulator", "-i", protocol, "--input-data", str(path), *SHORT)
    assert done.code == 0, done.stdout + done.stderr
    assert " Successfully read data for 2 stream/streams.\n" in done.stdout
    assert "Failed request count" not in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-b", "2"), "can not specify batch size > 1 when using a sequence model"),
        (("-a", "--concurrency-range", "1:0", "-l", "10"), "The 'end' concurrency can not be 0"),
        (("--concurrency-range", "8", "--sequence-id-range", "1:4"), "sequence id collision may occur"),
    ],
)
def test_unsupported_sequence_options_are_rejected(triton, words, sentence):
    done = run(triton, "-m", "accumulator", *words)
    assert done.code == 99
    assert sentence in done.stderr
