"""Everything that reads bytes of others, in short: what once went wrong, and a few random inputs for each family."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.base.errors import InferometerError
from tests.fuzz.families import FAMILIES
from tests.fuzz.harness import CORPUS, DRAWN, Choices, Family, bounded
from tests.support.samples import examples

EXAMPLES = examples(8)

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@every_family
def test_random_inputs_give_a_value_or_an_error_of_ours(family: Family) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None)
    @given(st.binary(min_size=DRAWN, max_size=DRAWN))
    def holds(raw: bytes) -> None:
        family.try_one(family.make(Choices(raw)))

    holds()


KEPT = [
    (family, path)
    for family in FAMILIES
    for path in (sorted((CORPUS / family.name).iterdir()) if (CORPUS / family.name).is_dir() else ())
]


@pytest.mark.parametrize(("family", "path"), KEPT, ids=lambda value: getattr(value, "name", ""))
def test_what_once_went_wrong(family: Family, path) -> None:
    family.try_one(path.read_bytes())


def test_every_folder_of_the_corpus_has_its_family() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= {family.name for family in FAMILIES}


@every_family
def test_good_inputs_are_among_the_cases(family: Family) -> None:
    """Without damage, which zeros leave out, something is read: else nothing behind the first check is tried."""

    def is_read(first: int, second: int) -> bool:
        try:
            family.read(family.make(Choices(bytes([first, second, *bytes(DRAWN)]))))
        except InferometerError:
            return False
        return True

    with bounded():
        assert any(is_read(first, second) for first in range(8) for second in range(8))
