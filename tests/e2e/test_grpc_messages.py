"""Every request that reaches a gRPC server is, byte for byte, the message that was asked for."""

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.grpc_servers import (
    INITIAL_WINDOW_SIZE,
    MAX_FRAME_SIZE,
    FakeGrpcTriton,
    asked,
)
from tests.support.samples import sample
from tests.support.servers import FakeModel

KIB, MIB = 1024, 1024 * 1024
STREAMING = ("--streaming",)
WIDE = {INITIAL_WINDOW_SIZE: 16 * MIB, MAX_FRAME_SIZE: MIB}

SIZES: tuple[tuple[int, int, int, int], ...] = (
    # bytes of a tensor, batch, concurrency, requests
    (1, 1, 1, 20),
    (1, 8, 64, 256),
    (999, 3, 8, 64),
    (16 * KIB - 100, 1, 4, 24),  # about one frame
    (64 * KIB, 8, 2, 8),
    (MIB + 1, 2, 8, 16),
    (MIB, 8, 2, 4),
    (8 * MIB, 1, 3, 6),
)


def write_steps(path: Path, size: int, count: int) -> list[bytes]:
    """A file of input data with these many tensors, each unlike the others."""
    source = random.Random(size)
    tensors = [source.randbytes(size) for _ in range(count)]
    rows = [{"INPUT0": {"b64": base64.b64encode(tensor).decode()}} for tensor in tensors]
    path.write_text(json.dumps({"data": rows}))
    return tensors


@pytest.mark.sampled
@pytest.mark.parametrize(("size", "batch", "concurrency", "count"), sample(SIZES[1::2], SIZES))
@pytest.mark.parametrize("words", [(), STREAMING], ids=["unary", "streaming"])
def test_what_arrives_is_what_was_asked(
    words: tuple[str, ...], size: int, batch: int, concurrency: int, count: int, run: Callable, tmp_path: Path
) -> None:
    tensors = write_steps(tmp_path / "steps.json", size, 3)
    model = FakeModel(
        inputs=(("INPUT0", "UINT8", (size,)),),
        outputs=(("OUTPUT0", "UINT8", (size,)), ("OUTPUT1", "UINT8", (size,))),
    )
    with FakeGrpcTriton(model=model, settings=WIDE, window=64 * MIB) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "-b", str(batch), *words),
            *("--request-count", str(count), "--concurrency-range", str(concurrency)),
            *("--input-data", str(tmp_path / "steps.json")),
            *("--request-parameter", "a:true:bool", "--request-parameter", "b:-5:int"),
            *("--request-parameter", "c:Text:string"),
        )
        calls = fake.inferences
    assert ended.code == 0, ended.stderr
    assert len(calls) == count
    expected = asked(calls[0])
    expected.Clear()
    expected.model_name = "fake"
    expected.inputs.add(name="INPUT0", datatype="UINT8", shape=(batch, size))
    for name in ("OUTPUT0", "OUTPUT1"):
        expected.outputs.add(name=name)
    expected.parameters["triton_enable_empty_final_response"].bool_param = True
    expected.parameters["a"].bool_param = True
    expected.parameters["b"].int64_param = -5
    expected.parameters["c"].string_param = "Text"
    numbers: dict[tuple[int, int], list[str]] = {}
    for call in calls:
        request = asked(call)
        (content,) = request.raw_input_contents
        # A batch is as many steps as it is large, one after the other.
        first = next(i for i in range(3) if content.startswith(tensors[i]))
        assert content == b"".join(tensors[(first + i) % 3] for i in range(batch))
        numbers.setdefault((call.connection, call.stream), []).append(request.id)
        request.ClearField("raw_input_contents")
        request.ClearField("id")
        assert request == expected
    if words:  # ids count the requests of a stream; synchronous calls without streams have none
        for ids in numbers.values():
            assert ids == [str(int(ids[0]) + number) for number in range(len(ids))]
        assert {int(ids[0]) for ids in numbers.values()} == {number << 48 for number in range(len(numbers))}
        assert len(numbers) == min(concurrency, 16)
    else:
        assert {request_id for ids in numbers.values() for request_id in ids} == {""}


def test_steps_follow_each_other(run: Callable, tmp_path: Path) -> None:
    tensors = write_steps(tmp_path / "steps.json", 100, 4)
    model = FakeModel(inputs=(("INPUT0", "UINT8", (100,)),))
    with FakeGrpcTriton(model=model) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--request-count", "10"),
            *("--input-data", str(tmp_path / "steps.json")),
        )
        contents = [asked(call).raw_input_contents[0] for call in fake.inferences]
    assert ended.code == 0, ended.stderr
    assert contents == (tensors * 3)[:10]


def test_a_version_is_passed_on(run: Callable) -> None:
    with FakeGrpcTriton() as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-x", "1", "-i", "grpc", "-u", fake.server.address, "--request-count", "3"),
        )
        assert {asked(call).model_version for call in fake.inferences} == {"1"}
    assert ended.code == 0, ended.stderr


@pytest.mark.parametrize(
    ("parameter", "says"),
    [
        ("p:yes:bool", "'yes', which is not a valid bool"),
        ("p:1.5:int", "'1.5', which is not a valid int"),
        ("p:--5:int", "'--5', which is not a valid int"),
        ("p:²:int", "'²', which is not a valid int"),
        ("p::int", "'', which is not a valid int"),
        ("p:9223372036854775808:int", "'9223372036854775808', which is not a valid int"),
        ("p:1:float", "does not match <name:value:type>"),
        ("p:1", "does not match <name:value:type>"),
        (":1:int", "does not match <name:value:type>"),
    ],
)
def test_a_parameter_that_is_not_of_its_type_is_refused(parameter: str, says: str, run: Callable) -> None:
    with FakeGrpcTriton() as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--request-parameter", parameter),
        )
        assert fake.inferences == []
    assert ended.code == 99
    assert says in ended.stderr.splitlines()[0]


def test_the_largest_integers_are_parameters(run: Callable) -> None:
    with FakeGrpcTriton() as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--request-count", "1"),
            *("--request-parameter", f"least:{-(2**63)}:INT", "--request-parameter", f"most:{2**63 - 1}:int"),
        )
        (call,) = fake.inferences
    assert ended.code == 0, ended.stderr
    found = asked(call).parameters
    assert (found["least"].int64_param, found["most"].int64_param) == (-(2**63), 2**63 - 1)
