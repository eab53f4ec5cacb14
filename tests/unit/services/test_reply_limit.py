"""Size limit of a reply that is read."""

import pytest

from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.services.traffic import ANY_REPLY_LIMIT, REPLY_LIMIT, TEXT_FACTOR, reply_limit

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("outputs", "batch", "limit"),
    [
        ((TensorSpec("a", "FP32", (16,)),), 1, REPLY_LIMIT),
        ((TensorSpec("a", "FP32", (3, MILLION)),), 8, 8 * TEXT_FACTOR * 12 * MILLION),
        ((TensorSpec("a", "INT8", (5 * MILLION,)), TensorSpec("b", "FP64", (MILLION,))), 2, 16 * 13 * MILLION),
        ((TensorSpec("a", "FP32", (-1, 16)),), 1, ANY_REPLY_LIMIT),
        ((TensorSpec("a", "BYTES", (1,)),), 1, ANY_REPLY_LIMIT),
        ((TensorSpec("a", "FP32", (16,)), TensorSpec("b", "JSON", (1,))), 1, ANY_REPLY_LIMIT),
        ((), 1, ANY_REPLY_LIMIT),
    ],
    ids=["small", "large", "two outputs", "any size", "strings", "unknown type", "no outputs"],
)  # fmt: skip
def test_the_limit_is_the_size_of_the_outputs(
    outputs: tuple[TensorSpec, ...], batch: int, limit: int
) -> None:
    assert reply_limit(ModelSpec("m", "", (), outputs), batch) == limit
