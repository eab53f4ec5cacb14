"""The live figures of a run, as Prometheus and OpenTelemetry read them."""

import json
import re
import socket
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferometer.base.errors import UsageError
from inferometer.cli.collectors import CollectorPost
from inferometer.report.live_export import FIGURES, LatestFigures
from inferometer.report.otlp import OtlpPush, endpoint
from inferometer.report.prometheus import PrometheusPage
from tests.support.collector import Collector

ROOT = Path(__file__).parents[3]
PREPARED = {"kind": "prepared", "server": "triton 2.51", "url": "h:1", "model": 'a"b\\', "command": "measure"}
LEVEL = {"kind": "level", "number": 1, "mode": "concurrency", "value": 4, "title": "concurrency 4"}
SAMPLE = {
    "kind": "sample", "number": 1, "phase": "measuring", "elapsed_s": 1.0, "left_s": None, "per_s": 1234.5,
    "p50_ms": 1.5, "p90_ms": 2.0, "p95_ms": 2.5, "p99_ms": 10.0, "ended": 100, "failed": 2, "outstanding": 4,
    "client_cores": 0.4, "server_waiting": 1.5, "gpu": 0.93, "tokens_per_s": 640.0,
}  # fmt: skip


def told(*lines):
    found = LatestFigures(command="measure", run="7f3a91c0")
    for line in lines:
        found.tell(line)
    return found


def values(figures):
    return {(figure.name, labels.get("quantile")): value for figure, labels, value in figures.rows}


def test_counters_accumulate_over_levels_and_warm_up():
    warm = {**SAMPLE, "phase": "warm-up", "ended": 10, "failed": 1}
    found = told(LEVEL, warm)
    assert values(found)["warmup", None] == 1
    found.tell(SAMPLE)
    assert values(found)["requests.ended", None] == 110
    found.tell({**SAMPLE, "ended": 150})
    assert values(found)["requests.ended", None] == 160
    found.tell({**SAMPLE, "ended": 7, "failed": 0})  # the same level with more workers
    assert values(found)["requests.ended", None] == 167
    found.tell({**LEVEL, "number": 2, "value": 8})
    found.tell({**SAMPLE, "number": 2, "ended": 5, "failed": 3})
    assert values(found)["requests.ended", None] == 172
    assert values(found)["requests.failed", None] == 1 + 2 + 0 + 3
    assert (values(found)["load", None], values(found)["level", None]) == (8, 2)


def test_unknown_figures_are_missing():
    unknown = dict.fromkeys(("client_cores", "server_waiting", "gpu", "tokens_per_s", "p50_ms"))
    found = values(told(LEVEL, {**SAMPLE, **unknown}))
    assert not {"gpu.utilization", "client.cores", "output.token.throughput"} & {name for name, _ in found}
    assert ("request.latency", "0.5") not in found
    assert found["request.latency", "0.99"] == 0.01
    assert told().rows == ()


def scraped(page):
    with urllib.request.urlopen(page.url) as reply:
        return {row.name: row for row in text_string_to_metric_families(reply.read().decode())}


def test_prometheus_reads_every_figure():
    figures = told(PREPARED, LEVEL)
    page = PrometheusPage(figures, 0)
    try:
        figures.tell(SAMPLE)
        families = scraped(page)
        figures.tell({**SAMPLE, "ended": 101})
        assert scraped(page)["inferometer_requests_ended"].samples[0].value == 101
    finally:
        page.close()
    assert {sample.name for row in families.values() for sample in row.samples} == {
        figure.prometheus_name for figure in FIGURES
    }
    labels = {"model": 'a"b\\', "command": "measure", "run": "7f3a91c0"}
    latency = families["inferometer_request_latency_seconds"]
    assert {row.labels["quantile"]: row.value for row in latency.samples} == {
        "0.5": 0.0015, "0.9": 0.002, "0.95": 0.0025, "0.99": 0.01,
    }  # fmt: skip
    assert latency.samples[0].labels == {**labels, "quantile": "0.5"}
    ended = families["inferometer_requests_ended"]
    assert (ended.type, ended.samples[0].labels) == ("counter", labels)
    (load,) = families["inferometer_load"].samples
    assert (load.value, load.labels["mode"]) == (4, "concurrency")
    assert families["inferometer_gpu_utilization_ratio"].samples[0].value == 0.93
    assert all(row.documentation for row in families.values())


def test_an_occupied_port_is_a_usage_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"--prometheus {port}: .*in use; use a free port, or 0"):
            PrometheusPage(told(), port)


def test_a_collector_gets_every_figure():
    figures = told(PREPARED, LEVEL, SAMPLE)
    said: list[str] = []
    with Collector() as collector:
        push = OtlpPush(figures, CollectorPost(endpoint(collector.url), "METRICS"), said.append)
        figures.tell({**SAMPLE, "ended": 105})
        push.close()  # pushes the last figures
        assert collector.wait_for(lambda: bool(collector.pushes))
    assert said == []
    assert collector.paths[-1] == "/v1/metrics"
    found = collector.metrics
    assert {name: row.unit for name, row in found.items()} == {row.otel_name: row.unit for row in FIGURES}
    ended = found["inferometer.requests.ended"].sum
    assert ended.is_monotonic
    assert ended.data_points[0].as_double == 105
    latency = found["inferometer.request.latency"].gauge.data_points
    by_quantile = {
        {row.key: row.value.string_value for row in point.attributes}["quantile"]: point.as_double
        for point in latency
    }
    assert by_quantile == {"0.5": 0.0015, "0.9": 0.002, "0.95": 0.0025, "0.99": 0.01}
    attributes = {row.key: row.value.string_value for row in ended.data_points[0].attributes}
    assert attributes == {"model": 'a"b\\', "command": "measure", "run": "7f3a91c0"}


@pytest.mark.parametrize("status", [None, 500, 404], ids=["nobody", "an error", "not found"])
def test_a_failing_collector_causes_one_warning(status, capfd, monkeypatch):
    monkeypatch.setattr("inferometer.report.otlp.PERIOD_S", 0.01)
    said: list[str] = []
    with Collector(status or 200) as collector:
        url = collector.url if status else "http://127.0.0.1:9"
        push = OtlpPush(told(LEVEL, SAMPLE), CollectorPost(endpoint(url), "METRICS"), said.append)
        push._thread.join(0.5)
        push.close()
        push._thread.join()
    (text,) = said
    assert text.startswith(f"--otlp cannot push figures to {url}/v1/metrics; the run continues: ")
    assert (f"status {status}" if status else "refused") in text
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/metrics"),
        ("https://collector.example/", "https://collector.example/v1/metrics"),
        ("http://h:1/api/otlp", "http://h:1/api/otlp"),
    ],
)
def test_an_address_without_a_path_gets_the_default_path(given, used):
    assert endpoint(given) == used


@pytest.mark.parametrize("given", ["localhost:4318", "grpc://h:1", "http://", "http://[x", "http://h:99999"])
def test_other_addresses_are_refused(given):
    with pytest.raises(UsageError, match="is not the address of a collector; use a form such as"):
        endpoint(given)


def test_the_docs_list_every_figure():
    page = (ROOT / "docs" / "live-figures.md").read_text()
    rows = set(re.findall(r"^\| `(inferometer_\w+)`[^|]*\| `([\w.]+)`", page, re.MULTILINE))
    assert rows == {(figure.prometheus_name, figure.otel_name) for figure in FIGURES}


def test_the_dashboard_uses_exactly_the_exported_figures():
    dashboard = json.loads((ROOT / "docs" / "grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    shown = {name for query in queries for name in re.findall(r"inferometer_\w+", query)}
    assert shown == {figure.prometheus_name for figure in FIGURES}
    labels = {word for query in queries for word in re.findall(r"(\w+)=", query)}
    assert labels <= {"model", "command", "run", "quantile", "mode"}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    places = [tuple(panel["gridPos"][side] for side in "xywh") for panel in dashboard["panels"]]
    cells = [(x + i, y + j) for x, y, w, h in places for i in range(w) for j in range(h)]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
