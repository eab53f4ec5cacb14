"""Files of data: arrays, sounds, JSON, prompts, traces, schedules, certificates."""

import io
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from inferometer.dataset.build import build
from inferometer.dataset.contents import read_contents
from inferometer.dataset.files import Wanted, read_npy, read_npz, read_raw, read_text, read_wav
from inferometer.dataset.lengths import LengthRules, draw_pairs
from inferometer.dataset.replay import read_trace
from inferometer.dataset.task_recordings import RecordingRules, read_recording
from inferometer.dataset.tokens import WordCounter, open_tokenizer
from inferometer.dataset.trace_tokens import LONGEST
from inferometer.load.plan import parse_shape
from inferometer.measure.points import read_intervals
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.lengths import lengths
from inferometer.options.options import DataOptions, Tls
from inferometer.report.saved import to_html
from inferometer.services.dynamic_grpc import MESSAGES as CALLED
from inferometer.services.endpoint import parse_endpoint
from inferometer.services.openai import PAYLOAD
from inferometer.services.tls import tls_context
from inferometer.stats.inspection import inspection
from tests.fuzz.fuzz_replies import JSON_WORDS, make_documents
from tests.fuzz.harness import Choices, Family, damaged, damaged_seeds, each

FOLDER = tempfile.TemporaryDirectory(prefix="inferometer-fuzz-", dir="/dev/shm")


def file(name: str, data: bytes) -> str:
    """The input as a file; one name for all, as only one is read at a time."""
    path = Path(FOLDER.name) / name
    path.write_bytes(data)
    return str(path)


SPECS = (
    TensorSpec("A", "FP32", (2, 2)),
    TensorSpec("A", "INT64", (-1,)),
    TensorSpec("A", "BOOL", (2,)),
    TensorSpec("A", "BYTES", (-1,)),
    TensorSpec("A", "UINT8", (2, 2, 2)),
    TensorSpec("A", "BF16", (-1, 2)),
    TensorSpec("A", "INT16", (4,)),
)


def some(data: bytes) -> tuple[TensorSpec, ...]:
    """Whole numbers, which most can be read as, and another input, which depends on nothing but the data."""
    return SPECS[1], SPECS[3], SPECS[len(data) % len(SPECS)]


# --- arrays and sounds


def saved(array: Any) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


def zipped(**arrays: Any) -> bytes:
    sink = io.BytesIO()
    np.savez_compressed(sink, **arrays)
    return sink.getvalue()


ARRAYS = (
    saved(np.arange(4, dtype=np.float32).reshape(2, 2)),
    saved(np.arange(8, dtype=np.int64)),
    saved(np.array([True, False])),
    saved(np.array(["a", "bc"])),
    saved(np.zeros((2, 2, 2), dtype=np.uint8, order="F")),
)
ARRAY_WORDS = (
    b"<f4",
    b">i8",
    b"|O",
    b"|S3",
    b"(2, 2)",
    b"(-1,)",
    b"(9999999999,)",
    b"True",
    b"'descr'",
    b"\x93NUMPY",
    b"(" * 200,
)


def sound(kind: int, channels: int, bits: int, samples: bytes) -> bytes:
    frame = channels * bits // 8
    form = b"".join(
        number.to_bytes(size, "little")
        for number, size in ((kind, 2), (channels, 2), (8000, 4), (8000 * frame, 4), (frame, 2), (bits, 2))
    )
    chunks = (
        b"fmt "
        + len(form).to_bytes(4, "little")
        + form
        + b"data"
        + len(samples).to_bytes(4, "little")
        + samples
    )
    return b"RIFF" + (4 + len(chunks)).to_bytes(4, "little") + b"WAVE" + chunks


SOUNDS = (
    sound(1, 1, 16, bytes(8)),
    sound(1, 2, 8, bytes(8)),
    sound(3, 1, 32, bytes(16)),
    sound(1, 1, 24, bytes(12)),
)
SOUND_WORDS = (
    b"RIFF",
    b"WAVE",
    b"fmt ",
    b"data",
    b"LIST\x04\x00\x00\x00abcd",
    b"\xff\xff\xff\xff",
    b"\xfe\xff",
)


def reader(name: str, read: Callable[[Wanted], Any]) -> Callable[[bytes], None]:
    def one(spec: TensorSpec, path: str) -> None:
        for tensor in read(Wanted(spec, path, spec.shape if not spec.is_dynamic else None)):
            assert isinstance(tensor.data, bytes)

    def check(data: bytes) -> None:
        path = file(name, data)
        each(partial(one, spec, path) for spec in some(data))

    return check


# --- JSON

DATA = (
    {"data": [{"A": {"content": [1, 2, 3, 4], "shape": [4]}}, {"A": {"content": [5], "shape": [1]}}]},
    {"data": [{"A": [1, 2, 3, 4]}, {"A": {"content": [1, 2, 3, 4], "shape": [2, 2]}}]},
    {"data": [{"A": {"b64": "AQAAAAIAAAADAAAABAAAAA=="}}], "validation_data": [{"B": [1]}]},
    {"data": [[{"A": [True, False], "timestamp": [5]}], [{"A": ["x"], "timestamp": [250.5]}]]},
)


def read_data(data: bytes) -> None:
    options = DataOptions(
        sources=(file("data.json", data),), shapes={"A": (2, 2)} if len(data) % 3 == 0 else {}
    )
    outputs = (TensorSpec("B", "INT32", (1,)),)
    each(
        partial(build, ModelSpec("m", "", (spec,), outputs), options, is_scheduled=len(data) % 2 == number)
        for number, spec in enumerate(some(data))
    )


PAYLOADS = (
    {
        "data": [
            {"payload": [{"model": "m", "messages": []}]},
            {"payload": [{"model": "m"}], "session_id": "a", "delay": 5},
        ]
    },
    {"data": [[{"payload": [{"a": 1}], "timestamp": [5]}]]},
)
CHAT = ModelSpec("m", "", (PAYLOAD,), ())


def read_payloads(data: bytes) -> None:
    options = DataOptions(sources=(file("payloads.json", data),))
    each(partial(build, CHAT, options, is_scheduled=is_scheduled) for is_scheduled in (False, True))


MESSAGES = ({"data": [{"x": "a"}, [{"x": "b"}, {"x": "c"}]]},)
ANY_SERVICE = ModelSpec("m", "", (CALLED,), ())


def read_messages(data: bytes) -> None:
    if b"message_generator" not in data:  # which is a command to run
        build(ANY_SERVICE, DataOptions(sources=(file("messages.json", data),)))


PROMPTS = (
    b'Is it?\n{"prompt": "yes"}\n{"messages": [{"role": "user", "content": "x"}]}\n',
    b'{"text_input": "a"}\r\n\r\nb',
)


def read_prompts(data: bytes) -> None:
    build(CHAT, DataOptions(prompts=file("prompts.jsonl", data)))


ENTRIES = (
    {"timestamp": 250},
    {"timestamp_s": 0.25, "step": 3, "stream": 0},
    {"timestamp_ms": 1, "data": {"A": [1, 2]}},
    {"timestamp": 5, "input_length": 700, "output_length": 9, "hash_ids": [1, 2], "session_id": "a"},
)
make_entry = make_documents("trace", ENTRIES)


def make_trace(choices: Choices) -> bytes:
    lines = b"\n".join(make_entry(choices).replace(b"\n", b" ") for _ in range(1 + choices.below(3)))
    return damaged(lines, choices, JSON_WORDS) if choices.below(4) == 0 else lines


def read_replay(data: bytes) -> None:
    for entry in read_trace(file("trace.jsonl", data), speed=2.0).entries:
        assert 0 <= entry.time_ns < 2**63
        assert entry.tokens is None or 0 < entry.tokens.input <= LONGEST


TRACE_TABLES = (
    b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,API log\n9,b,1,0,1,x",
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50+00:00,3,1\n",
)
CONTENTS = (
    *TRACE_TABLES,
    b'{"timestamp": 5, "input_length": 700, "output_length": 9, "hash_ids": [1, 2]}\n{"timestamp": 0}\n',
    b'[{"id": "a", "conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}]}]',
    b'{"custom_id": "1", "method": "POST", "url": "/v1/x", "body": {"messages": [], "max_tokens": 3}}\n',
    b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}], "max_tokens": 5}\n',
    b'prompt,max_tokens,session_id\n"a, b",5,s\nc,,s\n',
    json.dumps(PAYLOADS[0]).encode(),
    *PROMPTS,
)
CONTENT_WORDS = (
    *JSON_WORDS,
    b"prompt",
    b"messages",
    b"body",
    b"conversations",
    b"role",
    b"1e400",
    b",",
    b"\n",
)


def read_any(data: bytes) -> None:
    found = inspection(read_contents(file("contents", data), open_tokenizer(None)), name="x", tool="t")
    assert found.requests > 0
    assert found.cacheable_share is None or 0 <= found.cacheable_share <= 1
    to_html(found)


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    return sink.getvalue()


PARQUETS = (
    as_parquet([{"prompt": "x", "max_tokens": 5}, {"prompt": "y", "max_tokens": None}]),
    as_parquet([{"conversations": [{"from": "human", "value": "x"}]}]),
)


# --- what is not JSON

INTERVALS = (b"100\n200\n300\n", b"1000000000\r\n1", b" 5 \n\n6")


def read_schedule(data: bytes) -> None:
    assert read_intervals(file("intervals.txt", data))[-1] > 0


SHAPES = (
    b"ramp 10..500 over 60s then hold 500 for 2m",
    b"burst 500 on 50 for 1s every 10s over 1m, hold 1 for 1ms",
)
SHAPE_WORDS = (
    b"ramp ",
    b"hold ",
    b"burst ",
    b" then ",
    b"..",
    b" over ",
    b" every ",
    b"9" * 30,
    b"1e9",
    b"s",
    b"h",
    b",",
    b"0",
)


def read_shape(data: bytes) -> None:
    found = parse_shape(data.decode("utf-8", "replace"))
    assert found.count > 0
    found.due_ns(0)


CERTIFICATE = (  # nobody has its key
    b"-----BEGIN CERTIFICATE-----\n"
    b"MIIBBjCBraADAgECAgEFMAoGCCqGSM49BAMCMAwxCjAIBgNVBAMMAWEwIBcNMjAw\n"
    b"MTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMAwxCjAIBgNVBAMMAWEwWTATBgcq\n"
    b"hkjOPQIBBggqhkjOPQMBBwNCAAS5VjkbJ89VHQ2gn9zfFgXg9uGqOaIfpOmmAF38\n"
    b"h3ttDAA0oalYxK9zsmaDqut9gwh6mjIDRAcpNSDBdolE/OZbMAoGCCqGSM49BAMC\n"
    b"A0gAMEUCIQD9CfJwad6A4qjfe7GTaKCYO53pimgOMVDzZidbIjzluQIgQYfVunf2\n"
    b"UkF2yiwgP1uvju7DQd+rZzVFPK+W6OcqlXs=\n"
    b"-----END CERTIFICATE-----\n"
)
PEM_WORDS = (
    b"-----BEGIN CERTIFICATE-----\n",
    b"-----END CERTIFICATE-----\n",
    b"MIIB",
    b"=",
    b"\n",
    b"-----BEGIN PRIVATE KEY-----\n",
)


GOOD = file("good.pem", CERTIFICATE)


def read_certificate(data: bytes) -> None:
    path = file("certificate.pem", data)
    each(
        partial(tls_context, tls)
        for tls in (Tls(ca_file=path), Tls(ca_file=GOOD, certificate_file=path, key_file=path))
    )


ADDRESSES = (b"localhost:8000", b"http://[::1]:80/v1", b"https://host/prefix/", b"grpc://x", b"a:b@c:5")


def read_address(data: bytes) -> None:
    found = parse_endpoint(data.decode("utf-8", "surrogateescape"), default_port=8000, tls=Tls())
    assert 0 < found.port < 65536


# --- lengths of prompts

LENGTHS = (
    b"512",
    b"normal(512, 128)",
    b"lognormal(9, 9)",
    b"uniform(1, 5)",
    b"128/16:60, 2048/256:40",
    b"5:1,6",
)
LENGTH_WORDS = (
    b"(",
    b")",
    b",",
    b":",
    b"/",
    b"@",
    b"nan",
    b"inf",
    b"1e9",
    b"-1",
    b"0",
    b"9" * 30,
    b"\xc2\xb2",
)
LENGTH_FILES = (b"5\n6\n", b"5,1\n6,2\n", b"input_tokens,output_tokens\n5,1\n", b'a,"b\nc",isl\n1,2,3\n')


def read_lengths(data: bytes) -> None:
    asked = data.decode("utf-8", "surrogateescape")
    lengths(pairs=True).check("--prompt-tokens", asked)
    assert all(prompt >= 1 for prompt, _ in draw_pairs(LengthRules(asked), 5, 0))


def read_length_file(data: bytes) -> None:
    assert all(prompt >= 1 for prompt, _ in draw_pairs(LengthRules(f"@{file('lengths', data)}"), 5, 0))


# --- recordings of tasks

RECORDINGS = (
    [{"id": "a", "conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}]}],
    [{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "x"}]}],
    [
        {"session_id": "a", "input_length": 10, "output_length": 5, "timestamp": 0, "hash_ids": [1]},
        {"session_id": "a", "input_length": 20, "output_length": 2, "delay": 250},
    ],
    [
        {"session_id": "a", "messages": [{"role": "user", "content": "x"}], "output_length": 5},
        {"session_id": "a", "output_length": 5, "messages": [
            {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}, {"role": "user", "content": "z"},
        ]},
    ],
    [
        {"session_id": "a", "turns": [
            {"messages": [{"role": "user", "content": "x"}], "spawns": ["b"], "max_tokens": 5, "delay": 1.5},
            {"messages": [{"role": "user", "content": "y"}], "forks": [{"child": "c", "background": True}]},
        ]},
        {"session_id": "b", "turns": [{"messages": [{"role": "user", "content": "x"}]}]},
        {"session_id": "c", "turns": [{"messages": [{"role": "user", "content": "x"}]}]},
    ],
    {"id": "t", "requests": [
        {"t": 0.0, "type": "s", "in": 100, "out": 10, "hash_ids": [1, 2], "api_time": 1.0},
        {"type": "subagent", "requests": [{"t": 0.0, "in": 30, "out": 3}]},
        {"t": 9.0, "type": "s", "in": 150, "out": 10, "hash_ids": [1, 2, 3], "think_time": 2.0},
    ]},
    [
        {"session_id": "a", "round_index": number, "input_tokens_total": 500 + number, "prefix_tokens": 128,
         "output_tokens": 9, "reasoning_output_tokens": 2, "first_input_event_type": "tool_result",
         "timing_events": [{"event_type": "tool_result", "timestamp": "2026-06-01T05:00:00.151Z"}]}
        for number in range(2)
    ],
    {"resourceSpans": [{"scopeSpans": [{"spans": [
        {"traceId": "t", "spanId": str(number), "parentSpanId": "", "startTimeUnixNano": str(number),
         "endTimeUnixNano": str(number + 1), "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "50"}},
            {"key": "gen_ai.input.messages", "value": {"arrayValue": {"values": [{"kvlistValue": {"values": [
                {"key": "role", "value": {"stringValue": "user"}},
                {"key": "parts", "value": {"arrayValue": {"values": []}}},
            ]}}]}}},
        ]}
        for number in range(2)
    ]}]}]},
)  # fmt: skip


def read_tasks(data: bytes) -> None:
    def one(answers: str) -> None:
        found = read_recording("it.json", data, RecordingRules(WordCounter(), answers))
        for graph in found.graphs:
            for number, node in enumerate(graph.nodes):
                assert all(each < number for each in (*node.after, node.context))

    each(partial(one, answers) for answers in ("live", "recorded"))


FAMILIES = (
    Family("lengths", damaged_seeds("lengths", LENGTHS, LENGTH_WORDS), read_lengths, 30),
    Family(
        "length-file",
        damaged_seeds("length-file", LENGTH_FILES, (b",", b"\n", b'"', b"\0")),
        read_length_file,
        30,
    ),
    Family("npy", damaged_seeds("npy", ARRAYS, ARRAY_WORDS), reader("a.npy", read_npy), 30),
    Family(
        "npz",
        damaged_seeds("npz", (zipped(A=np.arange(4)), zipped(x=np.zeros(2), y=np.ones(2))), ARRAY_WORDS),
        reader("a.npz", read_npz),
        40,
    ),
    Family("wav", damaged_seeds("wav", SOUNDS, SOUND_WORDS), reader("a.wav", read_wav), 40),
    Family("raw", damaged_seeds("raw", (bytes(16), bytes(4)), ()), reader("a.bin", read_raw), 30),
    Family("text", damaged_seeds("text", (b"a\nb\r\n", b"\xff"), ()), reader("a.txt", read_text), 30),
    Family("data-json", make_documents("data-json", DATA), read_data, 40),
    Family("payloads-json", make_documents("payloads-json", PAYLOADS), read_payloads, 30),
    Family("messages-json", make_documents("messages-json", MESSAGES), read_messages, 20),
    Family("prompts", damaged_seeds("prompts", PROMPTS, JSON_WORDS), read_prompts, 30),
    Family("trace", make_trace, read_replay, 15),
    Family(
        "trace-table", damaged_seeds("trace-table", TRACE_TABLES, (b",", b"\n", b"9" * 30)), read_replay, 30
    ),
    Family("recordings", make_documents("recordings", RECORDINGS), read_tasks, 20),
    Family("contents", damaged_seeds("contents", CONTENTS, CONTENT_WORDS), read_any, 20),
    Family("parquet", damaged_seeds("parquet", PARQUETS, (b"PAR1",)), read_any, 10),
    Family(
        "intervals",
        damaged_seeds("intervals", INTERVALS, (b"-1", b"0", b"9" * 400, b"1e5", b"\n")),
        read_schedule,
        30,
    ),
    Family("shape-load", damaged_seeds("shape-load", SHAPES, SHAPE_WORDS), read_shape, 40),
    Family("certificate", damaged_seeds("certificate", (CERTIFICATE,), PEM_WORDS), read_certificate, 10),
    Family(
        "address",
        damaged_seeds("address", ADDRESSES, (b"[", b"]", b":", b"/", b"@", b"\xc2\xb2", b"99999999")),
        read_address,
        40,
    ),
)
