"""User files, and values on the command line."""

import io
import struct
import tracemalloc
import wave
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferometer.base.errors import UsageError
from inferometer.dataset.build import batch, build
from inferometer.dataset.files import Wanted, read_npz
from inferometer.model.numbers import DATATYPES, decode, encode
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.options import DataOptions
from inferometer.options.values import named_source
from tests.support.samples import examples

JPEG = b"\xff\xd8\xff\xe0 not really a picture"


def one(datatype: str, *shape: int) -> TensorSpec:
    return TensorSpec("X", datatype, shape)


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name: str, data) -> None:
    """Write a file with these bytes or this array."""
    if isinstance(data, bytes):
        with open(name, "wb") as file:
            file.write(data)
    else:
        np.save(name, data, allow_pickle=data.dtype.hasobject)


def read(specs, *files, **options):
    """Return the steps of the dataset; `files` have the form of the command line."""
    specs = specs if isinstance(specs, tuple) else (specs,)
    parsed = tuple(named_source.read("--input", text) for text in files)
    dataset = build(ModelSpec("m", "", specs, (), max_batch_size=8), DataOptions(files=parsed, **options))
    assert (dataset.origin, dataset.is_given, len(dataset.streams)) == ("files", True, 1)
    return dataset.streams[0]


def error(specs, *files, **options) -> str:
    with pytest.raises(UsageError) as caught:
        read(specs, *files, **options)
    return str(caught.value)


def sound(samples, *, bits: int, channels: int = 1, tag: int = 1, extensible: bool = False) -> bytes:
    """Return a .wav file of raw samples."""
    header = struct.pack(
        "<HHIIHH", 0xFFFE if extensible else tag, channels, 16000, 16000 * channels * bits // 8,
        channels * bits // 8, bits,
    )  # fmt: skip
    if extensible:
        header += (
            struct.pack("<HHIH", 22, bits, 0, tag)
            + b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"
        )
    chunks = b"fmt " + struct.pack("<I", len(header)) + header + b"LIST\x03\x00\x00\x00abc\x00"
    chunks += b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def saved(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


# --- raw files


@pytest.mark.parametrize(
    ("spec", "data", "shape", "elements"),
    [
        pytest.param(
            one("UINT8", -1), JPEG, (len(JPEG),), list(JPEG), id="a picture for a model that decodes it"
        ),
        pytest.param(one("BYTES", 1), JPEG, (1,), [JPEG], id="one element of BYTES"),
        pytest.param(one("BYTES", -1, -1), JPEG, (1, 1), [JPEG], id="one element of variable BYTES"),
        pytest.param(one("INT32", -1, 2), encode("INT32", range(6)), (3, 2), list(range(6)), id="numbers"),
        pytest.param(one("FP16", 2), encode("FP16", [1.5, 2]), (2,), [1.5, 2], id="numbers of a fixed shape"),
        pytest.param(one("BF16", -1), encode("BF16", [1.5, 2]), (2,), [1.5, 2], id="bfloat16"),
        pytest.param(one("FP64"), encode("FP64", [0.1]), (), [0.1], id="a scalar"),
    ],
)
@pytest.mark.parametrize("name", ["a.bin", "a", "a.JPG"])
def test_other_files_are_sent_unchanged(spec, data, shape, elements, name):
    write(name, data)
    ((tensor,),) = read(spec, f"X=@{name}")
    assert (tensor.name, tensor.datatype, tensor.shape) == ("X", spec.datatype, shape)
    assert decode(spec.datatype, tensor.data) == elements


def test_shape_applies_to_raw_numbers():
    write("a.bin", encode("INT32", range(6)))
    ((tensor,),) = read(one("INT32", -1, -1), "X=@a.bin", shapes={"X": (2, 3)})
    assert tensor.shape == (2, 3)


# --- several files


def test_a_pattern_gives_a_request_for_each_file_in_order(tmp_path):
    (tmp_path / "photos" / "inner.jpg").mkdir(parents=True)
    for name in ("b.jpg", "a.jpg", "c.png"):
        write(f"photos/{name}", name.encode())
    steps = read(one("BYTES", 1), "X=@photos/*.jpg")
    assert [decode("BYTES", step[0].data) for step in steps] == [[b"a.jpg"], [b"b.jpg"]]


def test_a_file_name_with_wildcard_characters_is_that_file():
    write("a[1].bin", b"x")
    write("a1.bin", b"y")
    ((tensor,),) = read(one("BYTES", 1), "X=@a[1].bin")
    assert decode("BYTES", tensor.data) == [b"x"]


def test_the_home_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    write("a.bin", b"x")
    assert len(read(one("BYTES", 1), "X=@~/a.bin")) == 1


def test_an_input_may_be_given_several_times():
    write("a.bin", b"x")
    steps = read(one("BYTES", 1), "X=@a.bin", "X=text", "X=@a.bin")
    assert [decode("BYTES", step[0].data) for step in steps] == [[b"x"], [b"text"], [b"x"]]


def test_files_of_several_inputs_are_paired_and_one_applies_to_all():
    write("words.txt", b"a\nb\n")
    write("k.npy", np.array([[7], [8]], dtype=np.int32))
    specs = TensorSpec("A", "BYTES", (1,)), TensorSpec("B", "FP32", (1,)), TensorSpec("K", "INT32", (1,))
    steps = read(specs, "K=@k.npy", "B=0.5", "A=@words.txt")
    assert [[(t.name, decode(t.datatype, t.data)[0]) for t in step] for step in steps] == [
        [("A", b"a"), ("B", 0.5), ("K", 7)],
        [("A", b"b"), ("B", 0.5), ("K", 8)],
    ]


def test_files_become_batches():
    write("words.txt", b"a\nb\n")
    model = ModelSpec("m", "", (one("BYTES", 1),), (), max_batch_size=8)
    ((tensor,),) = batch(build(model, DataOptions(files=(("X", "@words.txt"),))), model, 2)
    assert (tensor.shape, decode("BYTES", tensor.data)) == ((2, 1), [b"a", b"b"])


# --- completed with generated data


def test_other_inputs_get_their_own_random_data():
    specs = TensorSpec("A", "INT32", (4,)), one("BYTES", 1)
    steps = read(specs, "X=hello")
    assert [[t.name for t in step] for step in steps] == [["A", "X"]] * 8
    assert len({step[0].data for step in steps}) == 8
    assert {step[1].data for step in steps} == {encode("BYTES", ["hello"])}
    alone = build(ModelSpec("m", "", specs[:1], ()), DataOptions())
    assert [step[0] for step in steps] == [step[0] for step in alone.streams[0]]


def test_each_of_several_files_is_completed_with_random_data():
    write("words.txt", b"a\nb\nc\n")
    steps = read((TensorSpec("A", "INT32", (4,)), one("BYTES", 1)), "X=@words.txt")
    assert len({step[0].data for step in steps}) == len(steps) == 3


def test_a_file_is_completed_with_zeros():
    steps = read((TensorSpec("A", "INT32", (4,)), one("BYTES", 1)), "X=hello", sources=("zero",))
    assert [step[0].data for step in steps] == [bytes(16)]


def test_a_large_file_makes_the_pool_smaller():
    write("large.bin", bytes(20 << 20))
    steps = read((TensorSpec("A", "INT32", (4,)), one("UINT8", -1)), "X=@large.bin")
    assert len(steps) == 3


# --- text


def test_a_request_for_each_line():
    write("words.txt", "one\n\nz\u00e4h\r\n".encode())
    steps = read(one("BYTES", -1), "X=@words.txt")
    assert [(step[0].shape, decode("BYTES", step[0].data)) for step in steps] == [
        ((1,), [b"one"]),
        ((1,), [b""]),
        ((1,), ["z\u00e4h".encode()]),
    ]


def test_text_for_a_model_of_bytes():
    write("words.txt", b"one\ntwo\n")
    ((tensor,),) = read(one("UINT8", -1), "X=@words.txt")
    assert tensor.data == b"one\ntwo\n"


# --- arrays


@pytest.mark.parametrize("datatype", [name for name in DATATYPES if name not in ("BYTES", "BF16")])
def test_arrays_are_read_as_saved(datatype):
    @settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(st.integers(0, 4), max_size=3),
        st.booleans(),
        st.sampled_from("<>"),
        st.binary(min_size=512, max_size=512),
    )
    def check(shape, is_fortran, order, data):
        size = int(np.prod(shape))
        array = np.frombuffer(data, dtype="u1" if datatype == "BOOL" else DATATYPES[datatype].numpy)
        array = (array % 2 == 1 if datatype == "BOOL" else array)[:size].reshape(shape)
        written = array.astype(array.dtype.newbyteorder(order), order="F" if is_fortran else "C")
        write("a.npy", written)
        ((tensor,),) = read(one(datatype, *[-1] * len(shape)), "X=@a.npy")
        assert (tensor.shape, tensor.data) == (tuple(shape), array.tobytes())

    check()


def test_an_extra_dimension_is_one_request_per_row():
    write("a.npy", np.arange(6, dtype=np.int32).reshape(3, 2))
    steps = read(one("INT32", 2), "X=@a.npy")
    assert [decode("INT32", step[0].data) for step in steps] == [[0, 1], [2, 3], [4, 5]]


def test_shape_applies_to_an_array():
    write("a.npy", np.arange(6, dtype=np.int32))
    ((tensor,),) = read(one("INT32", -1, -1), "X=@a.npy", shapes={"X": (2, 3)})
    assert tensor.shape == (2, 3)
    write("a.npy", np.arange(6, dtype=np.int32).reshape(2, 3))
    assert len(read(one("INT32", -1), "X=@a.npy", shapes={"X": (3,)})) == 2


@pytest.mark.parametrize("dtype", ["S", "U"])
def test_arrays_of_strings(dtype):
    write("a.npy", np.array(["one", "two"], dtype=dtype))
    ((tensor,),) = read(one("BYTES", 2), "X=@a.npy")
    assert decode("BYTES", tensor.data) == [b"one", b"two"]


def test_bfloat16_is_rounded_from_float32_or_taken_as_bits():
    write("a.npy", np.array([1 + 2**-8, 1 + 3 * 2**-8], dtype=np.float32))
    rounded = read(one("BF16", 2), "X=@a.npy")[0][0].data
    assert decode("BF16", rounded) == [1.0, 1 + 2**-6]
    write("a.npy", np.frombuffer(rounded, dtype="V2"))
    assert read(one("BF16", 2), "X=@a.npy")[0][0].data == rounded


@pytest.mark.parametrize("names", [("X",), ("other",), ("A", "X", "B")])
def test_the_array_of_an_archive_by_name_or_the_only_one(names):
    write("a.npz", saved(**{name: np.full(2, number, dtype=np.int8) for number, name in enumerate(names)}))
    number = names.index("X") if "X" in names else 0
    assert decode("INT8", read(one("INT8", 2), "X=@a.npz")[0][0].data) == [number, number]


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_damaged_array_is_a_usage_error(name):
    array = np.arange(4, dtype=np.int32)
    buffer = io.BytesIO()
    np.save(buffer, array) if name == "a.npy" else np.savez_compressed(buffer, X=array)
    whole = buffer.getvalue()

    @settings(
        deadline=None, max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.integers(0, len(whole) - 1), st.integers(0, 255), st.integers(1, len(whole)))
    def check(position, byte, length):
        data = bytearray(whole)
        data[position] = byte
        write(name, bytes(data[:length]))
        try:
            read(one("INT32", -1), f"X=@{name}")
        except UsageError as error:
            assert f"{name} does not fit input 'X'" in str(error)  # noqa: PT017

    check()


# --- sound

WIDE = [-8388608, 0, 4194304, 8388607]
FRACTIONS = [-1.0, 0.0, 0.5, 8388607 / 8388608]


@pytest.mark.parametrize("extensible", [False, True])
@pytest.mark.parametrize(
    ("samples", "bits", "tag", "expected"),
    [
        (bytes([0, 128, 192, 255]), 8, 1, [-1.0, 0.0, 0.5, 127 / 128]),
        (encode("INT16", [-32768, 0, 16384, 32767]), 16, 1, [-1.0, 0.0, 0.5, 32767 / 32768]),
        (b"".join(number.to_bytes(3, "little", signed=True) for number in WIDE), 24, 1, FRACTIONS),
        (encode("INT32", [number << 8 for number in WIDE]), 32, 1, FRACTIONS),
        (encode("FP32", [-1.0, 0.25, 1.5]), 32, 3, [-1.0, 0.25, 1.5]),
        (encode("FP64", [-1.0, 0.25, 1.5]), 64, 3, [-1.0, 0.25, 1.5]),
    ],
)
def test_sound_is_scaled_for_floats(samples, bits, tag, expected, extensible):
    write("a.wav", sound(samples, bits=bits, tag=tag, extensible=extensible))
    for datatype in ("FP32", "FP64"):
        ((tensor,),) = read(one(datatype, -1), "X=@a.wav")
        assert (tensor.shape, decode(datatype, tensor.data)) == ((len(expected),), expected)


@pytest.mark.parametrize(("datatype", "bits"), [("INT16", 16), ("INT32", 32)])
def test_sound_is_raw_for_integers(datatype, bits):
    samples = encode(datatype, [-5, 0, 7])
    write("a.wav", sound(samples, bits=bits))
    ((tensor,),) = read(one(datatype, 1, -1), "X=@a.wav")
    assert (tensor.shape, tensor.data) == ((1, 3), samples)


def test_channels_are_the_second_dimension():
    write("a.wav", sound(encode("INT16", [1, -1, 2, -2, 3, -3]), bits=16, channels=2))
    ((tensor,),) = read(one("INT16", -1, 2), "X=@a.wav")
    assert (tensor.shape, decode("INT16", tensor.data)) == ((3, 2), [1, -1, 2, -2, 3, -3])
    assert read(one("INT16", 3, 2), "X=@a.wav")[0][0].shape == (3, 2)
    assert read(one("INT16", -1, -1), "X=@a.wav", shapes={"X": (1, 6)})[0][0].shape == (1, 6)
    assert "samples of shape [3,2]" in error(one("INT16", 6), "X=@a.wav")


def test_sound_as_the_standard_library_writes_it():
    with wave.open("a.wav", "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(encode("INT16", [1, 2, 3]))
    assert decode("INT16", read(one("INT16", -1), "X=@a.wav")[0][0].data) == [1, 2, 3]


def test_an_interrupted_recording():
    whole = sound(encode("INT16", range(100)), bits=16)
    write("a.wav", whole[:-3])
    assert decode("INT16", read(one("INT16", -1), "X=@a.wav")[0][0].data) == list(range(98))


@pytest.mark.parametrize("datatype", ["UINT8", "BYTES"])
def test_models_of_bytes_get_the_sound_file_itself(datatype):
    data = sound(encode("INT16", [1]), bits=16)
    write("a.wav", data)
    ((tensor,),) = read(one(datatype, -1), "X=@a.wav")
    assert tensor.data == (encode("BYTES", [data]) if datatype == "BYTES" else data)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80), st.integers(0, 60))
def test_any_bad_sound_file_is_a_usage_error(junk, cut):
    write("a.wav", sound(encode("INT16", [1, 2, 3]), bits=16)[:cut] + junk)
    try:
        read(one("FP32", -1), "X=@a.wav")
    except UsageError as error:
        assert "a.wav" in str(error)  # noqa: PT017


# --- values


@pytest.mark.parametrize(
    ("spec", "text", "shape", "elements"),
    [
        (one("FP32", 1), "0.5", (1,), [0.5]),
        (one("FP32", -1), "1, -2,3e2", (3,), [1, -2, 300]),
        (one("FP64", 2), "inf,-.5", (2,), [float("inf"), -0.5]),
        (one("INT64", -1, 2), "1,2,3,4", (2, 2), [1, 2, 3, 4]),
        (one("BOOL", 2), "true,False", (2,), [True, False]),
        (one("BYTES", 1), "one, two=3", (1,), [b"one, two=3"]),
        (one("BYTES", -1), "", (1,), [b""]),
        (one("BYTES", 1), "\udcff", (1,), [b"\xff"]),
    ],
)
def test_values_on_the_command_line(spec, text, shape, elements):
    ((tensor,),) = read(spec, f"X={text}")
    assert (tensor.shape, decode(spec.datatype, tensor.data)) == (shape, elements)


def test_values_of_a_shape_tensor():
    spec = TensorSpec("X", "INT32", (2,), is_shape_tensor=True)
    model = ModelSpec("m", "", (spec,), (), max_batch_size=8)
    ((tensor,),) = batch(build(model, DataOptions(files=(("X", "3,4"),))), model, 2)
    assert (tensor.shape, decode("INT32", tensor.data)) == ((2,), [3, 4])


# --- mistakes

FILES = {
    "7.bin": b"1234567",
    "empty.bin": b"",
    "empty.txt": b"",
    "f64.npy": np.zeros(2),
    "i64.npy": np.zeros(2, dtype=np.int64),
    "i32.npy": np.zeros((2, 3), dtype=np.int32),
    "big.npy": np.array([1, 3.4e38], dtype=np.float32),
    "object.npy": np.array([None, "a"]),
    "junk.npy": b"junk",
    "archive.npy": saved(A=np.zeros(1)),
    "ab.npz": saved(A=np.zeros(1), B=np.zeros(1)),
    "none.npz": saved(),
    "plain.npz": b"junk",
    "stereo.wav": sound(encode("INT16", [1, 2]), bits=16, channels=2),
    "24.wav": sound(bytes(6), bits=24),
    "alaw.wav": sound(bytes(6), bits=8, tag=6),
    "junk.wav": b"RIFF",
    "two.txt": b"a\nb\n",
}  # fmt: skip
AS_IS = "such files are sent as they are: decode and resize them first, for example to .npy"
ONE_ELEMENT = (
    "each file or line is one element; for requests with several elements use a JSON file (--input-data)"
)


@pytest.mark.parametrize(
    ("spec", "source", "text"),
    [
        (
            one("UINT8", 3, 2), "@7.bin",
            f"7.bin does not fit input 'X', which takes UINT8 of shape [3,2]: it has 7 elements, expected 6; {AS_IS}",
        ),
        (
            one("UINT8", -1, 3), "@7.bin",
            "7.bin does not fit input 'X', which takes UINT8 of shape [-1,3]: "
            f"it has 7 elements, expected a multiple of 3; {AS_IS}",
        ),
        (
            one("FP32", -1), "@7.bin",
            "7.bin does not fit input 'X', which takes FP32 of shape [-1]: "
            "its 7 bytes are not a multiple of the element size of 4 bytes; "
            "raw files contain the numbers in binary, little-endian; or save an array as .npy",
        ),
        (
            one("UINT8", -1, -1), "@7.bin",
            "input X contains dynamic shape, provide shapes to send along with the request "
            "for the 7 elements of 7.bin: the model's shape for it is [-1,-1]; "
            "for example with --shape X:1,7, or as 'shape' in a JSON file",
        ),
        (
            one("UINT8", -1), "@empty.bin",
            "empty.bin does not fit input 'X', which takes UINT8 of shape [-1]: the file is empty",
        ),
        (
            one("BYTES", 2), "@7.bin",
            "7.bin does not fit input 'X', which takes BYTES of shape [2]: "
            f"it has 1 elements, expected 2; {ONE_ELEMENT}",
        ),
        (
            one("BYTES", 2), "@two.txt",
            "two.txt does not fit input 'X', which takes BYTES of shape [2]: "
            f"it has 1 elements, expected 2; {ONE_ELEMENT}",
        ),
        (
            one("BYTES", 1), "@empty.txt",
            "empty.txt does not fit input 'X', which takes BYTES of shape [1]: "
            "the file is empty; write one element per line",
        ),
        (
            one("FP32", 1), "@two.txt",
            "two.txt does not fit input 'X', which takes FP32 of shape [1]: text files are for BYTES inputs; "
            "save numbers as .npy, or put them into a JSON file",
        ),
        (
            one("FP32", 2), "@f64.npy",
            "f64.npy does not fit input 'X', which takes FP32 of shape [2]: it holds float64; "
            "save it with .astype('float32')",
        ),
        (
            one("FP16", 2), "@f64.npy",
            "f64.npy does not fit input 'X', which takes FP16 of shape [2]: it holds float64; "
            "save it with .astype('float16')",
        ),
        (
            one("BF16", 2), "@f64.npy",
            "f64.npy does not fit input 'X', which takes BF16 of shape [2]: it holds float64; "
            "save it with .astype('float32')",
        ),
        (
            one("INT32", 2), "@i64.npy",
            "i64.npy does not fit input 'X', which takes INT32 of shape [2]: it holds int64; "
            "save it with .astype('int32')",
        ),
        (
            one("BYTES", 2), "@i64.npy",
            "i64.npy does not fit input 'X', which takes BYTES of shape [2]: it holds int64; "
            "save an array of strings: np.array([...], dtype='S')",
        ),
        (
            one("INT32", 4), "@i32.npy",
            "i32.npy does not fit input 'X', which takes INT32 of shape [4]: it holds an array of shape [2,3]; "
            "reshape it; an extra first dimension means several requests",
        ),
        (
            one("BF16", 2), "@big.npy",
            "big.npy does not fit input 'X', which takes BF16 of shape [2]: "
            "element 1 must be a number from -3.38953e+38 to 3.38953e+38, but is 3.3999999521443642e+38",
        ),
        (one("INT32", 2), "@object.npy", "object.npy does not fit input 'X'"),
        (one("INT32", 2), "@junk.npy", "junk.npy does not fit input 'X'"),
        (
            one("INT32", 2), "@archive.npy",
            "archive.npy does not fit input 'X', which takes INT32 of shape [2]: it is an .npz file, not an .npy file",
        ),
        (
            one("FP64", 1), "@ab.npz",
            "ab.npz does not fit input 'X', which takes FP64 of shape [1]: none of its arrays has that name: A, B; "
            "save it with np.savez(file, **{'X': array})",
        ),
        (one("FP64", 1), "@none.npz", "none.npz does not fit input 'X'"),
        (one("FP64", 1), "@plain.npz", "plain.npz does not fit input 'X'"),
        (
            one("FP32", -1), "@stereo.wav",
            "stereo.wav does not fit input 'X', which takes FP32 of shape [-1]: "
            "it holds samples of shape [1,2], which means frames by channels; "
            "mix it down to mono, or give the shape with --shape",
        ),
        (
            one("INT32", -1), "@24.wav",
            "24.wav does not fit input 'X', which takes INT32 of shape [-1]: it holds 24-bit integer samples; "
            "convert it: ffmpeg -i 24.wav -c:a pcm_s32le converted.wav",
        ),
        (
            one("UINT16", -1), "@24.wav",
            "24.wav does not fit input 'X', which takes UINT16 of shape [-1]: it holds 24-bit integer samples; "
            "sound files are for INT16, INT32 and float inputs; for other inputs use .npy",
        ),
        (
            one("FP32", -1), "@alaw.wav",
            "alaw.wav does not fit input 'X', which takes FP32 of shape [-1]: it is not a readable .wav file: "
            "format 6 with 8 bits and 1 channels is not supported",
        ),
        (one("FP32", -1), "@junk.wav", "junk.wav does not fit input 'X'"),
        (
            one("FP32", 2), "1",
            "1 does not fit input 'X', which takes FP32 of shape [2]: it has 1 elements, expected 2",
        ),
        (one("INT8", 2), "1,200", "--input X=1,200: element 1 must be an integer from -128 to 127 (INT8), but is 200"),
        (
            one("FP32", 1), "photo.jpg",
            "--input X=photo.jpg: element 0 must be a number (FP32), but is photo.jpg; "
            "to send a file, write --input X=@photo.jpg",
        ),
        (one("INT8", 1), "1.0", "--input X=1.0: element 0 must be an integer from -128 to 127 (INT8), but is 1.0"),
        (one("BOOL", 1), "yes", "--input X=yes: element 0 must be true or false (BOOL), but is yes; "
         "to send a file, write --input X=@yes"),
        (
            one("BYTES", 1), "two.txt",
            "--input X=two.txt is a value, but a file with that name exists; "
            "to send the file, write --input X=@two.txt",
        ),
        (
            one("BYTES", 1), "@nope/*.txt",
            "--input X=@nope/*.txt: there is no such file; "
            "give the path of a file after '@', or a pattern such as 'photos/*.jpg'",
        ),
        (
            one("BYTES", 1), "@.",
            "--input X=@. is a directory; to send each file in it, write --input 'X=@./*'",
        ),
    ],
)  # fmt: skip
def test_mismatches_are_named(spec, source, text):
    for name, data in FILES.items():
        write(name, data)
    found = error(spec, f"X={source}")
    assert found == text or (
        text.endswith("'X'") and found.startswith(f"{text}, which takes {spec.datatype}")
    )


def test_lists_of_different_lengths():
    write("two.txt", b"a\nb\n")
    write("three.txt", b"a\nb\nc\n")
    specs = tuple(TensorSpec(name, "BYTES", (1,)) for name in "ABC")
    assert error(specs, "A=@two.txt", "B=@three.txt", "C=x") == (
        "--input gives different numbers of requests: 2 for 'A', 3 for 'B', 1 for 'C'; "
        "give the same number of files or lines for each input, or one for all requests"
    )


def test_an_input_the_model_does_not_have():
    assert error(one("BYTES", 1), "Y=a") == (
        "--input names 'Y', but model 'm' has no such input; its inputs are 'X'"
    )


def test_files_combined_with_json():
    assert error(one("BYTES", 1), "X=a", sources=("a.json",)) == (
        "--input X=a cannot be combined with --input-data a.json; "
        "give all data with --input, or all with --input-data"
    )


def test_other_inputs_may_need_a_shape():
    assert "input A contains dynamic shape" in error((TensorSpec("A", "FP32", (-1,)), one("BYTES", 1)), "X=a")


@pytest.mark.parametrize("text", ["", "X", "=a", "X=@", "@photo.jpg"])
def test_names_that_are_not_inputs(text):
    with pytest.raises(UsageError) as caught:
        named_source.read("--input", text)
    assert str(caught.value) == (
        f"--input: there must be an input name, '=' and a value, but got '{text}'; "
        "write it like IMAGE=@photo.jpg, IMAGE=@'photos/*.jpg' or SCALE=0.5"
    )


# --- arrays that expand to much more than their files


def archive(
    shape: tuple[int, ...], kind: str = "<f4", *, content: int = 0, method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    """Return an archive whose array has this header, followed by `content` zeros."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": shape})
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as made, made.open("X.npy", "w", force_zip64=True) as member:
        member.write(header.getvalue())
        member.write(bytes(content))
    return sink.getvalue()


@pytest.mark.parametrize(
    ("spec", "data", "words"),
    [
        (one("FP32", 16), archive((10**9,)), r"an array of shape \[1000000000\]"),
        (one("FP32", 16), archive((10**9,), content=10**7), r"an array of shape \[1000000000\]"),
        (one("FP32", 16), archive((10**8, 16)), r"it holds 100,000,000 requests with 6,400,000,000 bytes"),
        (one("FP32", -1), archive((10**9,)), r"4,000,000,000 bytes, which exceeds the limit of .* 1 GiB"),
        (one("FP32", 16), archive((1000, 16), content=64), "it cannot be read as .npz"),
        (one("FP32", 16), archive((16,), "<i8", content=128), "it holds int64"),
        (one("BYTES", -1), archive((10**7,), "|S1", content=10**7), "it holds 10,000,000 strings"),
        (one("BYTES", -1), archive((10**12,), "|S0"), "strings"),
        (one("FP32", 16), archive((-1,)), "negative dimension|shape"),
        (
            one("FP32", 16),
            archive((16,), content=64, method=zipfile.ZIP_LZMA),
            "numpy does not support its compression method",
        ),
    ],
)
def test_an_array_is_refused_by_its_header_before_it_is_decompressed(spec, data, words, tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=words):
            read_npz(Wanted(spec, str(path), spec.shape if not spec.is_dynamic else None))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
