"""Ids of requests: asynchronous ones carry (thread << 48) + counter, as in the classic tool; others carry none."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.grpc_servers import FakeGrpcTriton, asked
from tests.support.servers import FakeModel, FakeTriton, Request

COUNT = 40
ASYNC = ("--async",)


def http_id(request: Request) -> str:
    length = request.header("Inference-Header-Content-Length")
    document: dict[str, Any] = json.loads(request.body[: int(length or 0)])
    return str(document["id"])


def ids(run: Callable, protocol: str, *words: str, model: FakeModel | None = None) -> list[str]:
    """What the server saw."""
    fake = FakeTriton(model=model) if protocol == "http" else FakeGrpcTriton(model=model)
    with fake:
        ended = run(
            *("perf_analyzer", "-m", "fake", "-i", protocol, "-u", fake.server.address),
            *("--request-count", str(COUNT), "--concurrency-range", "4", *words),
        )
    assert ended.code == 0, ended.stderr
    if isinstance(fake, FakeTriton):
        return [http_id(request) for request in fake.inferences]
    return [asked(call).id for call in fake.inferences]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_synchronous_requests_have_no_id(protocol: str, run: Callable) -> None:
    assert set(ids(run, protocol)) == {""}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_asynchronous_requests_are_numbered_by_each_worker(protocol: str, run: Callable) -> None:
    assert sorted(map(int, ids(run, protocol, *ASYNC))) == list(range(COUNT))
    seen = sorted(map(int, ids(run, protocol, *ASYNC, "--workers", "2")))
    first = [number for number in seen if number < 1 << 48]
    assert seen == [*range(len(first)), *range(1 << 48, (1 << 48) + COUNT - len(first))]
    assert 0 < len(first) < COUNT


def test_streams_are_numbered_each(run: Callable) -> None:
    seen = sorted(map(int, ids(run, "grpc", "--streaming")))
    assert len(set(seen)) == COUNT
    assert {number >> 48 for number in seen} == {0, 1, 2, 3}
    for stream in range(4):
        own = [number & (1 << 48) - 1 for number in seen if number >> 48 == stream]
        assert own == list(range(len(own)))


def test_large_requests_are_not_copied_for_an_id(run: Callable) -> None:
    large = FakeModel(inputs=(("INPUT0", "INT32", (64 * 1024,)),))
    assert set(ids(run, "http", *ASYNC, model=large)) == {""}
    assert len(set(map(int, ids(run, "grpc", *ASYNC, model=large)))) == COUNT
