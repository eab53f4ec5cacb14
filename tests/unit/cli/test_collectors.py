"""Calls to collectors: keys go to the named origin only, and no reply takes more time or memory than allowed."""

import gzip
import time

import pytest

from inferometer.base.errors import PeerError
from inferometer.cli import collectors
from inferometer.cli.collectors import CollectorPost
from tests.support.servers import ScriptedServer, answer, drip, never, raw

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def posted(act, body=b"x"):
    with ScriptedServer(lambda request: act) as server:
        post = CollectorPost(f"http://{server.address}/v1/traces", "TRACES")
        try:
            return post(body), server.requests
        except PeerError as error:
            return error.message, server.requests


HOSTILE = (
    ("silence", never, "did not send a complete reply"),
    ("a reply byte by byte", drip(REPLY % 10**6), "did not send a complete reply"),
    ("a reply without end", raw(REPLY % 10**9 + b"x" * (3 << 20)), "exceeds 1048576 bytes"),
    ("an error", answer(b"quota exceeded", 429), "it answered with status 429 (quota exceeded)"),
    (
        "a redirect",
        answer(b"", 307, {"Location": "http://elsewhere.example/"}),
        "it answered with status 307",
    ),
    ("another protocol", raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "it does not speak HTTP"),
)


@pytest.mark.parametrize(("act", "said"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_a_hostile_reply_is_an_error_within_the_time_limit(act, said, monkeypatch):
    monkeypatch.setattr(collectors, "TIMEOUT_S", 0.3)
    begun = time.monotonic()
    found, requests = posted(act)
    assert isinstance(found, str)
    assert said in found
    assert len(requests) == 1  # sent once: nothing is followed or repeated
    assert time.monotonic() - begun < 30  # the peer would go on forever


def test_keys_come_from_the_variables_of_the_signal(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=common")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=se%20cret, x-tenant=a=b,nonsense")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    _, (request,) = posted(answer(b"ok"), b"spans")
    assert (request.header("api-key"), request.header("x-tenant")) == ("se cret", "a=b")
    assert request.header("content-type") == "application/x-protobuf"
    assert request.header("content-encoding") == "gzip"
    assert gzip.decompress(request.body) == b"spans"


def test_without_variables_nothing_is_added(monkeypatch):
    for name in ("HEADERS", "TRACES_HEADERS", "COMPRESSION"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    reply, (request,) = posted(answer(b"ok"), b"spans")
    assert (reply, request.body, request.method, request.path) == (b"ok", b"spans", "POST", "/v1/traces")
    assert request.header("content-encoding") is None
