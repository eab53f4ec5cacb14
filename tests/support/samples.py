"""Sizes of statistical samples: small and fixed in the suite, whole in `make samples`.

Mark a test that draws such a sample with `pytest.mark.sampled`, which is what `make samples` runs. It also runs what is
marked `pytest.mark.only_sampled`: repetitions on other parts of what the suite has tested, too long for it.
"""

import os
from typing import TypeVar

IS_WHOLE = "INFEROMETER_SAMPLES" in os.environ

Size = TypeVar("Size")


def sample(few: Size, whole: Size) -> Size:
    """Return what the suite draws, or the whole sample when `make samples` asks for it."""
    return whole if IS_WHOLE else few


def examples(few: int) -> int:
    """Return how many cases Hypothesis draws: a few in the suite, or as many as `make fuzz` asks for."""
    return int(os.environ.get("INFEROMETER_FUZZ", few))
