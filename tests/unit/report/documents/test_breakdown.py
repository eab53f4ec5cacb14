"""Time breakdown: the pieces of a request add up to its latency."""

from dataclasses import replace

import pytest

from inferometer.report.documents.breakdown import level_pieces, server_pieces, steps
from tests.support.reports import sample_result


def test_pieces_add_up_to_the_mean_latency():
    for level in sample_result().levels[1:]:
        pieces = level_pieces(level.measurement)
        assert sum(pieces.values()) == pytest.approx(level.measurement.latency.mean_ns)


def test_without_server_statistics_the_rest_is_network_and_server():
    found = replace(sample_result().levels[0].measurement, server=None)
    assert list(level_pieces(found)) == ["client send", "network and server", "client receive"]
    assert server_pieces(None) == {}
    assert steps(None) == ()


def test_at_a_rate_the_wait_before_sending_is_a_piece(build):
    row = build.measurement(100, 50.0, 900, 0, (900, 900, 900, 900), transport=600, send=10, receive=20)
    assert [(name, round(ns / 1000)) for name, ns in level_pieces(row).items()] == [
        ("waiting to be sent", 300),
        ("client send", 10),
        ("network and server", 569),
        ("client receive", 20),
    ]


def test_a_step_called_twice_counts_twice(build):
    whole = build.ensemble(
        "top",
        build.counters(100, 1000),
        build.model("a", build.counters(200, 300, 100, (10, 150, 40))),
        build.model("b", build.counters(100, 400, 0, (0, 390, 0), executions=25)),
    )
    first, second = steps(whole)
    assert (first.calls, first.ns, first.batch) == (2.0, 600_000, 1.0)
    assert (second.calls, second.ns, second.batch) == (1.0, 400_000, 4.0)


def test_a_model_that_calls_others_itself_has_its_own_work(build):
    caller = build.model(
        "bls",
        build.counters(100, 1000, 50, (0, 900, 0)),
        build.model("a", build.counters(100, 300, 100, (0, 200, 0))),
    )
    own, called = steps(caller)
    assert list(own.pieces.items()) == [("queue", 50_000), ("own work", 600_000)]
    assert (called.name, called.ns) == ("a", 300_000)
