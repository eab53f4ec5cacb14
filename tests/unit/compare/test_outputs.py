"""Similarity of outputs: every figure on values that can be calculated by hand."""

import math

import numpy as np
import pytest

from inferometer.compare.comparison import OutputSimilarity
from inferometer.compare.outputs import similarities
from inferometer.model.numbers import DATATYPES, bf16_bytes, encode
from inferometer.model.spec import Tensor

NAN, INF = math.nan, math.inf


def tensor(values, datatype="FP32", name="OUT", shape=None):
    if datatype == "BYTES":
        data = encode("BYTES", values)
    elif datatype == "BF16":
        data = bf16_bytes(np.array(values, dtype=np.float32))
    else:
        data = np.array(values).astype(DATATYPES[datatype].numpy).tobytes()
    return Tensor(name, datatype, np.shape(values) if shape is None else shape, data)


def compare(base, other) -> OutputSimilarity:
    (found,) = similarities([{base.name: base}], [{other.name: other}])
    return found


def test_errors_of_floats():
    found = compare(tensor([3.0, 4.0, 0.0, 0.0]), tensor([3.0, 4.0, 0.0, 0.5]))
    assert found.elements == 4
    assert found.exact == 0.75
    assert found.max_abs == 0.5
    assert found.mean_abs == 0.125
    assert found.relative == pytest.approx(0.1)
    assert found.snr_db == pytest.approx(20)
    assert found.cosine == pytest.approx(25 / 5 / math.sqrt(25.25))
    assert not found.is_identical


def test_equal_outputs_are_identical_and_have_no_noise():
    found = compare(tensor([1.0, NAN, -INF]), tensor([1.0, NAN, -INF]))
    assert found.is_identical
    assert found.snr_db is None
    assert found.non_finite == 0
    assert found.cosine == pytest.approx(1)


@pytest.mark.parametrize(
    ("base", "other", "wrong"),
    [
        ([1.0, NAN], [1.0, 2.0], 1),
        ([1.0, INF], [1.0, -INF], 1),
        ([NAN, NAN], [INF, 3.0], 2),
        ([1.0, INF], [1.0, INF], 0),
    ],
)
def test_values_not_finite_on_one_side_are_counted_and_excluded(base, other, wrong):
    found = compare(tensor(base), tensor(other))
    assert found.non_finite == wrong
    assert found.max_abs in (None, 0)


def test_half_and_single_precision_compare_by_value():
    found = compare(tensor([0.5, 1.25]), tensor([0.5, 1.25], "FP16"))
    assert found.datatype == "FP32 / FP16"
    assert found.is_identical


def test_bf16_is_compared_by_value():
    assert compare(tensor([1.0, -2.5], "BF16"), tensor([1.0, -2.0], "BF16")).max_abs == 0.5


def test_huge_and_tiny_values_do_not_overflow():
    for scale in (1e300, 1e-300):
        found = compare(tensor([3 * scale, 4 * scale], "FP64"), tensor([3 * scale, 4.5 * scale], "FP64"))
        assert found.relative == pytest.approx(0.1)
    assert compare(tensor([1.7e308], "FP64"), tensor([-1.7e308], "FP64")).max_abs is None


def test_an_all_zero_baseline_has_no_ratio():
    found = compare(tensor([0.0, 0.0]), tensor([0.0, 1.0]))
    assert (found.relative, found.snr_db, found.cosine) == (None, None, None)
    assert found.max_abs == 1


@pytest.mark.parametrize("datatype", ["INT8", "UINT64", "INT32"])
def test_integers_are_compared_exactly(datatype):
    found = compare(tensor([1, 2, 3, 4], datatype), tensor([1, 2, 3, 6], datatype))
    assert found.exact == 0.75
    assert found.max_abs == 2
    assert found.snr_db is None


def test_large_integers_differ_by_their_last_bit():
    assert compare(tensor([2**62], "INT64"), tensor([2**62 + 1], "INT64")).exact == 0


def test_strings_are_compared_exactly():
    found = compare(tensor(["cat", "dog"], "BYTES"), tensor(["cat", "cow"], "BYTES"))
    assert found.exact == 0.5
    assert found.max_abs is None


@pytest.mark.parametrize(
    ("name", "base", "other", "expected"),
    [
        ("OUT", [[0.7, 0.3], [0.2, 0.8]], [[0.6, 0.4], [0.6, 0.4]], 0.5),  # sums to 1
        ("logits", [[7.0, 3.0, -1.0]], [[6.0, 3.0, -1.0]], 1.0),  # by name
        ("AUDIO", [[0.7, 0.2]], [[0.7, 0.2]], None),
        ("scores", [[1.0]], [[1.0]], None),  # a single class is not a classification
        ("scores", 1.0, 1.0, None),
    ],
)
def test_top_1_where_it_looks_like_classes(name, base, other, expected):
    assert compare(tensor(base, name=name), tensor(other, name=name)).top1 == expected


@pytest.mark.parametrize(
    ("base", "other", "words"),
    [
        (tensor([1.0, 2.0]), tensor([1.0]), "shape 2 became 1"),
        (tensor([[1.0], [2.0]]), tensor([[1.0, 2.0]]), "shape 2x1 became 1x2"),
        (tensor(["1"], "BYTES"), tensor([1.0]), "BYTES became FP32"),
        (tensor([1.0, 2.0]), tensor([1.0], shape=(2,)), "2 elements became 1"),
        (tensor([1.0, 2.0]), Tensor("OUT", "FP32", (2,), b"12345"), "cannot be read"),
        (Tensor("OUT", "BYTES", (1,), b"\x05\0\0\0x"), tensor(["x"], "BYTES"), "cannot be read"),
    ],
)
def test_incomparable_outputs_are_reported(base, other, words):
    assert words in compare(base, other).problem


def test_outputs_missing_on_one_side_are_reported():
    a, b = tensor([1.0], name="A"), tensor([1.0], name="B")
    found = similarities([{"A": a}, {"A": a, "B": b}], [{"A": a}, {"B": b}])
    assert [(row.name, row.problem) for row in found] == [
        ("A", "missing from 1 of 2 replies"),
        ("B", "missing from 1 of 2 replies"),
    ]
    (gone, new) = similarities([{"A": a}], [{"B": b}])
    assert gone.problem == "missing from the variant"
    assert new.problem == "missing from the baseline"


def test_empty_outputs_have_no_figures():
    found = compare(tensor([]), tensor([]))
    assert (found.elements, found.exact, found.problem) == (0, None, "")
