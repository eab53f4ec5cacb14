"""A directory with one file per tensor."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.dataset.build import batch, batch_expected, build
from inferometer.model.numbers import encode
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.options import DataOptions

INTS = encode("INT32", range(16))
A, B = TensorSpec("A", "INT32", (16,)), TensorSpec("B", "INT32", (16,), optional=True)
TEXT = TensorSpec("T", "BYTES", (2,), optional=True)
SUM, WORDS = TensorSpec("SUM", "INT32", (-1, -1)), TensorSpec("WORDS", "BYTES", (-1,))


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Write files into the directory `in` and build the dataset."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()

    def read(files, *inputs, **options):
        for name, data in files.items():
            (tmp_path / "in" / name).write_bytes(data)
        model = ModelSpec("m", "", inputs or (A, B, TEXT), (SUM, WORDS), max_batch_size=8)
        return build(model, DataOptions(sources=("in",), **options)), model

    return read


def test_each_file_is_a_tensor(read):
    dataset, _ = read({"A": INTS, "T": b"one\nzwei"})
    ((step,),) = dataset.streams
    assert (dataset.origin, dataset.is_given, dataset.expected) == ("directory", True, None)
    assert [(tensor.name, tensor.shape, tensor.data) for tensor in step] == [
        ("A", (16,), INTS),
        ("T", (2,), encode("BYTES", ["one", "zwei"])),
    ]


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        pytest.param(b"a\nb\n", [b"a", b"b"], id="lines"),
        pytest.param(b"a\nb", [b"a", b"b"], id="the last line needs no end"),
        pytest.param(b"a\r\nb\r\n", [b"a", b"b"], id="lines of Windows"),
        pytest.param(b"\n\n", [b"", b""], id="empty elements"),
        pytest.param(b"a\rb\n\xff\n", [b"a\rb", b"\xff"], id="any other bytes"),
    ],
)
def test_an_element_per_line(read, text, elements):
    dataset, _ = read({"A": INTS, "T": text})
    assert dataset.streams[0][0][1].data == encode("BYTES", elements)


def test_files_of_outputs_are_expected_outputs(read):
    dataset, model = read({"A": INTS, "SUM": INTS, "WORDS": b"x\ny\nz\n"})
    (((total, words),),) = dataset.expected
    assert (total.data, words.shape, words.data) == (INTS, (3,), encode("BYTES", ["x", "y", "z"]))
    ((total, words),) = batch_expected(dataset, model, 2)
    assert (total.data, words.shape) == (INTS + INTS, (2, 3))


def test_a_batch_repeats_the_tensors(read):
    dataset, model = read({"A": INTS})
    ((tensor,),) = batch(dataset, model, 3)
    assert (tensor.shape, tensor.data) == ((3, 16), INTS * 3)


def test_shape_fills_a_variable_size(read):
    dataset, _ = read({"A": INTS}, TensorSpec("A", "INT32", (-1, -1)), shapes={"A": (2, 8)})
    assert dataset.streams[0][0][0].shape == (2, 8)


@pytest.mark.parametrize(
    ("files", "inputs", "text"),
    [
        pytest.param(
            {"A": b"x" * 12},
            (A,),
            "provided data for input A has byte size 12, expect 64: "
            "file in/A, for which the model takes INT32 of shape [16]",
            id="too short",
        ),
        pytest.param(
            {"A": INTS, "T": b"one\n"},
            (A, TEXT),
            "provided data for input T has 1 elements, expect 2: "
            "file in/T, for which the model takes BYTES of shape [2]; write one element per line",
            id="too few lines",
        ),
        pytest.param(
            {"A": INTS, "SUM": b"x" * 6},
            (A,),
            "provided data for output SUM has byte size 6, expect 4: "
            "file in/SUM, for which the model takes INT32 of shape [1,1]",
            id="half an element of an output",
        ),
        pytest.param(
            {"A": INTS, "FOO": b""},
            (A, B),
            "Provided data file 'FOO' does not correspond to a valid model input or output. "
            "Take it out of in, or name it after one of A, B, SUM, WORDS",
            id="a file of another name",
        ),
        pytest.param(
            {"B": INTS},
            (A, B),
            "missing tensor A in in: expected a file for each of A, B, found B",
            id="a missing file",
        ),
        pytest.param(
            {},
            (A,),
            "missing tensor A in in: expected a file for each of A, found none",
            id="an empty directory",
        ),
        pytest.param(
            {"A": INTS},
            (TensorSpec("A", "INT32", (-1, 2)),),
            "input A contains dynamic shape, provide shapes to send along with the request in in/A: "
            "the model's shape for it is [-1,2]; for example with --shape A:8,2, or as 'shape' in a JSON file",
            id="a variable shape",
        ),
    ],
)
def test_mismatches_are_named(read, files, inputs, text):
    with pytest.raises(UsageError) as caught:
        read(files, *inputs)
    assert str(caught.value) == text


def test_a_directory_inside(read, tmp_path):
    (tmp_path / "in" / "A").mkdir()
    with pytest.raises(UsageError, match="the data file 'in/A' cannot be read: Is a directory"):
        read({}, A)


def test_a_directory_cannot_be_combined(read, tmp_path):
    with pytest.raises(
        UsageError, match="in is a directory and cannot be combined with other data, but got in and a"
    ):
        build(ModelSpec("m", "", (A,), ()), DataOptions(sources=("in", "a.json")))
