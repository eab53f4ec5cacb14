"""The first request and one reply, shown: the bytes are those of a run, and exactly one request is sent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from inferometer.cli.measure import COMMAND, measure_options
from inferometer.load.single import messages_of
from inferometer.measure.prepare import Setup, prepare
from inferometer.measure.preview import first_of
from inferometer.options.command_line import read
from tests.support.grpc_servers import FakeGrpcTriton
from tests.support.servers import FakeModel, FakeTriton, Request


@dataclass(frozen=True, slots=True)
class SequenceModel(FakeModel):
    def config(self) -> dict[str, Any]:
        return {**FakeModel.config(self), "sequence_batching": {}}


PLAIN, SEQUENCE = FakeModel(), SequenceModel(max_batch_size=0)
WIDE = FakeModel(inputs=(("INPUT0", "FP32", (100_000,)), ("INPUT1", "BYTES", (1,))))

SENT = (
    (PLAIN, ()),
    (PLAIN, ("--async",)),
    (PLAIN, ("-b", "3", "--input-data", "zero", "-H", "x-key:secret")),
    (WIDE, ()),
    (WIDE, ("--async",)),
    (SEQUENCE, ("--sequence-id-range", "7")),
)
OVER_HTTP = (*SENT, (PLAIN, ("--input-tensor-format", "json")))
OVER_GRPC = (
    *SENT,
    (PLAIN, ("--grpc-compression-algorithm", "gzip")),
    (PLAIN, ("--grpc-compression-algorithm", "deflate", "--async")),
    (PLAIN, ("--streaming",)),
    (PLAIN, ("--streaming", "--grpc-compression-algorithm", "gzip")),
    (SEQUENCE, ("--streaming", "--sequence-id-range", "7")),
    (PLAIN, ("--request-parameter", "speed:5:int")),
)


def prepared(*words: str) -> Setup:
    given = read(words, COMMAND)
    assert isinstance(given, dict)
    return prepare(measure_options(given), command="measure")


def words_of(fake: FakeTriton | FakeGrpcTriton, words: tuple[str, ...]) -> tuple[str, ...]:
    protocol = "http" if isinstance(fake, FakeTriton) else "grpc"
    return ("-m", "fake", "-i", protocol, "-u", fake.server.address, *words)


def rendered(request: Request) -> bytes:
    """The bytes of a request as it came."""
    lines = [
        f"{request.method} {request.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in request.headers),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + request.body


@pytest.mark.parametrize(("model", "words"), OVER_HTTP)
def test_a_run_begins_with_the_request_that_is_shown_over_http(
    model: FakeModel, words: tuple[str, ...], run: Callable
) -> None:
    with FakeTriton(model=model) as fake:
        shown = first_of(prepared(*words_of(fake, words)))
        assert not fake.inferences
        ended = run("inferometer", "measure", *words_of(fake, words), "--request-count", "1")
    assert ended.code == 0, ended.stderr
    assert rendered(fake.inferences[0]) == shown.data


@pytest.mark.parametrize(("model", "words"), OVER_GRPC)
def test_a_run_begins_with_the_request_that_is_shown_over_grpc(
    model: FakeModel, words: tuple[str, ...], run: Callable
) -> None:
    with FakeGrpcTriton(model=model) as fake:
        shown = first_of(prepared(*words_of(fake, words)))
        assert not fake.inferences
        ended = run("inferometer", "measure", *words_of(fake, words), "--request-count", "1")
    assert ended.code == 0, ended.stderr
    sent = fake.inferences[0]
    ((message, packed_size),) = messages_of(shown.data)
    assert message == sent.message
    assert (packed_size is not None) == sent.is_compressed
    assert shown.metadata == sent.headers
