"""Every test that docs/measurement.md names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "measurement.md").read_text()
ROWS = re.findall(r"^\| ([^|]+) \| [^|]+ \| `(tests/[\w/]+\.py)::(\w+)` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("term", "path", "name"), ROWS, ids=[row[0] for row in ROWS])
def test_definition_is_pinned_by_a_test_that_exists(term, path, name):
    assert f"def {name}(" in (ROOT / path).read_text()


def test_every_row_of_the_table_names_a_test():
    table = PAGE.partition("## Which test pins what")[2]
    assert len(ROWS) == len(re.findall(r"^\| (?!term |--)", table, re.MULTILINE)) > 30


def test_files_named_in_the_text_exist():
    for path in re.findall(r"`(tests/[\w/]+\.py)`", PAGE):
        assert (ROOT / path).is_file()
