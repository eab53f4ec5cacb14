"""A twin of models that share the cores of a machine, alone and together: the effect of sharing is predicted.

The machine does not use the twin's code: see `tests.support.known_machine`.
"""

from collections.abc import Mapping, Sequence

import pytest

from inferometer.stats.result import Result
from inferometer.twin.check import checked_together
from inferometer.twin.fit import fit_twin, load_part
from inferometer.twin.twin import LoadForecast, Twin, TwinLoad
from tests.support.known_machine import KnownMachine, MachineModel, MachineStep
from tests.support.samples import sample

SECONDS = 6.0
MACHINE = KnownMachine(2)
BUSY = MachineModel("busy", (MachineStep("busy_fetch", 0.002), MachineStep("busy_model", 0.0, 0.026, 4)))
ASLEEP = MachineModel("asleep", (MachineStep("asleep_fetch", 0.004), MachineStep("asleep_model", 0.042)))
PICTURES = MachineModel("pictures", (MachineStep("decode", 0.0, 0.012), MachineStep("classify", 0.0, 0.004)))
PHOTOS = MachineModel("photos", (MachineStep("open", 0.0, 0.055), MachineStep("tell", 0.0, 0.002)))
WIDE = MachineModel(
    "wide", (MachineStep("wide_fetch", 0.003), MachineStep("wide_model", 0.0, 0.020, threads=2))
)
FEW: Sequence[Mapping[MachineModel, int]] = ({BUSY: 5}, {ASLEEP: 3}, {BUSY: 2, PHOTOS: 3}, {WIDE: 2, BUSY: 2})
MANY: Sequence[Mapping[MachineModel, int]] = (
    *({BUSY: count} for count in (3, 5, 6, 12, 16)),
    *({PICTURES: count} for count in (3, 12)),
    {ASLEEP: 3},
    {BUSY: 2, ASLEEP: 2},
    {BUSY: 2, PHOTOS: 3},
    {BUSY: 3, PHOTOS: 2},
    {PICTURES: 2, ASLEEP: 2},
    {WIDE: 3},
    {WIDE: 2, BUSY: 2},
)
HELD_OUT = sample(FEW, MANY)


@pytest.fixture(scope="module")
def twin() -> Twin:
    models = (BUSY, ASLEEP, PICTURES, PHOTOS, WIDE)
    return fit_twin([MACHINE.measured(model, (1, 2, 4, 8), SECONDS) for model in models])


def checked(twin: Twin, results: Sequence[Result]) -> list[LoadForecast]:
    parts = tuple(load_part(result, result.levels[-1]) for result in results)
    return checked_together(twin, TwinLoad(parts), results)


def test_the_server_has_the_cores_it_is_pinned_to(twin: Twin) -> None:
    busy = twin.model("busy")
    assert busy is not None
    assert busy.cores == pytest.approx(2.0, rel=0.01)
    assert [station.cpu for station in busy.stations] == [0.0, 1.0]


@pytest.mark.sampled
def test_models_that_share_cores_are_predicted_alone_and_together(twin: Twin) -> None:
    rows = [row for loads in HELD_OUT for row in checked(twin, MACHINE.together(loads, SECONDS, seed=50))]
    assert len(rows) == sum(map(len, HELD_OUT))
    for row in rows:
        said = f"{row.model} at {[(part.model, part.value) for part in row.load.parts]}"
        for figure, most in (("throughput", 0.15), ("p99", 0.30)):
            error = row.error(figure)
            assert error is not None, said
            assert abs(error) <= most, f"{said}: {figure} is off by {error:+.1%}"
    for figure in ("throughput", "p99"):
        assert sum(bool(row.is_covered(figure)) for row in rows) >= 0.8 * len(rows)


def test_the_p99_next_to_a_busy_model_is_halfway_to_a_whole_collision(twin: Twin) -> None:
    """This machine never puts work on a busy core while another one is free; real ones sometimes do."""
    for row in checked(twin, MACHINE.together({BUSY: 1, PICTURES: 1}, SECONDS, seed=50)):
        error = row.error("p99")
        assert error is not None
        assert 0.1 <= error <= 0.42
        assert row.is_covered("p99")
        assert abs(row.error("throughput") or 0.0) <= 0.15


def test_threads_of_a_step_show_in_its_core_time(twin: Twin) -> None:
    wide = twin.model("wide")
    assert wide is not None
    assert [station.threads for station in wide.stations] == [1.0, 2.0]


@pytest.mark.parametrize("loads", [{BUSY: 2, PICTURES: 3}, {WIDE: 1, PHOTOS: 1}])
def test_the_interval_covers_uncertain_shares_of_crowded_cores(
    twin: Twin, loads: Mapping[MachineModel, int]
) -> None:
    """More threads than cores, all with pauses: their total work is known, their shares are less certain."""
    rows = checked(twin, MACHINE.together(loads, SECONDS, seed=50))
    each_s = [sum(step.core_s * step.threads for step in model.steps) for model in loads]
    predicted, measured = (
        sum(seconds * value for seconds, value in zip(each_s, values, strict=True))
        for values in (
            [row.bands["throughput"].value for row in rows],
            [(row.measured or {})["throughput"] for row in rows],
        )
    )
    assert predicted == pytest.approx(measured, rel=0.05)
    for row in rows:
        assert abs(row.error("throughput") or 0.0) <= 0.25
        assert row.bands["throughput"].high > 1.2 * row.bands["throughput"].low
        assert row.is_covered("p99")
