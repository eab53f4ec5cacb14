"""Remarks on clients that stand out."""

from dataclasses import replace

import pytest

from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS
from inferometer.stats.client_remarks import client_remarks_by_name
from inferometer.stats.clients import LostClient
from tests.support.client_figures import CLOCK, PLAIN


def said(*changes, is_open=True, is_capped=False):
    """Return remarks on this many clients, each with its changes."""
    clients = [
        replace(PLAIN, name=f"client {number}", place=f"10.0.0.{number}", **change)
        for number, change in enumerate(changes, start=1)
    ]
    remarks = client_remarks_by_name(clients, is_open=is_open, is_capped=is_capped)
    return [(remark.note, remark.text) for remark in remarks]


@pytest.mark.parametrize(
    ("asked", "missing"), [(2500, True), (1438, False), (None, False)], ids=["short", "whole", "not counted"]
)
def test_missing_requests_of_a_lost_client_are_counted(asked, missing):
    lost = LostClient(1.0, "its process has ended", 1, False)
    clients = [
        replace(PLAIN, request_count=1000, failed_count=8),
        replace(PLAIN, request_count=430, failed_count=0, lost=lost),
    ]
    texts = [row.text for row in client_remarks_by_name(clients, is_open=False, asked=asked)]
    words = f"1,438 of {asked or 0:,} requests are in the figures; the other {(asked or 0) - 1438:,} were not sent"
    assert any(text.startswith(words) for text in texts) == missing


def test_similar_clients_have_no_remarks():
    assert said({}, {}, {}) == []


@pytest.mark.parametrize(
    ("change", "how", "note", "text"),
    [
        (
            {"lost": LostClient(3.21, "its process has ended", 1, True, 0.43)},
            {},
            Note.CLIENT_LOST,
            "client 2 (10.0.0.2) was lost 3.2 s into the level: its process has ended; the other clients "
            "have sent its share since then; requests that it sent in the 0.43 s before that and the "
            "1 request that was outstanding then are missing from all figures",
        ),
        (
            {"lost": LostClient(0.0, "its node was lost", 0, False)},
            {"is_open": False},
            Note.CLIENT_LOST,
            "client 2 (10.0.0.2) was lost 0.0 s into the level: its node was lost; its share is missing; "
            "requests that it sent after its last report are missing from all figures",
        ),
        (
            {"lost": LostClient(-4.0, "its node was lost", 7, False)},
            {},
            Note.FEWER_CLIENTS,
            "client 2 (10.0.0.2) was lost before this level was measured: its node was lost; the other clients "
            "sent its share",
        ),
        (
            {"cpu_share": 0.97},
            {},
            Note.CLIENT_BUSY,
            "client 2 (10.0.0.2) is the limit: its busiest worker used 97 % of a core",
        ),
        (
            {"own_cpu_share": 0.95},
            {},
            Note.CLIENT_BUSY,
            "client 2 (10.0.0.2) is the limit: the process that coordinates its workers used 95 % of a core",
        ),
        (
            {"lag_p50_ns": 2 * NS_PER_MS},
            {},
            Note.CLIENT_BUSY,
            "client 2 (10.0.0.2) is the limit: it sent half of its requests more than 2.00 ms late",
        ),
        (
            {"floor_ns": 12 * NS_PER_MS},
            {},
            Note.CLIENT_FAR,
            "client 2 (10.0.0.2) is far away: its fastest answer took 12.0 ms, that of the others 2.00 ms",
        ),
        (
            {"clock": replace(CLOCK, uncertainty_ns=NS_PER_MS)},
            {},
            Note.CLIENT_CLOCK,
            "the clock of client 2 (10.0.0.2) is known only to within 1.00 ms, while its latency is 5.00 ms",
        ),
        (
            {"clock": replace(CLOCK, jumps=2)},
            {"is_open": False},
            Note.CLIENT_CLOCK,
            "the clock of client 2 (10.0.0.2) jumped 2 times",
        ),
    ],
)
def test_an_outlier_among_clients_is_named(change, how, note, text):
    assert said({}, change, {}, **how) == [(note, text)]


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ({"lag_p50_ns": 2 * NS_PER_MS}, {"is_capped": True}),  # requests wait because of the user's options
        ({"floor_ns": 12 * NS_PER_MS, "request_count": 10}, {}),  # too few requests
        ({"floor_ns": 2 * NS_PER_MS + 100_000}, {}),
        ({"clock": replace(CLOCK, uncertainty_ns=NS_PER_MS)}, {"is_open": False}),  # no due times
    ],
)
def test_clients_without_a_reason_for_a_remark(change, how):
    assert said({}, change, {}, **how) == []
