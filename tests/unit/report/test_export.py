"""The per-request export: the classic form to the letter, and a table."""

import json
import math
import struct
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.errors import LocalError, UsageError
from inferometer.model.numbers import encode
from inferometer.report.export import exportable, write_export
from inferometer.stats.exported import (
    Export,
    ExportedLevel,
    ExportedRequest,
    ExportedResponse,
    Value,
    json_value,
)

VALUES = [
    ("one number is bare", "INT32", encode("INT32", [5]), "5"),
    ("several are a flat list", "INT64", encode("INT64", [1, -2, 2**62]), "[1,-2,4611686018427387904]"),
    ("unsigned", "UINT64", encode("UINT64", [2**64 - 1]), "18446744073709551615"),
    ("small integers", "INT8", encode("INT8", [-1, 7]), "[-1,7]"),
    ("fractions as they are in memory", "FP32", encode("FP32", [0.1, 2]), "[0.10000000149011612,2.0]"),
    ("double fractions", "FP64", encode("FP64", [0.1]), "0.1"),
    ("what JSON cannot say", "FP32", np.array([math.nan, math.inf, 1], "<f4").tobytes(), "[null,null,1.0]"),
    ("truth", "BOOL", b"\x01", "true"),
    ("truths", "BOOL", b"\x01\x00", "[true,false]"),
    ("a string", "BYTES", encode("BYTES", ["ab"]), '"ab"'),
    (
        "strings, run together with their lengths",
        "BYTES",
        encode("BYTES", ["ab", "cde"]),
        '"ab\\u0003\\u0000\\u0000\\u0000cde"',
    ),
    ("an empty string", "BYTES", encode("BYTES", [""]), '""'),
    ("text beyond ASCII", "BYTES", encode("BYTES", ["é\n"]), '"é\\n"'),
    ("bytes that are no text", "BYTES", struct.pack("<I", 1) + b"\xff", '"\ufffd"'),
    ("a JSON payload", "JSON", b'{"a":1}', '"{\\"a\\":1}"'),
    ("nothing at all", "INT32", b"", '""'),
    ("not known", "INT32", None, "null"),
    ("half an element", "INT32", b"\x01", "null"),
    ("a datatype of tomorrow", "FP8", b"\x01", "null"),
]


@pytest.mark.parametrize(
    ("datatype", "data", "text"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES]
)
def test_values(datatype, data, text):
    assert json_value(datatype, data) == text


@given(st.sampled_from(["BYTES", "JSON", "INT16", "FP32", "FP64", "BOOL", "UINT8"]), st.binary())
def test_any_server_data_becomes_json(datatype, data):
    json.loads(json_value(datatype, data), parse_constant=pytest.fail)


def request(number=0, *, outputs=(5,), status="ok", sequence=0, datatype="INT32"):
    responses = tuple(
        ExportedResponse(
            1010 + number + index, (Value("OUT", datatype, None if out is None else encode(datatype, [out])),)
        )
        for index, out in enumerate(outputs)
    )
    return ExportedRequest(
        due_ns=999 + number,
        sent_ns=1000 + number,
        end_ns=1010 + number,
        status=status,
        step=number,
        worker=0,
        sequence_id=sequence,
        received=64,
        inputs=(Value("IN", "INT32", encode("INT32", [number, 1])),),
        responses=responses,
    )


def export(*levels, problem=""):
    return Export("triton", "", iter(levels), problem)


def level(*requests, mode="concurrency", value=2.0, boundaries=(1000, 1020, 1040)):
    return ExportedLevel(mode, value, boundaries, iter(requests))


def written(tmp_path, *levels):
    path = tmp_path / "x.json"
    remarks = write_export(export(*levels), path)
    return path.read_text(), remarks


def test_json_to_the_letter(tmp_path):
    text, remarks = written(
        tmp_path,
        level(request(0, sequence=7), request(1, outputs=(5, 6))),
        level(request(2), mode="request_rate", value=20.0),
    )
    assert text == (
        '{"experiments":[{"experiment":{"mode":"concurrency","value":2},"requests":['
        '{"timestamp":1000,"sequence_id":7,"request_inputs":{"IN":[0,1]},"response_timestamps":[1010],'
        '"response_outputs":[{"OUT":5}]},'
        '{"timestamp":1001,"request_inputs":{"IN":[1,1]},"response_timestamps":[1011,1012],'
        '"response_outputs":[{"OUT":5},{"OUT":6}]}],'
        '"window_boundaries":[1000,1020,1040]},'
        '{"experiment":{"mode":"request_rate","value":20.0},"requests":['
        '{"timestamp":1002,"request_inputs":{"IN":[2,1]},"response_timestamps":[1012],'
        '"response_outputs":[{"OUT":5}]}],"window_boundaries":[1000,1020,1040]}],'
        '"version":"2.51.0","service_kind":"triton","endpoint":""}'
    )
    assert remarks == ()


def test_an_export_without_requests_is_a_valid_file(tmp_path):
    assert json.loads(written(tmp_path)[0])["experiments"] == []


def test_json_omits_failed_requests_with_a_warning(tmp_path):
    text, remarks = written(
        tmp_path, level(request(0), request(1, status="http 503", outputs=()), request(2))
    )
    assert [row["timestamp"] for row in json.loads(text)["experiments"][0]["requests"]] == [1000, 1002]
    (remark,) = remarks
    assert "leaves out 1 failed requests" in remark


def test_unsupported_values_are_null_with_one_warning(tmp_path):
    text, remarks = written(tmp_path, level(*[request(n, datatype="FP16", outputs=(n,)) for n in range(5)]))
    rows = json.loads(text)["experiments"][0]["requests"]
    assert [row["response_outputs"] for row in rows] == [[{"OUT": None}]] * 5
    (remark,) = remarks
    assert "has null for 'OUT': the export has no FP16 values" in remark


def test_parquet_has_a_row_for_every_request(tmp_path):
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    rows = [request(0, sequence=7, outputs=(5, 6)), request(11, status="timeout", outputs=())]
    assert write_export(export(level(*rows), level(request(5))), path) == ()
    table = parquet.read_table(path).to_pylist()
    assert table[0] == {
        "level": 0,
        "mode": "concurrency",
        "value": 2.0,
        "window": 0,
        "worker": 0,
        "step": 0,
        "sequence_id": 7,
        "due_ns": 999,
        "sent_ns": 1000,
        "end_ns": 1010,
        "service_ns": 10,
        "status": "ok",
        "received_bytes": 64,
        "response_timestamps": [1010, 1011],
        "request_inputs": '{"IN":[0,1]}',
        "response_outputs": '[{"OUT":5},{"OUT":6}]',
    }
    assert [(row["level"], row["window"], row["status"], row["sequence_id"]) for row in table[1:]] == [
        (0, 1, "timeout", None),
        (1, 0, "ok", None),
    ]


def test_many_rows_become_several_groups(tmp_path, monkeypatch):
    from pyarrow import parquet

    monkeypatch.setattr("inferometer.report.export.GROUP_ROWS", 10)
    path = tmp_path / "x.parquet"
    write_export(export(level(*map(request, range(25)))), path)
    assert parquet.ParquetFile(path).num_row_groups == 3
    assert parquet.read_table(path)["step"].to_pylist() == list(range(25))


def test_unwritable_files_are_refused_before_the_load(tmp_path, monkeypatch):
    exportable(tmp_path / "new.json")
    exportable(tmp_path / "new.parquet")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old.json").write_text("")
    with pytest.raises(UsageError, match="already exists; give another name"):
        exportable(tmp_path / "old.json")
    with pytest.raises(UsageError, match=r"folder '.*no' does not exist"):
        exportable(tmp_path / "no" / "x.json")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'inferometer\[parquet\]'"):
        exportable(tmp_path / "new.parquet")
    exportable(tmp_path / "new.json")


@pytest.mark.parametrize("name", ["x.json", "x.parquet"])
def test_a_full_disk_leaves_no_partial_file(name, tmp_path, monkeypatch):
    def requests():
        yield request(0)
        raise OSError(28, "No space left on device")

    path = tmp_path / name
    with pytest.raises(LocalError, match=f"{name}' could not be written: No space left on device"):
        write_export(export(ExportedLevel("concurrency", 1, (0, 1), requests())), path)
    assert list(tmp_path.iterdir()) == []


def test_lost_requests_are_reported_and_the_others_exported(tmp_path):
    path = tmp_path / "x.json"
    with pytest.raises(LocalError, match=r"is incomplete: .* No space left on device"):
        write_export(export(level(request(0)), problem="No space left on device"), path)
    assert len(json.loads(path.read_text())["experiments"][0]["requests"]) == 1
