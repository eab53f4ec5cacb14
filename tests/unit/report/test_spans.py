"""Spans of requests: which are exported, what they say, and what a failing collector costs."""

import threading

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from inferometer.base import status
from inferometer.base.errors import PeerError
from inferometer.records.network_path import NetworkPath
from inferometer.records.path import Opening
from inferometer.records.spans import FAILED, SAMPLED, SLOW, SpanRow
from inferometer.report import spans as module
from inferometer.report.spans import LabeledSpan, SpanExport, SpanSubject, encoded

URL = "http://collector.example/v1/traces"


def row(number=1, **given):
    usual = {
        "reason": SAMPLED, "trace_id": number, "span_id": number, "is_propagated": True, "worker": 0, "slot": 0,
        "due_ns": 1000, "sent_ns": 2000, "wrote_ns": 2500, "first_ns": 5000, "end_ns": 9000, "status": status.OK,
        "text": "", "step": 0, "received": 10, "responses": 1, "times": (), "took_ns": 7000,
    }  # fmt: skip
    return SpanRow(**{**usual, **given})


def decoded(body):
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    return list(resource.scope_spans[0].spans)


def attributes(span):
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


class FakePost:
    """A collector in memory; `act` is called with each body."""

    url = URL

    def __init__(self, act=lambda body: b""):
        self.act = act
        self.spans = []

    def __call__(self, body):
        reply = self.act(body)
        self.spans += decoded(body)
        return reply


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(module, "PERIOD_S", 0.005)


def exported(post, *rows, path=None, dropped=0):
    said: list[str] = []
    spans = SpanExport(post, said.append, epoch_ns=0)
    spans.level_started("concurrency", 4)
    spans.add(rows, dropped, path or NetworkPath())
    spans.close()
    spans._thread.join()
    return said


def test_only_the_slowest_of_a_level_are_exported_and_every_other_reason():
    post = FakePost()
    slow = [row(n, reason=SLOW, took_ns=n, is_propagated=False) for n in range(1, 31)]
    assert exported(post, *slow, row(100), row(101, reason=FAILED, status=status.TIMEOUT)) == []
    numbers = sorted(int.from_bytes(span.span_id, "big") for span in post.spans)
    assert numbers == [*range(21, 31), 100, 101]
    assert {attributes(span)["inferometer.load.value"] for span in post.spans} == {4.0}


def test_phases_are_events_and_an_opened_connection_is_among_them():
    opening = Opening(1100, 1400, 1900, 250, has_tls=True)
    ahead = Opening(100, 400, 900, 250, has_tls=True)
    path = NetworkPath(resolve_ns=3_000_000, firsts={2000: opening, 3000: ahead})
    post = FakePost()
    exported(
        post, row(1, times=(5000, 6000), responses=5), row(2, sent_ns=3000), row(3, sent_ns=4000), path=path
    )
    first, second, third = sorted(post.spans, key=lambda span: span.span_id)
    names = ["connect", "connected", "tls_done", "send", "sent", "first_byte", "response", "response"]
    assert [event.name for event in first.events] == [f"inferometer.{name}" for name in names]
    assert [event.time_unix_nano for event in first.events] == [
        1100,
        1400,
        1900,
        2000,
        2500,
        5000,
        5000,
        6000,
    ]
    assert (first.start_time_unix_nano, first.end_time_unix_nano, first.dropped_events_count) == (
        1000,
        9000,
        3,
    )
    assert attributes(first)["inferometer.connection.resolve"] == 0.003
    assert next(event.name for event in second.events) == "inferometer.send"  # opened before it was due
    assert attributes(second)["inferometer.connection.first_request"] is True
    assert "inferometer.connection.first_request" not in attributes(third)


KINDS = (
    ("chat", row(tokens=7, prompt_tokens=3, cached_tokens=2, reasoning_tokens=1, times=(5000,)), "http", {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 7, "server.address": "h", "server.port": 81,
        "gen_ai.usage.cache_read.input_tokens": 2, "gen_ai.usage.reasoning.output_tokens": 1,
        "gen_ai.request.stream": True, "gen_ai.response.time_to_first_chunk": 3e-6,
    }),
    ("anthropic", row(), "http", {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic"}),
    ("tei-embed", row(), "http", {"gen_ai.operation.name": "embeddings"}),
    ("", row(), "grpc", {"rpc.system": "grpc", "rpc.grpc.status_code": 0, "inferometer.reason": "sampled"}),
    ("", row(status=status.GRPC + 14), "grpc", {"rpc.grpc.status_code": 14, "error.type": "UNAVAILABLE"}),
    ("", row(status=status.HTTP + 503), "http", {"http.response.status_code": 503, "error.type": "503"}),
    ("", row(status=status.RESET), "http", {"error.type": "reset"}),
)  # fmt: skip


@pytest.mark.parametrize(("api", "given", "protocol", "expected"), KINDS)
def test_attributes_follow_the_conventions(api, given, protocol, expected):
    subject = SpanSubject("http://h:81", protocol, ("m",), api=api)
    (span,) = decoded(encoded([LabeledSpan(given, "concurrency", 1)], subject, 0))
    found = attributes(span)
    assert found | expected == found
    assert bool(api) == any(name.startswith("gen_ai.") for name in found)
    assert (span.status.code == 2) == bool(given.status)


def test_a_mix_names_the_model_of_each_request():
    subject = SpanSubject("http://h", "http", ("a", "b"), model_of_step=(0, 1, 0))
    batch = [LabeledSpan(row(step=step), "concurrency", 1) for step in range(3)]
    assert [span.name for span in decoded(encoded(batch, subject, 0))] == ["infer a", "infer b", "infer a"]


def test_error_texts_are_redacted():
    given = row(
        status=status.HTTP + 401, text="bad key in Authorization: Bearer sk-abcdefghijklmnopqrstuv\x1b[31m"
    )
    (span,) = decoded(encoded([LabeledSpan(given, "concurrency", 1)], SpanSubject("http://h", "http"), 0))
    assert "sk-abcdefghijklmnopqrstuv" not in span.status.message
    assert "\x1b" not in span.status.message


def test_a_failing_collector_is_named_once_and_the_losses_are_counted():
    def fail(body):
        raise PeerError("it answered with status 500")

    said = exported(FakePost(fail), *map(row, range(1, 8)), dropped=3)
    assert said == [
        f"--otlp-traces cannot push spans to {URL}; the run continues: it answered with status 500",
        f"10 of 10 spans were not delivered to {URL}: it answered with status 500",
    ]


def test_spans_that_the_collector_rejects_are_counted():
    reply = ExportTraceServiceResponse()
    reply.partial_success.rejected_spans = 2
    reply.partial_success.error_message = "quota"
    said = exported(FakePost(lambda body: reply.SerializeToString()), *map(row, range(1, 6)))
    assert said[-1] == f"2 of 5 spans were not delivered to {URL}: quota"


@pytest.mark.parametrize("reply", [b"{}", b"\xff\xff\xff", b"ok"])
def test_replies_that_are_not_protobuf_are_ignored(reply):
    assert exported(FakePost(lambda body: reply), row()) == []


def test_a_hanging_collector_delays_the_end_for_a_limited_time(monkeypatch):
    monkeypatch.setattr(module, "LAST_S", 0.02)
    over = threading.Event()
    said: list[str] = []
    spans = SpanExport(FakePost(lambda body: over.wait(30) and b""), said.append, epoch_ns=0)
    spans.add(map(row, range(1, 4)), 0, NetworkPath())
    spans.close()
    over.set()
    spans._thread.join()
    assert said == [f"3 of 3 spans were not delivered to {URL}"]


def test_waiting_spans_have_a_limit(monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 5)
    monkeypatch.setattr(module, "PERIOD_S", 60)
    post = FakePost()
    said = exported(post, *map(row, range(1, 9)))
    assert (len(post.spans), said) == (5, [f"3 of 8 spans were not delivered to {URL}"])
