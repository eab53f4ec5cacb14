"""The real Triton, by its address alone."""

import pytest

from inferometer import api
from inferometer.base.errors import PeerError, UsageError
from inferometer.cli import main
from inferometer.server.embedded import EmbeddedTriton
from tests.support.commands import call_here

pytestmark = pytest.mark.live


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_triton_is_found_on_both_ports(protocol, triton):
    url = getattr(triton, f"{protocol}_address")
    result = api.measure("simple", url=url, service_kind="auto", duration_s=None, request_count=20)
    assert (result.effective.service_kind, result.effective.protocol) == ("triton", protocol)
    assert result.levels[0].measurement is not None
    assert result.levels[0].measurement.server is not None
    title = {"http": "Triton over HTTP", "grpc": "Triton over gRPC"}[protocol]
    assert result.server["findings"] == [
        f"{url} looks like {title}, model 'simple' (--service-kind triton{' --grpc' * (protocol == 'grpc')})."
    ]


def test_its_models_are_listed(triton):
    with pytest.raises(UsageError, match=r"has \d+ models: .*simple.*; name one with model"):
        api.measure("", url=triton.http_address, service_kind="auto", duration_s=0.3)


WRONG = (
    # the port and how it is asked, what is said of it, what to type
    ("http", "{at} -m simple -i grpc", "{at} looks like Triton over HTTP, but the options request gRPC", "{at} simple"),
    ("http", "grpc://{at} -m simple", "{at} looks like Triton over HTTP, but the options request gRPC", "{at} simple"),
    ("http", "https://{at} -m simple", "{at} does not use TLS: it looks like Triton over HTTP", "http://{at} simple"),
    ("http", "{at}/v2/health/ready", "{at} looks like Triton over HTTP, which cannot be measured at", "{at}"),
    ("http", "{at}/elsewhere -m simple", "which cannot be measured at '/elsewhere'", "{at} simple"),
    ("grpc", "{at} -m simple -i http", "like Triton over gRPC, but the options request HTTP", "{at} simple --grpc"),
    ("grpc", "{at} -m simple --service-kind triton", "{at} looks like Triton over gRPC", "{at} simple --grpc"),
    ("grpc", "grpcs://{at} -m simple", "{at} does not use TLS: it looks like Triton over gRPC", "grpc://{at} simple"),
    ("grpc", "https://{at} -m simple", "{at} does not use TLS: it looks like Triton over gRPC", "grpc://{at} simple"),
    ("metrics", "{at} -m simple", "is a metrics port, which does not serve inference requests", "at {below}"),
    ("metrics", "{at}/metrics", "is a metrics port, which does not serve inference requests", "at {below}"),
    ("metrics", "{at} -m simple -i grpc", "is a metrics port, which does not serve inference requests", "at {below}"),
    ("metrics", "-u {at} -m simple", "is a metrics port, which does not serve inference requests", "at {below}"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("port", "words", "says", "types"), WRONG, ids=[f"{row[0]}: {row[1]}" for row in WRONG]
)
def test_a_port_that_is_given_for_another(
    port: str, words: str, says: str, types: str, triton: EmbeddedTriton
) -> None:
    at = getattr(triton, f"{port}_address")
    host, _, number = at.rpartition(":")
    places = {"at": at, "below": f"{host}:{int(number) - 2}"}
    ended = call_here(main.main, "measure", *words.format(**places).split(), "--duration", "300ms")
    assert ended.code == UsageError.exit_code, ended.stderr
    assert says.format(**places) in ended.stderr
    right = types.format(**places)
    assert (right if right.startswith("at ") else f"type inferometer measure {right}") in ended.stderr


@pytest.mark.parametrize(
    ("path", "words"),
    [("/v2", ("-m", "simple")), ("/v2/models/simple", ()), ("/v2/models/simple/versions/1/infer", ())],
)
def test_a_path_is_taken_apart(path: str, words: tuple[str, ...], triton: EmbeddedTriton) -> None:
    url = f"{triton.http_address}{path}"
    ended = call_here(main.main, "measure", url, *words, "-n", "20")
    assert ended.code == 0, ended.stderr
    assert f"'{url}' is interpreted as {triton.http_address}" in ended.stderr
    assert "infer/s" in ended.stdout


@pytest.mark.parametrize("port", ["http", "grpc"])
def test_a_model_that_is_not_there_is_an_error(port: str, triton: EmbeddedTriton) -> None:
    ended = call_here(main.main, "measure", getattr(triton, f"{port}_address"), "-m", "nope")
    assert ended.code == PeerError.exit_code
    assert "'nope' is not found; the server has" in ended.stderr
