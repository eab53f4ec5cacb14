"""Every reader takes time and memory in proportion to its input: eight times the input, at most about eight times both.

A row makes an input of size n for a family, in a form that grows one part of it. A refused input counts as read.
"""

import io
import json
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.json_format import ParseDict

from inferometer.base.answer_file import to_json
from inferometer.services.tfserving import message
from tests.fuzz.families import FAMILIES
from tests.fuzz.fuzz_control import (
    CONFIG,
    GOOD,
    METADATA,
    METHODS,
    SAID,
    SIGNATURE,
    SIGNATURE_TENSOR,
)
from tests.fuzz.fuzz_data import as_parquet, saved, sound, zipped
from tests.fuzz.fuzz_foreign import SEEDS
from tests.fuzz.fuzz_saved import sample
from tests.fuzz.fuzz_tuner import SEED, classic_checkpoint, study
from tests.support.samples import IS_WHOLE

GROWTH = 8
WORST = 4 * GROWTH  # a quadratic reader takes GROWTH**2, an exponential one does not end
LEAST_S = 0.002  # of work at the smaller size: below that, only the clock is measured
MEMORY = 250  # bytes for each byte of input: Python's objects for `[],`
SPARE = 24 << 20  # of libraries that are loaded, tables and caches


class Row(NamedTuple):
    family: str
    grows: str
    make: Callable[[int], bytes]
    size: int = 400


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def joined(part: bytes, before: bytes = b"", after: bytes = b"") -> Callable[[int], bytes]:
    return lambda n: before + part * n + after


def numbered(template: str, before: str = "", after: str = "", between: str = "") -> Callable[[int], bytes]:
    """The template with every number up to n."""
    return lambda n: (before + between.join(template.replace("#", str(i)) for i in range(n)) + after).encode()


def tensors(n: int) -> list[dict[str, Any]]:
    return [{"name": f"I{i}", "datatype": "INT32", "shape": [4]} for i in range(n)]


def steps(n: int) -> dict[str, Any]:
    return {"step": [{"model_name": f"part{i}", "model_version": -1} for i in range(n)]}


def statistics(n: int) -> dict[str, Any]:
    (row,) = GOOD["statistics"]["model_stats"]
    return {"model_stats": [{**row, "name": f"m{i}"} for i in range(n)]}


def config(**parts: Any) -> dict[str, Any]:
    return {**CONFIG, **parts}


def grpc(place: int, document: Any) -> bytes:
    return bytes([place]) + ParseDict(document, METHODS[place][1]()).SerializeToString()


def signatures(n: int) -> bytes:
    made = message("SignatureDefMap")()
    inputs = {f"x{i}": SIGNATURE_TENSOR for i in range(n)}
    ParseDict({"signature_def": {"serving_default": {**SIGNATURE, "inputs": inputs}}}, made)
    return bytes(made.SerializeToString())


def descriptors(n: int) -> bytes:
    made = descriptor_pb2.FileDescriptorSet()
    for i in range(n):
        made.file.add(name=f"{i}.proto", package="p").message_type.add(name=f"M{i}")
    made.file.add(name="s.proto", package="p").service.add(name="S")
    return bytes(made.SerializeToString())


def members(n: int) -> bytes:
    """Many arrays in one archive; none has the right name."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for i in range(n):
            archive.writestr(f"a{i}.npy", b"")
    return sink.getvalue()


def trials(n: int) -> bytes:
    document = json.loads(to_json(study()))
    return encoded({**document, "trials": document["trials"] * n})


def checkpoint(n: int) -> bytes:
    document = classic_checkpoint()
    ((model, variants),) = document["ResultManager.results"]["_results"].items()
    (name, row), *_ = variants.items()
    many = {f"{name}{i}": row for i in range(n)}
    return encoded({**document, "ResultManager.results": {"_results": {model: many}}})


def grown(kind: str) -> Callable[[int], bytes]:
    """Every list of the document n times as long."""

    def make(n: int) -> bytes:
        def longer(value: Any, depth: int) -> Any:
            if isinstance(value, dict):
                return {name: longer(part, depth + 1) for name, part in value.items()}
            return value * n if isinstance(value, list) and depth < 3 else value

        return encoded(longer(sample(kind), 0))

    return make


def lines(n: int) -> str:
    return "\n".join(f'nv_inference_request_success{{model="m{i}",version="1"}} {i}' for i in range(n))


KEY_NAMES = numbered('"k#": 1', "{", "}", ", ")


def requests_of_guidellm(count: int) -> bytes:
    document = json.loads(SEEDS["guidellm"])
    rows = document["benchmarks"][0]["requests"]
    rows["successful"] = rows["successful"][:2] * count
    return encoded(document)


def vllm_file(count: int) -> bytes:
    document = json.loads(SEEDS["vllm"])
    return encoded(
        {name: value[:1] * count if isinstance(value, list) else value for name, value in document.items()}
    )


ROWS = (
    # metadata
    Row("recordings", "turns of a session", numbered(
        '{"session_id": "a", "input_length": 1#0, "output_length": 1}', between="\n")),
    Row("recordings", "sessions", numbered(
        '{"session_id": "#", "turns": [{"messages": [{"role": "user", "content": "x"}]}]}', between="\n")),
    Row("control-json", "inputs", lambda n: encoded({"metadata": {**METADATA, "inputs": tensors(n)}})),
    Row("control-json", "outputs", lambda n: encoded({"metadata": {**METADATA, "outputs": tensors(n)}})),
    Row("control-json", "versions", lambda n: encoded({"metadata": {**METADATA, "versions": ["1"] * n}}), 4000),
    Row("control-json", "a name", lambda n: encoded({"metadata": {**METADATA, "name": "x" * n}}), 500_000),
    Row("control-json", "a shape", lambda n: encoded({"metadata": {**METADATA, "inputs": [
        {"name": "A", "datatype": "INT32", "shape": [1] * n}]}}), 4000),
    Row("control-json", "configured inputs", lambda n: encoded({"config": config(input=tensors(n))})),
    Row("control-json", "ensemble steps", lambda n: encoded({"config": config(ensemble_scheduling=steps(n))}), 120),
    Row("control-json", "instance groups", lambda n: encoded({"config": config(instance_group=[
        {"name": f"g{i}", "kind": "KIND_CPU", "count": 1} for i in range(n)])})),
    Row("control-json", "statistics", lambda n: encoded({"statistics": statistics(n)}), 100),
    Row("control-json", "batch sizes", lambda n: encoded({"statistics": {"model_stats": [
        {"name": "m", "version": "1", "batch_stats": [{"batch_size": i} for i in range(n)]}]}})),
    Row("control-json", "extensions", lambda n: encoded({"server": {"extensions": ["x"] * n}}), 4000),
    Row("control-json", "nesting", lambda n: b'{"config": ' + b"[" * n + b"]" * n + b"}", 2000),
    Row("control-json", "empty lists", joined(b"[],", b'{"config": {"parameters": [', b"[]]}}"), 6000),
    Row("control-errors", "a message", lambda n: encoded({"error": "no " * n}), 50_000),
    Row("control-errors", "models", lambda n: encoded({"data": [{"id": f"m{i}"} for i in range(n)]})),
    Row("control-others", "models", lambda n: encoded({"models": [{"modelName": f"m{i}"} for i in range(n)]})),
    Row("control-others", "signature inputs", lambda n: encoded({"metadata": {"signature_def": {"signature_def": {
        "s" * 1000: {"inputs": {f"x{i}": SIGNATURE_TENSOR for i in range(n)}}}}}})),
    Row("control-others", "a signature's name", lambda n: encoded({"metadata": {"signature_def": {"signature_def": {
        "s" * n: {"inputs": {f"x{i}": SIGNATURE_TENSOR for i in range(n)}}}}}})),
    Row("control-grpc", "inputs", lambda n: grpc(1, {**METADATA, "inputs": tensors(n)})),
    Row("control-grpc", "statistics", lambda n: grpc(3, statistics(n)), 60),
    Row("control-grpc", "instance groups", lambda n: grpc(2, {"config": {
        **SAID["config"]["config"], "instance_group": [{"name": f"g{i}"} for i in range(n)]}})),
    Row("signatures-grpc", "inputs", signatures),
    Row("descriptors", "files", descriptors),
    # metrics
    Row("metrics", "models", lambda n: lines(n).encode()),
    Row("metrics", "labels", numbered('l#="v",', "nv_gpu_utilization{", 'gpu_uuid="a"} 1\n'), 2000),
    Row("metrics", "backslashes", joined(b"\\\\", b'nv_gpu_utilization{gpu_uuid="', b'"} 1\n'), 20000),
    Row("metrics", "blanks", joined(b" ", b"nv_cpu_utilization", b"x\n"), 50_000),
    Row("metrics", "open braces", joined(b"{", b"nv_cpu_utilization"), 50_000),
    Row("metrics", "open quotes", joined(b'{a="'), 20_000),
    Row("metrics", "a line", joined(b"x"), 500_000),
    # arrays and sounds
    Row("npy", "values", lambda n: saved(np.zeros((n, 4), dtype=np.float32)), 2000),
    Row("npy", "a header that lies", lambda n: saved(np.zeros(4, dtype=np.float32)).replace(
        b"(4,), }     ", b"(%d,), }" % (n * 10**6)) + bytes(n), 1000),
    Row("npy", "strings", lambda n: saved(np.array(["a"] * n)), 4000),
    Row("npz", "values", lambda n: zipped(A=np.arange(n)), 20_000),
    Row("npz", "members", members, 300),
    Row("wav", "samples", lambda n: sound(1, 1, 16, bytes(2 * n)), 20_000),
    Row("wav", "chunks", lambda n: sound(1, 1, 16, bytes(2))[:12] + b"LIST\0\0\0\0" * n, 4000),
    Row("raw", "bytes", bytes, 100_000),
    Row("text", "lines", joined(b"a\n"), 1500),
    # JSON
    Row("data-json", "steps", numbered('{"A": [1, 2, 3, 4]}', '{"data": [', "]}", ", "), 200),
    Row("data-json", "values", joined(b"1, ", b'{"data": [{"A": [', b"1]}]}"), 20_000),
    Row("data-json", "strings", joined(b'"a", ', b'{"data": [{"A": [', b'"a"]}]}'), 8000),
    Row("data-json", "strings with brackets", joined(b'"]", ', b'{"data": [{"A": [', b'"]"]}]}'), 8000),
    Row("data-json", "base64", joined(b"AAAA", b'{"data": [{"A": {"b64": "', b'"}}]}'), 20000),
    Row("data-json", "escapes", joined(b"\\u0041", b'{"data": [{"A": {"b64": "', b'"}}]}'), 20_000),
    Row("data-json", "other keys", numbered('"k#": 1, ', "{", '"data": [{"A": [1]}]}'), 2500),
    Row("data-json", "keys with one twice", numbered('"k#": 1, ', '{"x": {', '"k0": 1}}'), 4000),
    Row("data-json", "nesting", lambda n: b'{"x": ' + b"[" * n, 20_000),
    Row("data-json", "digits", joined(b"9", b'{"data": [{"A": [', b"]}]}"), 50_000),
    Row("data-json", "line ends", joined(b"\n", b'{"data": [', b'{"A": [1]}]}'), 100_000),
    Row("payloads-json", "steps", numbered('{"payload": [{"a": #}]}', '{"data": [', "]}", ", ")),
    Row("payloads-json", "keys", lambda n: b'{"data": [{"payload": [' + KEY_NAMES(n) + b"]}]}", 4000),
    Row("payloads-json", "nesting", lambda n: b'{"data": ' + b"[" * n, 20_000),
    Row("messages-json", "steps", numbered('{"x": #}', '{"data": [', "]}", ", ")),
    Row("prompts", "lines", joined(b"Is it?\n")),
    Row("prompts", "objects", joined(b'{"prompt": "a b"}\n')),
    Row("prompts", "a line", joined(b"word "), 50_000),
    Row("trace", "lines", numbered('{"timestamp": #}\n')),
    Row("trace", "blocks", lambda n: encoded({"timestamp": 0, "input_length": 9, "hash_ids": [1] * n}), 4000),
    Row("trace-table", "rows", numbered("#,a,4,1,5,x\n", "Timestamp,Model,Request tokens,Response tokens,"
                                        "Total tokens,Log Type\n")),
    Row("trace-table", "a row", joined(b"5,", b"TIMESTAMP,ContextTokens,GeneratedTokens\n"), 50_000),
    Row("contents", "rows", joined(b'a,"b c"\n', b"x,prompt\n")),
    Row("contents", "columns", numbered("c#,", "", "prompt\n1"), 4000),
    Row("contents", "a quote without end", joined(b"x\n", b'a,prompt\n1,"'), 20_000),
    Row("contents", "messages", lambda n: encoded({"messages": [{"role": "user", "content": "x"}] * n})),
    Row("contents", "sessions", numbered('{"prompt": "x", "session_id": "#"}\n')),
    Row("parquet", "rows", lambda n: as_parquet([{"prompt": f"p{i}"} for i in range(n)])),
    # texts
    Row("intervals", "gaps", joined(b"5\n"), 4000),
    Row("length-file", "lengths", joined(b"5,6\n"), 2000),
    Row("lengths", "choices", numbered("5:1", "", "", ","), 1000),
    Row("shape-load", "parts", numbered("hold 5 for 1s", "", "", " then ")),
    Row("certificate", "lines", joined(b"AAAA\n", b"-----BEGIN CERTIFICATE-----\n"), 20_000),
    Row("address", "letters", joined(b"a", b"http://", b":80"), 100_000),
    # saved
    Row("saved-result", "lists", grown("result"), 1),
    Row("saved-diagnosis", "lists", grown("diagnosis"), 1),
    Row("saved-comparison", "lists", grown("comparison"), 1),
    Row("saved-study", "lists", grown("study"), 4),
    Row("foreign-aiperf", "errors", lambda n: encoded({
        **json.loads(SEEDS["aiperf"]), "error_summary": [{"count": 1}] * n}), 50),
    Row("foreign-lines", "requests", lambda n: b"\n".join(SEEDS["lines"].splitlines()[:3] * n), 20),
    Row("foreign-guidellm", "requests", requests_of_guidellm, 100),
    Row("foreign-vllm", "requests", vllm_file, 100),
    Row("foreign-vllm", "percentiles", lambda n: encoded({
        **json.loads(SEEDS["vllm"]), **{f"p{i % 100}.{i}_ttft_ms": 1 for i in range(n)}}), 2000),
    Row("foreign-llm-d", "components", lambda n: encoded({
        **json.loads(SEEDS["llm-d"]), "scenario": {"stack": [{"standardized": {}}] * n}}), 2000),
    Row("foreign-mlperf", "lines", lambda n: SEEDS["mlperf"] + b"name : value\n" * n, 500),
    Row("foreign-mlperf", "a line", lambda n: SEEDS["mlperf"] + b"x " * n + b": 1\n", 100_000),
    Row("study", "trials", trials, 20),
    Row("checkpoint", "variants", checkpoint, 20),
    Row("journal", "bytes behind it", lambda n: SEED + bytes(n), 100_000),
    # YAML and configurations
    Row("yaml", "models", numbered("- m#", "profile_models:\n", "\n", "\n"), 20),
    Row("yaml", "keys", numbered("k#: 1\n"), 50),
    Row("yaml", "base 60", joined(b":1", b"batch_sizes: 1"), 20_000),
    Row("yaml", "nesting", joined(b"["), 2000),
    Row("yaml", "a scalar", joined(b"x", b"profile_models: "), 5000),
    Row("yaml", "merges", numbered("&a# {<<: [*a0, *a0], k#: 1}", "profile_models: [&a0 {x: 1}, ", "]\n", ", "), 30),
    Row("scenario", "classes", numbered("  c#: {model: m, rate: 5}\n", "classes:\n"), 30),
    Row("scenario", "phases", numbered("  - {for: 5s}\n", "classes: {a: {model: m, rate: 5}}\nphases:\n"), 30),
    Row("pbtxt", "groups", joined(b"instance_group { count: 1 kind: KIND_CPU }\n"), 100),
    Row("pbtxt", "nesting", joined(b"instance_group { ")),
)  # fmt: skip

CODECS = {
    *("http1", "http2", "hpack", "sse", "protobuf", "openai", "openai-stream", "text-apis", "packed"),
    *("kserve-json", "tfserving-json", "infer-response", "predict-response"),
}
"""What reads replies to load: tested over sizes with the codecs."""

FAMILY = {family.name: family for family in FAMILIES}


def cpu_s(read: Callable[[bytes], Any], data: bytes, *, attempts: int) -> float:
    def once() -> float:
        began = time.thread_time()
        read(data)
        return time.thread_time() - began

    return min(once() for _ in range(attempts))


FEW = {row.family: row for row in reversed(ROWS)}.values()  # the first of each family


@pytest.mark.sampled
@pytest.mark.parametrize("row", ROWS if IS_WHOLE else FEW, ids=lambda row: f"{row.family}: {row.grows}")
def test_time_and_memory_grow_with_the_input(row: Row) -> None:
    read = FAMILY[row.family].try_one
    small, large = row.make(row.size), row.make(GROWTH * row.size)
    read(small)  # what is loaded and compiled at first does not count
    before, after = cpu_s(read, small, attempts=3), cpu_s(read, large, attempts=1)
    if after > WORST * max(before, LEAST_S):  # the machine may have been busy with something else
        after = cpu_s(read, large, attempts=2)
    assert after <= WORST * max(before, LEAST_S)
    tracemalloc.start()
    try:
        read(small)
        assert tracemalloc.get_traced_memory()[1] <= MEMORY * len(small) + SPARE
    finally:
        tracemalloc.stop()


def test_every_family_is_tested_over_sizes() -> None:
    named: Iterable[str] = (row.family for row in ROWS)
    assert {*named, *CODECS} == set(FAMILY)
