"""One table of figures for all languages that name them."""

from dataclasses import replace

import pytest

from inferometer.base.slo import parse_slo
from inferometer.compare.gates import parse_gates
from inferometer.stats.figures import BY_TAG, METRICS, OUTPUT_METRICS, Source, known_tag, named
from inferometer.stats.slo import metric_of
from tests.support.reports import sample_result


def found():
    return sample_result().levels[0].measurement


@pytest.mark.parametrize(
    ("promise", "tag"),
    [
        ("p99<1s", "perf_latency_p99"),
        ("p99.9<1s", "perf_latency_p99.9"),
        ("mean<1s", "perf_latency_avg"),
        ("latency<1s", "perf_latency_avg"),
        ("ttft<1s", "time_to_first_token_avg"),
        ("ttft p99<1s", "time_to_first_token_p99"),
        ("tpot p95<1s", "inter_token_latency_p95"),
        ("gap p95<1s", "token_gap_p95"),
        ("errors<1%", "perf_error_rate"),
    ],
)
def test_slos_name_rows_of_the_table(promise, tag):
    assert metric_of(parse_slo(promise).terms[0]).tag == tag


@pytest.mark.parametrize("name", ["ttft", "ttfo", "ttfc", "tpot", "gap"])
def test_durations_of_streams_are_unknown_without_one(name):
    metric = named(name)
    assert metric is not None
    assert metric.get is not None
    assert metric.get(replace(found(), streaming=None, tokens=None)) is None


def test_gates_and_slos_mean_the_same_row():
    (gate,) = parse_gates("p99 > +5%")
    assert gate.metric.tag == metric_of(parse_slo("p99<1s").terms[0]).tag == known_tag("perf_latency")


def test_names_are_unique():
    for names in (
        [row.tag for row in METRICS],
        [row.short for row in (*METRICS, *OUTPUT_METRICS) if row.short],
    ):
        assert len(names) == len(set(names))
    assert named("p98").tag not in BY_TAG
    assert named("snr").source is Source.OUTPUT
    assert named("nothing") is None


def test_a_figure_comes_in_its_unit_with_its_interval():
    measurement = found()
    p50 = dict(measurement.latency_intervals)["p50"]
    assert BY_TAG["perf_latency_p50"].estimate(measurement).value == p50.value / 1e6
    assert BY_TAG["perf_throughput"].estimate(measurement) == measurement.infer_per_s
    assert BY_TAG["perf_error_rate"].estimate(measurement).value == 100 * measurement.failed_share
    sending = measurement.send_ns + measurement.receive_ns
    assert BY_TAG["perf_client_send_recv"].estimate(measurement).value == sending / 1e6


def test_the_servers_figures_are_per_request():
    counted = replace(found().server.counters, success_count=500, execution_count=250, queue_ns=10**9)
    measurement = replace(found(), server=replace(found().server, counters=counted))
    assert BY_TAG["perf_server_batch"].estimate(measurement).value == 8.0  # 2,000 inferences
    assert BY_TAG["perf_server_queue"].estimate(measurement).value == 2.0  # milliseconds
    for tag in ("perf_server_batch", "perf_server_queue"):
        assert BY_TAG[tag].estimate(replace(found(), server=None)) is None


def test_unmeasured_figures_are_none():
    assert BY_TAG["time_to_first_token_p99"].estimate(found()) is None
    assert BY_TAG["cpu_used_ram"].estimate(found()) is None


def test_a_percentile_needs_a_request_beyond_it():
    assert [named(name).need for name in ("throughput", "p50", "p95", "p99")] == [1, 2, 20, 100]
