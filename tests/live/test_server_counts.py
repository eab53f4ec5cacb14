"""What a real server has counted beside what we have: the same without other clients, and more with them."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from inferometer import api
from inferometer.base.notes import Note
from inferometer.server.embedded import EmbeddedTriton
from inferometer.stats.result import Result
from tests.support.commands import script
from tests.support.samples import sample

pytestmark = pytest.mark.live

ABOUT_COUNTS = (Note.OTHER_CLIENTS, Note.NOT_COUNTED)
QUICK: dict[str, Any] = {"duration_s": None, "measurement_interval_ms": 60, "stability_percentage": 999_999.0}


def address(triton: EmbeddedTriton, protocol: str) -> str:
    return triton.grpc_address if protocol == "grpc" else triton.http_address


def said(result: Result) -> list[str]:
    return [remark.text for level in result.levels for remark in level.remarks if remark.note in ABOUT_COUNTS]


def inferences(triton: EmbeddedTriton, model: str) -> int:
    with urlopen(f"http://{triton.http_address}/v2/models/{model}/stats") as reply:
        return int(json.load(reply)["model_stats"][0]["inference_count"])


@pytest.fixture
def beside(triton: EmbeddedTriton, request: pytest.FixtureRequest) -> Iterator[None]:
    """Another client of the model."""
    words = ("-m", request.param, "-u", triton.http_address, "--request-count", "100000000")
    process = subprocess.Popen(script(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    before = inferences(triton, request.param)
    while inferences(triton, request.param) == before:
        assert process.poll() is None
    yield
    process.kill()
    process.wait()


@pytest.mark.machine(
    reason="a window of 60 ms has requests only where other processes leave the server a core"
)
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("model", "protocol"),
    sample(
        [("simple", "http"), ("simple", "grpc"), ("ens_nested", "grpc"), ("bls", "http"), ("cached", "http")],
        [
            (model, protocol)
            for model in ("simple", "ens_nested", "bls", "cached")
            for protocol in ("http", "grpc")
        ],
    ),
)
def test_without_other_clients_there_is_no_remark(model: str, protocol: str, triton: EmbeddedTriton) -> None:
    result = api.measure(
        model, url=address(triton, protocol), protocol=protocol, concurrency=(1, 9, 8), **QUICK
    )
    assert said(result) == []


@pytest.mark.machine(reason="the other client must get a core while the short windows last")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("beside", ["simple"], indirect=True)
def test_other_clients_are_noticed(protocol: str, triton: EmbeddedTriton, beside: None) -> None:
    result = api.measure("simple", url=address(triton, protocol), protocol=protocol, concurrency=2, **QUICK)
    (text,) = said(result)
    found = result.levels[0].measurement
    assert f"the server counted {found.server.counters.success_count:,} requests for 'simple'" in text


@pytest.mark.machine(reason="the other client must get a core while the short windows last")
@pytest.mark.parametrize("beside", ["addsub"], indirect=True)
def test_other_clients_of_a_composing_model_are_noticed(triton: EmbeddedTriton, beside: None) -> None:
    result = api.measure("ens", url=triton.http_address, **QUICK)
    (text,) = said(result)
    assert "requests for 'addsub', but at most" in text
