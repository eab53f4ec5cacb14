"""Requests as spans: the collector and the server see the same ids, and neither harms the run."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.collector import Collector
from tests.support.servers import FakeTriton


def ids(span: Any) -> str:
    return f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"


def attributes(span: Any) -> dict[str, Any]:
    return {row.key: getattr(row.value, row.value.WhichOneof("value")) for row in span.attributes}


def sent_ids(requests: list[Any]) -> list[str]:
    found = (dict(request.headers).get("traceparent") for request in requests)
    return [value for value in found if value is not None]


LOADS = (
    ("every request", ("-c", "2", "-n", "60", "--trace-share", "100%"), 60),
    ("by rate", ("-r", "500", "-n", "40", "--trace-share", "100%"), 40),
    ("with unique ids", ("-c", "2", "-n", "30", "--trace-share", "100%", "--async"), 30),
)


@pytest.mark.parametrize(("words", "count"), [row[1:] for row in LOADS], ids=[row[0] for row in LOADS])
def test_the_server_sees_the_ids_of_the_spans(words: tuple[str, ...], count: int, run: Callable) -> None:
    with FakeTriton() as fake, Collector() as collector:
        ended = run(
            *("inferometer", "measure", fake.server.address, "fake", "-q", "--no-store", *words),
            *("--otlp-traces", collector.url),
        )
    assert (ended.code, ended.stderr) == (0, "")
    seen = sent_ids(fake.inferences)
    assert len(seen) == len(set(seen)) == len(fake.inferences) == count
    assert {ids(span) for span in collector.spans} == set(seen)
    assert set(collector.paths) == {"/v1/traces"}
    for span in collector.spans:
        assert span.kind == span.SPAN_KIND_CLIENT
        assert span.name == "infer fake"
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        times = [event.time_unix_nano for event in span.events]
        assert times == sorted(times)
        assert {"inferometer.send", "inferometer.sent", "inferometer.first_byte"} <= {
            e.name for e in span.events
        }
