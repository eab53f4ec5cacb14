"""Write the JSON Schema of every kind of answer into the package: `python -m tools.build_schemas`.

The schemas are generated from the dataclasses of the answers; a test fails when they are stale.
"""

import json
from pathlib import Path

import inferometer
from inferometer.base.answer_file import Answer, json_schema
from inferometer.report.kinds import TYPES
from inferometer.scenario.spec import scenario_schema

FOLDER = Path(inferometer.__file__).parent / "schemas"


def text(answer: type[Answer]) -> str:
    return json.dumps(json_schema(answer), indent=1) + "\n"


def scenario_text() -> str:
    """Return the schema of the files for `measure --scenario`."""
    return json.dumps(scenario_schema(), indent=1) + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for answer in TYPES:
        (FOLDER / f"{answer.kind}.json").write_text(text(answer))
    (FOLDER / "scenario.json").write_text(scenario_text())


if __name__ == "__main__":
    main()
