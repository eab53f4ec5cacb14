"""Number of clients that a load needs: the exact arithmetic, and the answer."""

import json
import shlex
from importlib import import_module
from typing import Any

import pytest

from inferometer.options.command_line import Request, read
from inferometer.options.machines import ClientsOptions
from inferometer.report.document import Messages, Tone
from inferometer.selftest.clients_document import Planned, document, to_json
from inferometer.selftest.clients_needed import Bounds, Machines, WantedLoad, clients_needed, wire_bytes
from inferometer.selftest.one_worker import OneWorker, mean_of
from inferometer.stats.estimate import Estimate

COST = Estimate(20.0, 16.0, 24.0)  # µs: with 15 % more in a cluster 23.0, 18.4 and 27.6
FAST = 1e15  # a network that is never the limit


def needed(
    rate: float = 1e6, cost: Estimate = COST, sent: float = 400, received: float = 200, **machines: Any
):
    chosen = {"cores": 4, "network_bit_s": FAST, "headroom": 0.0, **machines}
    return clients_needed(WantedLoad(rate, cost, sent, received), Machines(**chosen))


def test_cores_are_rate_times_the_cost_of_a_request() -> None:
    found = needed()
    assert (found.cores.value, found.cores.low, found.cores.high) == pytest.approx((23.0, 18.4, 27.6))
    assert found.by_cpu == Bounds(value=6, low=5, high=7)  # of 4 cores
    assert (found.clients, found.limit, found.by_network) == (7, "CPU", 1)
    assert found.per_client == pytest.approx(4e6 / 23.0)


@pytest.mark.parametrize(
    ("headroom", "cores", "clients"),
    [(0.0, 1, 28), (0.0, 4, 7), (0.31, 4, 10), (0.31, 10, 4), (0.5, 4, 14), (0.0, 64, 1)],
)
def test_headroom_and_cores_decide_how_many(headroom: float, cores: int, clients: int) -> None:
    assert needed(headroom=headroom, cores=cores).clients == clients  # 27.6 / (1 - headroom) / cores


def test_a_whole_number_is_not_rounded_up() -> None:
    assert needed(rate=1e6, cost=Estimate(20.0), cores=23).clients == 1
    assert needed(rate=3e6, cost=Estimate(20.0), cores=23).clients == 3
    assert needed(rate=3e6 + 1, cost=Estimate(20.0), cores=23).clients == 4


def test_without_an_interval_the_value_alone_counts() -> None:
    assert needed(cost=Estimate(20.0)).by_cpu == Bounds(6, 6, 6)
    assert str(needed(cost=Estimate(20.0)).by_cpu) == "6"
    assert str(needed().by_cpu) == "5 to 7"


@pytest.mark.parametrize(("size", "wire"), [(0, 0), (1, 91), (1448, 1538), (1449, 1629), (14480, 15380)])
def test_bytes_on_the_wire_include_packet_headers(size: int, wire: int) -> None:
    assert wire_bytes(size) == wire


@pytest.mark.parametrize(("sent", "received"), [(14480, 200), (200, 14480)])
def test_the_busier_direction_is_the_limit(sent: float, received: float) -> None:
    found = needed(sent=sent, received=received, network_bit_s=10e9)
    assert max(found.sent_bit_s, found.received_bit_s) == 15380 * 8 * 1e6  # 123 Gbit/s
    assert (found.by_network, found.clients, found.limit) == (13, 13, "network")
    assert found.bounds == Bounds(13, 13, 13)
    assert needed(sent=sent, received=received, network_bit_s=10e9, headroom=0.5).by_network == 25
    assert found.per_client == pytest.approx(10e9 / (15380 * 8))


@pytest.mark.parametrize(
    ("rate", "commands", "is_mergeable"),
    [(100e3, 1, True), (625e3, 1, True), (626e3, 2, False), (2e6, 4, False)],
)
def test_one_command_merges_a_limited_rate(rate: float, commands: int, is_mergeable: bool) -> None:
    found = needed(rate=rate)
    assert (found.commands, found.is_mergeable) == (commands, is_mergeable)


def test_the_interval_is_that_of_a_mean() -> None:
    found = mean_of((9.0, 10.0, 11.0))  # half width 4.3027 / sqrt(3)
    assert (found.value, found.low, found.high) == pytest.approx((10.0, 10 - 2.48414, 10 + 2.48414), rel=1e-5)
    assert mean_of((7.0,)) == Estimate(7.0)
    assert mean_of((1.0, 9.0)).low == 0.5  # always above 0


def planned(rate: float = 1e6, limits: tuple[str, ...] = ("client",) * 3, **asked: Any) -> Planned:
    worker = OneWorker((90e3,) * 3, (19.0, 20.0, 21.0), 400.0, 200.0, limits, 0)
    options = ClientsOptions(rate=rate, **asked)
    machines = Machines(4, 10e9, 0.3)
    load = WantedLoad(rate, worker.cost_us, worker.sent_bytes, worker.received_bytes)
    return Planned(
        options, {"processor": "a processor", "cores": 8}, worker, machines, clients_needed(load, machines)
    )


@pytest.mark.parametrize(("rate", "grpc"), [(300e3, False), (300e3, True), (2e6, False)])
def test_measure_accepts_the_suggested_command(rate: float, grpc: bool) -> None:
    found = planned(rate, grpc=grpc)
    program, name, *words = shlex.split(found.command)
    request = read(words, import_module(f"inferometer.cli.{name}").COMMAND)
    assert program == "inferometer"
    assert isinstance(request, Request)
    given = request.load
    assert (given["ray"], given["clients"], given["workers"]) == ("auto", found.clients_each, 4)
    assert given["request_rate"].start == rate / found.needed.commands
    assert given["client_resources"] == {"CPU": 4.0}
    assert found.clients_each * found.needed.commands >= found.needed.clients


def test_the_answer_lists_measurements_and_assumptions() -> None:
    shown = document(planned(400e3))
    assert [section.title for section in shown.sections] == [
        "Measured here",
        "Needed for the load",
        "Assumptions about the other machines",
    ]
    assert shown.tone is Tone.GOOD
    assert shown.verdict == (
        "400,000 requests/s need 4 clients of 4 cores and 10.0 Gbit/s (3 to 4 within the uncertainty); "
        "CPU is the limit."
    )


def test_doubts_are_reported() -> None:
    notes = document(planned(2e6, limits=("machine",) * 3)).sections[-1].blocks[0]
    assert isinstance(notes, Messages)
    assert [note.text.split()[0] for note in notes.rows] == ["The", "One"]
    assert "idle" in notes.rows[0].advice
    assert "Start 4 commands" in notes.rows[1].advice


def test_the_file_has_all_figures() -> None:
    found = json.loads(to_json(planned()))
    assert found["needed"]["clients"] == planned().needed.clients
    assert found["measured"]["cpu_us_per_request"]["value"] == 20.0
    assert found["needed"]["command_line"] == planned().command
