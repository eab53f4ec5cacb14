"""Writes the JSON Schema of every kind of answer beside the code: `python -m tools.build_schemas`.

They are made from the dataclasses that are kept in the files; a test says when they are stale.
"""

import json
from pathlib import Path

import inferometer
from inferometer.base.answer_file import Answer, json_schema
from inferometer.capacity.plan import CapacityPlan
from inferometer.compare.comparison import Comparison
from inferometer.compare.interference import Interference
from inferometer.compare.regression import RegressionCheck
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.scenario.spec import scenario_schema
from inferometer.stats.inspection import Inspection
from inferometer.stats.result import Result
from inferometer.tune.study import Study
from inferometer.twin.twin import Twin

ANSWERS: tuple[type[Answer], ...] = (
    Result,
    Comparison,
    Interference,
    Diagnosis,
    Study,
    Inspection,
    RegressionCheck,
    CapacityPlan,
    Twin,
)
FOLDER = Path(inferometer.__file__).parent / "schemas"


def text(answer: type[Answer]) -> str:
    return json.dumps(json_schema(answer), indent=1) + "\n"


def scenario_text() -> str:
    """Of the files that users write for `measure --scenario`."""
    return json.dumps(scenario_schema(), indent=1) + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for answer in ANSWERS:
        (FOLDER / f"{answer.kind}.json").write_text(text(answer))
    (FOLDER / "scenario.json").write_text(scenario_text())


if __name__ == "__main__":
    main()
