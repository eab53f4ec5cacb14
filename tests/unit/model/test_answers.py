"""Server answers, validated against their shapes."""

import pytest

from inferometer.base.errors import PeerError
from inferometer.model.answers import (
    CONFIG,
    METADATA,
    MOST_DIMENSIONS,
    MOST_LISTED,
    SERVER,
    STATISTICS,
    Shape,
    checked,
)

ROW = {"name": "m", "version": "1"}
LISTS = (
    (METADATA, MOST_DIMENSIONS, lambda n: {"inputs": [{"name": "I", "datatype": "FP32", "shape": [1] * n}]}),
    (METADATA, MOST_LISTED, lambda n: {"versions": ["1"] * n}),
    (SERVER, MOST_LISTED, lambda n: {"extensions": ["statistics"] * n}),
    (CONFIG, MOST_LISTED, lambda n: {"instance_group": [{"count": 1}] * n}),
    (CONFIG, MOST_LISTED, lambda n: {"instance_group": [{"gpus": [0] * n}]}),
    (CONFIG, MOST_LISTED, lambda n: {"dynamic_batching": {"preferred_batch_size": [1] * n}}),
    (STATISTICS, MOST_LISTED, lambda n: {"model_stats": [{**ROW, "batch_stats": [{"batch_size": 1}] * n}]}),
)


@pytest.mark.parametrize(("shape", "most", "made"), LISTS)
def test_lists_that_reports_show_in_full_are_limited(shape: Shape, most: int, made) -> None:
    """Each of a million dimensions or instance groups costs time in every report."""
    checked(made(most), shape, "the answer")
    with pytest.raises(PeerError, match=f"must have a list of up to {most:,} as"):
        checked(made(most + 1), shape, "the answer")
