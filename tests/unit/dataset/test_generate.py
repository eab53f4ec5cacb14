"""Random and zero data."""

import hashlib

import pytest

from inferometer.base.errors import UsageError
from inferometer.dataset.build import build
from inferometer.model.numbers import DATATYPES, decode
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.options import DataOptions

NUMERIC = [name for name in DATATYPES if name != "BYTES"]
LETTERS = set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .?!")
EVERYTHING = tuple(TensorSpec(f"IN_{name}", name, (3,)) for name in sorted(DATATYPES))


def model(*inputs: TensorSpec) -> ModelSpec:
    return ModelSpec("m", "", inputs, (), max_batch_size=8)


def values(datatype, shape=(4096,), **options):
    """Return the elements of the first step's only tensor."""
    dataset = build(model(TensorSpec("X", datatype, shape)), DataOptions(**options))
    return decode(datatype, dataset.streams[0][0][0].data)


def digest(dataset) -> str:
    return hashlib.sha256(b"".join(tensor.data for tensor in dataset.streams[0][0])).hexdigest()


def test_a_seed_always_gives_these_bytes():
    dataset = build(model(*EVERYTHING), DataOptions(seed=7, string_length=5))
    assert digest(dataset) == "07790dda1a3fd5f70003b2c3f9392c2634d0b1b007bae45569c7c0c3d538b0d6"


def test_the_seed_determines_the_bytes():
    first, again, other = (build(model(*EVERYTHING), DataOptions(seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_inputs_and_steps_all_differ():
    inputs = [TensorSpec(name, "INT32", (16,)) for name in ("INPUT0", "INPUT1")]
    dataset = build(model(*inputs), DataOptions())
    assert (dataset.origin, dataset.is_given, len(dataset.streams)) == ("random", False, 1)
    tensors = [tensor for step in dataset.streams[0] for tensor in step]
    assert len({tensor.data for tensor in tensors}) == 2 * 8


def test_an_input_keeps_its_values_with_others_and_in_a_larger_pool():
    one, two = TensorSpec("A", "INT32", (16,)), TensorSpec("B", "INT32", (16,))
    alone = build(model(two), DataOptions(pool=2)).streams[0]
    beside = build(model(one, two), DataOptions(pool=4)).streams[0]
    assert [step[0] for step in alone] == [step[1] for step in beside[:2]]


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
def test_fractions_are_finite_and_spread_from_0_to_1(datatype):
    drawn = values(datatype)
    assert all(0 <= value < 1 for value in drawn)
    assert min(drawn) < 0.05
    assert max(drawn) > 0.95
    assert 0.45 < sum(drawn) / len(drawn) < 0.55


def test_booleans_are_0_or_1():
    data = build(model(TensorSpec("X", "BOOL", (4096,))), DataOptions()).streams[0][0][0].data
    assert set(data) == {0, 1}


@pytest.mark.parametrize("datatype", [name for name in DATATYPES if "INT" in name])
def test_integers_use_the_full_range(datatype):
    bits = 8 * DATATYPES[datatype].size
    low = 0 if datatype.startswith("U") else -(2 ** (bits - 1))
    drawn = [(value - low) / 2**bits for value in values(datatype)]
    assert min(drawn) < 0.05
    assert max(drawn) > 0.95


@pytest.mark.parametrize("origin", ["random", "zero"])
def test_strings_have_the_length_and_the_alphabet(origin):
    drawn = values("BYTES", shape=(50,), sources=(origin,), string_length=128)
    assert {len(text) for text in drawn} == {128}
    assert len(set(drawn)) == 50
    assert set(b"".join(drawn)) == LETTERS


def test_string_data_fills_every_element():
    assert values("BYTES", shape=(2,), string_data="abcé") == ["abcé".encode()] * 2
    assert values("BYTES", shape=(2,), string_data="") == [b""] * 2
    assert values("BYTES", shape=(1,), string_data="\udcff") == [b"\xff"]  # as in Python's argv


@pytest.mark.parametrize("datatype", NUMERIC)
def test_zero_is_zero_bytes(datatype):
    dataset = build(model(TensorSpec("X", datatype, (2, 3))), DataOptions(sources=("zero",)))
    ((tensor,),) = dataset.streams[0]
    assert (dataset.origin, tensor.shape, tensor.data) == (
        "zero",
        (2, 3),
        bytes(6 * DATATYPES[datatype].size),
    )


@pytest.mark.parametrize(
    ("datatype", "elements", "options", "steps"),
    [
        pytest.param("FP32", 16, {}, 8, id="small requests fill the pool"),
        pytest.param("FP32", 16, {"pool": 3}, 3, id="the pool is as asked"),
        pytest.param("UINT8", 15 << 20, {}, 4, id="large requests stay below 64 MiB together"),
        pytest.param("UINT8", 65 << 20, {}, 1, id="one request there always is"),
        pytest.param("INT32", 16, {"sources": ("zero",)}, 1, id="zeros do not differ"),
        pytest.param("BYTES", 2, {"sources": ("zero",)}, 8, id="strings beside zeros do"),
        pytest.param("BYTES", 2, {"string_data": "x"}, 1, id="a given string does not"),
    ],
)
def test_pool(datatype, elements, options, steps):
    dataset = build(model(TensorSpec("X", datatype, (elements,))), DataOptions(**options))
    assert len(dataset.streams[0]) == steps
    assert len(set(dataset.streams[0])) == steps


def test_shape_option_fills_variable_dimensions():
    specs = TensorSpec("A", "INT32", (-1, -1)), TensorSpec("B", "INT32", (2,)), TensorSpec("S", "FP32", ())
    dataset = build(model(*specs), DataOptions(shapes={"A": (2, 3), "B": (2,)}))
    assert [(tensor.shape, len(tensor.data)) for tensor in dataset.streams[0][0]] == [
        ((2, 3), 24),
        ((2,), 8),
        ((), 4),
    ]


def test_a_wrong_rank_of_a_variable_shape_is_checked_by_the_server():
    dataset = build(model(TensorSpec("A", "INT32", (-1, -1))), DataOptions(shapes={"A": (2,)}))
    assert dataset.streams[0][0][0].shape == (2,)


DYNAMIC = (
    "input X contains dynamic shape, provide shapes to send along with the request: "
    "the model's shape for it is "
)


@pytest.mark.parametrize(
    ("spec", "options", "text"),
    [
        pytest.param(
            TensorSpec("X", "INT32", (-1, 3, -1)),
            {},
            f"{DYNAMIC}[-1,3,-1]; "
            "send your own file with --input X=@FILE, or generated data with --shape X:1,3,1",
            id="a variable shape needs a file or --shape",
        ),
        pytest.param(
            TensorSpec("X", "UINT8", (-1,), optional=True),
            {"sources": ("zero",)},
            f"{DYNAMIC}[-1]; send your own file with --input X=@FILE, or generated data with --shape X:1",
            id="zeros and optional inputs need it too",
        ),
        pytest.param(
            TensorSpec("X", "INT32", (4,)),
            {"shapes": {"Y": (4,)}},
            "--shape names 'Y', but model 'm' has no such input; its inputs are 'X'",
            id="--shape for an unknown input",
        ),
        pytest.param(
            TensorSpec("X", "INT32", (2,), is_shape_tensor=True),
            {},
            "input 'X' is a shape tensor, whose values cannot be generated; "
            "give them with --input X=VALUE,VALUE or in a JSON file with --input-data",
            id="shape tensors need data",
        ),
        pytest.param(
            TensorSpec("X", "FP64", (-1, -1)),
            {"shapes": {"X": (100000, 100000)}},
            "input 'X' of shape [100000,100000] would take 80000000000 bytes, "
            "but a tensor holds at most 2147483647; "
            "give a smaller shape with --shape, or shorter strings with --string-length",
            id="a tensor beyond all limits",
        ),
        pytest.param(
            TensorSpec("X", "INT32", (2,)),
            {"seed": -1},
            "--seed must be 0 or more, but is -1",
            id="a negative seed",
        ),
        pytest.param(
            TensorSpec("X", "FP8", (2,)),
            {},
            "input 'X' of model 'm' has datatype 'FP8', which is not supported; "
            f"supported are {', '.join(DATATYPES)}",
            id="a datatype nobody knows",
        ),
        pytest.param(
            TensorSpec("X", "INT32", (2,)),
            {"sources": ("zero", "a.json")},
            "--input-data zero cannot be combined with other data, but got zero and a.json; "
            "give random, zero, or data files",
            id="zero and a file",
        ),
    ],
)
def test_mistakes_are_named(spec, options, text):
    with pytest.raises(UsageError) as caught:
        build(model(spec), DataOptions(**options))
    assert str(caught.value) == text


def test_the_shape_line_is_safe_to_paste():
    with pytest.raises(UsageError, match="--shape 'my input:1,3'"):
        build(model(TensorSpec("my input", "INT32", (-1, 3))), DataOptions())
