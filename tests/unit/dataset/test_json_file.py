"""Data files."""

import base64
import json
import math
import struct
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferometer.base.errors import UsageError
from inferometer.dataset.build import build
from inferometer.model.numbers import DATATYPES, decode, encode
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.options import DataOptions

OUT = TensorSpec("OUT", "INT32", (4,))


def model(*inputs: TensorSpec, outputs: tuple[TensorSpec, ...] = (OUT,)) -> ModelSpec:
    return ModelSpec("m", "", inputs, outputs, max_batch_size=8)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def one(datatype: str, shape: tuple[int, ...] = (4,)) -> TensorSpec:
    return TensorSpec("X", datatype, shape)


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Write documents (text, or anything json can write) to a.json, b.json, ... and build the dataset."""
    monkeypatch.chdir(tmp_path)

    def read(specs, *documents, shapes=None, outputs=(OUT,)):
        names = [f"{letter}.json" for letter, _ in zip("abc", documents, strict=False)]
        for name, document in zip(names, documents, strict=True):
            text = document if isinstance(document, str) else json.dumps(document)
            (tmp_path / name).write_text(text)
        specs = specs if isinstance(specs, tuple) else (specs,)
        options = DataOptions(sources=tuple(names), shapes=shapes or {})
        return build(model(*specs, outputs=outputs), options)

    return read


@pytest.fixture
def error(read):
    """Return the text of the error from reading."""

    def error(*arguments, **options) -> str:
        with pytest.raises(UsageError) as caught:
            read(*arguments, **options)
        return str(caught.value)

    return error


INTS = encode("INT32", [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("value", "model_shape", "shape"),
    [
        pytest.param([1, 2, 3, 4], (4,), (4,), id="a list"),
        pytest.param({"content": [1, 2, 3, 4]}, (4,), (4,), id="content without shape"),
        pytest.param({"content": [1, 2, 3, 4], "shape": [4]}, (4,), (4,), id="content with the fixed shape"),
        pytest.param({"content": [1, 2, 3, 4], "shape": [2, 2]}, (-1, -1), (2, 2), id="content with shape"),
        pytest.param({"b64": b64(INTS)}, (4,), (4,), id="b64"),
        pytest.param({"b64": b64(INTS), "shape": [2, 2]}, (-1, 2), (2, 2), id="b64 with shape"),
        pytest.param({"b64": "AQAAAAIAAAAD\nAAAABAAAAA==\n"}, (4,), (4,), id="b64 broken into lines"),
        pytest.param(
            {"content": {"b64": b64(INTS)}, "shape": [4]}, (-1,), (4,), id="b64 in content with shape"
        ),
        pytest.param({"content": {"b64": b64(INTS)}}, (2, 2), (2, 2), id="b64 in content without shape"),
    ],
)
def test_forms_of_a_tensor(read, value, model_shape, shape):
    dataset = read(one("INT32", model_shape), {"data": [{"X": value}]})
    ((tensor,),) = dataset.streams[0]
    assert (dataset.origin, dataset.is_given) == ("json", True)
    assert (tensor.name, tensor.datatype, tensor.shape, tensor.data) == ("X", "INT32", shape, INTS)


def test_the_contract_example(read):
    specs = TensorSpec("IN0", "INT32", (-1, -1)), TensorSpec("IN1", "INT32", (-1, -1))
    text = """{"data": [ {"IN0": [1,2,3,4], "IN1": {"content": [1,2,3,4], "shape": [2,2]}},
        {"IN0": {"b64": "AQAAAAIAAAADAAAABAAAAA=="}, "IN1": {"content": {"b64": "AQAAAA=="}, "shape": [1,1]}},
        {"IN0": {"b64": "AQAAAA==", "shape": [1,1]}, "IN1": [5,6,7,8], "model": "ignored"} ]}"""
    dataset = read(specs, text, shapes={"IN0": (1, 4), "IN1": (4, 1)})
    assert [[(t.shape, decode("INT32", t.data)) for t in step] for step in dataset.streams[0]] == [
        [((1, 4), [1, 2, 3, 4]), ((2, 2), [1, 2, 3, 4])],
        [((1, 4), [1, 2, 3, 4]), ((1, 1), [1])],
        [((1, 1), [1]), ((4, 1), [5, 6, 7, 8])],
    ]


@pytest.mark.parametrize(
    ("datatype", "values"),
    [
        ("BOOL", [True, False]),
        ("UINT8", [0, 255]),
        ("UINT16", [0, 65535]),
        ("UINT32", [0, 2**32 - 1]),
        ("UINT64", [0, 2**64 - 1]),
        ("INT8", [-128, 127]),
        ("INT16", [-32768, 32767]),
        ("INT32", [-(2**31), 2**31 - 1]),
        ("INT64", [-(2**63), 2**63 - 1]),
        ("FP16", [1, 0.5]),
        ("BF16", [1, 0.5]),
        ("FP32", [1, 0.5]),
        ("FP64", [1, 0.1]),
        ("BYTES", ["", "é"]),
    ],
)
def test_every_datatype_as_list_and_as_b64(read, datatype, values):
    listed = read(one(datatype, (2,)), {"data": [{"X": values}]}).streams[0][0][0]
    coded = read(one(datatype, (2,)), {"data": [{"X": {"b64": b64(listed.data)}}]}).streams[0][0][0]
    assert listed == coded
    found = decode(datatype, listed.data)
    assert found == ([text.encode() for text in values] if datatype == "BYTES" else values)


def test_nan_and_infinity_literals_are_floats(read):
    tensor = read(one("FP32", (3,)), '{"data": [{"X": [NaN, Infinity, -Infinity]}]}').streams[0][0][0]
    nan, *infinite = struct.unpack("<3f", tensor.data)
    assert math.isnan(nan)
    assert infinite == [math.inf, -math.inf]


def test_optional_inputs_may_be_missing(read):
    specs = tuple(TensorSpec(name, "INT32", (1,), optional=True) for name in ("A", "B"))
    dataset = read(specs, {"data": [{"A": [1]}, {"B": [1]}, {"B": [1], "A": [2]}]})
    assert [[tensor.name for tensor in step] for step in dataset.streams[0]] == [["A"], ["B"], ["A", "B"]]


FLAT, FLAT_2 = {"data": [{"X": [1]}, {"X": [2]}]}, {"data": [{"X": [5]}]}
NESTED = {"data": [[{"X": [3]}, {"X": [4]}], [{"X": [6]}]]}


@pytest.mark.parametrize(
    ("documents", "streams"),
    [
        pytest.param([FLAT], [[1, 2]], id="flat is one stream"),
        pytest.param([FLAT, FLAT_2], [[1, 2, 5]], id="flat files add steps to stream 0"),
        pytest.param([NESTED], [[3, 4], [6]], id="nested is a stream each"),
        pytest.param([NESTED, NESTED], [[3, 4], [6], [3, 4], [6]], id="nested files add streams"),
        pytest.param([FLAT, NESTED], [[1, 2], [3, 4], [6]], id="nested after flat"),
        pytest.param([NESTED, FLAT], [[3, 4, 1, 2], [6]], id="flat after nested"),
    ],
)
def test_streams_of_several_files(read, documents, streams):
    dataset = read(one("INT32", (1,)), *documents)
    found = [[decode("INT32", step[0].data)[0] for step in stream] for stream in dataset.streams]
    assert found == streams


def test_a_million_numbers(read):
    values = [number / 7 for number in range(1_000_000)]
    tensor = read(one("FP32", (1000, 1000)), {"data": [{"X": values}]}).streams[0][0][0]
    assert len(tensor.data) == 4_000_000
    assert struct.unpack("<f", tensor.data[-4:]) == pytest.approx([values[-1]])


AT = " ( Location stream id: 0, step id: 0) for tensor 'X' in a.json"
C_NAMES = {
    "BOOL": ("bool", "true or false"),
    "UINT8": ("uint8_t", "an integer from 0 to 255"),
    "UINT16": ("uint16_t", "an integer from 0 to 65535"),
    "UINT32": ("uint32_t", "an integer from 0 to 4294967295"),
    "UINT64": ("uint64_t", "an integer from 0 to 18446744073709551615"),
    "INT8": ("int8_t", "an integer from -128 to 127"),
    "INT16": ("int16_t", "an integer from -32768 to 32767"),
    "INT32": ("int32_t", "an integer from -2147483648 to 2147483647"),
    "INT64": ("int64_t", "an integer from -9223372036854775808 to 9223372036854775807"),
    "FP16": ("half", "a number"),
    "BF16": ("bfloat16", "a number"),
    "FP32": ("float", "a number"),
    "FP64": ("double", "a number"),
    "BYTES": ("string", "a string"),
}


@pytest.mark.parametrize("datatype", DATATYPES)
def test_nested_lists_are_rejected(error, datatype):
    name, expected = C_NAMES[datatype]
    assert error(one(datatype), {"data": [{"X": [[1, 2], [3, 4]]}]}) == (
        f"unable to find {name} data in json{AT}: element 0 must be {expected} ({datatype}), but is a list; "
        "write the elements as one flat list"
    )


@pytest.mark.parametrize(
    ("datatype", "written", "text"),
    [
        ("INT32", "1.0", "element 0 must be an integer from -2147483648 to 2147483647 (INT32), but is 1.0"),
        ("INT32", "true", "element 0 must be an integer from -2147483648 to 2147483647 (INT32), but is true"),
        ("UINT8", "300", "element 0 must be an integer from 0 to 255 (UINT8), but is 300"),
        ("INT8", "-129", "element 0 must be an integer from -128 to 127 (INT8), but is -129"),
        ("FP32", '"1.0"', 'element 0 must be a number (FP32), but is "1.0"'),
        ("FP32", "null", "element 0 must be a number (FP32), but is null"),
        ("FP32", "1e39", "element 0 must be a number from -3.40282e+38 to 3.40282e+38 (FP32), but is 1e+39"),
        ("FP64", "1e999", "element 0 must be a number that fits a double (FP64), but is Infinity"),
        ("FP64", "-1e999", "element 0 must be a number that fits a double (FP64), but is -Infinity"),
        ("FP16", "65520", "element 0 must be a number from -65504 to 65504 (FP16), but is 65520"),
        ("BOOL", "1", "element 0 must be true or false (BOOL), but is 1"),
        ("BYTES", "{}", "element 0 must be a string (BYTES), but is an object"),
        ("BYTES", "7", "element 0 must be a string (BYTES), but is 7"),
        (
            "BYTES",
            '"\\ud800"',
            'element 0 must be a string without lone surrogates (BYTES), but is "\\ud800"',
        ),
        (
            "UINT8",
            f'"{"x" * 100}"',
            f'element 0 must be an integer from 0 to 255 (UINT8), but is "{"x" * 36}...',
        ),
    ],
)
def test_elements_are_strict(error, datatype, written, text):
    phrase = f"unable to find {C_NAMES[datatype][0]} data in json"
    assert error(one(datatype), f'{{"data": [{{"X": [{written}]}}]}}') == f"{phrase}{AT}: {text}"


DYNAMIC = "input X contains dynamic shape, provide shapes to send along with the request"
MISMATCH = "mismatch in the data provided for X."


@pytest.mark.parametrize(
    ("spec", "value", "text"),
    [
        pytest.param(
            one("INT32", (16,)),
            [1, 2],
            f"{MISMATCH} Expected: 64 bytes, Got: 8 bytes{AT}: shape [16] of INT32 has 16 elements",
            id="too few numbers",
        ),
        pytest.param(
            one("INT32", (1,)),
            {"b64": b64(b"12345")},
            f"{MISMATCH} Expected: 4 bytes, Got: 5 bytes{AT}: shape [1] of INT32 has 1 elements",
            id="bytes left over",
        ),
        pytest.param(
            one("BYTES", (2,)),
            ["a", "b", "c"],
            f"{MISMATCH} Expected: 2 elements, Got: 3 elements{AT}: shape [2] of BYTES has 2 elements",
            id="too many strings",
        ),
        pytest.param(
            one("BYTES", (1,)),
            {"b64": b64(b"hello")},
            f"{MISMATCH}{AT}: each BYTES element must be preceded by its length, 4 bytes little-endian; "
            "element 0 has a length of 1819043176 bytes, but only 1 follow",
            id="strings in b64 without their length",
        ),
        pytest.param(
            one("INT32", (16,)),
            {"content": [1] * 16, "shape": [4, 4]},
            'The supplied shape of [4,4] for input "X" is incompatible with '
            f"the model's input shape of [16]{AT}",
            id="another rank than the model's",
        ),
        pytest.param(
            one("INT32", (-1, 3)),
            {"content": [1] * 4, "shape": [2, 2]},
            'The supplied shape of [2,2] for input "X" is incompatible with '
            f"the model's input shape of [-1,3]{AT}",
            id="another size where the model fixes it",
        ),
        pytest.param(
            one("INT32", (-1, 2, -1)),
            [1, 2, 3, 4, 5, 6],
            f"{DYNAMIC}{AT}: the model's shape for it is [-1,2,-1]; "
            "for example with --shape X:1,2,3, or as 'shape' in a JSON file",
            id="a variable shape without any, the line fits the data",
        ),
        pytest.param(
            one("UINT8", (-1,)),
            {"b64": b64(b"12345")},
            f"{DYNAMIC}{AT}: the model's shape for it is [-1]; "
            "for example with --shape X:5, or as 'shape' in a JSON file",
            id="a variable number of bytes",
        ),
        pytest.param(
            one("INT32"),
            {"content": [1], "shape": [True]},
            f"Input data file is malformed.{AT}: expected 'shape' to be a list of integers, found [true]",
            id="a shape that is none",
        ),
        pytest.param(
            one("INT32"),
            {"content": [1], "shape": None},
            f"Input data file is malformed.{AT}: expected 'shape' to be a list of integers, found null",
            id="a shape of null",
        ),
        pytest.param(
            one("INT32"),
            {"content": [1], "shape": [-1]},
            f"Input data file is malformed.{AT}: expected 'shape' to be a list of integers, found [-1]",
            id="a shape with a variable dimension",
        ),
        pytest.param(
            one("INT32"),
            7,
            f"Input data file is malformed.{AT}: expected a list or an object, found 7",
            id="a bare number",
        ),
        pytest.param(
            one("INT32"),
            {"content": "abc"},
            f"Input data file is malformed.{AT}: expected 'content' to be a list or an object, found \"abc\"",
            id="content that is text",
        ),
        pytest.param(
            one("INT32"),
            {"shape": [4]},
            f"missing content field.{AT}: expected 'content' or 'b64'",
            id="no content",
        ),
        pytest.param(
            one("INT32"),
            {"content": {"b": 1}},
            f"missing b64 field.{AT}: an object as 'content' must have the key 'b64' and no other",
            id="content without b64",
        ),
        pytest.param(
            one("INT32"),
            {"content": [1], "b64": ""},
            f"Input data file is malformed.{AT}: 'content' and 'b64' cannot both be given",
            id="content and b64",
        ),
        pytest.param(
            one("INT32"),
            {"content": [1], "shapes": [1]},
            f"Input data file is malformed.{AT}: the key 'shapes' is not content, b64 or shape",
            id="a misspelt key",
        ),
        pytest.param(
            one("INT32"),
            {"b64": [1]},
            f"Input data file is malformed.{AT}: expected 'b64' to be a string, found a list",
            id="b64 of a list",
        ),
    ],
)
def test_tensors_that_do_not_fit(error, spec, value, text):
    assert error(spec, {"data": [{"X": value}]}) == text


@pytest.mark.parametrize("coded", ["AQA", "A*==", "é"])
def test_bad_base64(error, coded):
    assert f"invalid base64 data in json{AT}: " in error(one("INT32"), {"data": [{"X": {"b64": coded}}]})


STEP = " ( Location stream id: 0, step id: 0) in a.json"
PARSE = "failed to parse the specified json file for reading provided data"
LISTS = "write a list of objects (the steps of one stream) or a list of lists of objects (streams)"


@pytest.mark.parametrize(
    ("document", "text"),
    [
        pytest.param(
            {"data": [{}]}, f"missing tensor X{STEP}: expected all of X, found none", id="an empty step"
        ),
        pytest.param(
            {"data": [{"X": [1], "Z": [1]}]},
            f"The input or output 'Z' is not found in the model configuration{STEP}: "
            "expected inputs of model 'm': X",
            id="an unknown input",
        ),
        pytest.param(
            {"data": [{"X": [1], "OUT": [1]}]},
            f"The input or output 'OUT' is not found in the model configuration{STEP}: "
            "expected inputs of model 'm': X",
            id="an output among the inputs",
        ),
        pytest.param(
            {"data": [[{"X": [1]}], [{"X": [1]}, {}]]},
            "missing tensor X ( Location stream id: 1, step id: 1) in a.json: expected all of X, found none",
            id="the place in nested streams",
        ),
        pytest.param(
            {"data": [[1]]},
            f"Input data file is malformed.{STEP}: a step must be an object, but is 1",
            id="a step that is none",
        ),
        pytest.param(
            {"data": [{"X": [1]}, [{"X": [1]}]]},
            f"Input data file is malformed. a.json: 'data' mixes objects and lists; {LISTS}",
            id="flat and nested mixed",
        ),
        pytest.param(
            {"data": [{"X": [1]}, 5]},
            f"Input data file is malformed. a.json: entry 1 of 'data' is 5; {LISTS}",
            id="an entry that is neither",
        ),
        pytest.param(
            {"data": {"X": [1]}},
            "Input data file is malformed. a.json: 'data' must be a list, but is an object",
            id="data that is no list",
        ),
        pytest.param(
            {"data": []},
            "Input data file is malformed. a.json: 'data' is empty; give at least one step",
            id="no steps",
        ),
        pytest.param(
            {"data": [[{"X": [1]}], []]},
            "Input data file is malformed. a.json: stream 1 is empty; give it at least one step",
            id="an empty stream",
        ),
        pytest.param(
            {"date": []},
            'The json file doesn\'t contain data field: a.json; write {"data": [{"INPUT": [1, 2]}]}',
            id="no data field",
        ),
        pytest.param(
            [],
            'The json file doesn\'t contain data field: a.json; write {"data": [{"INPUT": [1, 2]}]}',
            id="no object at all",
        ),
        pytest.param(
            '{"data": [\n  {"X": [1 2]}\n]}',
            f"{PARSE}: a.json, line 2, column 12: Expecting ',' delimiter",
            id="a comma too many",
        ),
        pytest.param("", f"{PARSE}: a.json, line 1, column 1: Expecting value", id="an empty file"),
        pytest.param(
            "[" * 200_000, f"{PARSE}: a.json, line 1, column 1: nested too deeply", id="nesting without end"
        ),
        pytest.param(
            '{"data": [{"X": [1], "X": [2]}]}',
            f"{PARSE}: a.json, line 1, column 22: the key 'X' appears twice in one object",
            id="a key that comes twice",
        ),
        pytest.param("9" * 5000, f"{PARSE}: a.json, line 1, column 1: ", id="a number without end"),
    ],
)
def test_invalid_files(error, document, text):
    assert error(one("INT32", (1,)), document).startswith(text)


def test_positions_count_within_the_file(error):
    assert error(one("INT32", (1,)), FLAT, {"data": [{"X": [1, 2]}]}).startswith(
        f"{MISMATCH} Expected: 4 bytes, Got: 8 bytes "
        "( Location stream id: 0, step id: 0) for tensor 'X' in b.json"
    )


def test_a_file_that_is_not_text(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'{"data": "\xff\xfe"}')
    with pytest.raises(UsageError, match=f"{PARSE}: .*x.json, byte 10: not UTF-8 text"):
        build(model(one("INT32")), DataOptions(sources=(str(path),)))


def test_a_missing_file(tmp_path):
    with pytest.raises(
        UsageError, match=r"the data file .*nope.json' cannot be read: No such file or directory"
    ):
        build(model(one("INT32")), DataOptions(sources=(str(tmp_path / "nope.json"),)))


def test_memory_holds_little_more_than_the_tensors(read):
    spec = one("FP64", (-1,))
    steps = [{"X": {"content": [n / 7] * 250_000, "shape": [250_000]}} for n in (1, 2)]
    text = json.dumps({"data": [*steps, {"X": {"b64": b64(bytes(4 << 20)), "shape": [1 << 19]}}]})
    tracemalloc.start()
    dataset = read(spec, text)
    tensors = sum(len(step[0].data) for step in dataset.streams[0])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tensors == (4 << 20) + 4_000_000
    assert peak < len(text) + 2 * tensors  # the text belongs to the test, to write the file


@pytest.mark.parametrize("datatype", DATATYPES)
def test_written_tensors_are_read_back(read, datatype):
    elements = {
        "BOOL": st.booleans(),
        "BYTES": st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
        "FP16": st.floats(-65504, 65504, width=16),
        "BF16": st.integers(-256, 256).map(float),
        "FP32": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "FP64": st.floats(allow_nan=False, allow_infinity=False),
    }.get(datatype)
    if elements is None:
        bits = 8 * DATATYPES[datatype].size
        low = 0 if datatype.startswith("U") else -(2 ** (bits - 1))
        elements = st.integers(low, low + 2**bits - 1)
    steps = st.tuples(st.lists(elements, max_size=9), st.booleans())

    @settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(st.lists(steps, min_size=1, max_size=3), min_size=1, max_size=3))
    def check(streams):
        def value(values, is_coded):
            written = {"b64": b64(encode(datatype, values))} if is_coded else values
            return {"content": written, "shape": [len(values)]}

        data = [[{"X": value(*step)} for step in stream] for stream in streams]
        outputs = (TensorSpec("OUT", datatype, (-1,)),)
        checks = [[{"OUT": step["X"]} for step in stream] for stream in data]
        dataset = read(one(datatype, (-1,)), {"data": data, "validation_data": checks}, outputs=outputs)
        written = [[encode(datatype, values) for values, _ in stream] for stream in streams]
        assert [[step[0].data for step in stream] for stream in dataset.streams] == written
        assert [[step[0].data for step in stream] for stream in dataset.expected] == written
        assert dataset.streams[0][0][0].shape == (len(streams[0][0][0]),)

    check()


# --- validation_data

FOUR = [1, 2, 3, 4]


def test_without_validation_nothing_is_expected(read):
    assert read(one("INT32"), {"data": [{"X": FOUR}]}).expected is None


@pytest.mark.parametrize("first", ["data", "validation_data"])
def test_expected_outputs_accompany_the_steps(read, first):
    document = {
        "data": [[{"X": FOUR}, {"X": FOUR}], [{"X": FOUR}]],
        "validation_data": [[{"OUT": FOUR}, {"OUT": [5, 6, 7, 8]}], [{"OUT": {"b64": b64(INTS)}}]],
    }
    dataset = read(one("INT32"), {first: document[first], **document})
    found = [[[(t.name, decode("INT32", t.data)) for t in step] for step in s] for s in dataset.expected]
    assert found == [[[("OUT", FOUR)], [("OUT", [5, 6, 7, 8])]], [[("OUT", FOUR)]]]


def test_a_step_may_name_some_of_the_outputs(read):
    outputs = (TensorSpec("OUT", "INT32", (4,)), TensorSpec("TOO", "INT32", (4,)))
    checks = [{"OUT": FOUR}, {"TOO": FOUR}, {}, {"TOO": FOUR, "OUT": FOUR}]
    document = {"data": [{"X": FOUR}] * 4, "validation_data": checks}
    (steps,) = read(one("INT32"), document, outputs=outputs).expected
    assert [[tensor.name for tensor in step] for step in steps] == [["OUT"], ["TOO"], [], ["OUT", "TOO"]]


def test_steps_of_a_file_without_validation_are_not_checked(read):
    checked = {"data": [{"X": FOUR}], "validation_data": [{"OUT": FOUR}]}
    dataset = read(one("INT32"), {"data": [{"X": FOUR}]}, checked, {"data": [[{"X": FOUR}]]})
    assert [[len(step) for step in stream] for stream in dataset.expected] == [[0, 1], [0]]


@pytest.mark.parametrize(
    ("shape", "value", "found"),
    [
        ((-1,), FOUR, (4,)),
        ((2, -1), FOUR, (2, 2)),
        ((-1, -1), {"content": FOUR, "shape": [2, 2]}, (2, 2)),
        pytest.param((-1, -1), FOUR, (4,), id="no way to know: only the values count"),
    ],
)
def test_variable_outputs_need_no_shape(read, shape, value, found):
    outputs = (TensorSpec("OUT", "INT32", shape),)
    document = {"data": [{"X": FOUR}], "validation_data": [{"OUT": value}]}
    assert read(one("INT32"), document, outputs=outputs).expected[0][0][0].shape == found


UNALIGNED = "The 'validation_data' field doesn't align with 'data' field in the json file a.json: "
IN_CHECKS = " ( Location stream id: 0, step id: 0) for tensor 'OUT' in 'validation_data' of a.json"
SAME_FORM = "; give the expected outputs of every step, in lists of the same form"


@pytest.mark.parametrize(
    ("data", "checks", "text"),
    [
        pytest.param(
            [{"X": FOUR}, {"X": FOUR}],
            [{"OUT": FOUR}],
            f"{UNALIGNED}stream 0 has 2 steps in 'data', but 1 in 'validation_data'{SAME_FORM}",
            id="too short",
        ),
        pytest.param(
            [{"X": FOUR}],
            [],
            f"{UNALIGNED}stream 0 has 1 steps in 'data', but 0 in 'validation_data'{SAME_FORM}",
            id="empty",
        ),
        pytest.param(
            [[{"X": FOUR}], [{"X": FOUR}]],
            [[{"OUT": FOUR}]],
            f"{UNALIGNED}stream 1 has 1 steps in 'data', but 0 in 'validation_data'{SAME_FORM}",
            id="a stream missing",
        ),
        pytest.param(
            [[{"X": FOUR}], [{"X": FOUR}]],
            [[{"OUT": FOUR}], []],
            f"{UNALIGNED}stream 1 has 1 steps in 'data', but 0 in 'validation_data'{SAME_FORM}",
            id="an empty stream",
        ),
        pytest.param(
            [[{"X": FOUR}]],
            [{"OUT": FOUR}],
            f"{UNALIGNED}one is a list of steps, the other a list of streams{SAME_FORM}",
            id="another form",
        ),
        pytest.param(
            [{"X": FOUR}],
            [{"OUT": [1]}],
            "mismatch in the data provided for OUT. Expected: 16 bytes, Got: 4 bytes"
            f"{IN_CHECKS}: shape [4] of INT32 has 4 elements",
            id="an output too short",
        ),
        pytest.param(
            [{"X": FOUR}],
            [{"X": FOUR}],
            "The input or output 'X' is not found in the model configuration "
            "( Location stream id: 0, step id: 0) in 'validation_data' of a.json: "
            "expected outputs of model 'm': OUT",
            id="an input among the outputs",
        ),
        pytest.param(
            [{"X": FOUR}],
            [{"OUT": {"content": FOUR, "shape": [2, 2]}}],
            'The supplied shape of [2,2] for output "OUT" is incompatible with '
            f"the model's output shape of [4]{IN_CHECKS}",
            id="an output of another shape",
        ),
        pytest.param(
            [{"X": FOUR}],
            {"OUT": FOUR},
            "Input data file is malformed. a.json: 'validation_data' must be a list, but is an object",
            id="no list",
        ),
    ],
)
def test_validation_that_does_not_fit(error, data, checks, text):
    assert error(one("INT32"), {"data": data, "validation_data": checks}) == text


def test_an_expected_output_of_an_unknown_datatype(error):
    outputs = (TensorSpec("OUT", "FP8", (4,)),)
    document = {"data": [{"X": FOUR}], "validation_data": [{"OUT": FOUR}]}
    assert error(one("INT32"), document, outputs=outputs).startswith(
        "output 'OUT' of model 'm' has datatype 'FP8', which is not supported; supported are "
    )


@pytest.mark.parametrize(
    ("coded", "reason"),
    [
        ("QQ==QUJD", "Excess data after padding"),
        ("AAAA" * 100_000 + "QQ==" + "AAAA" * 300_000, "Excess data after padding"),
        ("AAAA" * 600_000 + "A", "Invalid base64-encoded string"),
    ],
)
def test_base64_is_as_strict_in_parts(error, coded, reason):
    text = error(one("UINT8"), {"data": [{"X": {"b64": coded}}]})
    assert text.startswith(f"invalid base64 data in json{AT}: {reason}")


def test_long_base64_with_escapes_and_line_breaks(read):
    data = bytes(range(256)) * 10_000
    lines = b64(data)
    text = "\\r\\n".join(lines[at : at + 76] for at in range(0, len(lines), 76)).replace("/", "\\/")
    tensor = read(one("UINT8", (-1,)), f'{{"data": [{{"X": {{"b64": "{text}", "shape": [{len(data)}]}}}}]}}')
    assert tensor.streams[0][0][0].data == data


def test_the_element_is_counted_from_the_front_of_a_long_list(error):
    values: list[float] = [1] * 1_000_000
    values[654_321] = 1.5
    assert "element 654321 must be an integer" in error(one("INT32"), {"data": [{"X": values}]})
