"""Which loads the twin is judged by, and what the verdict makes of them; nothing is measured."""

import argparse
import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import twin_loads
from benchmarks.twin import Pinning, cores_of
from benchmarks.twin_loads import IMAGES, MIXES, MODELS, SERVERS, fitted, held_out, models_of, with_steps
from benchmarks.twin_verdict import POINTS, as_json, judged, saved, table, verdicts
from inferometer.base.answer_file import write
from tests.support.known_servers import in_flight
from tests.support.twins import known_result, sample_twin


def points(models: tuple[str, ...]) -> list[twin_loads.HeldOut]:
    most = dict.fromkeys(models, 20.0)
    servers = [name for name in SERVERS if name in models or name == MIXES]
    return [
        point
        for server in servers
        for point in held_out(server, most if server == MIXES else {server: most[server]})
    ]


@pytest.mark.parametrize("models", [MODELS, tuple(name for name in MODELS if name != IMAGES)])
def test_there_are_enough_points_with_and_without_the_images(models: tuple[str, ...]) -> None:
    found = points(models)
    assert sum(len(point.loads) for point in found) >= POINTS
    assert len({point.name for point in found}) == len(found)
    assert sum(len(point.loads) == 2 for point in found) >= 4
    assert all(load.model in models for point in found for load in point.loads)


def test_the_images_are_left_out_where_their_packages_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin_loads, "IMAGE_PACKAGES", ("no_such_package",))
    assert models_of(IMAGES) == ()
    assert models_of(MIXES) == tuple(name for name in MODELS if name != IMAGES)
    assert twin_loads.missing_packages() == ("no_such_package",)


def test_a_server_loads_the_steps_of_its_models() -> None:
    assert with_steps(("no_cores",)) == ("no_cores", "cores_fetch", "cores_model")
    assert with_steps((IMAGES,)) == (IMAGES, "preprocessing", "classifier", "postprocessing")


def test_batches_are_measured_and_read_before_the_loads_of_a_fit(tmp_path: Path) -> None:
    names = [name for name, _ in fitted("no_batches")]
    assert names == ["fit-no_batches-b8", "fit-no_batches"]
    for number, name in enumerate([*reversed(names), "no_batches-c3"]):
        write(replace(known_result(), started_at=str(number)), tmp_path / f"{name}.0.json")
    fits, held = saved(tmp_path)
    assert [row.started_at for row in fits] == ["1", "0"]
    assert [[row.started_at for row in results] for results in held] == [["2"]]


def test_what_is_in_a_folder_is_judged_without_a_server(tmp_path: Path) -> None:
    write(known_result(), tmp_path / "fit-known.0.json")
    write(replace(known_result(), levels=known_result().levels[-1:]), tmp_path / "known-c2.0.json")
    twin, rows, results = judged(tmp_path)
    assert [model.name for model in twin.models] == ["known"]
    assert [row.part.value for row in rows] == [in_flight(2).value]
    assert len(results) == 2
    assert all(is_kept for is_kept, _ in verdicts(rows))


def test_the_verdict_counts_large_errors_and_figures_outside_their_intervals() -> None:
    good, *_ = sample_twin().forecasts
    measured = dict(good.measured or {})
    slow = replace(good, measured=measured | {"p99": 2 * measured["p99"]})
    none = sample_twin().forecasts[-1]
    assert [is_kept for is_kept, _ in verdicts([good] * 5)] == [True] * 4
    said = [text for is_kept, text in verdicts([good] * 3 + [slow]) if not is_kept]
    assert said == [
        "p99 within 30%: 3 of 4 points, at worst off by 51.9%",
        "p99 inside its 90 % interval: 3 of 4 points",
    ]
    lines = table([good, slow, none])
    assert [line.count(" OFF ") for line in lines[2:]] == [0, 1, 2]
    assert [row["p99"]["is_inside"] for row in as_json([good, slow, none])] == [True, False, None]


def test_cores_are_parsed_and_missing_ones_rejected() -> None:
    core = min(os.sched_getaffinity(0))
    assert cores_of(f"{core}-{core},{core}") == {core}
    for text in ("x", "", "4000-4001", "3-1"):
        with pytest.raises(argparse.ArgumentTypeError):
            cores_of(text)
    assert str(Pinning(frozenset({1, 0}), frozenset({2}))) == "server on cores 0,1, client on 2"
