"""Requests as spans: the collector and the server see the same ids, and a bad collector never harms the run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.collector import Collector
from tests.support.grpc_servers import FakeGrpcTriton
from tests.support.openai import FakeOpenAi
from tests.support.servers import FakeTriton, answer_json

MEASURE = ("inferometer", "measure")
ALL = ("--trace-share", "100%")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the collector as long as a busy machine needs."""
    monkeypatch.setattr("inferometer.report.spans.LAST_S", 60.0)
    monkeypatch.setattr("inferometer.report.otlp.LAST_S", 60.0)
    monkeypatch.setattr("inferometer.cli.collectors.TIMEOUT_S", 60.0)


def traceparent(span: Any) -> str:
    return f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"


def attributes(span: Any) -> dict[str, Any]:
    return {row.key: getattr(row.value, row.value.WhichOneof("value")) for row in span.attributes}


def carried(requests: list[Any]) -> list[str]:
    found = (request.header("traceparent") for request in requests)
    return [value for value in found if value is not None]


LOADS = {
    "closed": ("-c", "2", "-n", "60"),
    "by rate": ("-r", "200", "-d", "300ms"),
    "with unique ids": ("-c", "2", "-n", "30", "--async"),
}


@pytest.mark.parametrize("words", LOADS.values(), ids=LOADS)
@pytest.mark.parametrize("fake", [FakeTriton, FakeGrpcTriton], ids=["http", "grpc"])
def test_the_server_sees_the_ids_of_the_spans(
    fake: Callable[[], Any], words: tuple[str, ...], run: Callable
) -> None:
    grpc = ("--grpc",) if fake is FakeGrpcTriton else ()
    with fake() as server, Collector() as collector:
        ended = run(
            *(*MEASURE, server.server.address, "fake", *grpc, "-q", "--no-store", *words, *ALL),
            *("--otlp-traces", collector.url),
        )
    assert (ended.code, ended.stderr) == (0, "")
    seen = carried(server.inferences)
    assert len(seen) == len(set(seen)) == len(server.inferences)
    assert sorted(map(traceparent, collector.spans)) == sorted(seen)
    assert set(collector.paths) == {"/v1/traces"}
    for span in collector.spans:
        assert (span.kind, span.name) == (span.SPAN_KIND_CLIENT, "infer fake")
        times = [
            span.start_time_unix_nano,
            *(row.time_unix_nano for row in span.events),
            span.end_time_unix_nano,
        ]
        assert times == sorted(times)
        names = {event.name for event in span.events}
        assert {"inferometer.send", "inferometer.sent", "inferometer.first_byte"} <= names
    opened = [
        span for span in collector.spans if attributes(span).get("inferometer.connection.first_request")
    ]
    assert opened


def test_a_share_is_sampled_and_other_requests_carry_no_trace_headers(run: Callable) -> None:
    def infer(number: int, _: Any) -> Any:
        return answer_json({"error": "planted"}, 503) if number % 100 == 7 else None

    with FakeTriton(infer) as fake, Collector() as collector:
        ended = run(
            *(*MEASURE, fake.server.address, "fake", "-c", "2", "-n", "600", "-q", "--no-store"),
            *("--otlp-traces", collector.url, "--trace-share", "10%", "--max-error-rate", "5%"),
        )
    assert ended.code == 0, ended.stderr
    seen = set(carried(fake.inferences))
    by_reason: dict[str, list[Any]] = {}
    for span in collector.spans:
        by_reason.setdefault(attributes(span)["inferometer.reason"], []).append(span)
    assert 20 <= len(seen) <= 120  # of 600; both are five standard deviations away
    propagated = {traceparent(span) for span in collector.spans if attributes(span)["inferometer.propagated"]}
    assert propagated == seen
    failed = by_reason["failed"]
    assert len(failed) == 6  # every failure, sampled or not
    assert {attributes(span)["error.type"] for span in failed} == {"503"}
    assert {span.status.code for span in failed} == {2}
    assert all("planted" in span.status.message for span in failed)
    assert 1 <= len(by_reason["slow"]) <= 10
    fastest_slow = min(attributes(span)["inferometer.latency"] for span in by_reason["slow"])
    slower = [row for row in by_reason["sampled"] if attributes(row)["inferometer.latency"] > fastest_slow]
    assert len(slower) + len(by_reason["slow"]) >= 10


def test_text_servers_follow_the_conventions(run: Callable) -> None:
    with FakeOpenAi() as fake, Collector() as collector:
        ended = run(
            *(*MEASURE, fake.server.address, "tiny", "--service-kind", "openai", "--endpoint", "chat"),
            *("--streaming", "-c", "1", "-n", "8", "-q", "--no-store", *ALL),
            *("--otlp-traces", collector.url, "--otlp", collector.url),
        )
    assert ended.code == 0, ended.stderr
    assert len(collector.spans) == 8
    for span in collector.spans:
        found = attributes(span)
        assert span.name == "chat tiny"
        assert (found["gen_ai.operation.name"], found["gen_ai.provider.name"]) == ("chat", "openai")
        assert (found["gen_ai.request.model"], found["server.address"]) == ("tiny", "127.0.0.1")
        assert found["gen_ai.request.stream"] is True
        assert found["gen_ai.response.time_to_first_chunk"] > 0
        assert [event.name for event in span.events].count("inferometer.response") >= 1
    (point,) = collector.metrics["gen_ai.client.operation.duration"].histogram.data_points
    assert (point.count, sum(point.bucket_counts)) == (8, 8)
    assert (
        collector.metrics["gen_ai.client.operation.time_to_first_chunk"].histogram.data_points[0].count == 8
    )


def test_swim_lanes_hold_every_request(run: Callable, tmp_path: Path) -> None:
    path, result = tmp_path / "lanes.json", tmp_path / "result.json"
    with FakeTriton() as fake:
        ended = run(
            *(*MEASURE, fake.server.address, "fake", "-c", "1,2", "-n", "50", "-q", "--no-store"),
            *("--perfetto", str(path), "--json", str(result)),
        )
    assert ended.code == 0, ended.stderr
    found = json.loads(path.read_text())
    slices = [row for row in found["traceEvents"] if row["ph"] == "X" and row["name"] == "request"]
    assert [sum(row["pid"] == level for row in slices) for level in (1, 2)] == [50, 50]
    assert max(row["tid"] for row in slices if row["pid"] == 1) == 0
    network = json.loads(result.read_text())["levels"][1]["network"]
    assert network["is_local"]
    assert network["share"] is None
    assert network["first"]["count"] == network["connections"] == 1 + 2  # each level opens its own
    assert network["later"]["count"] == 50 - 2


REFUSED = (
    (("--otlp-traces", "localhost:4318"), "--otlp-traces 'localhost:4318' is not the address of a collector"),
    (("--trace-share", "5%"), "add --otlp-traces URL"),
    (("--otlp-traces", "http://h:1", "--trace-share", "150%"), "--trace-share"),
    (("--otlp-traces", "http://h:1", "--scenario", "x.yaml"), "not supported with --scenario"),
    (("--otlp-traces", "http://h:1", "-H", "Traceparent: 00-1-2-01"), "leave out the header"),
    (("--perfetto", "/no/such/folder/lanes.json"), "/no/such/folder"),
)


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[row[1] for row in REFUSED])
def test_impossible_options_are_rejected_before_any_load(
    words: tuple[str, ...], said: str, run: Callable
) -> None:
    with FakeTriton() as fake:
        ended = run(*(*MEASURE, fake.server.address, "fake", "-n", "5", "--no-store", *words))
        assert not fake.inferences
    assert ended.code == 2
    assert said in ended.stderr
