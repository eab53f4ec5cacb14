"""A twin of servers with known steps: held-out loads are predicted, and the intervals cover them.

Fit and truth use the whole measuring path on a simulated clock. The truth does not use the twin's code: see
`tests.support.known_servers`.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from inferometer.load.plan import Open, Poisson
from inferometer.measure.instrument import LoadPoint
from inferometer.report.documents.twin import twin_document
from inferometer.twin.check import checked_result
from inferometer.twin.fit import fit_twin, measured_figures
from inferometer.twin.predict import forecast, predict_twin
from inferometer.twin.twin import LoadForecast, LoadPart, Twin, TwinLoad
from tests.support.known_servers import KnownServer, KnownStep, by_rate, in_flight
from tests.support.queues import exponential, lognormal
from tests.support.samples import sample

FITTED = (1, 2, 4, 8)
HELD_OUT = (3, 5, 6, 12, 16)
SECONDS = 8.0

STEADY = KnownServer(
    "steady",
    (
        KnownStep("steady_first", lognormal(4, 0.05)),
        KnownStep("steady_model", lognormal(10, 0.05)),
        KnownStep("steady_last", lognormal(2, 0.05)),
    ),
)
RANDOM = KnownServer("random", (KnownStep("random_model", exponential(8)),))
ROW = KnownServer(
    "row",
    (
        KnownStep("row_first", exponential(6)),
        KnownStep("row_model", exponential(5)),
        KnownStep("row_last", exponential(2)),
    ),
)
PAIR = KnownServer(
    "pair", (KnownStep("pair_model", lognormal(12, 0.5), 2), KnownStep("pair_last", lognormal(3, 0.5)))
)
CAPACITY = {STEADY: 100.0, RANDOM: 125.0, ROW: 166.0, PAIR: 166.0}


@pytest.fixture(scope="module")
def twin() -> Twin:
    points = [in_flight(number) for number in FITTED]
    return fit_twin([server.measured(points, SECONDS) for server in sample((STEADY, ROW), tuple(CAPACITY))])


def held_out(server: KnownServer, twin: Twin) -> Iterator[LoadForecast]:
    """Loads of every kind, measured with other random numbers than the fit."""
    most = CAPACITY[server]
    rows = (
        [in_flight(number) for number in sample(HELD_OUT[1::3], HELD_OUT)],
        [by_rate(most * part) for part in sample((0.8,), (0.5, 0.8))],
        [by_rate(most * part, is_random=True) for part in sample((0.7,), (0.3, 0.5, 0.7))],
    )
    for number, points in enumerate(rows):
        yield from checked_result(twin, server.measured(points, SECONDS, seed=50 + 10 * number))


@pytest.mark.sampled
def test_held_out_loads_are_predicted_and_inside_their_intervals(twin: Twin) -> None:
    rows = [row for server in sample((ROW,), CAPACITY) for row in held_out(server, twin)]
    assert len(rows) == sample(4, 40)
    for row in rows:
        said = f"{row.model} at {row.part.text}"
        for figure, most in (("throughput", 0.15), ("p99", 0.30)):
            error = row.error(figure)
            assert error is not None, said
            assert abs(error) <= most, f"{said}: {figure} is off by {error:+.1%}"
    for figure in ("throughput", "p99"):
        assert sum(bool(row.is_covered(figure)) for row in rows) >= 0.8 * len(rows)


def test_the_interval_grows_with_the_distance_and_states_its_basis(twin: Twin) -> None:
    widths, bases = [], []
    for number in (4, 6, 16, 64):
        (row,) = forecast(twin, TwinLoad((LoadPart("steady", "concurrency", number),)))
        widths.append(row.bands["p99"].high / row.bands["p99"].low)
        bases.append(row.basis)
    assert bases == ["measured", "interpolated", "extrapolated", "extrapolated"]
    assert widths == sorted(widths)
    assert widths[-1] > 1.3 * widths[0]


def test_beyond_the_capacity_there_is_no_latency(twin: Twin) -> None:
    (row,) = forecast(twin, TwinLoad((LoadPart("steady", "request_rate", 150.0),)))
    assert row.is_overloaded
    assert set(row.bands) == {"throughput"}
    assert row.bands["throughput"].value == pytest.approx(100, rel=0.03)
    assert not row.may_keep_up
    assert "below the requested rate" in twin_document(predict_twin(twin, [row.load])).verdict


def test_another_instance_of_the_slow_step_is_predicted(twin: Twin) -> None:
    """Measured on the same server with two instances."""
    first, model, last = STEADY.steps
    twice = KnownServer("steady", (first, replace(model, instances=2), last))
    rows = checked_result(twin, twice.measured([in_flight(number) for number in (2, 8)], SECONDS))
    for row in rows:
        assert [setting.text for setting in row.load.settings] == ["steady_model.instances=2"]
        assert row.basis == "extrapolated"
        assert abs(row.error("throughput") or 0.0) <= 0.15
        assert abs(row.error("p99") or 0.0) <= 0.30
        assert row.is_covered("throughput")
        assert row.is_covered("p99")


@pytest.mark.parametrize("rate", [0.05, 1.0, 30.0])
def test_throughput_equals_a_rate_that_the_server_keeps_up_with(twin: Twin, rate: float) -> None:
    """For any duration of the runs of the fit."""
    (row,) = forecast(twin, TwinLoad((LoadPart("steady", "request_rate", rate),)))
    assert not row.is_overloaded
    found = row.bands["throughput"]
    assert found.value == pytest.approx(rate, rel=0.003)
    assert found.low < rate <= found.high < 1.2 * rate
    alone = forecast(twin, TwinLoad((LoadPart("steady", "request_rate", 0.01),)))[0].bands["p99"].value
    assert row.bands["p99"].value == pytest.approx(alone, rel=0.4)


FOUR = KnownServer("four", (KnownStep("four_model", exponential(40), 4),))
FOUR_PER_S = 100.0


@pytest.fixture(scope="module")
def four() -> Twin:
    return fit_twin([FOUR.measured([in_flight(number) for number in FITTED], SECONDS)])


def test_a_rate_inside_the_interval_of_the_capacity_is_undecided(four: Twin) -> None:
    for rate, is_undecided in ((104.0, True), (150.0, False)):
        load = TwinLoad((LoadPart("four", "request_rate", rate),))
        (row,) = forecast(four, load)
        assert (row.is_overloaded, row.may_keep_up) == (True, is_undecided)
        assert row.bands["throughput"].high <= rate
        said = twin_document(predict_twin(four, [load])).verdict
        assert ("not certain whether the server keeps up" in said) == is_undecided
        assert ("below the requested rate" in said) != is_undecided


def test_near_saturation_a_small_error_in_service_time_is_a_large_one_in_latency(four: Twin) -> None:
    """At a rate; with the same service times at half the load there is hardly any wait."""
    parts = [LoadPart("four", "request_rate", FOUR_PER_S * busy, "poisson") for busy in (0.5, 0.9)]
    rows = [forecast(four, TwinLoad((part,)))[0] for part in parts]
    assert not any(row.is_overloaded for row in rows)
    light, heavy = (row.bands["p99"] for row in rows)
    assert heavy.high / heavy.value > 1.15 * light.high / light.value


@pytest.mark.sampled
@pytest.mark.parametrize("server", sample([FOUR], [FOUR, RANDOM]), ids=lambda server: server.name)
def test_unknown_random_arrivals_are_covered_by_the_intervals(server: KnownServer) -> None:
    """At 90 % of the capacity: for every figure, about 90 of 100 measurements."""
    fits, runs, fewest = sample((1, 4, 3), (5, 10, 41))
    rate = 0.9 * {RANDOM: 125.0, FOUR: FOUR_PER_S}[server]
    covered = dict.fromkeys(("mean", "p90", "p99"), 0)
    for fitted in range(fits):
        twin = fit_twin([server.measured([in_flight(n) for n in FITTED], SECONDS, seed=1000 * fitted)])
        (row,) = forecast(twin, TwinLoad((LoadPart(server.name, "request_rate", rate, "poisson"),)))
        for number in range(runs):
            schedule = Poisson(rate, 100 * fitted + number + 1)
            point = LoadPoint("request_rate", rate, Open(schedule), rate)
            result = server.measured([point], SECONDS, seed=1000 * fitted + 31 * number + 7)
            found = result.levels[0].measurement
            assert found is not None
            for name, value in measured_figures(found).items():
                if name in covered:
                    covered[name] += row.bands[name].low <= value <= row.bands[name].high
    assert all(count >= fewest for count in covered.values()), covered


@pytest.mark.parametrize(("instances", "found"), [(1, "1 in service"), (3, "3 in service")])
def test_instances_are_found_from_latencies_alone(instances: int, found: str) -> None:
    server = KnownServer("plain", (KnownStep("plain_model", lognormal(10, 0.2), instances),))
    result = server.measured([in_flight(number) for number in (1, 2, 4, 8)], 3.0)
    rows = [
        replace(level, measurement=replace(level.measurement, server=None))
        for level in result.levels
        if level.measurement is not None
    ]
    twin = fit_twin([replace(result, levels=tuple(rows))])
    assert found in twin.notes[0]
    (row,) = checked_result(twin, server.measured([in_flight(6)], 3.0, seed=20))
    assert abs(row.error("throughput") or 0) < 0.05
    assert abs(row.error("p99") or 0) < 0.15
