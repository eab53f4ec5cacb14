"""One case of each kind of `make planted`, which has 20 of each."""

import random
from pathlib import Path

import pytest

from benchmarks.planted_series import CASES, WRONG

pytestmark = pytest.mark.live


@pytest.mark.parametrize("kind", CASES)
def test_a_planted_trouble_is_never_judged_wrong(kind: str, tmp_path: Path) -> None:
    found = CASES[kind](random.Random(f"{kind} 0"), tmp_path)
    assert found.outcome != WRONG, found.words
