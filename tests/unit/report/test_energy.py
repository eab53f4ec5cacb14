"""Energy in reports and as a figure."""

from dataclasses import replace
from types import ModuleType

from inferometer.base.answer_file import from_json, to_json
from inferometer.report.documents.energy import energy_section
from inferometer.report.documents.measurement import measurement_document
from inferometer.report.markdown import markdown
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import BY_TAG, named
from inferometer.stats.machine_figures import DeviceEnergy, EnergyFigures
from inferometer.stats.result import Result

ENERGY = EnergyFigures(
    seconds=10.0, joules=4000.0, power_w=Estimate(400.0, 396.0, 404.0), idle_w=80.0,
    per_request=Estimate(8.0, 7.9, 8.1), per_inference=Estimate(2.0), per_token=None,
    devices=(DeviceEnergy("GPU-1", 4000.0, 4000.0, 3950.0, 80.0), DeviceEnergy("GPU-2", 9.0, 9.0, 9.0, is_used=False)),
)  # fmt: skip


def result(build: ModuleType, *found: EnergyFigures | None) -> Result:
    one = build.measurement(1000, 3208.51, 307, 50, (300, 310, 320, 330))
    made: Result = build.result(
        *(build.level(replace(one, energy=row), value=n) for n, row in enumerate(found, 1))
    )
    return made


def test_each_level_has_a_row_and_an_invalid_one_its_reason(build: ModuleType) -> None:
    saved = result(build, ENERGY, replace(ENERGY, invalid="other programs used GPU-1 (process 12)"))
    text = markdown(measurement_document(from_json(to_json(saved), "saved", Result)))
    assert "| 1 | 400 W | 80.0 W | 8.00 ±1.2 % | 4,000 J | yes |" in text
    assert "| 2 | 400 W | 80.0 W | 8.00 ±1.2 % | 4,000 J | no |" in text
    assert "Invalid at concurrency 2: other programs used GPU-1 (process 12)." in text
    assert "GPU-2 is not included" in text


def test_no_section_without_a_sensor(build: ModuleType) -> None:
    assert energy_section(result(build, None)) is None


def test_an_invalid_figure_is_not_used(build: ModuleType) -> None:
    metric = named("energy per request")
    assert metric is BY_TAG["energy_per_request"]
    levels = result(build, ENERGY, replace(ENERGY, invalid="too short")).levels
    assert [metric.estimate(row.measurement) for row in levels] == [Estimate(8.0, 7.9, 8.1), None]
