"""Sizes of statistical samples: small and fixed in the suite, full in `make samples`.

Mark a test that draws such a sample with `pytest.mark.sampled`; `make samples` runs these tests. It also runs tests
marked `pytest.mark.only_sampled`: variations of tests in the suite that take too long for it.
"""

import os
from typing import TypeVar

IS_WHOLE = "INFEROMETER_SAMPLES" in os.environ

Size = TypeVar("Size")


def sample(few: Size, whole: Size) -> Size:
    """Return the size for the suite, or the full size in `make samples`."""
    return whole if IS_WHOLE else few


def examples(few: int) -> int:
    """Return the number of Hypothesis cases: a few in the suite, or the number set by `make fuzz`."""
    return int(os.environ.get("INFEROMETER_FUZZ", few))
