"""Answers and their files: the shipped schemas match the written files, including those of 0.1."""

import json
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

from inferometer.base.answer_file import from_json, plain, to_json
from inferometer.base.errors import UsageError
from inferometer.base.notes import Note, Remark
from inferometer.report.kinds import TYPES
from inferometer.stats.result import Result
from inferometer.tune.study import Study
from tests.support.capacity_plans import sample_capacity
from tests.support.reports import sample_comparison, sample_diagnosis, sample_result
from tools.build_schemas import FOLDER, text

EARLIER = Path(__file__).parents[2] / "golden" / "v0.1"


@cache
def validator(kind: str) -> Validator:
    """Validator of a schema, which is itself checked only once."""
    schema = json.loads((FOLDER / f"{kind}.json").read_text())
    made = validator_for(schema)
    made.check_schema(schema)
    return made(schema)


@pytest.mark.parametrize("answer", TYPES, ids=lambda answer: answer.kind)
def test_schemas_match_the_types(answer):
    assert (FOLDER / f"{answer.kind}.json").read_text() == text(answer), "run python -m tools.build_schemas"


@pytest.mark.parametrize("make", [sample_result, sample_comparison, sample_diagnosis, sample_capacity])
def test_written_files_match_their_schema(make):
    document = json.loads(to_json(make()))
    validator(document["kind"]).validate(document)


@pytest.mark.parametrize("path", sorted(EARLIER.glob("*.json")), ids=lambda path: path.stem)
def test_files_of_0_1_and_their_conversions_match_the_schema(path):
    earlier = json.loads(path.read_text())
    again = json.loads(to_json(from_json(path.read_text(), path.name, *TYPES)))
    validator(again["kind"]).validate(earlier)
    validator(again["kind"]).validate(again)


@pytest.mark.parametrize(
    ("place", "value"),
    [("schema", 2), ("kind", "study"), ("levels", 3), ("remarks", [{"note": "NO_SUCH", "text": ""}])],
)
def test_a_modified_document_violates_the_schema(place, value):
    document = json.loads(to_json(sample_result())) | {place: value}
    with pytest.raises(jsonschema.ValidationError):
        validator("result").validate(document)


def test_a_file_declares_its_kind():
    with pytest.raises(UsageError, match="'it' is not a study"):
        from_json(to_json(sample_result()), "it", Study)


def test_notes_are_stored_by_name():
    remark = Remark(Note.FAILURES, "3 of 10 requests failed")
    assert plain(remark) == {"note": "FAILURES", "text": "3 of 10 requests failed"}
    document = json.loads(to_json(sample_result())) | {"remarks": [plain(remark)]}
    assert from_json(json.dumps(document), "it", Result).remarks == (remark,)


def test_values_without_a_json_form_are_rejected():
    with pytest.raises(TypeError, match="bytes does not belong in an answer"):
        plain({"body": b"\x00"})
